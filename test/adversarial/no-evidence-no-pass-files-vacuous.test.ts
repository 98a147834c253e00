import { describe, expect, it } from "vitest";
import { checkJson } from "../../src/core/checks/json-expectation.ts";
import { leavesNothing } from "../../src/core/formats/cannot-fail.ts";
import type { Json } from "../../src/core/formats/model.ts";
import { load, problems } from "../load/support/load.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf } from "../support/cli.ts";

/** What is said of a task with this one step. */
async function taskProblems(step: object): Promise<readonly string[]> {
  const spec = { servers: { s: fixtureServer() }, verify: [step] };
  const document = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "t" }, spec };
  using folder = folderOf({ "t.json": document });
  try {
    await load(folder.path, { source: "t.json" });
    return [];
  } catch {
    return (await problems(folder.path, { source: "t.json" })).map((each) => each.replace(/^\S+ /, ""));
  }
}

const mcp = (expected: object): object => ({ mcp: { server: "s", tool: "echo", expect: expected } });
const json = (expected: object): object => mcp({ json: expected });

// docs/tasks.md, "Steps": an expectation that could not fail is refused.
describe("an expectation that could not fail is refused at load", () => {
  it.each<[string, object]>([
    ["ignorePaths of all members", json({ path: "$.a", equals: { b: 1 }, ignorePaths: ["$.*"] })],
    ["ignorePaths of all places", json({ path: "$.a", equals: { b: { c: 1 } }, ignorePaths: ["$..*"] })],
    ["ignorePaths of the value itself", json({ path: "$.a", equals: { b: 1 }, ignorePaths: ["$"] })],
    [
      "ignorePaths of each member by name",
      json({ path: "$", equals: { b: 1, c: 2 }, ignorePaths: ["$.b", "$['c']"] }),
    ],
    [
      "ignorePaths of all that is inside",
      json({ path: "$", equals: { b: { c: 1 } }, ignorePaths: ["$.b.*"] }),
    ],
    ["ignorePaths of all entries", json({ path: "$", equals: [1, 2], ignorePaths: ["$[*]"] })],
    [
      "ignorePaths by a filter that takes all",
      json({ path: "$", equals: [1, 2], ignorePaths: ["$[?@ != 'x']"] }),
    ],
    ["ignorePaths of all that is contained", json({ path: "$", contains: { b: 1 }, ignorePaths: ["$.*"] })],
    ["ignorePaths that leave of any object nothing", json({ path: "$", equals: {}, ignorePaths: ["$.*"] })],
    ["ignorePaths that leave of any list nothing", json({ path: "$", equals: [], ignorePaths: ["$[*]"] })],
    ["an object without members to contain", json({ path: "$", contains: {} })],
    ["a pattern that is in every text", mcp({ text: { matches: ".*" } })],
    ["a pattern with alternatives", mcp({ text: { matches: ["a", "x*|y"] } })],
    ["a pattern of a body", { http: { url: "http://127.0.0.1", expect: { body: { matches: "(?s).*" } } } }],
    ["a pattern of an output", { command: { run: "test -d .", expect: { stdout: { matches: "^" } } } }],
    ["a judge's input that is always the same", { llm: { contains: "42", input: "agent.output" } }],
    ["an empty schema", mcp({ schema: {} })],
    ["a schema of annotations", mcp({ schema: { title: "a", $comment: "b" } })],
    [
      "a schema of empty ones",
      mcp({ schema: { properties: { a: {} }, allOf: [true], required: [], minLength: 0 } }),
    ],
    ["a schema with one open choice", mcp({ schema: { oneOf: [{}] } })],
    ["a schema that denies what denies nothing", mcp({ schema: { not: { not: {} } } })],
    [
      "a schema that denies what denies what denies",
      mcp({ schema: { not: { not: { not: { not: true } } } } }),
    ],
    ["a schema that contains none of anything", mcp({ schema: { contains: {}, minContains: 0 } })],
    ["a schema that contains none of something", mcp({ schema: { contains: { const: 1 }, minContains: 0 } })],
    ["a limit of what is not contained", mcp({ schema: { minContains: 2 } })],
    [
      "a schema of all types",
      mcp({ schema: { type: ["string", "number", "boolean", "object", "array", "null"] } }),
    ],
    [
      "a schema of all types, one by one",
      mcp({
        schema: {
          anyOf: [
            { type: ["string", "number"] },
            { type: ["boolean", "object"] },
            { type: ["array", "null"] },
          ],
        },
      }),
    ],
    ["a schema with a pattern for every text", mcp({ schema: { pattern: ".*" } })],
    ["a schema with an empty pattern", mcp({ schema: { pattern: "" } })],
    ["a schema of any names", mcp({ schema: { propertyNames: { pattern: "x*" } } })],
    ["a schema by a reference to nothing", mcp({ schema: { $ref: "#/$defs/a", $defs: { a: {} } } })],
    ["a schema by a reference to itself", mcp({ schema: { $ref: "#" } })],
    ["a schema with then but no if", mcp({ schema: { then: { type: "string" } } })],
    ["a schema with an open alternative", mcp({ schema: { anyOf: [{ type: "object" }, {}] } })],
  ])("%s", async (_, step) => {
    expect(await taskProblems(step)).toEqual([expect.stringMatching(/^config\/checks-nothing /)]);
  });

  it.each<[string, object, string]>([
    ["a keyword", mcp({ schema: { type: "object", requried: ["a"] } }), 'unknown keyword "requried"'],
    [
      "a keyword inside",
      mcp({ schema: { type: "object", properties: { a: { typ: "string" } } } }),
      'unknown keyword "typ"',
    ],
    ["a format", mcp({ schema: { type: "string", format: "emial" } }), 'no format is named "emial"'],
  ])("a schema with %s that does not exist", async (_, step, message) => {
    expect(await taskProblems(step)).toEqual([expect.stringContaining(message)]);
  });

  it.each<[string, object]>([
    ["text: ''", mcp({ text: { contains: "" } })],
    ["no text", mcp({ text: {} })],
    ["no path", mcp({ json: {} })],
    ["no expectation of JSON", mcp({ json: [] })],
    ["schema: true", mcp({ schema: true })],
    ["an empty pattern", mcp({ text: { matches: "" } })],
  ])("%s", async (_, step) => {
    expect(await taskProblems(step)).not.toEqual([]);
  });

  it.each<[string, object]>([
    ["what is left", json({ path: "$", equals: { b: 1, c: 2 }, ignorePaths: ["$.b"] })],
    ["an empty list that is left", json({ path: "$", equals: { b: 1, c: [] }, ignorePaths: ["$.b"] })],
    ["one entry that is left", json({ path: "$", equals: [1, 2], ignorePaths: ["$[0]"] })],
    ["an empty object but for a member", json({ path: "$", equals: {}, ignorePaths: ["$.at"] })],
    ["a text", json({ path: "$", equals: "a", ignorePaths: ["$.*"] })],
    ["a pattern for what is not empty", mcp({ text: { matches: ".+" } })],
    ["a pattern for nothing", mcp({ text: { matches: "^$" } })],
    ["a pattern for any text in JSON", json({ path: "$", matches: ".*" })],
    ["a schema of a type", mcp({ schema: { type: "object" } })],
    ["a schema of what is inside", mcp({ schema: { properties: { a: { const: 0 } }, "x-note": 1 } })],
    ["a schema of false", mcp({ schema: { additionalProperties: false } })],
    ["a schema that denies", mcp({ schema: { not: { type: "string" } } })],
    ["a schema that denies a denial", mcp({ schema: { not: { not: { type: "string" } } } })],
    ["a schema of most types", mcp({ schema: { type: ["string", "number", "boolean", "object", "array"] } })],
    ["a schema with what is contained", mcp({ schema: { type: "array", contains: {} } })],
    ["a schema with if and then", mcp({ schema: { if: { type: "string" }, then: { minLength: 1 } } })],
    ["a schema by reference to elsewhere", mcp({ schema: { $ref: "https://example.com/a" } })],
    ["a schema by reference", mcp({ schema: { $ref: "#/$defs/a", $defs: { a: { enum: [1] } } } })],
  ])("but not %s", async (_, step) => {
    expect(await taskProblems(step)).toEqual([]);
  });

  it.each<[object, readonly string[]]>([
    [
      { minLength: 3 },
      ["schema has no type, so that every value that is not of type string fits it; add type: string"],
    ],
    [
      { properties: { a: { minimum: 1 } }, required: ["a"] },
      [
        "schema has no type, so that every value that is not of type object",
        "schema.properties.a has no type",
      ],
    ],
    [{ type: "array", items: { required: ["a"] } }, ["schema.items has no type"]],
    [
      { type: "object", properties: { sum: { const: 5 } } },
      ["schema requires none of its properties, so that {} fits it; name them in required"],
    ],
    [{ type: "object", properties: { sum: { const: 5 }, a: { type: "string" } }, required: ["sum"] }, []],
    [{ const: 5 }, []],
    [{ minLength: 3, minimum: 3 }, []],
  ])("but a schema %j is noted for what else fits it", async (schema, notes) => {
    const spec = { servers: { s: fixtureServer() }, verify: [mcp({ schema })] };
    const document = { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name: "t" }, spec };
    using folder = folderOf({ "t.json": document });
    const found = (await load(folder.path, { source: "t.json" })).notes;
    expect(found).toEqual(notes.map((note) => expect.stringContaining(note) as string));
  });

  it.each<[Json, string | undefined]>([
    [{}, "expectedResult"],
    [{ $contains: {} }, "expectedResult.$contains"],
    [{ $equals: {} }, undefined],
    [{ a: {} }, undefined],
    ["", undefined],
    [[], undefined],
  ])("expectedResult %j", async (expectedResult, place) => {
    const source = {
      server: fixtureServer(),
      toolHealthSuites: [{ name: "s", tests: [{ name: "echo", expectedResult }] }],
    };
    if (place === undefined) return expect(load(import.meta.dirname, { source })).resolves.toBeDefined();
    return expect(await problems(import.meta.dirname, { source })).toEqual([
      `(config) config/checks-nothing toolHealthSuites[0].tests[0].${place}: every object contains {}, so it could not fail`,
    ]);
  });
});

// docs/tasks.md, "Steps": a comparison with nothing left to compare does not pass.
describe("a comparison with nothing left to compare does not pass, also when only the run tells", () => {
  const message = "ignorePaths leaves out all that is expected, so that nothing is left to compare";

  it.each<[Json, Json, string[]]>([
    [{ a: 1 }, { a: 1 }, ["$.*"]],
    [{ a: 1 }, { a: 2 }, ["$.a"]],
    [{ a: { b: 1 } }, { a: { b: 2 } }, ["$.a.b"]],
    [[1], [2], ["$[0]"]],
    [{ a: 1 }, {}, ["$.*"]],
    ["text", "text", ["$"]],
  ])("%j and %j without %j", (actual, expected, ignorePaths) => {
    for (const part of [{ equals: expected }, { contains: expected }])
      expect(checkJson("json", [{ path: "$", ...part, ignorePaths }], actual)).toMatchObject([
        { passed: false, message },
      ]);
  });

  it("and a deep value is looked at to its ground", () => {
    const deep = Array.from({ length: 500 }).reduce<Json>((inner) => ({ a: inner }), 1);
    expect(leavesNothing(deep, ["$..a"])).toBe(true);
    expect(leavesNothing(deep, ["$..b"])).toBe(false);
  });
});

// docs/tasks.md, "Many tasks": assertions that say nothing are refused.
describe("assertions of a task set that say nothing are refused", () => {
  async function found(assertions: object, apiVersion?: string): Promise<readonly string[]> {
    const task = {
      kind: "Task",
      apiVersion: "mcp-eval/v1",
      metadata: { name: "t" },
      spec: { verify: [mcp({})] },
    };
    const agent = { type: "builtin.llm-agent", model: "openai:gpt-5" };
    const config = { agent, servers: { s: fixtureServer() }, taskSets: [{ path: "t.json", assertions }] };
    using folder = folderOf({
      "t.json": task,
      "eval.json": { kind: "Eval", ...(apiVersion === undefined ? {} : { apiVersion }), config },
    });
    if (apiVersion === undefined) return (await load(folder.path, { source: "eval.json" })).notes;
    return problems(folder.path, { source: "eval.json" });
  }

  it.each<[object, string]>([
    [{}, "assertions asserts nothing"],
    [{ toolsUsed: [] }, "assertions asserts nothing"],
    [{ minToolCalls: 0, noDuplicateCalls: false }, "assertions asserts nothing"],
    [{ maxToolCalls: 5, toolsNotUsed: [] }, "assertions.toolsNotUsed is empty, so it asserts nothing"],
    [
      { toolsUsed: [{ server: "s", tool: "" }] },
      "assertions.toolsUsed[0].tool is empty, as if it were not there",
    ],
  ])("%j", async (assertions, message) => {
    expect(await found(assertions, "mcp-eval/v1")).toEqual([
      expect.stringMatching(/^eval\.json:\d+:\d+ config\/checks-nothing config\.taskSets\[0\]\./),
    ]);
    expect((await found(assertions, "mcp-eval/v1"))[0]).toContain(message);
    expect(await found(assertions)).toEqual([expect.stringContaining(message)]);
  });

  it.each<[string, readonly string[]]>([
    ["toolsUsed", ["tool", "toolPattern"]],
    ["requireAny", ["tool", "toolPattern"]],
    ["toolsNotUsed", ["tool", "toolPattern"]],
    ["resourcesRead", ["uri", "uriPattern"]],
    ["resourcesNotRead", ["uri", "uriPattern"]],
    ["promptsUsed", ["prompt", "promptPattern"]],
    ["promptsNotUsed", ["prompt", "promptPattern"]],
    ["skillsLoaded", ["skill", "skillPattern"]],
  ])(
    "and so is %s with a name and a pattern, since one of them would do",
    async (kind, [name = "", pattern = ""]) => {
      const server = kind.startsWith("skills") ? {} : { server: "s" };
      const message = `assertions.${kind}[0] has ${name} and ${pattern}, of which only one would have to fit`;
      const both = { [kind]: [{ ...server, [name]: "a", [pattern]: "^b" }] };
      expect((await found(both, "mcp-eval/v1")).join("\n")).toContain(message);
      if (kind === "toolsUsed") expect(await found(both)).toEqual([expect.stringContaining(message)]);
      const one = { [kind]: [{ ...server, [pattern]: "^b" }] };
      expect((await found(one, "mcp-eval/v1").catch(() => [])).join("\n")).not.toContain("only one");
    },
  );
});
