import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  PosixProcessTree,
  type ProcessInfo,
  type ProcessLister,
  procLister,
} from "../../src/process/process-tree.ts";
import { livingProcesses, start, untilLiving } from "./support.ts";

const linux = process.platform === "linux";

/** Blocks everything here for some milliseconds. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

describe.runIf(linux)("release", () => {
  it("lets go of a process that has ended with its tree, pipes included", async () => {
    const child = await start("sh", "-c", "exit 4");
    await child.exited;
    expect(await child.release()).toBe(true);
    expect([child.stdin.destroyed, child.stdout.destroyed, child.stderr.destroyed]).toEqual([
      true,
      true,
      true,
    ]);
    expect(await child.stop()).toEqual({ by: "already-exited", durationMs: 0, survivors: 0 });
    expect(await child.release()).toBe(false);
  });

  it("leaves a process alone that lives", async () => {
    const child = await start("sh", "-c", "exec sleep 1000");
    expect(await child.release()).toBe(false);
    expect([child.exit, child.stdout.destroyed]).toEqual([undefined, false]);
    expect(await livingProcesses()).toEqual([child.pid]);
  });

  it("sees what is left of a process that had ended before anyone looked", async () => {
    for (let round = 0; round < 40; round += 1) {
      const child = await start("/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &");
      block(round % 4);
      await child.exited;
      expect([round, await child.release()]).toEqual([round, false]);
      await child.stop({ stdinMs: 0, termMs: 0 });
    }
    expect(await livingProcesses()).toEqual([]);
  });
});

describe.runIf(linux)("what a process leaves running", () => {
  it.each([
    ["and has been looked for", "await child.release()"],
    ["and has not been looked for yet", "false"],
  ])("ends when its starter is killed, although nobody of its group is left, %s", async (_, look) => {
    const source = (name: string): string =>
      JSON.stringify(new URL(`../../src/process/${name}.ts`, import.meta.url));
    const program = `
      import { spawnProcess } from ${source("spawn")};
      import { runMarker } from ${source("watchdog")};
      const args = ["-c", "setsid sleep 1000 >/dev/null 2>&1 &"];
      const child = await spawnProcess({ command: "/bin/sh", args, env: { PATH: process.env.PATH }, cwd: "/" });
      await child.exited;
      console.log(runMarker, ${look});
      setInterval(() => undefined, 1000);
    `;
    const starter = spawn(process.execPath, ["--input-type=module", "-e", program]);
    onTestFinished(() => void starter.kill("SIGKILL"));
    const [line] = (await once(createInterface(starter.stdout), "line")) as [string];
    const [marker, released] = line.split(" ");
    expect([released, await livingProcesses(marker)]).toEqual(["false", [expect.any(Number)]]);
    starter.kill("SIGKILL");
    await untilLiving(0, marker);
  });
});

describe.runIf(linux)("the start of a process", () => {
  it("is also known when it has ended, as long as nobody has taken note", async () => {
    const child = spawn("true");
    block(100);
    const pid = child.pid ?? 0;
    expect((await procLister.list()).some((info) => info.pid === pid)).toBe(false);
    expect(procLister.startOf(pid)).toBeGreaterThan(0);
    await once(child, "exit");
    expect(procLister.startOf(pid)).toBeUndefined();
  });
});

describe("a process that shows no environment", () => {
  /** A tree whose only other process has these environments, one look after the other. */
  function tree(
    carried: readonly (boolean | undefined)[],
    other: Partial<ProcessInfo> = {},
  ): PosixProcessTree {
    const rest = [...carried];
    const info = { pid: 4_000_001, parent: 1, group: 4_000_001, started: 6, ...other };
    const lister: ProcessLister = {
      list: () => Promise.resolve([info]),
      listNow: () => [info],
      startOf: () => 5,
      carries: () => rest.shift(),
    };
    return new PosixProcessTree({ pid: 4_000_000, marker: "A=b", hasExited: () => true }, lister);
  }

  it("is looked at again before it is taken for a stranger", async () => {
    expect(await tree([undefined, undefined, true]).survey()).toBe(1);
    expect(await tree([undefined, false]).survey()).toBe(0);
    expect(await tree([]).survey()).toBe(0);
  });

  it("is none of ours when it is older, or one of the kernel's own", async () => {
    expect(await tree([undefined, true], { started: 4 }).survey()).toBe(0);
    expect(await tree([undefined, true], { group: 0 }).survey()).toBe(0);
  });
});
