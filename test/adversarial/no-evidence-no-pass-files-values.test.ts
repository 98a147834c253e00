import { describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { load, problems } from "../load/support/load.ts";

/** A config as a program may make it, of which only a part is given. */
function configWith(test: unknown, rest: object = {}): Config {
  const config: unknown = {
    server: { transport: "stdio", command: "node", args: ["server.js"], env: {}, cwd: undefined },
    toolHealthSuites: [{ name: "sums", tests: [{ name: "add", ...Object(test) }] }],
    ...rest,
  };
  return config as Config;
}

class Sum {
  readonly sum = 5;
}

const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;

const test0 = "toolHealthSuites[0].tests[0]";

// docs/reference/config.md: what JSON cannot hold is refused.
describe("a value that JSON cannot hold is refused, with its place", () => {
  it.each<[string, unknown, string]>([
    ["undefined", { expectedResult: { sum: undefined } }, "expectedResult.sum: undefined is not JSON"],
    ["undefined, deep", { expectedResult: { a: [{ b: undefined }] } }, "expectedResult.a[0].b: undefined"],
    ["undefined in a list", { expectedResult: [undefined] }, "expectedResult[0]: undefined is not JSON"],
    [
      "a hole in a list",
      { expectedResult: Object.assign([], { length: 1 }) },
      "expectedResult[0]: undefined is not JSON",
    ],
    [
      "a list with a member",
      { expectedResult: Object.assign([1], { sum: 5 }) },
      'expectedResult: a list with the member "sum" is not JSON',
    ],
    ["an expectation", { expectedResult: undefined }, "expectedResult: undefined is not JSON"],
    ["an expected error", { expectedError: undefined }, "expectedError: undefined is not JSON"],
    ["a limit", { maxLatency: undefined }, "maxLatency: undefined is not JSON"],
    ["an argument", { args: { a: undefined } }, "args.a: undefined is not JSON"],
    ["NaN", { expectedResult: NaN }, "expectedResult: NaN is not a number that JSON has"],
    ["a function", { expectedResult: () => 5 }, "expectedResult: a value of type function is not JSON"],
    ["a symbol", { expectedResult: Symbol("s") }, "expectedResult: a value of type symbol is not JSON"],
    ["a symbol as a key", { expectedResult: { [Symbol("s")]: 1 } }, "expectedResult: a key that is a symbol"],
    ["a bigint", { expectedResult: 5n }, "expectedResult: a value of type bigint is not JSON"],
    ["a date", { expectedResult: { at: new Date(0) } }, "expectedResult.at: a Date is not JSON"],
    ["a map", { expectedResult: new Map([["sum", 5]]) }, "expectedResult: a Map is not JSON"],
    ["an instance of a class", { expectedResult: new Sum() }, "expectedResult: a Sum is not JSON"],
    ["an object of a string", { expectedResult: Object("5") }, "expectedResult: a String is not JSON"],
    ["toJSON", { expectedResult: { toJSON: () => ({}) } }, "expectedResult.toJSON: a value of type function"],
    ["a cycle", { expectedResult: cyclic }, "nested deeper than 200 levels"],
    [
      "a getter that throws",
      {
        expectedResult: {
          get sum(): number {
            throw new Error("no sum");
          },
        },
      },
      "expectedResult.sum: its getter threw: no sum",
    ],
  ])("%s", async (_, part, message) => {
    const found = await problems(import.meta.dirname, { source: configWith(part) });
    expect(found).toEqual([expect.stringContaining(message)]);
    if (!message.startsWith("nested")) expect(found[0]).toContain(`${test0}.${message}`);
  });

  it.each<[string, object, string]>([
    [
      "a variable",
      { server: { transport: "stdio", command: "x", env: { KEY: undefined } } },
      "server.env.KEY",
    ],
    ["a server", { server: undefined, servers: { a: undefined } }, "servers.a"],
    [
      "a header",
      { server: { transport: "shttp", url: "http://127.0.0.1", headers: { a: undefined } } },
      "server.headers.a",
    ],
    [
      "an expected state",
      { workflows: [{ name: "w", steps: [{ user: "x", expectedState: undefined }] }] },
      "workflows[0].steps[0].expectedState",
    ],
    [
      "expected tools",
      { workflows: [{ name: "w", steps: [{ user: "x" }], expectTools: undefined }] },
      "workflows[0].expectTools",
    ],
    ["a pattern of tasks", { tasks: [undefined] }, "tasks[0]"],
  ])("undefined as %s", async (_, rest, place) => {
    const found = await problems(import.meta.dirname, { source: configWith({}, rest) });
    expect(found).toContain(`(config) config/invalid-value ${place}: undefined is not JSON`);
  });

  it("but a setting that is undefined counts as absent", async () => {
    const settings = {
      name: undefined,
      timeout: undefined,
      agents: { a: { type: "model", model: "openai/gpt-5", maxSteps: undefined } },
      limits: { trial: undefined },
      judge: undefined,
      workflows: [],
    };
    const { eval: spec } = await load(import.meta.dirname, { source: configWith({}, settings) });
    expect(spec.limits.callMs).toBe(30_000);
    expect(spec.tasks).toHaveLength(1);
  });
});
