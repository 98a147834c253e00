import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { placeVariables, shellMark, ShellTextError } from "./shell.ts";

/** A value that would act wherever it is read as code. */
const value = [
  `it's "$(touch pwned)" \`touch pwned\` \${HOME} \\n \\\\ * ; touch pwned`,
  "EOF",
  "touch pwned",
  ") || touch pwned #",
  "}",
  "'; touch pwned; '",
  '"; touch pwned; "',
].join("\n");

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "mcpvals-test-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** What a program gets, as `<ARGUMENT>` for each, in which V stands for the value. */
function outcome(shell: string, script: string): string {
  const text = placeVariables(script.replaceAll("@", shellMark("V")), (name) => name);
  const prelude = `p() { for a in "$@"; do printf '<%s>' "$a"; done; }\n`;
  const options = { cwd: folder, env: { ...process.env, V: value }, encoding: "utf8" } as const;
  const said = execFileSync(shell, ["-c", prelude + text], options);
  expect(existsSync(join(folder, "pwned"))).toBe(false);
  return said.replaceAll(value, "V");
}

const everywhere: readonly (readonly [script: string, said: string])[] = [
  ["p @", "<V>"],
  ["p a@b", "<aVb>"],
  ['p "@" x', "<V><x>"],
  ['p "say \\"@\\" \\\\"', '<say "V" \\>'],
  ["p '@' 'a b'", "<V><a b>"],
  [`p "it's @" 'and "@"'`, `<it's V><and "V">`],
  ['p "$(printf %s "@")"', "<V>"],
  ['p "$(printf %s @)" "$(printf %s \'@\')"', "<V><V>"],
  ["p \"`printf %s 'x'`\" @", "<x><V>"],
  ['p "${UNSET:-x y}" @', "<x y><V>"],
  ['X="@"; p "$X"', "<V>"],
  ['X=@; p "$X"', "<V>"],
  ["# it's @\np '@'", "<V>"],
  ["p a#@ '#' @", "<a#V><#><V>"],
  ["case @ in *) p @;; esac", "<V>"],
  ['p "$(echo cases)" @', "<cases><V>"],
  ['p "$( (printf %s @) )"', "<V>"],
  ['f() { p "$1"; }\nif true; then f @; fi', "<V>"],
  ['p "${X:="a b"}" ${#X} @', "<a b><3><V>"],
  ["p \\x \\' \\\" @", "<x><'><\"><V>"],
  ["p a \\\n  @", "<a><V>"],
  ["p @\ncat >out <<'EOF'\nnothing of 'it\nEOF", "<V>"],
];

describe.each(["sh", "bash"])("a value in a text for %s", (shell) => {
  it.each(everywhere)("stays one word: %j", (script, said) => {
    expect(outcome(shell, script)).toBe(said);
  });
});

it.each([
  ['A=(x @); p "${A[1]}"', "<V>"],
  ["p @ <<<'@'", "<V>"],
  ['p $"a @"', "<a V>"],
  ["while read -r l; do p \"$l\" @; done < <(printf '%s' '@' | tail -n 1; echo)", `<"; touch pwned; "><V>`],
])("stays one word for bash: %j", (script, said) => {
  expect(outcome("bash", script)).toBe(said);
});

it.each([
  ["p '@", "' does not end"],
  ['p "@', '" does not end'],
  ["p $(@", "( does not end"],
  ["p `@`", "a value is inside `…`"],
  ["p ${x:-@}", "a value is inside ${…}"],
  ["p $'@'", "a value is inside $'…'"],
  ['p "\\@"', "a value follows a backslash"],
  ["p $@", "a value follows $"],
  ["cat <<E\n@\nE", "a value is in or after a here-document"],
  ['p "$(case a in a) p @;; esac)"', "it has case inside $(…)"],
])("is refused where it would not be a word: %j", (script, problem) => {
  const write = () => placeVariables(script.replaceAll("@", shellMark("V")), (name) => name);
  expect(write).toThrow(new ShellTextError(problem));
});

it("leaves a text without values as it is", () => {
  expect(placeVariables("p 'x <<'", (name) => name)).toBe("p 'x <<'");
});

it("tells what is code from what is text", () => {
  const place = (script: string): string =>
    placeVariables(script.replaceAll("@", shellMark("V")), (_, { isInSingleQuotes }) =>
      isInSingleQuotes ? "text" : "code",
    );
  expect(place("p @ \"@\" '@' $(p @)")).toBe('p "$code" """$code""" \'\'"$text"\'\' $(p "$code")');
});
