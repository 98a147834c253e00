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
  const text = placeVariables(script.replaceAll("@", shellMark("V")), { variableFor: (name) => name });
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
  ["p \"`printf %s '@'`\"", "<V>"],
  ['p "${UNSET:-@}"', "<V>"],
  ["p ${UNSET:-'@'}", "<V>"],
  ['X="@"; p "$X"', "<V>"],
  ['X=@; p "$X"', "<V>"],
  ["# it's @\np '@'", "<V>"],
  ["p a#@ '#' @", "<a#V><#><V>"],
  ['p "$(cat <<EOF\nit\'s @\nEOF\n)"', "<it's V>"],
  ["p \"$(cat <<'EOF'\nit's $HOME `x` \\\\ \\ \" @\nEOF\n)\"", "<it's $HOME `x` \\\\ \\ \" V>"],
  ['p "$(cat <<-"EOF"\n\ta @\n\tEOF\n)"', "<a V>"],
  ["p \"$(cat <<A; cat <<'B'\n1 @\nA\n2 $x @\nB\n)\"", "<1 V\n2 $x V>"],
  ['cat <<EOF >out\n$(printf %s \'@\' "@") @\nEOF\np "$(cat out)" @', "<VV V><V>"],
  ["cat >out <<'EOF'\nnothing of 'it\nEOF\np '@'", "<V>"],
  ["p \"$(case a in a) printf %s @;; (b) echo ')';; esac)\" @", "<V><V>"],
  ['p "$(echo case)" @', "<case><V>"],
  ["case @ in *) p @;; esac", "<V>"],
  ['p "$(case a in a) p esac @;; esac)"', "<<esac><V>>"],
  ['p $((1 << 2)) "$(( (1 + 1) * 2 ))" @', "<4><4><V>"],
  ['p "$( (printf %s @) )"', "<V>"],
  ['f() { p "$1"; }\nif true; then f @; fi', "<V>"],
  ['p "${X:="a b"}" ${#X} @', "<a b><3><V>"],
  ["p \\x \\' \\\" @", "<x><'><\"><V>"],
  ["p a \\\n  @", "<a><V>"],
];

describe.each(["sh", "bash"])("a value in a text for %s", (shell) => {
  it.each(everywhere)("stays one word: %j", (script, said) => {
    expect(outcome(shell, script)).toBe(said);
  });
});

it.each([
  ["p $'it\\'s @' @", "<it's V><V>"],
  ['A=(x @); p "${A[@]}"'.replace("[@]", "[1]"), "<V>"],
  ["[[ x == x && -n @ ]] && p @ <<<'@'", "<V>"],
  ["((1 << 2)); p @", "<V>"],
  ['p $"a @"', "<a V>"],
  ["while read -r l; do p \"$l\" @; done < <(printf '%s' '@' | tail -n 1; echo)", `<"; touch pwned; "><V>`],
])("stays one word for bash: %j", (script, said) => {
  expect(outcome("bash", script)).toBe(said);
});

it.each([
  ["p '@", "single quotes do not end"],
  ['p "@', "double quotes do not end"],
  ["p $(@", "a command inside does not end"],
  ["p `@", "a command inside does not end"],
  ["p ${x:-@", "${ does not end"],
  ["p $((1 + @))", "a template is inside arithmetic"],
  ["$(".repeat(10_000) + "@", "commands stand in one another too deeply"],
  ['p "\\@"', "a template follows a backslash"],
  ["p $@", "a template follows $"],
  ["cat <<@\nx", "a here-document has no end that is known"],
  ["cat <<'a b'\n@\na b", "a here-document ends with a b"],
])("is refused where its place is not known: %j", (script, problem) => {
  const write = () => placeVariables(script.replaceAll("@", shellMark("V")), { variableFor: (name) => name });
  expect(write).toThrow(new ShellTextError(problem));
});

it("leaves a text without values as it is", () => {
  expect(placeVariables("p 'x <<'", { variableFor: (name) => name })).toBe("p 'x <<'");
});

it("tells what is code from what is text", () => {
  const place = (script: string): string =>
    placeVariables(script.replaceAll("@", shellMark("V")), { variableFor: (_, { kind }) => kind });
  expect(place("p @ \"@\" '@' $(p @) <<E\n@\nE")).toBe(
    'p "$code" """$code""" \'\'"$text"\'\' $(p "$code") <<E\n${text}\nE',
  );
});
