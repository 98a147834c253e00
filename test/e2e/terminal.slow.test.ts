import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { folderOf, root, runCli } from "../support/cli.ts";

const program = join(root, "test/fixtures/servers/notes-server.mjs");
const config = "mcp-eval.config.yaml";
const notes = { command: process.execPath, args: [program] };
const clientFile = { ".mcp.json": { mcpServers: { notes } } };

/** The file of VS Code whose server needs a text and a secret. */
const ofVsCode = {
  ".vscode/mcp.json": {
    inputs: [
      { id: "folder", type: "promptString", description: "Folder of the notes" },
      { id: "token", type: "promptString", description: "Token", password: true },
    ],
    servers: {
      notes: { ...notes, env: { NOTES_DIR: "${input:folder}", NOTES_TOKEN: "${input:token}" } },
    },
  },
};

const env = { TERM: "xterm", NO_COLOR: "1" };

it("init asks before it starts the servers, and does nothing after a no", async () => {
  using folder = folderOf(clientFile);
  const { code, stdout } = await runCli(["init"], {
    cwd: folder.path,
    env,
    typed: [["[Y/n] ", "n\r"]],
  });
  expect([code, stdout]).toEqual([
    0,
    expect.stringContaining("Start notes and call the tools that only read?"),
  ]);
  expect(stdout).not.toContain("Checking");
  expect(existsSync(join(folder.path, config))).toBe(false);
});

it("init asks for inputs of VS Code, and writes no answer down", async () => {
  using folder = folderOf(ofVsCode);
  const { code, stdout } = await runCli(["init"], {
    cwd: folder.path,
    env,
    typed: [
      ["[Y/n] ", "\r"],
      ["Folder of the notes (INPUT_FOLDER): ", "work\r"],
      ["Token (INPUT_TOKEN): ", "t0ken-4711\r"],
    ],
  });
  expect(code, stdout).toBe(0);
  expect(stdout).toMatch(/INPUT_FOLDER\): \S*work/);
  expect(stdout).toMatch(/Set these variables first: .*INPUT_FOLDER, INPUT_TOKEN/);
  expect(stdout).not.toContain("t0ken-4711");
  const text = readFileSync(join(folder.path, config), "utf8");
  expect(text).toContain("NOTES_TOKEN: ${INPUT_TOKEN}");
  expect(text).not.toContain("t0ken-4711");
});

it("an input that is not given ends the command", async () => {
  using folder = folderOf(ofVsCode);
  const { code, stdout } = await runCli(["tools"], {
    cwd: folder.path,
    env,
    typed: [["Folder of the notes (INPUT_FOLDER): ", "\u0004"]],
  });
  expect([code, stdout]).toEqual([130, expect.stringContaining("INPUT_FOLDER was not given")]);
});

it("Ctrl-C at a question ends mcpvals as Ctrl-C does elsewhere", async () => {
  using folder = folderOf(clientFile);
  const { code, stdout } = await runCli(["init"], { cwd: folder.path, env, typed: [["[Y/n] ", "\u0003"]] });
  expect([code, stdout]).toEqual([130, expect.stringContaining("the question was not answered")]);
  expect(stdout).not.toContain("bug");
});

it("errors and their hints are broken at words, under their indentation", async () => {
  using folder = folderOf({});
  const { code, stdout } = await runCli(["run"], { cwd: folder.path, env, typed: [] });
  const lines = stdout.split("\r\n");
  expect(code, stdout).toBe(2);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(80);
  const hint = lines.slice(lines.findIndex((line) => line.startsWith("  hint: ")));
  expect(hint.filter((line) => line !== "")).toEqual([
    "  hint: Write a first config with: npx mcpvals init. Or run inside a folder with",
    "  an mcp-eval.config file, or name one, or name tasks.",
  ]);
});

it("the marker of a code frame stands below its place", async () => {
  const tail = `# ${"x".repeat(100)}`;
  using folder = folderOf({
    [config]: `server: { transport: stdio, command: node, argz: [server.js] } ${tail}\n`,
  });
  const { stdout } = await runCli(["run"], { cwd: folder.path, env, typed: [] });
  const lines = stdout.split("\r\n");
  const at = lines.findIndex((line) => line.includes("^^^^"));
  expect(lines[at - 1]?.slice((lines[at] ?? "").indexOf("^"))).toMatch(/^argz:.*…$/);
});
