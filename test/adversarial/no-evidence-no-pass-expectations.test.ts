import { describe, expect, it } from "vitest";
import { checkExpectedResult } from "../../src/expect/tool-result.ts";
import { checkJson, checkText, leavesNothing } from "../../src/expect/expectations.ts";
import { McpvalsError } from "../../src/base/error.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { Json } from "../../src/base/json.ts";
import { readRpcMessage } from "../../src/extensions/host/json-rpc.ts";
import { load, problems } from "../formats/support/load.ts";
import { fixtureServer } from "../e2e/support.ts";
import { folderOf } from "../support/cli.ts";
import { command, type Step, taskOf } from "./task-verdicts.ts";

/** The problems of a task with these verify steps, or else its notes; paths are relative to `spec`. */
async function said(...verify: readonly Step[]): Promise<readonly string[]> {
  using folder = folderOf({
    "t.json": taskOf("t", { servers: { s: fixtureServer() }, verify }),
    "own.txt": "x",
  });
  const shorten = (text: string): string => text.replace(/^t\.json:[\d:]+ /, "").replace(/^spec\./, "");
  const { notes } = await load(folder.path, { source: "t.json" }).catch(async (error: unknown) => {
    if (!(error instanceof McpvalsError)) throw error;
    return { notes: await problems(folder.path, { source: "t.json" }) };
  });
  return notes.map((note) => shorten(note.replace(/^t\.json:[\d:]+: /, "")));
}

const containing = (text: string): string => expect.stringContaining(text) as string;
const mcp = (expected: object): Step => ({ mcp: { server: "s", tool: "echo", expect: expected } });
const json = (path: string, expected: object, ...ignorePaths: string[]): Step =>
  mcp({ json: { path, ...expected, ...(ignorePaths.length === 0 ? {} : { ignorePaths }) } });
const schemaOf = (schema: Json): Step => mcp({ schema });

// docs/tasks.md, "Steps".
describe("an expectation that could not fail is refused at load", () => {
  const ignored: Step[] = [
    json("$.a", { equals: { b: 1 } }, "$.*"),
    json("$.a", { equals: { b: 1 } }, "$"),
    json("$", { equals: { b: { c: 1 } } }, "$.b.*"),
    json("$", { equals: [1, 2] }, "$[*]"),
    json("$", { contains: { b: 1 } }, "$.*"),
    json("$", { contains: {} }),
  ];
  const texts: Step[] = [
    mcp({ text: { matches: ".*" } }),
    mcp({ text: { matches: ["a", "x*|y"] } }),
    { http: { url: "http://127.0.0.1", expect: { body: { matches: "(?s).*" } } } },
    { file: { path: "t.json", expect: { matches: "$" } } },
    command("test -d .", { expect: { stderr: { matches: ["x", "(x)?"] } } }),
    command("test -d .", { expect: { stdout: { matches: "^" } } }),
  ];
  it.each([...ignored, ...texts, schemaOf({})])("%j", async (step) => {
    expect(await said(step)).toEqual([expect.stringMatching(/^config\/checks-nothing /)]);
  });

  it.each<[object, string]>([
    [{ schema: { type: "object", requried: ["a"] } }, 'unknown keyword "requried"'],
    [{ schema: { type: "object", properties: { a: { typ: "string" } } } }, 'unknown keyword "typ"'],
    [{ schema: { type: "string", format: "emial" } }, 'no format is named "emial"'],
    [{ schema: true }, "schema"],
    [{ text: { contains: "" } }, "contains must not be empty"],
    [{ text: { matches: "" } }, "matches"],
    [{ text: {} }, "text"],
    [{ json: [] }, "json"],
  ])("and so is an invalid or empty expectation: %j", async (expected, message) => {
    expect((await said(mcp(expected))).join("\n")).toMatch(/^config\//);
    expect((await said(mcp(expected))).join("\n")).toContain(message);
  });

  const canFail: Step[] = [
    json("$", { equals: { b: 1, c: 2 } }, "$.b"),
    json("$", { equals: {} }, "$.at"),
    json("$", { matches: ".*" }),
    mcp({ text: { matches: ".+" } }),
    schemaOf({ additionalProperties: false }),
    schemaOf({ propertyNames: { pattern: "^a" } }),
    schemaOf({ not: { not: { type: "string" } } }),
    schemaOf({ type: ["string", "number", "boolean", "object", "array"] }),
    schemaOf({ if: { type: "string" }, then: { minLength: 1 } }),
    schemaOf({ $ref: "https://example.com/a" }),
    schemaOf({ properties: { a: { const: 0 } }, "x-note": 1 }),
  ];

  it("but an expectation that can fail is accepted", async () => {
    const all = (await Promise.all(canFail.map((step) => said(step)))).flat();
    expect(all.filter((text) => text.startsWith("config/"))).toEqual([]);
  });

  it.each<[Json, string | undefined]>([
    [{}, "expectedResult"],
    [{ $contains: {} }, "expectedResult.$contains"],
    [{ $equals: {} }, undefined],
    [{ a: {} }, undefined],
    ["", undefined],
    [[], undefined],
  ])("expectedResult %j", async (expectedResult, place) => {
    const tests = [{ name: "echo", expectedResult }];
    const source = { server: fixtureServer(), toolHealthSuites: [{ name: "s", tests }] };
    if (place === undefined) return expect(load(import.meta.dirname, { source })).resolves.toBeDefined();
    expect(await problems(import.meta.dirname, { source })).toEqual([
      `(config) config/checks-nothing toolHealthSuites[0].tests[0].${place}: every object contains {}, so it could not fail`,
    ]);
  });

  it.each([
    [{ text: { matches: ".*" } }, 'text.matches: ".*" is found in every text'],
    [
      { json: [{ path: "$", contains: {} }] },
      "json[0].contains: every object contains {}, so it could not fail",
    ],
    [
      { text: { json: [{ path: "$", contains: {} }] } },
      "text.json[0].contains: every object contains {}, so it could not fail",
    ],
    [{ schema: {} }, "schema accepts every value, so it could not fail"],
  ])("expect %j of a tool test", async (expected, message) => {
    const tests = [{ name: "echo", expect: expected }];
    const source = { server: fixtureServer(), toolHealthSuites: [{ name: "s", tests }] };
    expect(await problems(import.meta.dirname, { source })).toEqual([
      `(config) config/checks-nothing toolHealthSuites[0].tests[0].expect.${message}`,
    ]);
  });

  it.each<[object, boolean]>([
    [{ rubric: "It is polite." }, true],
    [{ contains: "hello" }, false],
  ])("%j with a judge whose passThreshold is 0", async (llm, isRefused) => {
    using folder = folderOf({
      "t.json": taskOf("t", { prompt: "Say hello.", verify: [{ allOf: [{ llm }] }] }),
      "mcp-eval.config.json": {
        server: fixtureServer(),
        tasks: ["t.json"],
        judge: { model: "m", passThreshold: 0 },
      },
    });
    if (!isRefused) return expect((await load(folder.path)).eval.tasks).toHaveLength(1);
    expect(await problems(folder.path)).toEqual([
      expect.stringMatching(
        /config\/checks-nothing the rubric of .* could not fail: the judge's passThreshold is 0$/,
      ),
    ]);
  });
});

// docs/tasks.md, "Steps".
describe("a comparison with nothing left to compare fails at run time too", () => {
  const message = "ignorePaths excludes everything that is expected, so that nothing is compared";

  it.each<[Json, Json, string[]]>([
    [{ a: 1 }, { a: 1 }, ["$.*"]],
    [{ a: 1 }, { a: 2 }, ["$.a"]],
    [[1], [2], ["$[0]"]],
    ["text", "text", ["$"]],
  ])("%j and %j without %j", (actual, expected, ignorePaths) => {
    for (const part of [{ equals: expected }, { contains: expected }])
      expect(checkJson("json", [{ path: "$", ...part, ignorePaths }], actual)).toMatchObject([
        { passed: false, message },
      ]);
  });

  it("and deep values are checked at every level", () => {
    const deep = Array.from({ length: 500 }).reduce<Json>((inner) => ({ a: inner }), 1);
    expect([leavesNothing(deep, ["$..a"]), leavesNothing(deep, ["$..b"])]).toEqual([true, false]);
  });
});

// docs/tasks.md, "Many tasks".
describe("assertions of a task set that assert nothing are refused", () => {
  async function found(assertions: object, apiVersion?: string): Promise<readonly string[]> {
    const agent = { type: "builtin.llm-agent", model: "openai:gpt-5" };
    const config = { agent, servers: { s: fixtureServer() }, taskSets: [{ path: "t.json", assertions }] };
    using folder = folderOf({
      "t.json": taskOf("t", { verify: [mcp({})] }),
      "eval.json": { kind: "Eval", ...(apiVersion === undefined ? {} : { apiVersion }), config },
    });
    if (apiVersion === undefined) return (await load(folder.path, { source: "eval.json" })).notes;
    return problems(folder.path, { source: "eval.json" });
  }

  it.each<[object, string]>([
    [{}, "assertions asserts nothing"],
    [{ minToolCalls: 0, noDuplicateCalls: false }, "assertions asserts nothing"],
    [{ maxToolCalls: 5, toolsNotUsed: [] }, "assertions.toolsNotUsed is empty, so it asserts nothing"],
    [
      { toolsUsed: [{ server: "s", tool: "" }] },
      "assertions.toolsUsed[0].tool is empty, as if it were not there",
    ],
  ])("%j, which is only a note in an older eval", async (assertions, message) => {
    const refused = await found(assertions, "mcp-eval/v1");
    expect(refused).toEqual([
      expect.stringMatching(/^eval\.json:\d+:\d+ config\/checks-nothing config\.taskSets\[0\]\./),
    ]);
    expect(refused[0]).toContain(message);
    expect(await found(assertions)).toEqual([containing(message)]);
  });

  it.each([
    ["toolsUsed", "tool"],
    ["requireAny", "tool"],
    ["toolsNotUsed", "tool"],
    ["resourcesRead", "uri"],
    ["resourcesNotRead", "uri"],
    ["promptsUsed", "prompt"],
    ["promptsNotUsed", "prompt"],
    ["skillsLoaded", "skill"],
  ])("and so is %s with a %s and a pattern, of which one match would be enough", async (kind, name) => {
    const server = kind.startsWith("skills") ? {} : { server: "s" };
    const pattern = { [`${name}Pattern`]: "^b" };
    const message = `assertions.${kind}[0] has ${name} and ${name}Pattern, of which only one would have to fit`;
    const both = { [kind]: [{ ...server, [name]: "a", ...pattern }] };
    expect((await found(both, "mcp-eval/v1")).join("\n")).toContain(message);
    if (kind === "toolsUsed") expect(await found(both)).toEqual([containing(message)]);
    const one = await found({ [kind]: [{ ...server, ...pattern }] }, "mcp-eval/v1").catch(() => []);
    expect(one.join("\n")).not.toContain("only one");
  });
});

type Test = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];

const test0 = "toolHealthSuites[0].tests[0]";

async function notesOf(test: Partial<Test>, expectedState = "done"): Promise<readonly string[]> {
  const source: Config = {
    server: fixtureServer(),
    workflows: [{ name: "w", steps: [{ user: "Work", expectedState }] }],
    toolHealthSuites: [{ name: "s", tests: [{ name: "echo", ...test }] }],
  };
  return (await load(import.meta.dirname, { source })).notes;
}

// docs/guide.md, "Workflows" and "Tool tests".
describe("what is easily written in another way than it is meant is noted", () => {
  it.each<[Omit<Test, "name">, string]>([
    [
      { args: { message: "x", expectedResult: "y" } },
      "args.expectedResult is an argument of the tool, and nothing is expected there; expectedResult belongs beside args",
    ],
    [
      // oxlint-disable-next-line no-loss-of-precision
      { expectedResult: { id: [9007199254740993] } },
      "expectedResult.id[0]: 9007199254740992 cannot be distinguished from its neighbours; such numbers lose digits",
    ],
  ])("in a tool test: %j", async (test, note) => {
    expect(await notesOf(test)).toEqual([`${test0}.${note}`]);
  });

  it("in a task", async () => {
    const verify = [
      { mcp: { tool: "echo", args: { expect: { text: "no" }, id: 2 ** 60 } } },
      { mcp: { tool: "echo", expect: { json: { path: "$.id", equals: 2 ** 60 } } } },
    ];
    const digits =
      "1152921504606847000 cannot be distinguished from its neighbours; such numbers lose digits";
    expect(await said(...verify)).toEqual([
      "verify[0].mcp.args.expect is an argument of the tool, and nothing is expected there; expect belongs beside args",
      `verify[0].mcp.args.id: ${digits}`,
      `verify[1].mcp.expect.json.equals: ${digits}`,
    ]);
  });
});

// docs/guide.md, "Tool tests".
describe("an expected number does not match another number", () => {
  it.each<[Json, string, boolean]>([
    [0.0001, "0.00019", false],
    [-0.00005, "0.00005", false],
    [0.3333, "0.33333333", true],
    [0, "0.00001", false],
    ["5", "the sum is 5.", true],
    ["total: 5", "Total: 50", false],
  ])("%j by %j: %s", (expected, text, passed) => {
    const found = checkExpectedResult(expected, { content: [{ type: "text", text }] });
    const part = "only as a part of another number";
    expect(found.passed).toBe(passed);
    if (!passed && typeof expected === "string") expect(found.message).toContain(part);
  });
});

// docs/guide.md, "Tool tests", and docs/tasks.md, "Steps".
describe("JSON with a duplicate key never passes a check", () => {
  const ambiguous = '{"ok":false,"ok":true}';

  it.each([{ ok: true }, { ok: false }, {}, { $contains: { ok: true } }, { $equals: { ok: true } }])(
    "as the text of a result of which %j is expected",
    (expected) => {
      const result = { content: [{ type: "text", text: ambiguous }] };
      const message = containing('duplicate key "ok"');
      expect(checkExpectedResult(expected, result)).toMatchObject({ passed: false, message });
    },
  );

  it.each([
    { path: "$.ok", equals: true },
    { path: "$.ok", equals: false },
    { path: "$.other", exists: false },
  ])("as a text of which %j is expected", (expected) => {
    expect(checkText("body", { json: [expected] }, ambiguous)).toMatchObject([
      { passed: false, message: 'it is not JSON: duplicate key "ok"' },
    ]);
  });

  it("as the answer of an extension", () => {
    const line = '{"jsonrpc":"2.0","id":1,"result":{"success":false,"success":true}}';
    expect(readRpcMessage(Buffer.from(line))).toMatchObject({ kind: "broken" });
  });
});
