import { execFileSync } from "node:child_process";
import {
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
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { makeFolder } from "../../src/files/make-folder.ts";
import { readRun, refusePlanted } from "../../src/store/run-folder.ts";
import { configFile, toolTest } from "../e2e/support.ts";
import { folderOf, runCli } from "../support/cli.ts";

const task = {
  apiVersion: "mcp-eval/v1",
  kind: "Task",
  metadata: { name: "t" },
  spec: {
    prompt: "p",
    verify: [{ command: { run: 'touch "$RAN" && test -f "$RAN"' } }],
    env: { RAN: "{env.MARKER}" },
  },
};
const isRoot = process.geteuid?.() === 0;

describe.skipIf(process.platform === "win32")(
  "what cannot be written is told before anything runs (docs/security.md)",
  () => {
    it.each(["/proc/none/x", "/dev/null/x", "/dev/null", "pipe", "file/x", "loop"])(
      "--output %s",
      async (output) => {
        using folder = folderOf({ "task.yaml": task, file: "" });
        execFileSync("mkfifo", [join(folder.path, "pipe")]);
        symlinkSync("loop", join(folder.path, "loop"));
        const marker = join(folder.path, "ran");
        const args = ["run", "task.yaml", "--agent", "null", "--output", output, "--env", `MARKER=${marker}`];
        const { code, stderr } = await runCli(args, { cwd: folder.path });
        expect([code, stderr]).toEqual([2, expect.stringContaining("store/unwritable")]);
        expect(existsSync(marker)).toBe(false);
      },
    );

    it("a report into a pipe that nobody reads", async () => {
      using folder = folderOf({ "task.yaml": task });
      execFileSync("mkfifo", [join(folder.path, "pipe")]);
      const marker = join(folder.path, "ran");
      const args = [
        "run",
        "task.yaml",
        "--agent",
        "null",
        "--reporter",
        "json=pipe",
        "--env",
        `MARKER=${marker}`,
      ];
      const { code, stderr } = await runCli(args, { cwd: folder.path });
      expect([code, stderr]).toEqual([2, expect.stringContaining("store/unwritable")]);
      expect(existsSync(marker)).toBe(false);
    });

    it("a report into a pipe that somebody reads is written", async () => {
      using folder = folderOf({ "task.yaml": task });
      const pipe = join(folder.path, "pipe");
      execFileSync("mkfifo", [pipe]);
      const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
      try {
        const args = ["run", "task.yaml", "--agent", "null", "--reporter", "json=pipe"];
        const { code } = await runCli([...args, "--env", `MARKER=${join(folder.path, "ran")}`], {
          cwd: folder.path,
        });
        expect(code).toBe(0);
        expect(JSON.parse(readFileSync(reader, "utf8"))).toMatchObject({ verdict: "pass" });
      } finally {
        closeSync(reader);
      }
    });

    it.runIf(process.platform === "linux")("a folder where there can be none ends in an error", () => {
      expect(() => makeFolder("/proc/none/x")).toThrow("ENOENT");
    });

    it("folders are made with those above them, also through a link", () => {
      using folder = folderOf({ "real/x": "" });
      symlinkSync(join(folder.path, "real"), join(folder.path, "link"));
      makeFolder(join(folder.path, "link/a/b"));
      makeFolder(join(folder.path, "link/a/b"));
      expect(readdirSync(join(folder.path, "real/a"))).toEqual(["b"]);
      expect(() => makeFolder(join(folder.path, "real/x/y"))).toThrow("ENOTDIR");
      expect(() => makeFolder(join(folder.path, "real/x"))).toThrow("EEXIST");
    });
  },
);

describe.skipIf(process.platform === "win32")(
  "the record of a run stays in its folder, for this user alone (docs/security.md)",
  () => {
    it.each([".mcpvals", ".mcpvals/runs"])("a link in the place of %s is refused", async (name) => {
      using folder = folderOf({ "task.yaml": task, "elsewhere/x": "", "work/task.yaml": task });
      const cwd = join(folder.path, "work");
      if (name.includes("/")) mkdirSync(join(cwd, ".mcpvals"));
      symlinkSync(join(folder.path, "elsewhere"), join(cwd, name));
      const args = ["run", "task.yaml", "--agent", "null", "--env", `MARKER=${join(folder.path, "ran")}`];
      const { code, stderr } = await runCli(args, { cwd });
      expect([code, stderr]).toEqual([2, expect.stringContaining("is a link")]);
      expect(readdirSync(join(folder.path, "elsewhere"))).toEqual(["x"]);
      const named = await runCli([...args, "--output", ".mcpvals/runs"], { cwd });
      expect(named.code).toBe(0);
    });

    it.runIf(isRoot)("a folder of another user is refused, unless the folder around it is theirs too", () => {
      using folder = folderOf({ ".mcpvals/runs/x": "" });
      refusePlanted(folder.path);
      chownSync(join(folder.path, ".mcpvals/runs"), 65534, 65534);
      expect(() => refusePlanted(folder.path)).toThrow("belongs to another user");
      for (const path of [folder.path, join(folder.path, ".mcpvals")]) chownSync(path, 65534, 65534);
      refusePlanted(folder.path);
    });

    it("other users cannot look into a run's folder", async () => {
      using folder = folderOf(configFile(toolTest("echo", { args: { message: "x" } })));
      await runCli(["run"], { cwd: folder.path });
      const runs = join(folder.path, ".mcpvals/runs");
      expect(readdirSync(runs).map((id) => statSync(join(runs, id)).mode & 0o777)).toEqual([0o700]);
    });
  },
);

describe.skipIf(process.platform === "win32")(
  "a run folder that came from elsewhere ends in an error, and nothing is waited for (docs/security.md)",
  () => {
    const id = "20260101-000000-abcdefa";
    const plan = { agents: [], tasks: [], trials: [] };
    const head = { id, startedAt: "", environment: {} };

    function line(event: string): string {
      return `{"crc":"${crc32(event).toString(16).padStart(8, "0")}","event":${event}}\n`;
    }

    const deep = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    const attached = { trial: "t1", type: "mcp.message", message: { $attachment: "a".repeat(64) } };

    it.each<readonly [name: string, file: string, content: string]>([
      ["a plan that is deep", "plan.json", `{"agents":${deep(100_000)},"tasks":[],"trials":[]}`],
      ["a head that is a device", "run.json", "link:/dev/zero"],
      ["a journal that is a device", "journal.jsonl", "link:/dev/zero"],
      ["a journal that is a pipe", "journal.jsonl", "pipe"],
      ["a result that is a pipe", "result.json", "pipe"],
      ["a journal that leads to another file", "journal.jsonl", "link:/etc/passwd"],
      ["an event that is deep", "journal.jsonl", line(`{"type":"x","trial":"t1","z":${deep(50_000)}}`)],
      ["an event that is none", "journal.jsonl", line("null")],
      ["an attachment that is a device", "journal.jsonl", line(JSON.stringify(attached))],
    ])("%s", async (_, file, content) => {
      using folder = folderOf({
        [`${id}/plan.json`]: plan,
        [`${id}/run.json`]: head,
        [`${id}/journal.jsonl`]: "",
        [`${id}/attachments/x`]: "",
      });
      const path = join(folder.path, id, file);
      symlinkSync("/dev/zero", join(folder.path, id, `attachments/${"a".repeat(64)}.json`));
      rmSync(path, { force: true });
      if (content === "pipe") execFileSync("mkfifo", [path]);
      else if (content.startsWith("link:")) symlinkSync(content.slice(5), path);
      else writeFileSync(path, content);
      await expect(readRun(folder.path, id)).rejects.toMatchObject({ code: "store/corrupt" });
    });

    it("a small file whose values take much memory", async () => {
      const values = Buffer.concat([
        Buffer.from('{"agents":['),
        Buffer.alloc(150_000_000, "[],"),
        Buffer.from('[]],"tasks":[],"trials":[]}'),
      ]);
      using folder = folderOf({ [`${id}/run.json`]: head, [`${id}/journal.jsonl`]: "" });
      writeFileSync(join(folder.path, id, "plan.json"), values);
      await expect(readRun(folder.path, id)).rejects.toMatchObject({ code: "store/corrupt" });
    });

    it("a plan that is none is told as such by show", async () => {
      using folder = folderOf({
        [`${id}/plan.json`]: { ...plan, trials: 5 },
        [`${id}/run.json`]: head,
        [`${id}/journal.jsonl`]: "",
      });
      const { code, stderr } = await runCli(["show", id, "--output", "."], { cwd: folder.path });
      expect([code, stderr]).toEqual([3, expect.stringContaining("store/corrupt")]);
      expect(stderr).not.toContain("bug in mcpvals");
    });
  },
);
