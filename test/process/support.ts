import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { onTestFinished, vi } from "vitest";
import { procLister } from "../../src/process/process-tree.ts";
import { runMarker, runMarkerName } from "../../src/process/watchdog.ts";
import { type ManagedProcess, spawnProcess } from "../../src/process/spawn.ts";

/** The server that can misbehave. */
export const fixtureServer: string = fileURLToPath(
  new URL("../fixtures/servers/fixture-server.mjs", import.meta.url),
);

/** A script that uses the sources in a separate process. */
export function fixtureScript(name: string): string {
  return fileURLToPath(new URL(`../fixtures/servers/${name}`, import.meta.url));
}

export const path: string = process.env["PATH"] ?? "";

/** Starts a program that is stopped when the test ends. */
export async function start(command: string, ...args: string[]): Promise<ManagedProcess> {
  const child = await spawnProcess({ command, args, env: { PATH: path }, cwd: process.cwd() });
  onTestFinished(async () => {
    await child.stop({ stdinMs: 0, termMs: 0 });
  });
  return child;
}

/** Ids of the living processes of a run of mcpvals, by default of this one. Linux only. */
export async function livingProcesses(run = runMarker): Promise<number[]> {
  const all = await procLister.list();
  return all.map(({ pid }) => pid).filter((pid) => procLister.carries(pid, `${runMarkerName}=${run}`));
}

/** Ids of the living watchdogs of a run. Linux only. */
export async function livingWatchdogs(run: string): Promise<number[]> {
  const all = await procLister.list();
  return all
    .map(({ pid }) => pid)
    .filter((pid) => commandLine(pid).includes(`mcpvals-watchdog\0${runMarkerName}=${run}`));
}

/** Waits until `count` processes of a run are alive. */
export async function untilLiving(count: number, run = runMarker): Promise<number[]> {
  return vi.waitFor(
    async () => {
      const living = await livingProcesses(run);
      if (living.length !== count) throw new Error(`${living.length} processes, ${count} expected`);
      return living;
    },
    { timeout: 60_000, interval: 10 },
  );
}

/** Waits until the fixture server's daemon has lost its parent, and returns its id. */
export async function untilDaemon(run = runMarker): Promise<number> {
  return vi.waitFor(
    async () => {
      const living = await livingProcesses(run);
      const daemon = living.find((pid) => commandLine(pid).includes("--sleep=daemon\0"));
      const parentLives = living.some((pid) => commandLine(pid).includes("--fork-daemon\0"));
      if (daemon === undefined || parentLives) throw new Error("no daemon yet");
      return daemon;
    },
    { timeout: 60_000, interval: 10 },
  );
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
}
