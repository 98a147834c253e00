import { once } from "node:events";
import { createInterface } from "node:readline";
import { describe, expect, it, vi } from "vitest";
import { killAllNow, PosixProcessTree, procLister, psLister } from "../../src/process/process-tree.ts";
import type { ManagedProcess } from "../../src/process/spawn.ts";
import { fixtureServer, livingProcesses, start, untilDaemon, untilLiving } from "./support.ts";

const linux = process.platform === "linux";

async function firstLine(child: ManagedProcess): Promise<string> {
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  return line;
}

/** Starts a shell script and waits for its first line, which says that it is ready. */
async function shell(script: string): Promise<ManagedProcess> {
  const child = await start("sh", "-c", script);
  await firstLine(child);
  return child;
}

describe.runIf(linux)("stop", () => {
  it("only closes stdin of a program that ends then", async () => {
    const child = await shell("echo ready; read line; exit 7");
    const result = await child.stop();
    expect(result).toMatchObject({ by: "stdin", survivors: 0 });
    expect(child.exit).toEqual({ exitCode: 7, signal: null });
    expect([child.stdin.destroyed, child.stdout.destroyed, child.stderr.destroyed]).toEqual([
      true,
      true,
      true,
    ]);
  });

  it("sends SIGTERM to a program that ignores the end of stdin", async () => {
    const child = await shell("trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done");
    const result = await child.stop({ stdinMs: 50 });
    expect(result.by).toBe("SIGTERM");
    expect(child.exit).toEqual({ exitCode: 3, signal: null });
    expect(await livingProcesses()).toEqual([]);
  });

  it("kills a program that ignores SIGTERM too", async () => {
    const child = await start(process.execPath, fixtureServer, "--stubborn", "--stdout=ready");
    await firstLine(child);
    const result = await child.stop({ stdinMs: 50, termMs: 50 });
    expect(result.by).toBe("SIGKILL");
    expect(child.exit).toEqual({ exitCode: null, signal: "SIGKILL" });
  });

  it("does not wait for a descendant that holds the pipes, and ends it", async () => {
    const child = await shell("sleep 1000 & echo ready; read line");
    expect(child.stop()).toBe(child.stop());
    const [result] = await Promise.all([child.stop(), child.exited]);
    expect(result).toMatchObject({ by: "stdin", survivors: 1 });
    expect(await livingProcesses()).toEqual([]);
  });

  it("ends a descendant when the program had ended long before", async () => {
    const child = await start("sh", "-c", "sleep 1000 & exit 0");
    await child.exited;
    expect(await child.stop()).toMatchObject({ by: "already-exited", survivors: 1 });
    expect(await livingProcesses()).toEqual([]);
  });

  it("kills a descendant that ignores SIGTERM", async () => {
    const child = await shell("(trap '' TERM; while :; do sleep 0.05; done) & echo ready; read line");
    expect(await child.stop({ termMs: 50 })).toMatchObject({ by: "stdin" });
    expect(await livingProcesses()).toEqual([]);
  });

  it("lets descendants end by themselves when the first process has ended", async () => {
    // The inner shell reads the same stdin, as a server behind a wrapper does, and takes a moment for its goodbye.
    // A shell gives what it starts with & no stdin of its own accord.
    const inner = "sh -c 'echo ready; read line; sleep 0.05; echo bye' <&3 &";
    const child = await shell(`exec 3<&0; ${inner} exec 1>&- 3<&-; read line`);
    const output = createInterface(child.stdout);
    const bye = once(output, "line");
    expect(await child.stop({ stdinMs: 10_000, termMs: 10_000, settleMs: 10_000 })).toMatchObject({
      by: "stdin",
      survivors: 0,
    });
    expect(await bye).toEqual(["bye"]);
  });

  it("finds a daemon: own session, no parent left", async () => {
    const child = await start(process.execPath, fixtureServer, "--daemon");
    const daemon = await untilDaemon();
    expect(new Set(await livingProcesses())).toEqual(new Set([child.pid, daemon]));
    expect(await child.stop()).toMatchObject({ by: "stdin", survivors: 1 });
    expect(await livingProcesses()).toEqual([]);
  });

  it("finds a child in a session of its own whose environment was emptied", async () => {
    const child = await shell("env -i setsid sleep 1000 & echo $!; read line");
    const pid = await untilSession(child.pid);
    await child.stop();
    expect(await isAlive(pid)).toBe(false);
  });

  it("sends SIGTERM to each process once", async () => {
    const count = "trap 'n=$((n+1))' TERM; n=0; echo ready; while [ $n -lt 2 ]; do sleep 0.02; done; exit 9";
    const child = await shell(count);
    expect(await child.stop({ stdinMs: 20, termMs: 300 })).toMatchObject({ by: "SIGKILL" });
  });
});

/** Waits until a child of a process leads a session, and gives its number. */
async function untilSession(parent: number): Promise<number> {
  return vi.waitFor(async () => {
    const all = await procLister.list();
    const found = all.find((info) => info.parent === parent && info.group === info.pid);
    if (found === undefined) throw new Error("no session yet");
    return found.pid;
  });
}

async function isAlive(pid: number): Promise<boolean> {
  return (await procLister.list()).some((info) => info.pid === pid);
}

describe.runIf(linux)("killAllNow", () => {
  it("kills every tree before it returns", async () => {
    const children = [
      await start(process.execPath, fixtureServer, "--stubborn", "--stdout=ready"),
      await start(process.execPath, fixtureServer, "--daemon"),
    ];
    await untilDaemon();
    killAllNow();
    await untilLiving(0);
    const exits = await Promise.all(children.map((child) => child.exited));
    expect(exits.map(({ signal }) => signal)).toEqual(["SIGKILL", "SIGKILL"]);
  });
});

describe.runIf(linux)("the two ways to list processes", () => {
  it("agree on a tree", async () => {
    const child = await shell("sleep 1000 & echo ready; read line");
    const pick = async (lister: typeof psLister): Promise<object[]> =>
      (await lister.list())
        .filter(({ group }) => group === child.pid)
        .map(({ pid, parent, group }) => ({ pid, parent, group }))
        .sort((a, b) => a.pid - b.pid);
    const seen = await pick(procLister);
    expect(seen).toHaveLength(2);
    expect(await pick(psLister)).toEqual(seen);
    expect(psLister.listNow().filter(({ group }) => group === child.pid)).toHaveLength(2);
  });

  it("processes that are older than what is looked for are left out once they are known", async () => {
    const [first, second] = [await start("sleep", "1000"), await start("sleep", "1000")];
    const since = procLister.startOf(first.pid);
    // They are known for two seconds, in which a busy machine may not have started another one.
    await vi.waitFor(
      async () => {
        procLister.listNow();
        const later = await start("sleep", "1000");
        const pids = procLister.listNow(since).map(({ pid }) => pid);
        expect(pids).toEqual(expect.arrayContaining([first.pid, second.pid, later.pid]));
        expect(pids).not.toContain(process.pid);
      },
      { timeout: 60_000 },
    );
  });

  it("both find the tree, and keep a later process with the same number out", async () => {
    const child = await shell("sleep 1000 & echo ready; read line");
    const root = { pid: child.pid, marker: "NONE=x", hasExited: () => false };
    expect(await new PosixProcessTree(root, psLister).survey()).toBe(2);
    expect(await new PosixProcessTree(root, procLister).survey()).toBe(2);
    const older = { ...procLister, startOf: () => 1 };
    const reused = new PosixProcessTree({ ...root, hasExited: () => true }, older);
    expect(await reused.survey()).toBe(0);
  });
});
