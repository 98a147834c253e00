import * as fc from "fast-check";
import { expect, it } from "vitest";
import { expanderOf } from "../../templates/expand.ts";
import { type Scope, taskRoots } from "../../templates/template.ts";
import { literalText, shellVariables, withoutExpression } from "./texts.ts";

const scope: Scope = new Map(taskRoots.map((root) => [root, () => "REPLACED"]));

it.each([
  ["nothing to escape", "nothing to escape"],
  ['{"a": {"b": 1}} ${HOME} {x} awk \'{print $1}\'', '{"a": {"b": 1}} ${HOME} {x} awk \'{print $1}\''],
  ["{env.X} and {y}", "{{env.X}} and {y}"],
  ["a {{.items}} b", "a {{{{.items}}}} b"],
  ["{workspace}", "{{workspace}}"],
  ["}} }", "}} }"],
])("writes %s so that as a template it is itself", (text, written) => {
  expect(literalText(text)).toBe(written);
  expect(expanderOf(scope).text(written)).toBe(text);
});

it("writes any text so that as a template it is itself", () => {
  const piece = fc.constantFrom(
    "{",
    "}",
    "$",
    "env",
    ".X",
    " ",
    "{env.X}",
    "{workspace}",
    "{steps.a.b}",
    "x",
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const text = pieces.join("");
      expect(expanderOf(scope).text(literalText(text))).toBe(text);
    }),
  );
});

it("puts a template in the place of an expression", () => {
  const template = "{agent.prompt}: {{env.X}} {env.Y}";
  expect(withoutExpression(template, "{agent.prompt}", "look at {env.Z}")).toBe(
    "look at {env.Z}: {{env.X}} {env.Y}",
  );
});

it.each([
  ['echo $A ${B} "$C"', ["A", "B", "C"], []],
  ["A=1; export B=2; echo $A$B $HOME $PATH $1 $? $lower", [], []],
  ["for X in a b; do echo $X; done; read -r LINE; echo $LINE", [], []],
  ["echo ${A:-none} ${B-} ${C:?must be set}", [], ["A", "B", "C"]],
  ["echo ${A:-none} $A", ["A"], []],
  ["# $A\necho \\$B # $C", [], []],
  ["f() { local X=1; echo $X; }", [], []],
  ["#!/usr/bin/env python3\nprint('$A')", [], []],
  ["#!/usr/bin/env bash\necho ${#LIST[@]} ${NAME%.txt}", ["LIST", "NAME"], []],
])("finds in %j what the shell has to give", (script, needed, optional) => {
  expect(shellVariables(script)).toEqual({ needed, optional });
});
