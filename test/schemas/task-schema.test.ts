import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import {
  check,
  filesOf,
  parse,
  problemsOf,
  taskDocument,
  valid,
} from "../support/task-file.ts";
import { isJsonObject, type JsonObject } from "../../src/base/json.ts";
import { stepTypes } from "../../src/model/step.ts";
import { taskJsonSchema, taskReference } from "../../scripts/schemas/task-reference.ts";

const validate = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false }).compile(
  taskJsonSchema(),
);
const files = filesOf({ "p.md": "do it", data: null, "s.sh": "test -d ." });
const common =
  'id: me, name: n, if: a == b, timeout: 5s, continueOnError: false, outputs: {o: "{random.id}"}, ' +
  "retry: {for: 10s, every: 100}, stableFor: 1s";
const text = "{equals: a, contains: [a], matches: b, json: {path: $.a, type: string, count: 1}}";
const one = "{command: {run: test -d .}}";

const good = parseYaml(`
- prompt: p
- {prompt: {file: p.md}, fixtures: [data], env: {A: b}, limits: {timeout: 5, cleanupTimeout: 1s}}
- {prompt: [a, {file: p.md}], solution: [{main.add: {args: {}}}, {say: x}]}
- servers: {a: {command: x}, b: {url: "http://x/{random.port}"}, main: null}
- servers: {a: {transport: stdio, command: x}, b: {transport: sse, url: http://x}}
- imports: [{package: npm:e@1, as: e}]
  setup: [{e.do.it: {any: [1], timeout: 1s}}, {extension: {package: e, action: x, args: {}}}]
- requires: [{command: git}, {judge: true}, {platform: linux}, {env: A}, {server: s}]
- verify: [{command: {run: x, ${common}, env: {A: b}, expect: {exitCode: 1, stdout: x, stderr: ${text}}}}]
- verify:
    - http: {url: http://x, ${common}, body: {json: null}, expect: {status: [2xx, 404], body: ${text}}}
    - http: {url: http://x, body: x, expect: {status: 200, headers: {a: b, c: ${text}}}}
- verify:
    - file: {path: a, ${common}, expect: {exists: true, mode: "0644", equals: a, matches: [b], json: {path: $.a}}}
    - file: {path: a, content: "", mode: 644}
    - file: {path: a, absent: true}
- verify: [{llm: {rubric: r, ${common}, input: "{agent.output}"}}, {llm: {contains: c, exact: e}}]
- verify: [{script: {file: s.sh, ${common}, args: [a], protocol: json}}, {script: {inline: x}}]
- verify:
    - mcp: {server: main, tool: a, args: {b: 1}, ${common}, expect: {isError: true, schema: {type: object}}}
    - mcp: {resource: a://b, expect: {text: a, json: [{path: a}, {path: b, exists: false}]}}
    - mcp: {prompt: p}
    - main.a: {expect: {json: {path: $, contains: {b: 1}, ignorePaths: [a]}}}
- verify:
    - foreach: {var: x, in: [1, null], steps: [${one}], ${common}}
    - foreach: {var: x, in: "{env.HOME}", steps: [${one}]}
    - anyOf: [${one}]
    - allOf: {steps: [${one}]}
    - not: ${one}
    - not: [${one}]
    - not: {main.a: {}}
    - group: {setup: [${one}], steps: [{not: [{anyOf: [${one}]}]}], cleanup: []}
`) as object[];

/** Steps that both the parser and the schema reject. */
const badSteps: readonly unknown[] = [
  { comand: { run: "x" } },
  {},
  { command: "ls" },
  { command: { run: "x", extra: 1 } },
  { command: { run: "x", retry: { every: "1s" } } },
  { command: { run: "x", expect: { stdout: {} } } },
  { command: { run: "x", id: "1" } },
  { http: { url: "http://x", expect: { status: 99 } } },
  { http: { url: "http://x", body: {} } },
  { file: { path: "a", content: "", absent: true } },
  { llm: {} },
  { script: { file: "a", inline: "b" } },
  { mcp: { tool: "a", resource: "b" } },
  { mcp: { tool: "a", expect: { json: { path: 1 } } } },
  { allOf: [{ anyOf: [{ nothing: 1 }] }] },
  { not: { command: { run: 5 } } },
];

const badParts: readonly object[] = [
  { verify: [] },
  { prompt: { inline: "x" } },
  { servers: { a: { command: "x", arg: [] } } },
  { mcp_servers: { a: { command: "x", arg: [] } } },
  { requires: [{ command: "a", env: "b" }] },
  { imports: [{ package: "x" }] },
  { solution: [{ command: { run: "x" } }] },
  { limits: { setup: "1s" } },
];

describe("the JSON Schema", () => {
  it.each(good)("accepts what the parser accepts: %j", (spec) => {
    const document = taskDocument(spec);
    expect(problemsOf(document, { files })).toEqual([]);
    expect(validate(document), JSON.stringify(validate.errors)).toBe(true);
  });

  it("accepts every field of metadata", () => {
    const metadata = {
      description: "d",
      difficulty: "easy",
      tags: ["a"],
      labels: { a: "b" },
      timeout: "5m",
      stateProbe: ["look.a"],
    };
    const document = {
      $schema: "./x.json",
      ...taskDocument({ setup: [{ command: { id: "look", run: "x", outputs: { a: "" } } }] }, metadata),
    };
    expect(valid(document).task.description).toBe("d");
    expect(validate(document), JSON.stringify(validate.errors)).toBe(true);
  });

  it.each([
    ...badSteps.map((step) => ({ verify: [check, step] })),
    ...badSteps.map((step) => ({ setup: [{ group: { steps: [check, step] } }] })),
    ...badParts,
  ])("refuses what the parser refuses: %j", (spec) => {
    const document = taskDocument({ prompt: "p", ...spec });
    expect(problemsOf(document)).not.toEqual([]);
    expect(validate(document)).toBe(false);
  });

  it("refuses an unknown key in every object", () => {
    const missed = good.flatMap((spec) => {
      const document = JSON.parse(JSON.stringify(taskDocument(spec))) as JsonObject;
      return [...withExtraKey(document)].filter((each) => validate(each) && !parse(each, { files }).ok);
    });
    expect(missed).toEqual([]);
  });
});

/**
 * Copies of the document, each with an unknown key in another object. Objects under a dotted key are skipped, since the
 * schema does not know the names of servers and reads the key as an operation with any arguments; so are JSON Schemas.
 */
function* withExtraKey(value: JsonObject): Generator<JsonObject> {
  yield { ...value, unknownKey: true };
  for (const [key, member] of Object.entries(value)) {
    if (key.includes(".") || key === "schema") continue;
    if (isJsonObject(member)) for (const each of withExtraKey(member)) yield { ...value, [key]: each };
    if (!Array.isArray(member)) continue;
    for (const [index, item] of member.entries() as ArrayIterator<[number, JsonObject]>) {
      if (!isJsonObject(item)) continue;
      for (const each of withExtraKey(item)) yield { ...value, [key]: member.with(index, each) };
    }
  }
}

describe("its content", () => {
  const schema = taskJsonSchema();
  const parts = [schema, ...Object.values(schema["$defs"] as JsonObject)] as JsonObject[];

  it("is a titled draft 2020-12 schema with an id", () => {
    expect(schema).toMatchObject({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      $id: "urn:mcpvals:task",
      title: "mcpvals task",
    });
    expect(JSON.stringify(schema)).not.toContain("defaultText");
  });

  it("describes every field", () => {
    const fields = parts.flatMap((each) => Object.entries((each["properties"] ?? {}) as JsonObject));
    expect(fields.length).toBeGreaterThan(200);
    const undescribed = fields.filter(([, field]) => !("description" in (field as object))).map(([name]) => name);
    expect(undescribed).toEqual([]);
  });

  it("has a title and a description for every part", () => {
    for (const part of parts) {
      expect(part["title"]).toEqual(expect.any(String));
      expect(part["description"]).toEqual(expect.any(String));
    }
  });

  it("has a definition for each step type, referenced from Step", () => {
    const step = (schema["$defs"] as Record<string, JsonObject>)["Step"];
    expect(Object.keys(step?.["properties"] as JsonObject)).toEqual(stepTypes);
  });
});

describe("the reference page", () => {
  const page = taskReference();

  const rowsUnder = (title: unknown): string[] => {
    const [, rest = ""] = page.split(`\n## ${typeof title === "string" ? title : ""}\n`);
    const [section = ""] = rest.split("\n## ");
    return [...section.matchAll(/^\| `([^`]+)`/gm)].map(([, key = ""]) => key);
  };

  it("has one table row for every field; common fields of steps appear once", () => {
    const common = rowsUnder("Fields of every step");
    expect(common).toEqual(["id", "name", "if", "continueOnError", "outputs", "retry", "stableFor"]);
    // The page of graders has their settings.
    const schema = taskJsonSchema({ defaultTexts: true });
    const parts = Object.values(schema["$defs"] as JsonObject) as JsonObject[];
    for (const part of [{ ...schema, title: "The file" }, ...parts]) {
      const properties = (part["properties"] ?? {}) as JsonObject;
      const isStep = properties["stableFor"] !== undefined;
      const own = Object.keys(properties).filter((key) => !isStep || !common.includes(key));
      expect(rowsUnder(part["title"]), JSON.stringify(part["title"])).toEqual(own);
    }
  });

  it("has an example that is a valid task", () => {
    const [, yaml = ""] = page.split("```yaml\n");
    const document: unknown = parseYaml(yaml.split("```")[0] ?? "");
    expect(problemsOf(document)).toEqual([]);
    expect(validate(document)).toBe(true);
  });

  it("has a name for every type, a description for every field and a heading for every link", () => {
    expect(page).not.toMatch(/undefined|\[object|\(#\)|\|\s*\|$/m);
    const anchorOf = (title: string): string =>
      title
        .toLowerCase()
        .replaceAll(/[^\w\s-]/g, "")
        .replaceAll(/\s/g, "-");
    const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, title = ""]) => anchorOf(title));
    const links = [...page.matchAll(/\(#([^)]+)\)/g)].map(([, target]) => target);
    expect(links.filter((target) => !headings.includes(target ?? ""))).toEqual([]);
    expect(new Set(headings).size).toBe(headings.length);
  });

  it.each([
    "| `timeout` | duration | `60s` |",
    "| `timeout` | duration | `300s` |",
    "| `status` | whole number, 100 to 599 or string or list of whole number, 100 to 599 or string | `2xx` |",
    "| `mode` | file mode | `0644` |",
    "| `every` | duration | `1s` |",
    "| `cleanupTimeout` | duration | `1m` |",
    "| `steps` | list of [Step](#step) | **required** |",
    "| `servers` | object: name to [Server](#server) or [Server overlay](#server-overlay) or `null` | `{}` |",
    '| `transport` | `"stdio"` | implied by `command` |',
  ])("shows %s", (row) => {
    expect(page).toContain(row);
  });
});

it("parses or rejects any JSON without throwing", () => {
  const steps = fc.letrec((tie) => ({
    step: fc.oneof(
      { maxDepth: 3 },
      fc.jsonValue({ maxDepth: 2 }),
      fc.dictionary(
        fc.constantFrom(
          "command",
          "http",
          "file",
          "not",
          "anyOf",
          "group",
          "foreach",
          "main.x",
          "mcp",
          "x.y",
        ),
        fc.oneof(fc.jsonValue({ maxDepth: 2 }), tie("body")),
        { maxKeys: 2 },
      ),
    ),
    body: fc.dictionary(
      fc.constantFrom("run", "url", "path", "steps", "expect", "id", "outputs", "setup", "var", "in", "args"),
      fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.array(tie("step"), { maxLength: 3 })),
    ),
  }));
  const list = fc.oneof(fc.array(steps.step, { maxLength: 3 }), fc.jsonValue({ maxDepth: 1 }));
  const spec = fc.record({ setup: list, verify: list, cleanup: list, solution: list }, { requiredKeys: [] });
  fc.assert(
    fc.property(fc.oneof(spec, fc.jsonValue()), (value) => {
      const parsed = parse({ ...taskDocument(), spec: value });
      expect(parsed.ok || parsed.diagnostics.length > 0).toBe(true);
    }),
    { numRuns: 300 },
  );
});
