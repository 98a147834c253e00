import { expect, it } from "vitest";
import { resolveIn, type Scope } from "../templates/scope.ts";
import { expanderOf } from "../templates/expand.ts";
import { expandJsonExpectations, expandTextExpectation } from "./expand-expectation.ts";

const scope: Scope = new Map([["env", resolveIn({ A: "x", N: "5" })]]);
const expander = expanderOf(scope);

it("replaces templates in every part, and nothing else", () => {
  const json = {
    path: "$.{env.A}",
    exists: true,
    equals: { a: "{env.A}", n: "{env.N | json}" },
    contains: ["{env.A}", { b: 1 }],
    matches: "^{env.A}$",
    type: "string",
    count: 2,
    ignorePaths: ["$.{env.A}.at"],
    loose: true,
  } as const;
  const expanded = {
    path: "$.x",
    exists: true,
    equals: { a: "x", n: 5 },
    contains: ["x", { b: 1 }],
    matches: "^x$",
    type: "string",
    count: 2,
    ignorePaths: ["$.x.at"],
    loose: true,
  };
  expect(expandJsonExpectations([json], expander)).toEqual([expanded]);
  const text = { equals: "{env.A}", contains: ["a{env.A}"], matches: ["b{env.A}", "a{2}"], json: [json] };
  expect(expandTextExpectation(text, expander)).toEqual({
    equals: "x",
    contains: ["ax"],
    matches: ["bx", "a{2}"],
    json: [expanded],
  });
});

it("leaves out what is not expected", () => {
  expect(expandTextExpectation({}, expander)).toStrictEqual({});
  expect(expandJsonExpectations([{ path: "$" }], expander)).toStrictEqual([{ path: "$" }]);
});

it("fails for a template that refers to nothing", () => {
  expect(() => expandTextExpectation({ equals: "{env.B}" }, expander)).toThrow("refers to nothing");
});
