import { expect, it } from "vitest";
import { shellVariables } from "./texts.ts";

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
