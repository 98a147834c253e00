import { existsSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { escapeTemplate } from "../../src/core/templates/parse-template.ts";
import { interpreters } from "../../src/core/templates/shell-line.ts";
import { checkAgentTemplates } from "../../src/core/formats/agent-templates.ts";
import { playStep, scriptStepOf, testTrial } from "../support/program-steps.ts";
import { scopeOf } from "../support/step-context.ts";
import { taskDocument, valid, wrongIn } from "../support/task-file.ts";
import { attempt, hostile } from "../support/outside-values.ts";

/** Places in a line for a shell, each with what it then writes. */
const places: readonly (readonly [line: string, written: (value: string) => string])[] = [
  ["printf '<%s>' {agent.output}", (value) => `<${value}>`],
  ["printf '<%s>' {agent.output | sh}", (value) => `<${value}>`],
  ["printf '<%s>' \"a {agent.output} b\"", (value) => `<a ${value} b>`],
  ["printf '<%s>' 'a {agent.output} b'", (value) => `<a ${value} b>`],
  ["printf '<%s>' \"it's {agent.output | sh}\"", (value) => `<it's ${value}>`],
  ["printf '<%s>' a{agent.output}b", (value) => `<a${value}b>`],
  ["printf '<%s>' \"$(printf '%s.' {agent.output})\"", (value) => `<${value}.>`],
  ["printf '<%s>' \"$(printf '%s.' \"{agent.output}\")\"", (value) => `<${value}.>`],
  ["X={agent.output}; printf '<%s>' \"$X\"", (value) => `<${value}>`],
  ['export X="{agent.output}"; printf \'<%s>\' "$X"', (value) => `<${value}>`],
  ['sh -c \'printf "<%s>" "$1"\' _ {agent.output}', (value) => `<${value}>`],
  ["if true; then # it's {agent.output}\nprintf '<%s>' {agent.output}; fi", (value) => `<${value}>`],
  ["case {agent.output} in *) printf '<%s>' '{agent.output}';; esac", (value) => `<${value}>`],
  ["printf '<%s>' \"$(cat <<E\nit's {agent.output}.\nE\n)\"", (value) => `<it's ${value}.>`],
  ["printf '<%s>' \"$(cat <<'E'\n$HOME {agent.output}.\nE\n)\"", (value) => `<$HOME ${value}.>`],
];

/** What is wrong with values from outside in a task. */
function refusals(spec: object): string[] {
  return wrongIn(spec).filter((problem) => problem.startsWith("task/untrusted-value"));
}

describe("what an agent says stays a word of a command (docs/tasks.md: Values from outside)", () => {
  it.each(places.flatMap(([line, written]) => ["sh", "bash"].map((shell) => ({ line, written, shell }))))(
    "$shell: $line",
    async ({ line, written, shell }) => {
      const run = hostile.map((_, index) => line.replaceAll("agent.output", `steps.s.outputs.v${index}`));
      const s = Object.fromEntries(hostile.map((value, index) => [`v${index}`, value]));
      const step = { command: { run: run.join("\n"), shell, outputs: { out: "{stdout}" } } };
      const { outcome, outputs, ran } = await attempt(step, { steps: { s } });
      const expected = hostile.map(written).join("").replace(/\n+$/, "");
      expect([ran, outcome, outputs?.["out"]]).toEqual([[], "passed", expected]);
    },
  );

  it("whatever it says", async () => {
    const parts = fc.constantFrom(
      "'",
      '"',
      "$(",
      "`",
      ")",
      "\\",
      "\n",
      ";",
      "E",
      "${",
      "}",
      " ",
      "x",
      "$X",
      "#",
      "|",
    );
    const values = fc.array(parts, { minLength: 1, maxLength: 12 }).map((each) => `x${each.join("")}x`);
    const all = places.map(([line]) => line).join("\n");
    await fc.assert(
      fc.asyncProperty(values, async (output) => {
        const tried = await attempt(
          { command: { run: all, shell: "sh", outputs: { out: "{stdout}" } } },
          { output },
        );
        expect(tried.outputs?.["out"]).toBe(places.map(([, written]) => written(output)).join(""));
      }),
      { numRuns: 10 },
    );
  });

  it.each(["item", "steps.s.outputs.o", "steps.s.outputs.o | json $.a"])(
    "so does {%s}",
    async (expression) => {
      const said = "$(touch pwned); touch pwned";
      const value = expression.includes("json") ? JSON.stringify({ a: said }) : said;
      const line = { command: { run: `printf '<%s>' "{${expression}}"`, expect: { stdout: `<${said}>` } } };
      const step =
        expression === "item"
          ? { foreach: { var: "item", in: "{steps.s.outputs.all}", steps: [line] } }
          : line;
      const steps = { s: { o: value, all: JSON.stringify([value]) } };
      expect(await attempt(step, { steps })).toMatchObject({ outcome: "passed", ran: [] });
    },
  );

  it.each([
    ["#!/bin/sh\nprintf '<%s>' \"{agent.output}\""],
    ["#!/usr/bin/env bash\nprintf '<%s>' '{agent.output}'"],
    ["printf '<%s>' {agent.output}"],
  ])("in a script for a shell too: %j", async (inline) => {
    const output = hostile.join("\n");
    const tried = await attempt({ script: { inline, outputs: { out: "{stdout}" } } }, { output });
    expect([tried.ran, tried.outputs?.["out"]]).toEqual([[], `<${output}>`]);
  });

  it("is as it is where the author asks for it, which is noted", async () => {
    const step = { command: { run: "printf %s {agent.output | raw}" } };
    expect((await attempt(step, { output: "x; touch pwned" })).ran).toEqual(["pwned"]);
    expect(valid(taskDocument({ verify: [step] })).notes).toEqual([
      "spec.verify[0].command.run: {agent.output | raw} inserts a value from outside as it is, so that it can act as code, as a pattern or as a path",
    ]);
  });

  it("is shown in the trace as the variable that the shell reads", async () => {
    const tried = await attempt({ command: { run: "test {agent.output}" } }, { output: "a b" });
    expect(tried.input).toEqual({ run: 'test "$MCPVALS_VALUE_1"', env: { MCPVALS_VALUE_1: "a b" } });
  });

  it("is an error when no process can be given it", async () => {
    const step = { command: { run: "test {agent.output}" } };
    for (const output of ["x".repeat(3_000_000), "a\0b"])
      expect(await attempt(step, { output })).toMatchObject({ outcome: "error" });
  });
});

describe("where even a quoted value would be run, a task is refused (docs/tasks.md: Values from outside)", () => {
  it.each([
    "{agent.output}",
    "{agent.output} --version",
    "./bin/{agent.output}",
    "true && {agent.output}",
    "sudo -n {agent.output}",
    "FOO=1 timeout 5 {agent.output}",
    "xargs {agent.output}",
    'sh -c "echo {agent.output}"',
    "bash -lc 'echo {agent.output | sh}'",
    "bash -o pipefail -c {agent.output}",
    '"sh" -c "echo {agent.output}"',
    'kubectl exec pod -- sh -c "echo {agent.output}"',
    'docker run --rm alpine sh -c "echo {agent.output}"',
    'find . -exec sh -c "{agent.output}" {} +',
    "python3 -c \"print('{agent.output}')\"",
    'node -e "console.log({agent.output})"',
    'perl -p -e "{agent.output}"',
    'awk "/{agent.output}/" file',
    "sed -e 's/a/{agent.output}/' file",
    "sqlite3 db \"SELECT '{agent.output}'\"",
    "ssh host ls {agent.output}",
    "eval echo {agent.output}",
    "source {agent.output}",
    "trap {agent.output} EXIT",
    "echo {agent.output} | sh",
    "{ echo {agent.output}; } | bash -s",
    "sh <<< {agent.output}",
    "sh <<E\n{agent.output}\nE",
    "cat <<E | sh\n{agent.output}\nE",
    "echo $(( {agent.output} + 1 ))",
    "echo $[ {agent.output} ]",
    "n={agent.output}; echo $((n + 1))",
    "for n in {agent.output}; do echo $((n)); done",
    "n=$(cat n); [[ $n -eq 1 ]] && echo {agent.output}",
    "$(echo {agent.output})",
    "ls && `printf '%s' {agent.output}`",
    'sh -c "$(echo {agent.output})"',
    "bash <(echo {agent.output})",
    "echo {agent.output} | xargs -I% sh -c %",
    "(( {agent.output} ))",
    "[[ {agent.output} -eq 1 ]]",
    "[[ a == a && ( 1 -eq {agent.output} ) ]]",
    "let n={agent.output}",
    "declare -i n={agent.output}",
    "unset {agent.output}",
    "printf -v {agent.output} x",
    "export {agent.output}",
    "PATH={agent.output} ls",
    "export LD_PRELOAD={agent.output}",
    "echo ${x:-{agent.output}}",
    "echo \\{agent.output}",
    "echo x > {agent.output}",
    "cat < {workspace}/{agent.output}",
    "echo 'it is {agent.output}",
  ])("%j", (run) => {
    expect(refusals({ verify: [{ command: { run } }] })).toEqual([
      expect.stringMatching(
        /^task\/untrusted-value at value spec\.verify\[0\]\.command\.run: .* from outside, which cannot be used/,
      ),
    ]);
  });

  it.each([
    { command: { run: "print({agent.output})", shell: "python3" } },
    { command: { run: "true", shell: "{agent.output}" } },
    { command: { run: "true", env: { PATH: "{agent.output}" } } },
    { command: { run: "true", env: { NODE_OPTIONS: "{steps.s.outputs.o}" } } },
    { script: { inline: "#!/usr/bin/env python3\nprint('{agent.output}')" } },
    { script: { inline: "#!{agent.output}\n" } },
    { script: { inline: "#!/usr/bin/env -S node\n// {agent.output}" } },
    { script: { file: "{agent.output}" } },
    { http: { url: "http://a.example/", method: "{agent.output}" } },
    { mcp: { server: "main", tool: "{agent.output}" } },
    { script: { file: "{workspace}/{steps.s.outputs.o}" } },
  ])("%j", (step) => {
    const setup = [{ command: { id: "s", run: "true", outputs: { o: "{stdout}" } } }];
    expect(refusals({ setup, verify: [step] })).toEqual([
      expect.stringContaining("from outside, which cannot be used"),
    ]);
  });

  it("but for what the author wrote himself, or asks for as it is", () => {
    const foreach = { var: "tool", in: ["ls", "cat"], steps: [{ command: { run: "{tool} --version" } }] };
    const verify = [{ foreach }, { command: { run: "{env.HOME}/run {random.id} | sh" } }];
    expect(wrongIn({ verify })).toEqual([]);
    expect(wrongIn({ verify: [{ script: { inline: "#!/usr/bin/python3\n{agent.output | raw}" } }] })).toEqual(
      [],
    );
  });

  it("is an error with a shell that only the environment names, and that no variable can be placed for", async () => {
    const trial = testTrial({}, { env: { PATH: process.env["PATH"] ?? "", SHELL: "/usr/bin/python3" } });
    const tried = await attempt({ command: { run: "print {agent.output}" } }, { output: "1", trial });
    expect(tried).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
  });

  it.each([
    ["sh", ["-c", "my-agent {prompt}"]],
    ["bash", ["-lc", "my-agent '{prompt}'"]],
    ["env", ["A=1", "python3", "-c", "print('{prompt}')"]],
    ["node", ["-e", "resume('{session}')"]],
  ])("what an agent is told is no part of its program: %s %j", (command, args) => {
    const check = (given: readonly string[]): number =>
      checkAgentTemplates({ agent: { type: "command", command, args: given } }, { servers: [] }).problems
        .length;
    expect(check(args)).toBe(1);
    expect(check([...args.slice(0, -1), "a program", "{prompt}", "{session}"])).toBe(0);
  });

  it("knows the programs that it says it knows", () => {
    const known = [
      "sh",
      "bash",
      "zsh",
      "python3.12",
      "node",
      "ruby",
      "perl",
      "php",
      "awk",
      "gawk",
      "sed",
      "jq",
    ];
    expect(known.filter((name) => !interpreters.test(name))).toEqual([]);
    expect(["push", "fresh", "nodes", "grep"].filter((name) => interpreters.test(name))).toEqual([]);
  });
});

describe("a value that begins with - is no option (docs/tasks.md: Values from outside)", () => {
  it("fails the step instead, which no `not` turns around", async () => {
    const step = { command: { run: "grep -q {agent.output} /dev/null" } };
    const failed = await attempt(step, { output: "--help" });
    expect(failed).toMatchObject({
      outcome: "failed",
      checks: [{ name: "value", passed: false, untried: true }],
    });
    expect(await attempt({ not: [step] }, { output: "--help" })).toMatchObject({ outcome: "failed" });
  });

  it.each([
    "grep -q -- {agent.output} given",
    "printf '%s\\n' {agent.output} | grep -q help",
    "test {agent.output} = --help",
  ])("but where it can be none: %s", async (run) => {
    const trial = testTrial({ given: "--help\n" });
    expect(await attempt({ command: { run } }, { output: "--help", trial })).toMatchObject({
      outcome: "passed",
    });
  });
});

describe("a value that is compared as a number is one (docs/tasks.md: Values from outside)", () => {
  it.each(["test {agent.output} -gt 4", '[ "{agent.output}" -gt 4 ]'])("%s", async (run) => {
    const step = { command: { run } };
    expect(await attempt(step, { output: "5" })).toMatchObject({ outcome: "passed" });
    expect(await attempt(step, { output: "a[$(touch pwned)]" })).toMatchObject({
      outcome: "failed",
      checks: [{ name: "value", untried: true }],
      ran: [],
    });
  });
});

describe("a value is never a template (docs/tasks.md: Values from outside)", () => {
  const said = "{env.SECRET} {steps.s.outputs.o} {{ {workspace} {random.id}";
  const variables = { SECRET: "s3cret" };
  const steps = { s: { o: said, list: JSON.stringify([said]) } };
  const equal = { stdout: escapeTemplate(said) };

  it.each([
    { command: { run: "printf %s {agent.output}", expect: equal } },
    { command: { run: 'printf %s "$X"', env: { X: "{steps.s.outputs.o}" }, expect: equal } },
    { command: { run: "cat", stdin: "{agent.output}", expect: equal } },
    { command: { run: "printf %s {agent.output | raw}", shell: "/bin/echo" } },
    {
      foreach: {
        var: "i",
        in: "{steps.s.outputs.list}",
        steps: [{ command: { run: "printf %s {i}", expect: equal } }],
      },
    },
    {
      foreach: {
        var: "i",
        in: ["{steps.s.outputs.o}"],
        steps: [{ command: { run: "printf %s {i}", expect: equal } }],
      },
    },
    {
      group: {
        setup: [
          { command: { id: "again", run: "printf %s {steps.s.outputs.o}", outputs: { o: "{stdout}" } } },
        ],
        steps: [{ command: { run: "cat", stdin: "{steps.again.outputs.o}", expect: equal } }],
      },
    },
    {
      script: {
        inline: 'test -n "$1" && printf %s "$1"',
        args: ["{agent.output}"],
        outputs: { o: "{stdout}" },
      },
    },
    { file: { path: "{workspace}/{agent.output}", expect: { exists: false } } },
    { command: { run: "printf %s {agent.output}", expect: { stdout: { equals: "{steps.s.outputs.o}" } } } },
    { command: { run: "printf '{\"a\":%s}' 1", expect: { stdout: { json: { path: "$.a", equals: 1 } } } } },
  ])("%j", async (step) => {
    const tried = await attempt(step, { output: said, steps, variables });
    expect(tried.outcome).toBe("passed");
    expect(JSON.stringify([tried.input, tried.checks, tried.outputs])).not.toContain("s3cret");
  });
});

describe("a value in an older task is data of a process (docs/tasks.md: Older tasks)", () => {
  it("and names no program", async () => {
    const trial = testTrial({ evil: "touch pwned\n" });
    const step = scriptStepOf(
      { inline: "#!/bin/bash\ntouch ran\n" },
      { env: { BASH_ENV: "{agent.output}" } },
    );
    const scope = scopeOf({ agent: { output: join(trial.dir, "evil") } });
    expect((await playStep(step, { trial, scope })).report.error).toMatchObject({
      code: "task/untrusted-value",
    });
    expect(["ran", "pwned"].filter((name) => existsSync(join(trial.dir, name)))).toEqual([]);
  });
});
