import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { packageProgram, readManifest } from "../../src/extensions/resolve/program.ts";
import { projectNpmrc } from "../../src/extensions/resolve/npm.ts";
import { readLock } from "../../src/extensions/resolve/files.ts";
import { readRegularFile } from "../../src/files/read-file.ts";
import { recoverFolder } from "../../src/servers/client-files/journal.ts";
import { folderOf } from "../support/cli.ts";

async function failureOf(work: () => unknown): Promise<unknown> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return error;
  }
}

describe.skipIf(process.platform === "win32")(
  "what is no regular file, or too large, is never read (docs/security.md)",
  () => {
    it.each(["pipe", "/dev/zero", "folder", "large", "/proc/self/mem"])("%s", async (name) => {
      using folder = folderOf({ "folder/x": "", large: "x".repeat(1001) });
      execFileSync("mkfifo", [join(folder.path, "pipe")]);
      const path = name.startsWith("/") ? name : join(folder.path, name);
      const error = await failureOf(() => readRegularFile(path, 1000));
      expect(error).toBeInstanceOf(Error);
    });

    it("a file of the kernel that says it is empty is read as far as allowed", () => {
      if (!existsSync("/proc/self/status")) return;
      expect(readRegularFile("/proc/self/status", 100_000).toString()).toContain("Pid:");
      expect(() => readRegularFile("/proc/self/status", 10)).toThrow("larger than");
    });

    it.each([
      ["mcp-eval.lock", (folder: string) => readLock(folder)],
      [".npmrc", (folder: string) => projectNpmrc({ dir: folder, home: "/nowhere" })],
      ["extension.yaml", (folder: string) => readManifest(folder, folder)],
      ["package.json", (folder: string) => packageProgram(folder, folder)],
      [".mcpvals-client-files.json", (folder: string) => recoverFolder(folder)],
    ])("a pipe or a device called %s in a folder ends in an error", async (name, read) => {
      using piped = folderOf({});
      execFileSync("mkfifo", [join(piped.path, name)]);
      expect(await failureOf(() => read(piped.path))).toBeInstanceOf(McpvalsError);
      using linked = folderOf({});
      symlinkSync("/dev/zero", join(linked.path, name));
      expect(await failureOf(() => read(linked.path))).toBeInstanceOf(McpvalsError);
    });
  },
);

describe("a folder that came from somewhere else changes nothing outside of it (docs/security.md)", () => {
  it("notes of files to put back are not followed through links", () => {
    using folder = folderOf({
      "home/.cursor/mcp.json": "mine",
      "home/.codex/config.toml": "mine",
      "repo/x": "",
    });
    const repo = join(folder.path, "repo");
    symlinkSync(join(folder.path, "home/.cursor"), join(repo, ".cursor"));
    mkdirSync(join(repo, ".codex"));
    symlinkSync(join(folder.path, "home/.codex/config.toml"), join(repo, ".codex/config.toml"));
    const files = [".codex/config.toml", ".cursor/mcp.json"].map((file) => ({ file, replaced: false }));
    writeFileSync(join(repo, ".mcpvals-client-files.json"), JSON.stringify({ pid: 2 ** 30, files }));
    expect(() => recoverFolder(repo)).toThrow("leads out of");
    expect(existsSync(join(folder.path, "home/.cursor/mcp.json"))).toBe(true);
    expect(existsSync(join(folder.path, "home/.codex/config.toml"))).toBe(true);
  });
});
