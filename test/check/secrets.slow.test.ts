import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { check } from "../../src/check.ts";
import { serializeError } from "../../src/base/error.ts";
import { folderOf, runHere } from "../support/cli.ts";

const secret = "tok-4711-lighthouse";

/** A server that repeats the variable TOKEN wherever it can; with an argument it ends at once. */
const program = `
import { createInterface } from "node:readline";
const { TOKEN } = process.env;
if (process.argv[2] === "ends") { console.error("cannot log in with " + TOKEN); process.exit(1); }
const tool = { name: "word", description: "Says " + TOKEN, inputSchema: { type: "object" }, annotations: { readOnlyHint: true } };
const results = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion: protocolVersion < "2024" ? "2025-11-25" : protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "for " + TOKEN, version: "1.0.0" },
    instructions: "Log in with " + TOKEN,
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": ({ name }) => name === "word" && { content: [{ type: "text", text: TOKEN }] },
};
createInterface({ input: process.stdin }).on("line", (line) => {
  let message = {};
  try { message = JSON.parse(line); } catch {}
  const { id = null, method, params = {} } = message;
  if (method !== undefined && message.id === undefined) return;
  const result = results[method]?.(params);
  const error = { code: -32601, message: "no " + TOKEN };
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, ...(result ? { result } : { error }) }) + "\\n");
});
`;

const command = ["-e", `TOKEN=${secret}`, "--", process.execPath, "server.mjs"];

it.each<readonly [name: string, code: number, flags: readonly string[], words: readonly string[]]>([
  ["check", 0, [], []],
  ["check", 0, ["--reporter", "markdown"], []],
  ["check", 0, ["--snapshot", "snapshot.json", "--update"], []],
  ["tools", 0, [], []],
  ["tools", 0, ["--json"], []],
  ["check", 3, [], ["ends"]],
  ["tools", 3, [], ["ends"]],
  ["call", 3, ["word"], ["ends"]],
  ["init", 3, ["--yes"], ["ends"]],
])(
  "%s writes no given secret that a server repeats: exit code %i, %j %j",
  async (name, code, flags, words) => {
    using folder = folderOf({ "server.mjs": program });
    const outcome = await runHere([name, ...flags, ...command, ...words], { cwd: folder.path });
    expect(outcome.code, outcome.stderr).toBe(code);
    const shown = outcome.stdout + outcome.stderr;
    expect(shown).not.toContain(secret);
    expect(shown).toContain("secret:TOKEN");
    for (const file of filesIn(folder.path)) expect(readFileSync(file, "utf8"), file).not.toContain(secret);
  },
);

function filesIn(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

it("throws no error of the library that has a secret", async () => {
  using folder = folderOf({ "server.mjs": program });
  const words = [process.execPath, "server.mjs", "ends"];
  const error: unknown = await check(words, { cwd: folder.path, env: { TOKEN: secret } }).catch(
    (thrown) => thrown,
  );
  expect(error).toMatchObject({ code: "server/exited" });
  expect(JSON.stringify(serializeError(error))).not.toContain(secret);
});

it("compares with a snapshot that has marks in the place of secrets", async () => {
  using folder = folderOf({ "server.mjs": program });
  const codeOf = async (...flags: readonly string[]): Promise<number | null> =>
    (await runHere(["check", "--snapshot", "snapshot.json", ...flags, ...command], { cwd: folder.path }))
      .code;
  expect(await codeOf("--update")).toBe(0);
  expect(await codeOf()).toBe(0);
});

it.each([
  [["check", "--header", secret, "http://127.0.0.1:1/mcp"], /--header: its value cannot be read/],
  [["check", "-e", secret, "http://127.0.0.1:1/mcp"], /--env: its value cannot be read/],
  [["check", "--header", "Authorization:", "Bearer", secret, "http://127.0.0.1:1/mcp"], /two targets/],
  [["check", "--bearer-env", secret, "http://127.0.0.1:1/mcp"], /no variable of this name is set/],
  [["check", `--headers=${secret}`, "http://127.0.0.1:1/mcp"], /unknown option '--headers'/],
  [["tools", `ftp://a:${secret}@127.0.0.1/mcp`], /is not a URL of a server/],
])("%j is refused without a word of what may be a secret", async (args, message) => {
  using folder = folderOf({});
  const { code, stderr } = await runHere(args, { cwd: folder.path });
  expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  expect(stderr).not.toContain(secret);
});
