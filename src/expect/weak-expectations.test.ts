import { describe, expect, it } from "vitest";
import type { Json } from "../base/json.ts";
import { idlenessOf, schemaProblems } from "./weak-expectations.ts";

describe("idlenessOf", () => {
  it.each([
    "",
    "  \n\n# nothing\n\t# at all\n",
    "true",
    ":",
    ": what this checks, in words",
    "exit 0",
    "set -euo pipefail; :",
    "true && true; true || : | true",
    "#!/usr/bin/env bash\nset -eu\nexit 0\n",
    "#!/usr/bin/env python3\n# import sys\n\n",
    "#!/usr/bin/env node\n// later\n",
    "#!/usr/bin/env -S node --test\n",
    "/bin/true",
    "#!/bin/true\ngrep -q x f",
    "(true)",
  ])("%j does nothing", (text) => expect(idlenessOf({ text })).toBe("idle"));

  it.each([
    "test -f out\nexit 0",
    "test -f out || echo missing >&2",
    "test -f a && test -f b || :",
    "kubectl get pods \\\n  --all || true",
    "curl -fsS {env.URL}; echo",
    "echo done $USER",
    "test -f x &",
    "echo {agent.output}",
    "echo x > out/f",
    "printf '%s' \"$x\" >> {workspace}/log",
    "mkdir -p {workspace}/a/b",
    "if grep -q x f; then true; fi",
    "if grep -q x f; then echo found; else echo missing; fi",
    "if grep -q x f\nthen\n  echo found\nelse\n  echo missing\nfi",
    "if grep -q x f; then ls; echo found; fi",
    "for f in *; do grep -q x $f || true; done",
    "ls | while read f; do grep x $f; echo $f; done",
  ])("%j cannot fail", (text) => expect(idlenessOf({ text })).toBe("cannot-fail"));

  it.each([
    "echo done",
    "echo 'all is well; really'",
    'printf "3\\n"'.replace("\\n", ""),
    `echo '{"passed": true}'`,
    `#!/bin/sh\n# later\necho '{"passed": true}'\n`,
  ])("%j writes the same, always", (text) => expect(idlenessOf({ text })).toBe("constant"));

  it.each([
    "false",
    "x=$(check)",
    "(check)",
    "true && grep -q x f",
    "grep -q x f && echo found",
    "grep -q x f || exit 1\nexit 0",
    "grep -q x f || { echo missing; exit 1; }",
    "set -euo pipefail\ngrep -q x f\nexit 0",
    ': "${HOME:?}"',
    ': "${HOME:?not set}"; true',
    "trap 'exit 3' EXIT; true",
    ". ./checks.sh; true",
    "true; . ./checks.sh; true",
    "true $(exit 1) > f",
    "if grep -q x f; then echo found; else grep -q y f; fi",
    "if grep -q x f; then grep -q y f; else echo no; fi",
    "if a; then echo x; elif b; then check; fi",
    "if a; then if b; then check; fi; fi",
    "if a; then for x in y; do check; done; fi",
    "for f in *; do grep -q x $f; done",
    "for f in *; do echo $f && grep -q x $f; done",
    "if a; fi",
    "rm f",
    "rmdir a",
    "echo x > f && grep -q x f",
    "! grep -q x f",
    "exec test -f f",
    "check() { test -f f; }; check",
    "python3 -c 'import x; x.check(); true'",
    "cat <<E | grep -q x\ntrue\nE",
    "#!/usr/bin/env python3\nimport sys\ntrue",
    "#!/usr/bin/env node\nprocess.exit(1)",
    "run {steps.a.outputs.b}",
  ])("%j may fail", (text) => expect(idlenessOf({ text })).toBeUndefined());

  it.each(["${", " ", "exit ", "true;", ">", "set ", "\\\n", "#!/", "a#", "|", "x\n"])(
    "takes time linear in the text: %j many times",
    (part) => {
      for (const text of [part.repeat(200_000), `true${part.repeat(200_000)}`])
        expect(() => idlenessOf({ text })).not.toThrow();
    },
  );

  it("leaves what other programs than shells get alone", () => {
    expect(idlenessOf({ text: "true", shell: "/usr/bin/python3" })).toBeUndefined();
    expect(idlenessOf({ text: "true", shell: "/usr/bin/zsh" })).toBe("idle");
    expect(idlenessOf({ text: "grep -q x f", shell: "/bin/true" })).toBe("idle");
  });
});

it.each<[Json, boolean]>([
  [{}, true],
  [true, true],
  [{ title: "t", default: 1, minLength: 0, required: [], uniqueItems: false }, true],
  [{ oneOf: [{}] }, true],
  [{ anyOf: [{ type: "string" }, {}] }, true],
  [{ then: false }, true],
  [{ minContains: 2 }, true],
  [{ $ref: "#" }, true],
  [{ $ref: "#/$defs/a", $defs: { a: {} } }, true],
  [false, false],
  [{ oneOf: [{}, {}] }, false],
  [{ anyOf: [{ type: "string" }, { type: "null" }] }, false],
  [{ if: {}, then: false }, false],
  [{ contains: {}, minContains: 2 }, false],
  [{ not: {} }, false],
  [{ properties: { a: { items: { type: "number" } } } }, false],
  [{ $ref: "#/$defs/a", $defs: { a: { minLength: 1 } } }, false],
])("the schema %j accepts everything: %s", (schema, isEmpty) => {
  const messages = schemaProblems(schema, ["schema"]).map(({ message }) => message);
  expect(messages).toEqual(isEmpty ? ["schema accepts every value, so it could not fail"] : []);
});
