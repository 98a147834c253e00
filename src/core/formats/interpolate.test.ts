import * as fc from "fast-check";
import { expect, it } from "vitest";
import { interpolate } from "./interpolate.ts";
import { maxDepth, maxValues } from "./read-json.ts";

const variables: Readonly<Record<string, string>> = { NAME: "Ada", EMPTY: "", TRICKY: "${NAME} $& $1 $$" };
const lookup = (name: string): string | undefined => variables[name];

it.each([
  ["plain", "plain"],
  ["${NAME}", "Ada"],
  ["<${NAME}-${NAME}>", "<Ada-Ada>"],
  ["${EMPTY}", ""],
  ["${NOPE:-fallback}", "fallback"],
  ["${NOPE:-}", ""],
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

it("keeps the texts as written and the variables that were used", () => {
  const { templates, variables: used } = interpolate({ a: "x ${NAME}", b: "${NOPE:-d}", c: "c" }, lookup);
  expect([...templates]).toEqual([
    ["a", "x ${NAME}"],
    ["b", "${NOPE:-d}"],
  ]);
  expect([...used]).toEqual([["NAME", "Ada"]]);
});

it("leaves keys alone", () => {
  expect(interpolate({ "${NAME}": 1 }, lookup).value).toEqual({ "${NAME}": 1 });
});

it("copies JSON as it is, without members that may be absent and without touching prototypes", () => {
  const document = JSON.parse('{"a":[1,null,true,{"__proto__":{"x":1}}],"b":{}}') as object;
  const { value, problems } = interpolate(
    { ...document, gone: undefined },
    lookup,
    ([key]) => key === "gone",
  );
  expect(problems).toEqual([]);
  expect(JSON.stringify(value)).toBe('{"a":[1,null,true,{"__proto__":{"x":1}}],"b":{}}');
});

it.each([
  [undefined, "a: undefined is not JSON"],
  [new Date(0), "a: a Date is not JSON"],
  [() => 1, "a: a value of type function is not JSON"],
  [1n, "a: a value of type bigint is not JSON"],
  [Symbol("s"), "a: a value of type symbol is not JSON"],
  [new Map(), "a: a Map is not JSON"],
  [NaN, "a: NaN is not a number that JSON has"],
  [-Infinity, "a: -Infinity is not a number that JSON has"],
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
  expect(problems[0]?.path).toHaveLength(maxDepth);
});

it("refuses more values than a config can need, at once", () => {
  const shared = Array.from({ length: 1000 }, () => 1);
  const huge = Array.from({ length: 1000 }, () => shared);
  expect(interpolate(huge, lookup)).toMatchObject({
    value: null,
    problems: [{ message: `the config: more than ${maxValues} values`, path: [] }],
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

it("expands only the documented forms", () => {
  const part = fc.constantFrom("$", "${", "}", "{", "NAME", "NOPE", ":-", ":", "-", " ", "$$", "x");
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
      const text = parts.join("");
      const { value, problems } = interpolate(text, lookup);
      expect(problems.length === 0 ? value : undefined).toBe(expandSlowly(text));
    }),
    { numRuns: 3000 },
  );
});

/** The same rules read one character after the other; undefined where they refuse. */
function expandSlowly(text: string): string | undefined {
  let result = "";
  for (let rest = text; rest !== "";) {
    if (rest.startsWith("$${")) {
      result += "${";
      rest = rest.slice(3);
    } else if (rest.startsWith("${")) {
      const end = rest.indexOf("}");
      const [, name = "", , fallback] = /^([A-Za-z_]\w*)(:-([^{}]*))?$/.exec(rest.slice(2, end)) ?? [];
      if (end === -1 || name === "") return undefined;
      const value =
        variables[name] === "" && fallback !== undefined ? fallback : (variables[name] ?? fallback);
      if (value === undefined) return undefined;
      result += value;
      rest = rest.slice(end + 1);
    } else {
      result += rest.charAt(0);
      rest = rest.slice(1);
    }
  }
  return result;
}
