import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { ExtensionCache } from "../../src/extensions/resolve/cache.ts";
import { ownMark, removeLeftovers } from "../../src/process/folders.ts";
import { folderOf, root, startCli } from "../support/cli.ts";

const isRoot = process.geteuid?.() === 0;
const module = join(root, "src/process/folders.ts");

/** A process that has made a folder for temporary files, with something in it, and goes on until it is killed. */
async function maker(temporary: string) {
  const script = `
    const { makeTemporaryFolder } = await import(${JSON.stringify(module)});
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
  return {
    path: line.toString().trim(),
    kill: async () => {
      child.kill("SIGKILL");
      await exit;
    },
  };
}

describe.skipIf(process.platform !== "linux")(
  "what a killed run has left is removed by the next one, and nothing else (docs/security.md)",
  () => {
    it("the folder of a process is kept while it lives, and removed when it was killed", async () => {
      using folder = folderOf({});
      const { path, kill } = await maker(folder.path);
      await removeLeftovers(folder.path, /^mcpvals-[a-z]+-/);
      expect(existsSync(join(path, "content"))).toBe(true);
      await kill();
      await removeLeftovers(folder.path, /^mcpvals-[a-z]+-/);
      expect(readdirSync(folder.path)).toEqual([]);
    });

    it("a run removes them when it makes its own", async () => {
      using folder = folderOf({
        "tmp/x": "",
        "task.yaml": {
          apiVersion: "mcp-eval/v1",
          kind: "Task",
          metadata: { name: "t" },
          spec: { prompt: "p", verify: [{ command: { run: "ls $TMPDIR" } }] },
        },
      });
      const temporary = join(folder.path, "tmp");
      const { kill, path } = await maker(temporary);
      await kill();
      const run = startCli(["run", "task.yaml", "--agent", "null"], {
        cwd: folder.path,
        env: { TMPDIR: temporary },
      });
      await run.finished;
      expect(existsSync(path)).toBe(false);
      expect(readdirSync(temporary)).toEqual(["x"]);
    });

    it("what others have made is kept: another machine or container, another user, any other name, a link", async () => {
      using folder = folderOf({ "target/x": "" });
      const { path, kill } = await maker(folder.path);
      await kill();
      const name = basename(path);
      const elsewhere = name.replace(/-[0-9a-f]{8}-/, "-00000000-");
      const others = [
        elsewhere,
        `other-${name}`,
        "mcpvals-abc123",
        "mcpvals-work-1-2",
        `mcpvals-work-${ownMark()}-x`,
      ];
      for (const other of others) mkdirSync(join(folder.path, other));
      symlinkSync(join(folder.path, "target"), join(folder.path, `${name}x`));
      const foreign = name.replace(/.$/, "~");
      if (isRoot) {
        mkdirSync(join(folder.path, foreign));
        chownSync(join(folder.path, foreign), 65534, 65534);
      }
      await removeLeftovers(folder.path, /^mcpvals-[a-z]+-/);
      expect(readdirSync(folder.path).toSorted()).toEqual(
        [...others, "target", ...(isRoot ? [foreign] : [])].toSorted(),
      );
      // The link is gone, and what it leads to is not.
      expect(readdirSync(join(folder.path, "target"))).toEqual(["x"]);
    });

    it("a part of an extension in the cache", async () => {
      using folder = folderOf({});
      const { path, kill } = await maker(folder.path);
      await kill();
      const mark = basename(path).replace("mcpvals-work-", "");
      const cache = join(folder.path, "cache");
      const [dead, living] = [`.new-${mark}`, `.new-${ownMark()}-abc`];
      for (const name of [dead, living]) {
        mkdirSync(join(cache, "github.com/acme/other/v1", name), { recursive: true });
        writeFileSync(join(cache, "github.com/acme/other/v1", name, "part"), "");
      }
      const entries = new ExtensionCache(cache, new AbortController().signal);
      const fetch = (): Promise<never> => Promise.reject(new Error("no"));
      const failing = entries.add("github.com/acme/demo", { version: "v1", name: "x", hash: "x", fetch });
      await expect(failing).rejects.toThrow("no");
      expect(readdirSync(join(cache, "github.com/acme/other/v1"))).toEqual([living]);
    });
  },
);
