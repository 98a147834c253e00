import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { SandboxSpec } from "../../src/model/sandbox.ts";
import type { ConfinedProcess, Sandbox } from "../../src/sandbox/sandbox.ts";
import { ProgramOutput } from "../../src/process/program-output.ts";

export const path: string = process.env["PATH"] ?? "";

/** A program that attempts forbidden actions. */
export function hostile(name: string): string {
  return fileURLToPath(new URL(`../fixtures/extensions/hostile/${name}`, import.meta.url));
}

/** The folder that has these programs. */
export const hostileFolder: string = hostile("");

export const megabyte = 1024 * 1024;

export const spec: SandboxSpec = {
  kind: "process",
  network: "none",
  read: [],
  write: [],
  memoryBytes: 512 * megabyte,
  processes: 64,
};

/** The changes of a test to the confinement. */
export interface Given {
  readonly env?: Readonly<Record<string, string>>;
  readonly spec?: Partial<SandboxSpec>;
  readonly read?: readonly string[];
  readonly write?: readonly string[];
  readonly cwd?: string;
}

/** A new folder that is removed when the test ends. */
export async function freshFolder(parent: string = tmpdir()): Promise<string> {
  const folder = await realpath(await mkdtemp(join(parent, "mcpvals-sandbox-")));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export interface Place {
  /** The task's folder. */
  readonly task: string;
  readonly workspace: string;
}

export async function freshPlace(parent?: string): Promise<Place> {
  const folder = await freshFolder(parent);
  const place = { task: join(folder, "task"), workspace: join(folder, "workspace") };
  await mkdir(place.task);
  await mkdir(place.workspace);
  return place;
}

/** Starts programs in one sandbox; all are stopped when the test ends. */
export class Bench {
  readonly #sandbox: Sandbox;
  readonly #place: Place;

  constructor(sandbox: Sandbox, place: Place) {
    this.#sandbox = sandbox;
    this.#place = place;
  }

  async start(command: readonly string[], given: Given = {}): Promise<ConfinedProcess> {
    const [program = "", ...args] = command;
    const { task, workspace } = this.#place;
    const child = await this.#sandbox.start({
      process: { command: program, args, env: { PATH: path, ...given.env }, cwd: given.cwd ?? workspace },
      read: [hostileFolder, task, ...(given.read ?? [])],
      write: given.write ?? [workspace],
      spec: { ...spec, ...given.spec },
    });
    onTestFinished(async () => {
      await child.stop({ stdinMs: 0, termMs: 0 });
    });
    return child;
  }

  /** Runs a program until it exits. */
  async run(command: readonly string[], given: Given = {}): Promise<Ended> {
    const child = await this.start(command, given);
    const output = new ProgramOutput();
    output.attach(child);
    const { exitCode } = await child.exited;
    await output.settle(1000);
    output.stop();
    await child.stop();
    return {
      exitCode,
      stdout: output.stdout.text,
      stderr: output.stderr.text,
      brokenLimit: child.brokenLimit,
    };
  }

  /** The JSON that a program prints; it must exit with 0. */
  async ask(command: readonly string[], given: Given = {}): Promise<unknown> {
    const { exitCode, stdout, stderr } = await this.run(command, given);
    if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}: ${stderr}`);
    return JSON.parse(stdout);
  }
}

export interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly brokenLimit: string | undefined;
}

/** Why a sandbox cannot be tested here; undefined if it can. */
export async function whyNot(sandbox: Sandbox, wanted: SandboxSpec = spec): Promise<string | undefined> {
  try {
    await sandbox.check(wanted, AbortSignal.timeout(60_000));
    return undefined;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    console.warn(`SKIPPED: the tests of the sandbox "${sandbox.kind}" cannot run here: ${reason}`);
    return reason;
  }
}

/** Command lines of living processes that contain a text. Linux and macOS. */
export function commandLines(text: string): readonly string[] {
  const lines = execFileSync("ps", ["-axww", "-o", "args="], { encoding: "utf8" }).split("\n");
  return lines.filter((line) => line.includes(text));
}
