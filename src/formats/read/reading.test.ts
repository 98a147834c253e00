import { maxFileDepth, maxFileValues, maxMemory } from "../../base/limits.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { formatKeyPath, valueAt } from "../../base/json.ts";
import {
  interpolate,
  jsonExcess,
  JsonMeter,
  parseStrictJson,
  previewJson,
  repeatedKey,
} from "../../base/read-json.ts";
import { readLeniently } from "../convert/lenient-reader.ts";
import { parseStrictYaml } from "../../base/parse-yaml.ts";

describe("parseStrictJson", () => {
  it("gives what JSON.parse gives", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value, undefined, 1);
        expect(parseStrictJson(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it.each([
    ['{"passed": false, "passed": true}', "passed"],
    ['{"p\\u0061ssed": false, "passed": true}', "passed"],
    ['{"a": {"a": [{"a": 1}]}, "b": "a", "a": 2}', "a"],
    ['[{"checks": [{"x": {"y": 1, "z": {}, "y": 1}}]}]', "y"],
    ['{"__proto__": 1, "__proto__": 2}', "__proto__"],
  ])("refuses %s", (text, key) => {
    const message = `duplicate key ${JSON.stringify(key)}`;
    expect(() => parseStrictJson(text)).toThrow(new SyntaxError(message));
  });

  it.each(["", "{", "{'a': 1}", '{"a": 1} // note', '{"a": 1}{"b": 1}'])(
    "refuses %j, which is not JSON",
    (text) => {
      expect(() => parseStrictJson(text)).toThrow(SyntaxError);
    },
  );

  it("follows any depth", () => {
    const depth = 100_000;
    const nested = (inner: string): string => `${'{"a":['.repeat(depth)}${inner}${"]}".repeat(depth)}`;
    expect(repeatedKey(nested("1"))).toBeUndefined();
    expect(repeatedKey(nested('{"b":1,"b":2}'))).toBe("b");
  });
});

it("is the beginning of the JSON, or all of a short one", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 1, max: 60 }), (value, limit) => {
      const whole = JSON.stringify(value);
      expect(previewJson(value, limit)).toBe(
        whole.length > limit ? `${[...Array(limit).keys()].map((index) => whole[index]).join("")}…` : whole,
      );
    }),
  );
});

it("ends with values that are large or nested without end", () => {
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level += 1) deep = [{ deep }];
  expect(previewJson(deep, 10)).toBe('[{"deep":[…');
  expect(previewJson("x".repeat(10_000_000), 5)).toBe('"xxxx…');
});

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function depthOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

it("measures any JSON, in pieces of any size, as it is nested", () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.integer({ min: 1, max: 7 }),
      fc.constantFrom(undefined, 2),
      (value, size, indent) => {
        const text = bytes(JSON.stringify(value, undefined, indent));
        const whole = new JsonMeter().push(text);
        expect(whole.deepest).toBe(depthOf(value));
        const pieces = new JsonMeter();
        for (let start = 0; start < text.length; start += size)
          pieces.push(text.subarray(start, start + size));
        expect([pieces.deepest, pieces.weight]).toEqual([whole.deepest, whole.weight]);
      },
    ),
  );
});

it("takes what stands in texts for nothing but text", () => {
  const text = String.raw`"[[{,\"[\\\",\\"`;
  expect(new JsonMeter().push(bytes(text))).toMatchObject({ deepest: 0, weight: text.length });
});

it("refuses what is nested too deeply and what would take too much memory, not a long text", () => {
  const excess = (text: string): unknown => jsonExcess(bytes(text));
  expect(excess(`${"[".repeat(100_000)}${"]".repeat(100_000)}`)).toBe("deep");
  expect(excess(`[${"{},".repeat(maxMemory / 80)}0]`)).toBe("heavy");
  expect(excess(`"${"[".repeat(20_000_000)}"`)).toBeUndefined();
  expect([400, 401].map((levels) => excess("[".repeat(levels)))).toEqual([undefined, "deep"]);
});

const variables: Readonly<Record<string, string>> = { NAME: "Ada", EMPTY: "", TRICKY: "${NAME} $& $1 $$" };
const lookup = (name: string): string | undefined => variables[name];

it.each([
  ["plain", "plain"],
  ["${NAME}", "Ada"],
  ["${NOPE:-fallback}", "fallback"],
  ["${EMPTY:-fallback}", "fallback"],
  ["${NAME:-fallback}", "Ada"],
  ["${NOPE:-a:-b $ c}", "a:-b $ c"],
  ["$${NAME}", "${NAME}"],
  ["$$${NAME}", "$${NAME}"],
  ["${TRICKY}", "${NAME} $& $1 $$"],
  ["$NAME {NAME} $ {NAME} $", "$NAME {NAME} $ {NAME} $"],
])("expands %j to %j", (text, expanded) => {
  expect(interpolate(text, lookup)).toMatchObject({ value: expanded, problems: [] });
});

it.each(["${", "a ${ b", "${}", "${1}", "${a-b}", "${NAME", "${NAME:+x}", "${NAME:-${NAME}}", "${NAME:-{}}"])(
  "refuses %j as no variable",
  (text) => {
    const { problems } = interpolate({ a: [text] }, lookup);
    expect(problems[0]).toEqual({
      code: "config/invalid-value",
      message: 'a[0]: invalid variable syntax after "${"',
      path: ["a", 0],
      at: "value",
      hint: "Write ${NAME} or ${NAME:-default} (no braces in the default); $${ writes a literal ${.",
    });
  },
);

it("tells every unset variable, where it is and what to do", () => {
  const { problems } = interpolate({ env: { A: "${ONE}/${TWO}" } }, lookup);
  expect(problems.map((problem) => [problem.message, problem.path, problem.text])).toEqual([
    ["env.A: the variable ONE is not set", ["env", "A"], "${ONE"],
    ["env.A: the variable TWO is not set", ["env", "A"], "${TWO"],
  ]);
  expect(problems[0]?.hint).toBe(
    "Set ONE, pass --env ONE=VALUE, or write ${ONE:-default}; $${ writes a literal ${.",
  );
});

it("copies JSON as it is, without members that may be absent and without touching prototypes", () => {
  const document = JSON.parse('{"a":[1,null,true,{"__proto__":{"x":1}}],"b":{}}') as object;
  const { value, problems } = interpolate({ ...document, gone: undefined }, lookup, {
    mayBeAbsent: ([key]) => key === "gone",
  });
  expect(problems).toEqual([]);
  expect(JSON.stringify(value)).toBe('{"a":[1,null,true,{"__proto__":{"x":1}}],"b":{}}');
});

it.each([
  [undefined, "a: undefined is not JSON"],
  [new Date(0), "a: a Date is not JSON"],
  [() => 1, "a: a value of type function is not JSON"],
  [NaN, "a: NaN is not a number that JSON has"],
])("refuses %s", (value, message) => {
  const { problems } = interpolate({ a: value }, lookup);
  expect(problems).toMatchObject([{ code: "config/invalid-value", message, path: ["a"], at: "value" }]);
});

it("refuses cycles and endless nesting", () => {
  const loop: { self?: unknown } = {};
  loop.self = loop;
  const { problems } = interpolate(loop, lookup);
  expect(problems).toHaveLength(1);
  expect(problems[0]?.message).toMatch(/^self\.self\..*…: nested deeper than 200 levels$/);
  expect(problems[0]?.path).toHaveLength(maxFileDepth);
});

it("refuses more values than a config can need, at once", () => {
  const shared = Array.from({ length: 1000 }, () => 1);
  const huge = Array.from({ length: 1000 }, () => shared);
  expect(interpolate(huge, lookup)).toMatchObject({
    value: null,
    problems: [{ message: `the config: more than ${maxFileValues} values`, path: [] }],
  });
});

it("changes nothing in texts without ${ and never throws on any text", () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      const { value, problems } = interpolate(text, lookup);
      if (text.includes("${")) return;
      expect(value).toBe(text);
      expect(problems).toEqual([]);
    }),
  );
});

it.each([
  [[], ""],
  [["workflows", 0, "steps", 1, "user"], "workflows[0].steps[1].user"],
  [["agents", "my agent", "model"], 'agents["my agent"].model'],
  [["servers", "a-b"], "servers.a-b"],
  [["$schema"], "$schema"],
  [[3, "a"], "[3].a"],
  [["env", ""], 'env[""]'],
  [["1a"], '["1a"]'],
])("writes %j as %s", (path, text) => {
  expect(formatKeyPath(path)).toBe(text);
});

it("finds values by their own members only", () => {
  const document = { a: [{ b: null }] };
  expect(valueAt(document, [])).toBe(document);
  expect(valueAt(document, ["a", 0, "b"])).toBeNull();
  expect(valueAt(document, ["a", 1, "b"])).toBeUndefined();
  expect(valueAt(document, ["a", "length"])).toBe(1);
  expect(valueAt(document, ["toString"])).toBeUndefined();
  expect(valueAt("text", [0])).toBeUndefined();
});

it("reads what YAML there is", () => {
  expect(parseStrictYaml("a: 1\nb: [&x {c: d}, *x]\n1: e\n")).toEqual({
    a: 1,
    b: [{ c: "d" }, { c: "d" }],
    1: "e",
  });
  expect(parseStrictYaml("")).toBeNull();
});

it.each([
  ["a: {b: 1,\n  b: 2}", 'duplicate key "b", again at line 2, column 3'],
  ['- 1: x\n  "1": y', 'duplicate key "1", again at line 2, column 3'],
  ["a: [", /Flow sequence/],
  ["a: &x [1]\nb: [*y]", /Unresolved alias/],
])("refuses %j", (text, message) => {
  expect(() => parseStrictYaml(text)).toThrow(message);
});

const schema = z.strictObject({
  name: z.string(),
  servers: z.record(z.string(), z.strictObject({ mcpUrl: z.string().optional() })).optional(),
  labels: z.record(z.string(), z.string()).default({}),
  parallel: z.boolean().optional(),
  list: z.array(z.strictObject({ file: z.string() })).optional(),
  either: z.union([z.literal(true), z.array(z.string()), z.strictObject({ a: z.string() })]).optional(),
  several: z
    .union([z.string(), z.strictObject({ a: z.string() }), z.strictObject({ b: z.string() })])
    .optional(),
  anything: z.custom<unknown>().optional(),
});

function readLenient(document: unknown) {
  const { value, repairs, written } = readLeniently(document, schema);
  return { value, repairs, written };
}

describe("a document that is read leniently", () => {
  it("has its keys in the schema's case, but not those of tables", () => {
    const { value, written } = readLenient({ NAME: "a", Servers: { MyServer: { MCPURL: "u" } } });
    expect(value).toEqual({ name: "a", servers: { MyServer: { mcpUrl: "u" } } });
    expect(written(["servers", "MyServer", "mcpUrl"])).toEqual(["Servers", "MyServer", "MCPURL"]);
    expect(written(["servers", "MyServer", "missing"])).toEqual(["Servers", "MyServer", "missing"]);
  });

  it("prefers the exact key", () => {
    const { value, repairs } = readLenient({ Name: "other", name: "a" });
    expect(value).toEqual({ name: "a" });
    expect(repairs).toMatchObject([{ kind: "unknown-key", path: ["Name"] }]);
  });

  it("leaves out unknown keys, and empty members", () => {
    const { value, repairs } = readLenient({
      name: "a",
      parallel: null,
      extra: 1,
      list: [{ file: "f", fiel: 1 }],
    });
    expect(value).toEqual({ name: "a", list: [{ file: "f" }] });
    expect(repairs).toMatchObject([
      { kind: "unknown-key", path: ["extra"] },
      { kind: "unknown-key", path: ["list", 0, "fiel"], known: ["file"] },
    ]);
  });

  it("has texts for numbers, booleans and empty labels, and booleans for words", () => {
    const { value, repairs } = readLenient({
      name: 5,
      labels: { port: 8080, on: true, none: null },
      parallel: "Yes",
    });
    expect(value).toEqual({ name: "5", labels: { port: "8080", on: "true", none: "" }, parallel: true });
    expect(repairs).toEqual([
      { kind: "number-as-text", path: ["name"] },
      { kind: "number-as-text", path: ["labels", "port"] },
      { kind: "number-as-text", path: ["labels", "on"] },
      { kind: "text-as-boolean", path: ["parallel"] },
    ]);
  });

  it("reads the option of a union that fits, and leaves what is up to the author", () => {
    expect(readLenient({ name: "a", either: { A: 1 } }).value).toEqual({ name: "a", either: { a: "1" } });
    expect(readLenient({ name: "a", either: [1] }).value).toEqual({ name: "a", either: ["1"] });
    expect(readLenient({ name: "a", either: true }).value).toEqual({ name: "a", either: true });
    expect(readLenient({ name: "a", several: { B: 1 } })).toMatchObject({
      value: { several: { B: 1 } },
      repairs: [],
    });
    expect(readLenient({ name: "a", several: 1 }).value).toEqual({ name: "a", several: "1" });
    const anything = { Any: null, n: 1 };
    expect(readLenient({ name: "a", anything })).toMatchObject({ value: { anything }, repairs: [] });
  });

  it("leaves wrong types for the schema", () => {
    expect(readLenient({ name: {}, list: "x", parallel: 1 }).value).toEqual({
      name: {},
      list: "x",
      parallel: 1,
    });
    expect(readLenient("nonsense").value).toBe("nonsense");
  });
});
