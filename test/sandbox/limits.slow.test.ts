import { chmod, chown, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { ConfinedProcess } from "../../src/sandbox/sandbox.ts";
import { sandboxOf } from "../../src/sandbox/sandboxes.ts";
import { spawnProcess } from "../../src/process/spawn.ts";
import {
  Bench,
  commandLines,
  type Ended,
  freshPlace,
  hostile,
  megabyte,
  path,
  type Place,
  whyNot,
} from "./support.ts";

const sandbox = sandboxOf("process");
const reason = process.platform === "linux" ? await whyNot(sandbox) : "only tried on Linux";
const named = reason === undefined ? "" : ` (SKIPPED: ${reason})`;

const confine = fileURLToPath(new URL("../fixtures/extensions/confine.ts", import.meta.url));

describe.skipIf(reason !== undefined)(`the process sandbox${named}`, () => {
  let place: Place;
  let bench: Bench;

  beforeEach(async () => {
    place = await freshPlace();
    bench = new Bench(sandbox, place);
  });

  /** Starts the program that wants to outlive everything, and waits until it counts. */
  const outlive = async (
    ...more: string[]
  ): Promise<{ child: ConfinedProcess; count: () => Promise<string> }> => {
    const file = join(place.workspace, "count");
    const child = await bench.start(["python3", hostile("outlive.py"), file, ...more]);
    const count = async (): Promise<string> => readFile(file, "utf8");
    if (more.length > 0)
      await vi.waitFor(async () => expect(Number(await count())).toBeGreaterThan(3), 20_000);
    return { child, count };
  };

  /** Nobody counts any more: while several counts would have been made, none is. */
  const expectStill = async (count: () => Promise<string>): Promise<void> => {
    const last = await count();
    await delay(100);
    expect(await count()).toBe(last);
    expect(commandLines("innocent")).toEqual([]);
  };

  describe("stop", () => {
    it("ends what left its parents, its session and its environment behind and ignores SIGTERM", async () => {
      const { child, count } = await outlive("stay");
      const result = await child.stop({ stdinMs: 50, termMs: 50 });
      expect(result).toMatchObject({ by: "SIGKILL" });
      await expectStill(count);
    });

    it("is not needed for that when the program itself has ended", async () => {
      const { child } = await outlive();
      expect(await child.exited).toEqual({ exitCode: 0, signal: null });
      expect(await child.release()).toBe(true);
      expect(commandLines("innocent")).toEqual([]);
    });

    it("closes stdin first, and then asks the program, not what confines it", async () => {
      const byStdin = await bench.start(["sh", "-c", "read line; exit 3"]);
      expect(await byStdin.stop()).toMatchObject({ by: "stdin", survivors: 0 });
      expect(byStdin.exit).toEqual({ exitCode: 3, signal: null });
      const asked = await bench.start(["sh", "-c", "trap 'exit 4' TERM; echo; while :; do sleep 0.02; done"]);
      await new Promise((resolve) => asked.stdout.once("data", resolve));
      expect(await asked.stop({ stdinMs: 20 })).toMatchObject({ by: "SIGTERM", survivors: 0 });
      expect(asked.exit).toEqual({ exitCode: 4, signal: null });
    });
  });

  describe("memory", () => {
    const small = { spec: { memoryBytes: 128 * megabyte } };
    const over = expect.stringMatching(/^it used \d+ MB of memory, and may use 128 MB$/);

    it.each(["heap", "shared", "children", "both"])("of %s is ended over the limit", async (way) => {
      expect(await bench.run(["python3", hostile("hog.py"), way, "1000"], small)).toMatchObject({
        exitCode: 137,
        brokenLimit: over,
      });
    });

    it("of Node's buffers is ended over the limit", async () => {
      const hog = [process.execPath, hostile("hog.mjs"), "400"];
      expect((await bench.run(hog, small)).brokenLimit).toEqual(over);
    });

    it.each([
      ["shm", "/dev/shm"],
      ["tmp", "/tmp"],
    ])("in %s has a size", async (way, folder) => {
      const child = await bench.start(["python3", hostile("hog.py"), way, "400"], small);
      const [said] = await new Promise<Buffer[]>((resolve) =>
        child.stdout.once("data", (chunk: Buffer) => resolve([chunk])),
      );
      expect(said?.toString()).toContain(`${folder}: No space left on device\n`);
      expect(child.brokenLimit).toBeUndefined();
    });

    it("of one process has a bound between two looks", async () => {
      const { stdout } = await bench.run(["sh", "-c", "ulimit -d"], small);
      expect(Number(stdout)).toBeLessThanOrEqual((128 * megabyte + 4 * 1024 * megabyte) / 1024);
    });

    it("is never written as a core, though it may be outside", async () => {
      const command = [process.execPath, confine, place.workspace, "sh", "-c", "ulimit -c"];
      const withCores = ["sh", "-c", 'ulimit -c "$(ulimit -H -c)"; exec "$@"', "sh"];
      const outside = new Bench(sandboxOf("none"), place);
      expect((await outside.run([...withCores, ...command])).stdout).toBe("0\n");
    });

    it("of files that have nothing in them counts", async () => {
      const tiny = { spec: { memoryBytes: 32 * megabyte } };
      const script = "import time\nfor i in range(60000): open(f'/tmp/{i}', 'w').close()\ntime.sleep(30)";
      expect((await bench.run(["python3", "-c", script], tiny)).brokenLimit).toMatch(
        /^it used \d+ MB of memory/,
      );
    });

    it("that is shared by children counts once", async () => {
      const script = [
        "import os, time",
        "held = bytearray(os.urandom(60 * 2**20))",
        "for _ in range(5):",
        "  if os.fork() == 0: time.sleep(0.4); os._exit(0)",
        "for _ in range(5): os.wait()",
        "print('fine')",
      ].join("\n");
      expect(await bench.run(["python3", "-c", script], small)).toMatchObject({
        stdout: "fine\n",
        brokenLimit: undefined,
      });
    });
  });

  describe("processes", () => {
    it("end when they are too many", async () => {
      const ended = await bench.run(["python3", hostile("bomb.py")], { spec: { processes: 32 } });
      expect(ended.brokenLimit).toMatch(/^it had \d+ processes, and may have 32$/);
      expect(commandLines("bomb.py")).toEqual([]);
    });

    it("are limited by the kernel too, with their threads", async () => {
      const ended = await bench.run(["cat", "/proc/self/limits"], { spec: { processes: 8 } });
      expect(ended.stdout).toMatch(/^Max processes +128 +128 /m);
    });

    it("may be as many as the limit says", async () => {
      const script = "for i in 1 2 3 4 5 6 7; do sleep 0.3 & done; wait";
      const ended = await bench.run(["sh", "-c", script], { spec: { processes: 8 } });
      expect(ended).toMatchObject({ exitCode: 0, brokenLimit: undefined });
    });
  });

  it("gets no file that whoever started mcpvals left open", async () => {
    const command = [process.execPath, confine, place.workspace, "python3", hostile("powers.py")];
    const outside = new Bench(sandboxOf("none"), place);
    const withRoot = ["sh", "-c", 'exec 9</; exec "$@"', "sh"];
    const seen = ["node", "-e", "console.log(require('fs').readdirSync('/proc/self/fd/9/').length > 0)"];
    expect((await outside.run([...withRoot, ...seen])).stdout).toBe("true\n");
    expect(JSON.parse((await outside.run([...withRoot, ...command])).stdout)).toMatchObject({ worked: [] });
  });

  it("takes no variable for arguments of what confines it", async () => {
    const env = { EVIL: "x\0--bind\0/\0/tmp/all" };
    await expect(bench.start(["sh", "-c", "ls /tmp/all"], { env })).rejects.toMatchObject({
      code: "server/spawn-failed",
      message: "a variable or a path of a confined program contains a NUL byte",
    });
  });

  it("ends with mcpvals, even if that is killed", async () => {
    const file = join(place.workspace, "count");
    const program = ["python3", hostile("outlive.py"), file, "stay"];
    const mcpvals = await spawnProcess({
      command: process.execPath,
      args: [confine, place.workspace, ...program],
      env: { PATH: path },
      cwd: place.workspace,
    });
    onTestFinished(async () => void (await mcpvals.stop({ stdinMs: 0, termMs: 0 })));
    await vi.waitFor(async () => expect(Number(await readFile(file, "utf8"))).toBeGreaterThan(3), 20_000);
    process.kill(mcpvals.pid, "SIGKILL");
    await mcpvals.exited;
    await vi.waitFor(() => expect(commandLines("innocent")).toEqual([]), 20_000);
  });

  it.skipIf(process.getuid?.() !== 0)(
    "confines an ordinary user's programs too (SKIPPED unless root)",
    async () => {
      await chmod(join(place.workspace, ".."), 0o755);
      await chown(place.workspace, 65_534, 65_534);
      const own = ["--reuid", "65534", "--regid", "65534", "--clear-groups", process.execPath, confine];
      const asNobody = (...command: string[]): Promise<Ended> =>
        new Bench(sandboxOf("none"), place).run(["setpriv", ...own, place.workspace, ...command]);
      expect(JSON.parse((await asNobody("python3", hostile("powers.py"))).stdout)).toEqual({
        worked: [],
        capabilities: "0000000000000000",
        noNewPrivileges: "1",
      });
      const written = await asNobody(
        process.execPath,
        hostile("write.mjs"),
        place.task,
        "/usr",
        place.workspace,
      );
      expect(JSON.parse(written.stdout)).toEqual(
        ["write", "append", "remove", "mkdir", "link", "mode"].map((way) => `${way} ${place.workspace}`),
      );
      const hungry = await asNobody("python3", hostile("hog.py"), "both", "1000");
      expect(hungry.stderr).toMatch(/it used \d+ MB of memory, and may use 512 MB/);
    },
  );
});
