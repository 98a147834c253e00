import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, sep } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { type McpvalsError, renderError } from "../../src/base/error.ts";
import { folderOf } from "../support/cli.ts";
import { failure, failureIn, load, loadIn } from "./support/load.ts";

const head = "apiVersion: mcp-eval/v1\nkind: Task\n";
const spec = "spec:\n  prompt: p\n  verify:\n    - command: {run: 'test -d .'}\n";
const valid = `${head}metadata: {name: t}\n${spec}`;
const older = "kind: Task\nmetadata: {name: t}\nsteps:\n  prompt: {inline: p}\n  verify: {inline: 'true'}\n";
/** A bomb of aliases that would unfold to 9^8 values. */
const bomb = "abcdefgh"
  .split("")
  .map((letter, index) => {
    const before = "abcdefgh"[index - 1];
    const items = before === undefined ? "x" : `*${before}`;
    return `${letter}: &${letter} [${Array.from({ length: 9 }, () => items).join(", ")}]`;
  })
  .join("\n");
const many = (count: number, text: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => text(index)).join("\n");

/** An error as it is printed: brief, and without control characters. */
function printed(error: McpvalsError): string {
  const rendered = renderError(error);
  expect(rendered.length).toBeLessThan(100_000);
  // oxlint-disable-next-line no-control-regex -- that is what must not be there
  expect(rendered).not.toMatch(/[\u0000-\u0008\u000e-\u001f]/);
  return rendered;
}

describe("a hostile task is refused soon, in words, with its place", () => {
  it.each<readonly [name: string, text: string | Uint8Array, place: string, message: RegExp]>([
    ["a bomb of aliases", `${head}${bomb}`, "t.yaml:4:", /aliases that unfold to too much/],
    [
      "20,000 anchors with an alias each",
      `${head}x:\n${many(20_000, (i) => `- &a${i} x\n- *a${i}`)}`,
      "t.yaml:5:",
      /aliases that unfold/,
    ],
    ["10 MB of a string", `${head}x: ${"x".repeat(10_000_000)}`, "t.yaml", /larger than 512 KiB/],
    ["10,000 lists in one another", `${head}x: ${"[".repeat(10_000)}`, "t.yaml:3:", /nested too deeply/],
    [
      "400 lists in one another",
      `${valid}x: ${"[".repeat(400)}${"]".repeat(400)}`,
      "t.yaml:",
      /nested deeper than 200 levels/,
    ],
    [
      "40,000 keys, one of them twice",
      `${head}${many(40_000, (i) => `k${i}: 1`)}\nk0: 2`,
      "t.yaml:40003:1",
      /duplicate key "k0"/,
    ],
    ["tabs", `${head}metadata:\n\tname: t\n`, "t.yaml:4:1", /a tab is used as indentation/],
    ["50,000 tabs", `${head}${"\ta: 1\n".repeat(50_000)}`, "t.yaml:3:1", /a tab is used as indentation/],
    ["two documents", `${valid}---\n${valid}`, "t.yaml:8:", /more than one document/],
    ["NUL in a value", `${head}metadata: {name: "a\0b"}\n${spec}`, "t.yaml:3:18", /contain a NUL character/],
    [
      "no UTF-8",
      Buffer.concat([Buffer.from(`${head}metadata: {name: `), Buffer.from([0xc3, 0x28])]),
      "t.yaml:3:18",
      /is not UTF-8 text/,
    ],
  ])("%s", async (_, text, place, message) => {
    using folder = folderOf({});
    writeFileSync(join(folder.path, "t.yaml"), text);
    const error = await failure(folder.path, { source: "t.yaml" });
    const rendered = printed(error);
    expect(error.kind).toBe("usage");
    expect(rendered).toMatch(message);
    expect(rendered.startsWith(place)).toBe(true);
  });

  it.runIf(sep === "/")("a pipe among tasks is not a task", async () => {
    using folder = folderOf({ "tasks/t.yaml": valid });
    await promisify(execFile)("mkfifo", [join(folder.path, "tasks", "pipe.yaml")]);
    expect((await load(folder.path, { source: "tasks" })).eval.tasks).toHaveLength(1);
  });
});

describe("a hostile file beside tasks is refused soon, in words", () => {
  const unfolding = `a: &a [${"x,".repeat(20_000)}]\nb: [${"*a,".repeat(900)}]\n`;
  const evalHead = "kind: Eval\nconfig:\n  taskSets: [{ path: t.yaml }]\n";
  const withAgent = `${evalHead}  agent: { type: file, path: agent.yaml }\n`;
  const withServers = `${evalHead}  mcpConfigFile: mcp.yaml\n`;
  const agent = "kind: Agent\nmetadata: { name: a }\n";
  const servers = `${unfolding.replace("b: ", "mcpServers: { s: { command: x, more: ").trimEnd()}}}\n`;

  it.each<readonly [name: string, files: Readonly<Record<string, string>>, message: RegExp]>([
    ["an agent that unfolds", { "eval.yaml": withAgent, "agent.yaml": agent + unfolding }, /200000 values/],
    ["servers of 10 MB", { "eval.yaml": withServers, "mcp.yaml": "#".repeat(10_000_000) }, /larger than 512/],
    ["an Eval that unfolds", { "eval.yaml": evalHead + unfolding }, /the eval: more than 200000 values/],
    ["a bomb of an agent", { "eval.yaml": withAgent, "agent.yaml": agent + bomb }, /aliases that unfold/],
    ["servers that unfold", { "eval.yaml": withServers, "mcp.yaml": servers }, /200000 values/],
  ])("%s", async (_, files, message) => {
    const error = await failureIn({ "t.yaml": valid, ...files }, { source: "eval.yaml" });
    expect([error.kind, renderError(error)]).toEqual(["usage", expect.stringMatching(message)]);
  });
});

describe("what is only unusual is read", () => {
  it.each<readonly [name: string, text: string]>([
    ["a byte order mark", `\uFEFF${valid}`],
    ["an older form with a byte order mark", `\uFEFF${older}`],
    ["an older form with line ends of Windows", older.replaceAll("\n", "\r\n")],
  ])("%s", async (_, text) => {
    const { eval: spec, notes } = await loadIn({ "t.yaml": text }, { source: "t.yaml" });
    expect(spec.tasks.map((task) => task.name)).toEqual(["t"]);
    expect(notes).toEqual([]);
  });
});

describe("the older forms", () => {
  it("are read as YAML 1.1, but for its times and dates", async () => {
    const metadata = "metadata: {name: 12:30, parallel: yes, labels: {day: 2024-01-02}}";
    const [task] = (await loadIn({ "t.yaml": older.replace(/metadata.*/, metadata) }, { source: "t.yaml" }))
      .eval.tasks;
    expect(task).toMatchObject({
      name: "12:30",
      parallel: true,
      portable: { labels: { day: "2024-01-02" }, format: "script-form" },
    });
  });

  it("take the last of two keys and the first of several documents, and say so", async () => {
    const { eval: spec, notes } = await loadIn(
      { "t.yaml": `${older}metadata: {name: last}\n---\nkind: Task\n` },
      { source: "t.yaml" },
    );
    expect(spec.tasks[0]?.name).toBe("last");
    expect(spec.tasks[0]?.location).toMatchObject({ line: 6 });
    expect(notes).toEqual([
      't.yaml:6: duplicate key "metadata"; the last one counts',
      "t.yaml holds more than one document; only the first is read",
    ]);
  });
});

it.each<readonly [name: string, ending: string, text: string, code: string]>([
  ["10 MB of a list", "json", `[${"1,".repeat(5_000_000)}1]`, "config/unreadable"],
  ["10 MB of brackets", "json", "[".repeat(10_000_000), "config/unreadable"],
  [
    "4 MB of unknown keys",
    "json",
    `{${Array.from({ length: 300_000 }, (_, i) => `"k${i}":1`).join()}}`,
    "config/invalid-value",
  ],
  ["one key, many times", "json", `{${'"k":1,'.repeat(400_000)}"k":1}`, "config/syntax"],
  ["10,000 lists in one another", "json", "[".repeat(10_000) + "]".repeat(10_000), "config/syntax"],
  [
    "a long list, often",
    "yaml",
    `a: &a [${"x,".repeat(20_000)}]\nb: [${"*a,".repeat(900)}]`,
    "config/invalid-value",
  ],
  ["an alias of what is around it", "yaml", "a: &a [*a]", "config/unknown-key"],
  ["nothing but NUL", "yaml", "\0".repeat(1000), "config/invalid-value"],
])("%s (%s) is refused before the test times out, in words", async (_, ending, text, code) => {
  const error = await failureIn({ [`mcp-eval.config.${ending}`]: text });
  expect([error.kind, error.code]).toEqual(["usage", code]);
  printed(error);
});

it.runIf(sep === "/")("a pipe that nobody writes to is refused at once", async () => {
  using folder = folderOf({});
  const pipe = join(folder.path, "pipe.json");
  await promisify(execFile)("mkfifo", [pipe]);
  const error = await failure(folder.path, { source: pipe });
  expect(error.message).toBe("pipe.json cannot be read: it is not a regular file");
});

it("uses an anchor as often as a config needs", async () => {
  const tests = Array.from({ length: 300 }, (_, index) => `      - {name: t${index}, args: *args}`).join(
    "\n",
  );
  const text = `server: {transport: stdio, command: x}\ntoolHealthSuites:\n  - name: s\n    tests:\n      - {name: first, args: &args {a: 1}}\n${tests}\n`;
  const { tasks } = (await loadIn({ "mcp-eval.config.yaml": text })).eval;
  expect(tasks).toHaveLength(301);
  expect(tasks.at(-1)?.verify).toMatchObject([{ request: { args: { a: 1 } } }]);
});
