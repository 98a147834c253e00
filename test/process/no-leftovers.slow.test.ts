import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { fixtureScript, livingProcesses, livingWatchdogs, untilDaemon } from "./support.ts";

/** A process that has started a server and then ends in some way. */
interface Run {
  readonly process: ChildProcessWithoutNullStreams;
  readonly marker: string;
  readonly lines: Interface;
}

async function runUntilReady(ending: string, ...flags: string[]): Promise<Run> {
  const child = spawn(process.execPath, [fixtureScript("use-server.ts"), ending, ...flags]);
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  child.stderr.resume();
  const lines = createInterface(child.stdout);
  const [marker] = (await once(lines, "line")) as [string];
  await once(lines, "line");
  return { process: child, marker, lines };
}

async function untilNothingIsLeft(run: string): Promise<void> {
  await vi.waitFor(
    async () => expect([await livingProcesses(run), await livingWatchdogs(run)]).toEqual([[], []]),
    { timeout: 100_000, interval: 10 },
  );
}

describe.runIf(process.platform === "linux")("nothing is left of a server", () => {
  it.each([
    ["exit", 5],
    ["throw", 1],
  ])("when the process that started it ends without stopping it, by %s", async (ending, code) => {
    const run = await runUntilReady(ending, "--stubborn", "--daemon");
    // The rest must work without the watchdog.
    for (const pid of await livingWatchdogs(run.marker)) process.kill(pid, "SIGKILL");
    run.process.stdin.write("\n");
    expect(await once(run.process, "exit")).toEqual([code, null]);
    await untilNothingIsLeft(run.marker);
  });

  it("when that process is killed with SIGKILL, not even of a daemon", async () => {
    const run = await runUntilReady("wait", "--stubborn", "--daemon", "--grandchild");
    const daemon = await untilDaemon(run.marker);
    expect(await livingWatchdogs(run.marker)).toHaveLength(1);
    expect(await livingProcesses(run.marker)).toHaveLength(3);
    expect(await livingProcesses(run.marker)).toContain(daemon);
    run.process.kill("SIGKILL");
    await untilNothingIsLeft(run.marker);
  });

  it("when that process is ended by a signal, which its watchdog does not get", async () => {
    const run = await runUntilReady("wait", "--stubborn");
    const [watchdog] = await livingWatchdogs(run.marker);
    expect(() => process.kill(-(watchdog ?? 0), 0)).not.toThrow();
    run.process.kill("SIGTERM");
    await untilNothingIsLeft(run.marker);
  });
});

describe.runIf(process.platform === "linux")("a process whose server was stopped", () => {
  it("ends by itself at once: no timer, listener or watchdog holds it", async () => {
    const run = await runUntilReady("stop");
    const [line] = (await once(run.lines, "line")) as [string];
    expect(line).toBe("stopped 0 timers");
    expect(await once(run.process, "exit")).toEqual([0, null]);
    await untilNothingIsLeft(run.marker);
  });
});
