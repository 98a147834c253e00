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
    { timeout: 5000, interval: 10 },
  );
}

/** Takes the safety net away, to see that the rest works without it. */
async function killWatchdog(run: string): Promise<void> {
  for (const pid of await livingWatchdogs(run)) process.kill(pid, "SIGKILL");
}

describe.runIf(process.platform === "linux")("nothing is left of a server", () => {
  it("when the process that started it exits without stopping it", async () => {
    const run = await runUntilReady("exit", "--stubborn", "--daemon");
    await killWatchdog(run.marker);
    run.process.stdin.write("\n");
    expect(await once(run.process, "exit")).toEqual([5, null]);
    await untilNothingIsLeft(run.marker);
  });

  it("when that process ends with an uncaught error", async () => {
    const run = await runUntilReady("throw", "--stubborn", "--daemon");
    await killWatchdog(run.marker);
    run.process.stdin.write("\n");
    expect(await once(run.process, "exit")).toEqual([1, null]);
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

  it("when that process is ended by a signal that it does not handle", async () => {
    const run = await runUntilReady("wait", "--stubborn");
    run.process.kill("SIGTERM");
    await untilNothingIsLeft(run.marker);
  });

  it("and the watchdog does not hear Ctrl-C: it is in a group of its own", async () => {
    const run = await runUntilReady("wait");
    const [watchdog] = await livingWatchdogs(run.marker);
    expect(() => process.kill(-(watchdog ?? 0), 0)).not.toThrow();
    run.process.kill("SIGKILL");
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
