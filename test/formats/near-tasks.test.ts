import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { folderOf } from "../support/cli.ts";
import { failure, failureIn, load, loadIn, problems, problemsIn, task } from "./support/load.ts";

describe("files that are not quite tasks", () => {
  const withoutKind = task("x").replace("kind: Task\n", "");

  it("are noted beside tasks, and manifests are not", async () => {
    using folder = folderOf({
      "t/a.yaml": task("a"),
      "t/agent.yaml": "kind: Agent\nmetadata: { name: x }\n",
      "t/config/mcp-eval.config.yaml": "workflows: []\n",
      "t/data.yaml": "prompt: a\nverify: b\nspec: { replicas: 1 }\n",
      "t/eval.yaml": "kind: Eval\nconfig: {}\n",
      "t/exported.json": { schema: "mcpvals.task/1", prompt: [], verify: [] },
      "t/legacy.yaml": "metadata: { name: l }\nsteps: { prompt: { inline: p }, verify: { inline: x } }\n",
      "t/manifest.yaml": "apiVersion: apps/v1\nkind: Deployment\nspec: { verify: 1 }\n",
      "t/several.yaml": "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n",
      "t/tekton.yaml": "apiVersion: tekton.dev/v1\nkind: Tasks\n",
      "t/x.yaml": withoutKind,
    });
    const noKind = "has no kind, so it is not taken as a task; add kind: Task";
    const expected = [
      `${join("t", "legacy.yaml")} ${noKind}`,
      `${join("t", "x.yaml")} ${noKind}`,
      `${join("t", "config/mcp-eval.config.yaml")} is a config; run it by itself`,
      `${join("t", "eval.yaml")} is an Eval; run it by itself`,
      `${join("t", "exported.json")} is an exported task; run the file that it was made from`,
    ];
    for (const source of ["t", "t/**/*.{yaml,json}"]) {
      const { notes, eval: spec } = await load(folder.path, { source });
      expect(spec.tasks.map(({ name }) => name)).toEqual(["a"]);
      expect(notes).toEqual(expected);
    }
  });

  it("are named where there is no task", async () => {
    const { details } = await failureIn(
      { "t/x.yaml": withoutKind, "t/y.yaml": "kind: Eval\n" },
      { source: "t" },
    );
    expect(details.diagnostics?.[0]?.hint).toMatch(
      /^t.x\.yaml has no kind, .*; t.y\.yaml is an Eval; run it by itself\. A task is a \.yaml/,
    );
  });

  it.each([
    ["a kind that is nearly Task", "kind: Taks\n", "1:7"],
    ["a kind in small letters", "metadata: {name: x}\nkind: task\n", "2:7"],
  ])("are refused with %s", async (_, text, place) => {
    const file = join("t", "b.yaml");
    expect(await problemsIn({ "t/a.yaml": task("a"), "t/b.yaml": text }, { source: "t" })).toEqual([
      `${file}:${place} config/invalid-value ${file} has an unknown kind`,
    ]);
  });

  it("are refused when they are exported tasks", async () => {
    const error = await failureIn(
      { "t.json": { schema: "mcpvals.task/1", name: "a" } },
      { source: "t.json" },
    );
    expect([error.code, error.message, error.details.hint]).toEqual([
      "config/invalid-value",
      "t.json is an exported task, made for other tools to read",
      "Run the file that it was made from.",
    ]);
  });

  it("are refused when they are only the servers of an MCP client", async () => {
    using folder = folderOf({ "mcp.json": '{ "mcpServers": { "a": { "command": "node" } } }' });
    const { details } = await failure(folder.path, { source: "mcp.json" });
    expect(details.diagnostics).toMatchObject([
      {
        code: "config/nothing-to-run",
        message: "mcp.json has the servers of an MCP client, and nothing to run",
        location: { file: "mcp.json", line: 1, column: 3 },
        hint: "See what is wrong with them: npx mcpvals check mcp.json. Or pass it along with tasks or an Eval: npx mcpvals run TASKS --mcp-config mcp.json. In a config its table is servers.",
      },
    ]);
    using config = folderOf({ "c.json": { mcpServers: { a: { command: "node" } }, workflows: [] } });
    expect(await problems(config.path, { source: "c.json" })).toContainEqual(
      expect.stringContaining('unknown key "mcpServers"'),
    );
  });
});

describe("slips of YAML", () => {
  it.each([
    "file: { path: {workspace}/a, expect: {} }",
    "http: { url: http://x, headers: { a: {env.X} b } }",
  ])("%s", async (step) => {
    const { details } = await failureIn({ "a.yaml": `${task("a")}    - ${step}\n` }, { source: "a.yaml" });
    expect(details.diagnostics?.map(({ code, hint }) => [code, hint])).toEqual([
      ["config/syntax", "A value that begins with { has to be in quotes."],
    ]);
  });

  it("that make an argument null are noted with their places", async () => {
    const spec = `    - mcp: { tool: t, args: { query: SELECT id, name } }
    - mcp:
        tool: t
        args: { path: {workspace}, none: null, tilde: ~, list: [null] }
  solution:
    - foreach: { var: x, in: [1], steps: [{ mcp: { tool: t, args: { a, b: 1 } } }] }
`;
    const { notes } = await loadIn({ "a.yaml": task("a", { spec }) }, { source: "a.yaml" });
    const why = "is null: a text with a comma, or with braces, has to be in quotes";
    expect(notes).toEqual([
      `a.yaml:9: spec.verify[1].mcp.args.name ${why}`,
      `a.yaml:12: spec.verify[2].mcp.args.path.workspace ${why}`,
      `a.yaml:14: spec.solution[0].foreach.steps[0].mcp.args.a ${why}`,
    ]);
  });
});

describe("notes of tasks", () => {
  it("have the line of the text that they are about", async () => {
    const spec = "  cleanup:\n    - command:\n        run: |\n          echo a\n          echo {wrksapc}\n";
    const { notes } = await loadIn({ "t/a.yaml": task("a", { spec }) }, { source: "t" });
    expect(notes).toEqual([
      `${join("t", "a.yaml")}:13: spec.cleanup[0].command.run: {wrksapc} is taken as text: nothing is named wrksapc here; did you mean {workspace}?`,
    ]);
  });
});
