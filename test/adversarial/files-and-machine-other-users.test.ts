import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { cacheFolder } from "../../src/load/cache-folder.ts";
import { load } from "../../src/load/load.ts";
import { projectNpmrc } from "../../src/extensions/resolve/npm.ts";
import { readLock } from "../../src/extensions/resolve/files.ts";
import { privateFolder } from "../../src/files/ownership.ts";
import { localBinPath } from "../../src/process/environment.ts";
import { configFile, toolTest } from "../e2e/support.ts";
import { folderOf, runCli } from "../support/cli.ts";

const nobody = 65534;
const isRoot = process.geteuid?.() === 0;

afterEach(() => {
  vi.restoreAllMocks();
});

/**
 * Makes that paths belong to another user than the one that this process acts as. Only root can give files away; for anybody
 * else it is the process that becomes another user.
 */
function givenAway(...paths: readonly string[]): void {
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

describe.skipIf(process.platform === "win32")(
  "a file of another user does not decide what runs (docs/security.md)",
  () => {
    const surroundings = { environment: {}, lookOnly: true };

    it("a config that was found by looking upwards is refused", async () => {
      using folder = folderOf({ ...configFile(toolTest("echo")), "below/x": "" });
      const cwd = join(folder.path, "below");
      expect((await load({ sources: [], cwd, ...surroundings })).file).toContain("mcp-eval.config.json");
      givenAway(join(folder.path, "mcp-eval.config.json"));
      expect(await codeOf(() => load({ sources: [], cwd, ...surroundings }))).toBe("config/foreign-owner");
    });

    it("a config in the working folder itself, when the folder is another user's, is refused", async () => {
      using folder = folderOf(configFile(toolTest("echo")));
      givenAway(folder.path);
      const look = () => load({ sources: [], cwd: folder.path, ...surroundings });
      expect(await codeOf(look)).toBe("config/foreign-owner");
    });

    it("a config that is named is read, whosever it is", async () => {
      using folder = folderOf(configFile(toolTest("echo")));
      givenAway(folder.path, join(folder.path, "mcp-eval.config.json"));
      for (const source of ["mcp-eval.config.json", "."]) {
        expect(
          (await load({ sources: [source], cwd: folder.path, ...surroundings })).eval.tasks,
        ).toHaveLength(1);
      }
    });

    it.runIf(isRoot)("root that a user became with sudo reads that user's config", async () => {
      using folder = folderOf(configFile(toolTest("echo")));
      givenAway(folder.path, join(folder.path, "mcp-eval.config.json"));
      const environment = { SUDO_UID: String(nobody) };
      const loaded = await load({ sources: [], cwd: folder.path, environment, lookOnly: true });
      expect(loaded.eval.tasks).toHaveLength(1);
    });

    it.runIf(isRoot)("the command line says what to do, and runs nothing of it", async () => {
      using folder = folderOf({
        "mcp-eval.config.mjs": `import { writeFileSync } from "node:fs"; writeFileSync(new URL("ran", import.meta.url), ""); export default {};`,
        "below/x": "",
      });
      givenAway(join(folder.path, "mcp-eval.config.mjs"));
      for (const command of ["list", "validate", "run"]) {
        const { code, stderr } = await runCli([command], { cwd: join(folder.path, "below") });
        expect([command, code]).toEqual([command, 2]);
        expect(stderr).toContain("belongs to another user");
      }
      expect(existsSync(join(folder.path, "ran"))).toBe(false);
    });

    it.runIf(isRoot)("programs in node_modules/.bin above the folder are not found", () => {
      using folder = folderOf({ "node_modules/.bin/node": "", "a/b/x": "", "a/node_modules/.bin/mine": "" });
      const start = join(folder.path, "a/b");
      const foreign = join(folder.path, "node_modules/.bin");
      expect(localBinPath(start, "/bin").split(":")).toContain(foreign);
      givenAway(foreign);
      const found = localBinPath(start, "/bin").split(":");
      expect(found).not.toContain(foreign);
      expect(found).toContain(join(folder.path, "a/node_modules/.bin"));
      // The folder that was named is trusted with its owner.
      chownSync(start, nobody, nobody);
      expect(localBinPath(start, "/bin").split(":")).toContain(foreign);
    });

    it.runIf(isRoot)("a lock and an .npmrc above the folder are refused", async () => {
      using folder = folderOf({
        "mcp-eval.lock": "version: 1\nextensions: {}\n",
        ".npmrc": "registry=http://127.0.0.1:1/\n",
        "below/x": "",
      });
      const below = join(folder.path, "below");
      expect((await readLock(below)).path).toBe(join(folder.path, "mcp-eval.lock"));
      expect(projectNpmrc({ dir: below, home: "/nowhere" })).toContain("registry");
      givenAway(join(folder.path, "mcp-eval.lock"), join(folder.path, ".npmrc"));
      expect(await codeOf(() => readLock(below))).toBe("config/foreign-owner");
      expect(await codeOf(() => projectNpmrc({ dir: below, home: "/nowhere" }))).toBe("config/foreign-owner");
    });
  },
);

describe.skipIf(process.platform === "win32")(
  "compiled code is kept where no other user can write (docs/security.md)",
  () => {
    it("a private folder is made for this user alone, with what is above it", () => {
      using folder = folderOf({});
      const path = join(folder.path, "a/b");
      expect(privateFolder(path)).toBe(path);
      expect([statSync(path).mode & 0o777, statSync(join(folder.path, "a")).mode & 0o777]).toEqual([
        0o700, 0o700,
      ]);
      expect(privateFolder(path)).toBe(path);
    });

    it("one that others can read or write, a link, and a file are not taken", () => {
      using folder = folderOf({ file: "", "real/x": "", "open/x": "" });
      chmodSync(join(folder.path, "open"), 0o770);
      symlinkSync(join(folder.path, "real"), join(folder.path, "link"));
      for (const name of ["open", "link", "file", "file/below"]) {
        expect([name, privateFolder(join(folder.path, name))]).toEqual([name, undefined]);
      }
    });

    it("one of another user, and one in a folder where others can replace it, are not taken", () => {
      using folder = folderOf({ "open/mine/x": "", "theirs/x": "", "sticky/mine/x": "" });
      const at = (name: string): string => join(folder.path, name);
      for (const name of ["open/mine", "sticky/mine", "theirs"]) chmodSync(at(name), 0o700);
      chmodSync(at("open"), 0o777);
      chmodSync(at("sticky"), 0o1777);
      expect(privateFolder(at("open/mine"))).toBeUndefined();
      expect(privateFolder(at("sticky/mine"))).toBe(at("sticky/mine"));
      givenAway(at("theirs"));
      expect(privateFolder(at("theirs"))).toBeUndefined();
    });

    it.each([
      [{ XDG_CACHE_HOME: "/c" }, "linux", "/c/mcpvals"],
      [{ XDG_CACHE_HOME: "relative" }, "linux", `${process.env["HOME"]}/.cache/mcpvals`],
      [{}, "darwin", `${process.env["HOME"]}/Library/Caches/mcpvals`],
      [{ LOCALAPPDATA: "/l" }, "win32", "/l/mcpvals"],
    ])("with %j on %s the caches are in %s", (environment, platform, expected) => {
      expect(cacheFolder(environment, platform)).toBe(expected);
    });

    it("nothing is put into the folder for temporary files", async () => {
      using folder = folderOf({ "tmp/x": "", "cache/x": "" });
      const [temporary, cache] = [join(folder.path, "tmp"), join(folder.path, "cache")];
      const env = { TMPDIR: temporary, XDG_CACHE_HOME: cache };
      const { code } = await runCli(["--help"], { cwd: folder.path, env });
      expect(code).toBe(0);
      expect(readdirSync(temporary)).toEqual(["x"]);
      expect(statSync(join(cache, "mcpvals/compiled")).mode & 0o777).toBe(0o700);
    });

    it("a folder for caches that others prepared is left alone", async () => {
      const shared = mkdtempSync(join(tmpdir(), "mcpvals-test-"));
      try {
        const theirs = join(shared, "theirs");
        mkdirSync(join(shared, "cache/mcpvals"), { recursive: true });
        mkdirSync(theirs);
        symlinkSync(theirs, join(shared, "cache/mcpvals/compiled"));
        const env = { TMPDIR: shared, XDG_CACHE_HOME: join(shared, "cache") };
        const { code } = await runCli(["--help"], { cwd: shared, env });
        expect([code, readdirSync(theirs)]).toEqual([0, []]);
      } finally {
        rmSync(shared, { recursive: true });
      }
    });
  },
);
