import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { McpvalsError } from "../base/error.ts";
import type { Json } from "../base/json.ts";
import { envRoot, expanderOf } from "./expand.ts";
import {
  escapeTemplate,
  parseTemplate,
  resolveIn,
  resolveNames,
  type Scope,
  taskRoots,
  withLocals,
} from "./template.ts";
import { selectJson } from "./select-json.ts";

const body = JSON.stringify({ items: [{ name: "a b" }, { name: "c" }], count: 2 });
const env = resolveNames({ NAME: "value", QUOTE: "it's $HOME; rm -rf /" });
const scope: Scope = withLocals(new Map([["env", env]]), {
  random: { id: "abc" },
  task: { name: "the task" },
  steps: { list: { outputs: { body, id: "7" } } },
  agent: { output: "done" },
  workspace: "/tmp/w",
  servers: { api: { url: "http://127.0.0.1:1/mcp" } },
});

describe("what expands", () => {
  it.each([
    ["{env.NAME}", "value"],
    ["a{env.NAME}b{task.name}c", "avaluebthe taskc"],
    ["{ env.NAME }", "value"],
    ["{workspace}/x", "/tmp/w/x"],
    ["{steps.list.outputs.id}", "7"],
    ["{servers.api.url}", "http://127.0.0.1:1/mcp"],
    ["{env.QUOTE | sh}", `'it'\\''s $HOME; rm -rf /'`],
    ["{steps.list.outputs.body | json $.items[0].name}", "a b"],
    ["{steps.list.outputs.body | json items[*].name}", '["a b","c"]'],
    ["{steps.list.outputs.body | json .count}", "2"],
    ["[{env.NAME}]{{env.NAME}}", "[value]{env.NAME}"],
    ["{{", "{"],
    ["{{x}}", "{x}"],
    ["{{{env.NAME}}}", "{value}"],
  ])("%s gives %s", (template, text) => {
    expect(expanderOf(scope).text(template)).toBe(text);
  });

  it.each(
    '{"a":{"b":1}}|${x}|${env.NAME}|}}|{env}|{env .NAME}|{other.NAME}|{}|{ }|if (a) { b(); }|{steps|{env.NAME|{1.x}|{env.NAME:}'.split(
      "|",
    ),
  )("%s stays as it is", (text) => {
    expect(expanderOf(scope).text(text)).toBe(text);
  });

  it.each([
    ["{env.OTHER}", "refers to nothing"],
    ["{steps.other.outputs.id}", "refers to nothing"],
    ["{steps.list.outputs.other}", "refers to nothing"],
    ["{workspace.x}", "refers to nothing"],
    ["{env.NAME | upper}", 'there is no filter "upper"'],
    ["{env.NAME | json}", "the value is not JSON"],
    ["{steps.list.outputs.body | json $.other}", "leads to nothing"],
    ["{steps.list.outputs.body | json $..[}", "is not a valid JSON path"],
  ])("%s is an error: %s", (template, message) => {
    expect(() => expanderOf(scope).text(template)).toThrow(message);
  });

  it("makes a JSON value of a text that is one expression with the filter json, and of no other", () => {
    const value = {
      whole: "{steps.list.outputs.body | json $.count}",
      part: "n={steps.list.outputs.body | json $.count}",
      plain: "{steps.list.outputs.id}",
      "{env.NAME}": ["{env.NAME}", 1, null, true],
    };
    expect(expanderOf(scope).json(value)).toEqual({
      whole: 2,
      part: "n=2",
      plain: "7",
      "{env.NAME}": ["value", 1, null, true],
    });
  });
});

/** Texts that are full of what templates are made of. */
const noise = fc
  .array(
    fc.oneof(
      fc.constantFrom(..."{ } {{ }} $ . | : sh json env NAME x 🦊".split(" "), " ", "\n"),
      fc.constantFrom(...taskRoots),
      fc.string({ maxLength: 4 }),
    ),
    { maxLength: 30 },
  )
  .map((parts) => parts.join(""));

describe("in any text", () => {
  it("an escaped text gives that text, whatever the roots are", () => {
    fc.assert(
      fc.property(noise, (text) => {
        expect(expanderOf(scope).text(escapeTemplate(text))).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });

  it("every expression begins with a root, and what is around it stays", () => {
    fc.assert(
      fc.property(noise, (text) => {
        const parts = parseTemplate(text, (root) => scope.has(root));
        for (const part of parts) {
          if (typeof part === "object")
            expect(part.text).toMatch(/^\{\s*(env|random|task|steps|agent|workspace|servers)\b/);
        }
        if (text.includes("{{")) return;
        expect(parts.map((part) => (typeof part === "string" ? part : part.text)).join("")).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });

  it("a value is never read as a template again", () => {
    fc.assert(
      fc.property(noise, (value) => {
        const local = withLocals(scope, { item: value });
        expect(expanderOf(local).text("<{item}>")).toBe(`<${value}>`);
      }),
    );
  });

  it("a value quoted for the shell is one word: closing quotes only come back escaped", () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        const quoted = expanderOf(withLocals(scope, { item: value })).text("{item | sh}");
        expect(quoted.slice(1, -1).replaceAll(String.raw`'\''`, "")).not.toContain("'");
        expect([quoted[0], quoted.at(-1)]).toEqual(["'", "'"]);
      }),
    );
  });

  it("takes time in proportion to the text", () => {
    for (const unit of ["{", "{{", "{env.", "{env.NAME | ", "}", "{env.NAME|", "{ "]) {
      parseTemplate(unit.repeat(40_000), (root) => scope.has(root));
    }
  });
});

describe("JSON paths", () => {
  it("match and search take time linear in the text, whatever the pattern", () => {
    const text = `${"a".repeat(50_000)}!`;
    expect(selectJson([text], "$[?match(@, '(a+)+')]").values).toEqual([]);
    expect(selectJson([text], "$[?search(@, '(a|aa)+$')]").values).toEqual([]);
    expect(selectJson(["ab", "b"], "$[?match(@, 'a.')]").places).toEqual([[0]]);
  });

  it("are not followed in a value of very many values", () => {
    const value = { list: Array<Json>(500_000).fill(0) };
    expect(() => selectJson(value, "$.list[0]")).toThrow(
      "cannot be followed: the value has more than 500000",
    );
  });

  it("follows wide values, and finds everything in the order of RFC 9535", () => {
    const wide = Array.from({ length: 300_000 }, (_, index) => index);
    expect(selectJson(wide, "$[*]").values).toEqual(wide);
    expect(selectJson({ a: [{ b: [1, 2] }, { b: [3] }], b: [4] }, "$..b[*]").values).toEqual([4, 1, 2, 3]);
    expect(selectJson([1, 2, 3], "$[?@ > 1, 0]").values).toEqual([2, 3, 1]);
    expect(selectJson([[1], [2, 1], [3]], "$[?@[?@ == 1]]").places).toEqual([[0], [1]]);
  });

  it.each([
    ["$.a", true],
    ["$['a'][0]", true],
    ["a.b", true],
    ["$", true],
    ["$.*", false],
    ["$..a", false],
    ["$[0:1]", false],
    ["$[0,1]", false],
    ["$[?@.a]", false],
  ])("%s is singular: %s", (path, singular) => {
    expect(selectJson({}, path).singular).toBe(singular);
  });
});

describe("env", () => {
  const others: Scope = new Map([["task", resolveIn({ name: "t" })]]);
  const read = (
    declared: Record<string, string>,
    given: { shell?: Record<string, string>; overrides?: Record<string, string> } = {},
  ): ((name: string) => Json | undefined) => {
    const root = envRoot({ declared, shell: given.shell ?? {}, overrides: given.overrides ?? {} }, others);
    return (name) => root([name], undefined);
  };

  it("is the command line's value, else the task's, else the shell's", () => {
    const get = read(
      { A: "task", B: "task" },
      { shell: { A: "s", B: "s", C: "s" }, overrides: { A: "line" } },
    );
    expect([get("A"), get("B"), get("C"), get("D")]).toEqual(["line", "task", "s", undefined]);
  });

  it("may be declared in any order, and build on the shell's value of its own name", () => {
    const get = read(
      { URL: "http://{env.HOST}:{env.PORT}", HOST: "h-{task.name}", PORT: "1", PATH: "{env.PATH}:/x" },
      { shell: { PATH: "/bin" } },
    );
    expect([get("URL"), get("PATH")]).toEqual(["http://h-t:1", "/bin:/x"]);
  });

  it("may not depend on each other in a cycle", () => {
    expect(() => read({ A: "{env.B}", B: "{env.C}", C: "{env.A}" })("A")).toThrow("A → B → C → A");
    expect(() => read({ A: "{env.A}" })("A")).toThrow(McpvalsError);
  });
});
