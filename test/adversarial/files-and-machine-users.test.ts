import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, describe, expect, it, vi } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import { ExtensionCache } from "../../src/extensions/resolve/cache.ts";
import { readLock } from "../../src/extensions/resolve/files.ts";
import { resolveInstalled } from "../../src/extensions/resolve/program.ts";
import { makeFolder, privateFolder } from "../../src/base/files.ts";
import { cacheFolder } from "../../src/formats/environment.ts";
import { load } from "../../src/formats/load.ts";
import { localBinPath } from "../../src/process/environment.ts";
import { ownMark, removeLeftovers } from "../../src/process/folders.ts";
import { readRun, refusePlanted } from "../../src/store/run-folder.ts";
import { configFile, toolTest } from "../e2e/support.ts";
import { folderOf, type HereOutcome, root, runCli, runHere } from "../support/cli.ts";
import { command, taskOf } from "./task-verdicts.ts";

const nobody = 65534;
const isRoot = process.geteuid?.() === 0;
const isWindows = process.platform === "win32";

afterEach(() => {
  vi.restoreAllMocks();
});

/**
 * Makes paths belong to another user than this process acts as. Only root can give files away; for anybody else it is the
 * process that becomes another user.
 */
function giveAway(...paths: readonly string[]): void {
  if (isRoot) for (const path of paths) chownSync(path, nobody, nobody);
  else vi.spyOn(process, "geteuid").mockReturnValue(nobody);
}

async function codeOf(work: () => unknown): Promise<string> {
  try {
    await work();
    return "none";
  } catch (error) {
    if (error instanceof McpvalsError) return error.code;
    throw error;
  }
}

describe.skipIf(isWindows)("a file of another user does not decide what runs", () => {
  /** The number of tasks that are loaded from a folder, or the code of the error. */
  async function tasksIn(cwd: string, sources: string[] = [], environment = {}): Promise<string> {
    let count = 0;
    const code = await codeOf(async () => {
      count = (await load({ sources, cwd, environment, lookOnly: true })).eval.tasks.length;
    });
    return code === "none" ? `${count} task` : code;
  }

  it("a config that is found in the working folder or above is refused, one that is named is read", async () => {
    using folder = folderOf({ ...configFile(toolTest("echo")), "below/x": "" });
    const below = join(folder.path, "below");
    expect(await tasksIn(below)).toBe("1 task");
    giveAway(join(folder.path, "mcp-eval.config.json"));
    expect(await tasksIn(below)).toBe("config/foreign-owner");
    giveAway(folder.path);
    expect(await tasksIn(folder.path)).toBe("config/foreign-owner");
    for (const source of ["mcp-eval.config.json", "."])
      expect(await tasksIn(folder.path, [source])).toBe("1 task");
    // Root that a user became with sudo reads that user's config.
    if (isRoot) expect(await tasksIn(folder.path, [], { SUDO_UID: String(nobody) })).toBe("1 task");
  });

  it.runIf(isRoot)("the command line says what to do, and runs nothing of it", async () => {
    const program = `import { writeFileSync } from "node:fs"; writeFileSync(new URL("ran", import.meta.url), ""); export default {};`;
    using folder = folderOf({ "mcp-eval.config.mjs": program, "below/x": "" });
    giveAway(join(folder.path, "mcp-eval.config.mjs"));
    for (const name of ["list", "validate", "run"]) {
      const { code, stderr } = await runHere([name], { cwd: join(folder.path, "below") });
      expect([name, code, stderr]).toEqual([name, 2, expect.stringContaining("belongs to another user")]);
    }
    expect(existsSync(join(folder.path, "ran"))).toBe(false);
  });

  it.runIf(isRoot)("programs in node_modules/.bin above the folder are not found", () => {
    using folder = folderOf({ "node_modules/.bin/node": "", "a/b/x": "", "a/node_modules/.bin/mine": "" });
    const start = join(folder.path, "a/b");
    const foreign = join(folder.path, "node_modules/.bin");
    const found = (): string[] => localBinPath(start, "/bin").split(":");
    expect(found()).toContain(foreign);
    giveAway(foreign);
    expect(found()).not.toContain(foreign);
    expect(found()).toContain(join(folder.path, "a/node_modules/.bin"));
    // The folder that was named is trusted with its owner.
    giveAway(start);
    expect(found()).toContain(foreign);
  });

  it.runIf(isRoot)("a lock and an installed extension above the folder are refused", async () => {
    const lock = "version: 1\nextensions: {}\n";
    using folder = folderOf({
      "mcp-eval.lock": lock,
      "node_modules/demo/package.json": `{"version":"1.0.0","bin":"main.js"}`,
      "node_modules/demo/main.js": "",
      "below/x": "",
    });
    const dir = join(folder.path, "below");
    const installed = () =>
      resolveInstalled({ kind: "npm", name: "npm:demo", package: "demo" }, { written: "npm:demo", dir });
    expect([(await readLock(dir)).path, (await installed()).program]).toEqual([
      join(folder.path, "mcp-eval.lock"),
      join(folder.path, "node_modules/demo/main.js"),
    ]);
    giveAway(join(folder.path, "mcp-eval.lock"), join(folder.path, "node_modules/demo"));
    const codes = [await codeOf(() => readLock(dir)), await codeOf(installed)];
    expect(codes).toEqual(["config/foreign-owner", "config/foreign-owner"]);
  });
});

describe.skipIf(isWindows)("compiled code is kept where no other user can write", () => {
  it("in a folder that is made for this user alone, with what is above it", () => {
    using folder = folderOf({});
    const path = join(folder.path, "a/b");
    expect([privateFolder(path), privateFolder(path)]).toEqual([path, path]);
    for (const made of [path, join(folder.path, "a")]) expect(statSync(made).mode & 0o777).toBe(0o700);
  });

  it("not in one that others can read, write or replace, nor in a link, a file, or one of another user", () => {
    using folder = folderOf({
      file: "",
      "real/x": "",
      "group/x": "",
      "open/mine/below/x": "",
      "theirs/x": "",
      "sticky/mine/x": "",
    });
    const at = (name: string): string => join(folder.path, name);
    for (const name of ["open/mine", "open/mine/below", "sticky/mine", "theirs"]) chmodSync(at(name), 0o700);
    chmodSync(at("group"), 0o770);
    chmodSync(at("open"), 0o777);
    chmodSync(at("sticky"), 0o1777);
    symlinkSync(at("real"), at("link"));
    expect(privateFolder(at("sticky/mine"))).toBe(at("sticky/mine"));
    giveAway(at("theirs"));
    for (const name of ["group", "link", "file", "file/below", "open/mine", "open/mine/below", "theirs"])
      expect([name, privateFolder(at(name))]).toEqual([name, undefined]);
  });

  it.each([
    [{ XDG_CACHE_HOME: "/c" }, "linux", "/c/mcpvals"],
    [{ XDG_CACHE_HOME: "relative" }, "linux", `${process.env["HOME"]}/.cache/mcpvals`],
    [{}, "darwin", `${process.env["HOME"]}/Library/Caches/mcpvals`],
    [{ LOCALAPPDATA: "/l" }, "win32", "/l/mcpvals"],
  ])("with %j on %s the caches are in %s", (environment, platform, expected) => {
    expect(cacheFolder(environment, platform)).toBe(expected);
  });

  it("nor in the folder for temporary files, nor in a cache that others have prepared", async () => {
    using folder = folderOf({ "tmp/x": "", "cache/x": "", "theirs/.keep": "", "planted/mcpvals/x": "" });
    const at = (name: string): string => join(folder.path, name);
    symlinkSync(at("theirs"), at("planted/mcpvals/compiled"));
    for (const cache of ["cache", "planted"]) {
      const env = { TMPDIR: at("tmp"), XDG_CACHE_HOME: at(cache) };
      expect((await runCli(["--help"], { cwd: folder.path, env })).code).toBe(0);
    }
    expect([readdirSync(at("tmp")), readdirSync(at("theirs"))]).toEqual([["x"], [".keep"]]);
    expect(statSync(at("cache/mcpvals/compiled")).mode & 0o777).toBe(0o700);
  });
});

const task = taskOf("t", {
  prompt: "p",
  verify: [command('touch "$RAN" && test -f "$RAN"')],
  env: { RAN: "{env.MARKER}" },
});

/** Runs the task in a folder; its step creates the file `ran` in the folder `marked`. */
function runTask(cwd: string, marked: string, ...args: readonly string[]): Promise<HereOutcome> {
  const marker = `MARKER=${join(marked, "ran")}`;
  return runHere(["run", "task.yaml", "--agent", "null", "--env", marker, ...args], { cwd });
}

describe.skipIf(isWindows)("what cannot be written is reported before anything runs", () => {
  it.each(["/proc/none/x", "/dev/null", "pipe", "file/x", "loop", "json=pipe"])("%s", async (output) => {
    using folder = folderOf({ "task.yaml": task, file: "" });
    execFileSync("mkfifo", [join(folder.path, "pipe")]);
    symlinkSync("loop", join(folder.path, "loop"));
    const flag = output.startsWith("json") ? "--reporter" : "--output";
    const { code, stderr } = await runTask(folder.path, folder.path, flag, output);
    expect([code, stderr]).toEqual([2, expect.stringContaining("store/unwritable")]);
    expect(existsSync(join(folder.path, "ran"))).toBe(false);
  });

  it("a report into a pipe that somebody reads is written", async () => {
    using folder = folderOf({ "task.yaml": task });
    const pipe = join(folder.path, "pipe");
    execFileSync("mkfifo", [pipe]);
    const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      expect((await runTask(folder.path, folder.path, "--reporter", "json=pipe")).code).toBe(0);
      expect(JSON.parse(readFileSync(reader, "utf8"))).toMatchObject({ verdict: "pass" });
    } finally {
      closeSync(reader);
    }
  });

  it("folders are made with those above them, also through a link, or there is an error", () => {
    using folder = folderOf({ "real/x": "" });
    symlinkSync(join(folder.path, "real"), join(folder.path, "link"));
    makeFolder(join(folder.path, "link/a/b"));
    makeFolder(join(folder.path, "link/a/b"));
    expect(readdirSync(join(folder.path, "real/a"))).toEqual(["b"]);
    expect(() => makeFolder(join(folder.path, "real/x/y"))).toThrow("ENOTDIR");
    expect(() => makeFolder(join(folder.path, "real/x"))).toThrow("EEXIST");
    if (process.platform === "linux") expect(() => makeFolder("/proc/none/x")).toThrow("ENOENT");
  });
});

describe.skipIf(isWindows)("the record of a run stays in its folder, for this user alone", () => {
  it.each([".mcpvals", ".mcpvals/runs"])(
    "a link in the place of %s is refused, unless it is named",
    async (name) => {
      using folder = folderOf({ "elsewhere/x": "", "work/task.yaml": task });
      const cwd = join(folder.path, "work");
      if (name.includes("/")) mkdirSync(join(cwd, ".mcpvals"));
      symlinkSync(join(folder.path, "elsewhere"), join(cwd, name));
      const { code, stderr } = await runTask(cwd, folder.path);
      expect([code, stderr]).toEqual([2, expect.stringContaining("is a link")]);
      expect(readdirSync(join(folder.path, "elsewhere"))).toEqual(["x"]);
      expect((await runTask(cwd, folder.path, "--output", ".mcpvals/runs")).code).toBe(0);
      const runs = join(cwd, ".mcpvals/runs");
      const made = readdirSync(runs).filter((id) => id !== "x");
      expect(made.map((id) => statSync(join(runs, id)).mode & 0o777)).toEqual([0o700]);
    },
  );

  it.runIf(isRoot)("a folder of another user is refused, unless the folder around it is theirs too", () => {
    using folder = folderOf({ ".mcpvals/runs/x": "" });
    refusePlanted(folder.path);
    giveAway(join(folder.path, ".mcpvals/runs"));
    expect(() => refusePlanted(folder.path)).toThrow("belongs to another user");
    giveAway(folder.path, join(folder.path, ".mcpvals"));
    refusePlanted(folder.path);
  });
});

describe.skipIf(isWindows)("a run folder from elsewhere ends in an error, and nothing is waited for", () => {
  const id = "20260101-000000-abcdefa";
  const plan = { agents: [], tasks: [], trials: [] };
  const attachment = `${id}/attachments/${"a".repeat(64)}.json`;
  const runFolder = (changes: object = {}): Record<string, unknown> => ({
    [`${id}/plan.json`]: plan,
    [`${id}/run.json`]: { id, startedAt: "", environment: {} },
    [`${id}/journal.jsonl`]: "",
    ...changes,
  });
  const line = (event: string): string =>
    `{"crc":"${crc32(event).toString(16).padStart(8, "0")}","event":${event}}\n`;
  const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  const attached = {
    seq: 1,
    at: 0,
    trial: "t1",
    type: "mcp.message",
    message: { $attachment: "a".repeat(64) },
  };

  it.each<[name: string, file: string, content: string | (() => Buffer)]>([
    ["a plan that is deep", "plan.json", `{"agents":${deep(100_000)},"tasks":[],"trials":[]}`],
    ["a head that is a device", "run.json", "link:/dev/zero"],
    ["a journal that is a pipe", "journal.jsonl", "pipe"],
    ["a journal that leads to another file", "journal.jsonl", "link:/etc/passwd"],
    ["an event that is deep", "journal.jsonl", line(`{"type":"x","trial":"t1","z":${deep(50_000)}}`)],
    ["an event that is null", "journal.jsonl", line("null")],
    ["an attachment that is a device", "journal.jsonl", line(JSON.stringify(attached))],
  ])("%s", async (_, file, given) => {
    const content = typeof given === "string" ? given : given();
    using folder = folderOf(runFolder({ [`${id}/attachments/x`]: "" }));
    const path = join(folder.path, id, file);
    symlinkSync("/dev/zero", join(folder.path, attachment));
    rmSync(path, { force: true });
    if (content === "pipe") execFileSync("mkfifo", [path]);
    else if (typeof content === "string" && content.startsWith("link:")) symlinkSync(content.slice(5), path);
    else writeFileSync(path, content);
    await expect(readRun(folder.path, id)).rejects.toMatchObject({ code: "store/corrupt" });
  });

  it("which show reports as such", async () => {
    using folder = folderOf(runFolder({ [`${id}/plan.json`]: { ...plan, trials: 5 } }));
    const { code, stderr } = await runHere(["show", id, "--output", "."], { cwd: folder.path });
    expect([code, stderr]).toEqual([3, expect.stringContaining("store/corrupt")]);
    expect(stderr).not.toContain("bug in mcpvals");
  });
});

/** A process that makes a folder for temporary files, with a file in it, and then runs until it is killed. */
async function startMaker(temporary: string) {
  const script = `
    const { makeTemporaryFolder } = await import(${JSON.stringify(join(root, "src/process/folders.ts"))});
    const { writeFileSync } = await import("node:fs");
    const path = await makeTemporaryFolder("work");
    writeFileSync(path + "/content", "");
    console.log(path);
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    env: { ...process.env, TMPDIR: temporary },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const exit = once(child, "exit");
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exit;
  };
  return { path: line.toString().trim(), kill };
}

describe.skipIf(process.platform !== "linux")(
  "the next run removes what a killed run has left, and nothing else",
  () => {
    const leftovers = /^mcpvals-[a-z]+-/;

    it("a folder is kept while its process runs, and removed when that was killed", async () => {
      const verify = [command("ls $TMPDIR")];
      using folder = folderOf({ "tmp/x": "", "task.json": taskOf("t", { prompt: "p", verify }) });
      const temporary = join(folder.path, "tmp");
      const { path, kill } = await startMaker(temporary);
      await removeLeftovers(temporary, leftovers);
      expect(existsSync(join(path, "content"))).toBe(true);
      await kill();
      const env = { TMPDIR: temporary };
      await runCli(["run", "task.json", "--agent", "null"], { cwd: folder.path, env });
      expect(readdirSync(temporary)).toEqual(["x"]);
    });

    it("what others have made is kept: another machine or user, any other name, the target of a link", async () => {
      using folder = folderOf({ "target/x": "" });
      const { path, kill } = await startMaker(folder.path);
      await kill();
      const name = basename(path);
      const elsewhere = name.replace(/-[0-9a-f]{8}-/, "-00000000-");
      const unknown = ["mcpvals-abc123", "mcpvals-work-1-2", `mcpvals-work-${ownMark()}-x`];
      const others = [elsewhere, `other-${name}`, ...unknown];
      const foreign = name.replace(/.$/, "~");
      for (const other of [...others, ...(isRoot ? [foreign] : [])]) mkdirSync(join(folder.path, other));
      symlinkSync(join(folder.path, "target"), join(folder.path, `${name}x`));
      if (isRoot) giveAway(join(folder.path, foreign));
      await removeLeftovers(folder.path, leftovers);
      const kept = [...others, "target", ...(isRoot ? [foreign] : [])];
      expect(readdirSync(folder.path).toSorted()).toEqual(kept.toSorted());
      expect(readdirSync(join(folder.path, "target"))).toEqual(["x"]);
    });

    it("a part of an extension in the cache", async () => {
      using folder = folderOf({});
      const { path, kill } = await startMaker(folder.path);
      await kill();
      const cache = join(folder.path, "cache");
      const other = join(cache, "github.com/acme/other/v1");
      const [dead, living] = [`.new-${basename(path).replace("mcpvals-work-", "")}`, `.new-${ownMark()}-abc`];
      for (const name of [dead, living]) mkdirSync(join(other, name, "part"), { recursive: true });
      const entries = new ExtensionCache(cache, new AbortController().signal);
      const fetch = (): Promise<never> => Promise.reject(new Error("no"));
      const failing = entries.add("github.com/acme/demo", { version: "v1", name: "x", hash: "x", fetch });
      await expect(failing).rejects.toThrow("no");
      expect(readdirSync(other)).toEqual([living]);
    });
  },
);
