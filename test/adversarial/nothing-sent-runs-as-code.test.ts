import { existsSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkAgentTemplates } from "../../src/agents/declared-agents.ts";
import { escapeTemplate } from "../../src/templates/template.ts";
import {
  attempt,
  hostile,
  type Outside,
  playStep,
  scopeOf,
  scriptStepOf,
  testTrial,
} from "../support/step-context.ts";
import { taskDocument, valid, wrongIn } from "../support/task-file.ts";
import { command, script, type Step } from "./task-verdicts.ts";

// docs/tasks.md, "Values from outside", has the claims of this file.

/** Places in a line for a shell, each with what it then writes of the value `@`. */
const places: readonly (readonly [line: string, written: string])[] = [
  ["printf '<%s>' {agent.output}", "<@>"],
  ["printf '<%s>' \"a {agent.output} b\"", "<a @ b>"],
  ["printf '<%s>' 'a {agent.output} b'", "<a @ b>"],
  ["printf '<%s>' \"it's {agent.output | sh}\"", "<it's @>"],
  ["printf '<%s>' \"$(printf '%s.' {agent.output})\"", "<@.>"],
  ["printf '<%s>' \"$(printf '%s.' \"{agent.output}\")\"", "<@.>"],
  ["X={agent.output}; printf '<%s>' \"$X\"", "<@>"],
  ['export X="{agent.output}"; printf \'<%s>\' "$X"', "<@>"],
  ["if true; then # it's {agent.output}\nprintf '<%s>' {agent.output}; fi", "<@>"],
  ["case {agent.output} in *) printf '<%s>' '{agent.output}';; esac", "<@>"],
];
const stdout = { outputs: { out: "{stdout}" } };
const setup = [command("true", { id: "s", outputs: { o: "{stdout}" } })];

/** What is wrong with values from outside in a task. */
function refusals(spec: object): string[] {
  return wrongIn(spec).filter((problem) => problem.startsWith("task/untrusted-value"));
}

async function outcomeOf(step: Step, outside: Outside): Promise<string> {
  return (await attempt(step, outside)).outcome;
}

describe("what an agent says stays a word of a command", () => {
  it.each(places.flatMap((place) => ["sh", "bash"].map((shell) => [shell, ...place] as const)))(
    "%s: %s",
    async (shell, line, written) => {
      const run = hostile.map((_, index) => line.replaceAll("agent.output", `steps.s.outputs.v${index}`));
      const s = Object.fromEntries(hostile.map((value, index) => [`v${index}`, value]));
      const tried = await attempt(command(run.join("\n"), { shell, ...stdout }), { steps: { s } });
      const expected = hostile.map((value) => written.replace("@", () => value)).join("");
      expect(tried).toMatchObject({
        ran: [],
        outcome: "passed",
        outputs: { out: expected.replace(/\n+$/, "") },
      });
    },
  );

  it("whatever it says", async () => {
    const parts = fc.constantFrom(..."'\"`)\\\n;E} x#|", "$(", "${", "$X");
    const values = fc.array(parts, { minLength: 1, maxLength: 12 }).map((each) => `x${each.join("")}x`);
    const all = command(places.map(([line]) => line).join("\n"), { shell: "sh", ...stdout });
    const property = fc.asyncProperty(values, async (output) => {
      const out = places.map(([, written]) => written.replace("@", () => output)).join("");
      expect(await attempt(all, { output })).toMatchObject({ outputs: { out } });
    });
    await fc.assert(property, { numRuns: 10 });
  });

  it.each(["item", "steps.s.outputs.o", "steps.s.outputs.o | json $.a"])(
    "so does {%s}",
    async (expression) => {
      const said = "$(touch pwned); touch pwned";
      const value = expression.includes("json") ? JSON.stringify({ a: said }) : said;
      const line = command(`printf '<%s>' "{${expression}}"`, { expect: { stdout: `<${said}>` } });
      const each = { foreach: { var: "item", in: "{steps.s.outputs.all}", steps: [line] } };
      const steps = { s: { o: value, all: JSON.stringify([value]) } };
      const tried = await attempt(expression === "item" ? each : line, { steps });
      expect(tried).toMatchObject({ outcome: "passed", ran: [] });
    },
  );

  it.each([
    "#!/bin/sh\nprintf '<%s>' \"{agent.output}\"",
    "#!/usr/bin/env bash\nprintf '<%s>' '{agent.output}'",
    "printf '<%s>' {agent.output}",
  ])("in a script for a shell too: %j", async (inline) => {
    const output = hostile.join("\n");
    const tried = await attempt(script(inline, stdout), { output });
    expect(tried).toMatchObject({ ran: [], outputs: { out: `<${output}>` } });
  });

  it("is as it is where the author asks for it, which is noted", async () => {
    const step = command("printf %s {agent.output | raw}");
    expect((await attempt(step, { output: "x; touch pwned" })).ran).toEqual(["pwned"]);
    expect(valid(taskDocument({ verify: [step] })).notes).toEqual([
      "spec.verify[0].command.run: {agent.output | raw} inserts a value from outside as it is, so that it can act as code, as a pattern or as a path",
    ]);
  });

  it("is shown in the trace as the variable that the shell reads, and is an error when it is too long", async () => {
    const step = command("test {agent.output}");
    const { input } = await attempt(step, { output: "a b" });
    expect(input).toEqual({ run: 'test "$MCPVALS_VALUE_1"', env: { MCPVALS_VALUE_1: "a b" } });
    for (const output of ["x".repeat(3_000_000), "a\0b"])
      expect(await outcomeOf(step, { output })).toBe("error");
  });
});

describe("where even a quoted value would be run, a task is refused", () => {
  it.each([
    'sh -c \'printf "<%s>" "$1"\' _ {agent.output}',
    "cat <<E\nit's {agent.output}.\nE",
    "cat <<'E'\n$HOME {agent.output}.\nE",
    "{agent.output}",
    "{agent.output} --version",
    "./bin/{agent.output}",
    "true && {agent.output}",
    "sudo -n {agent.output}",
    "FOO=1 timeout 5 {agent.output}",
    "xargs {agent.output}",
    'sh -c "echo {agent.output}"',
    "bash -lc 'echo {agent.output | sh}'",
    '"sh" -c "echo {agent.output}"',
    "bash -o pipefail -c {agent.output}",
    "${SH} -c {agent.output}",
    '"$SHELL" -ec {agent.output}',
    'kubectl exec pod -- sh -c "echo {agent.output}"',
    'docker run --rm alpine sh -c "echo {agent.output}"',
    'find . -exec sh -c "{agent.output}" {} +',
    "python3 -c \"print('{agent.output}')\"",
    'node -e "console.log({agent.output})"',
    'perl -p -e "{agent.output}"',
    'awk "/{agent.output}/" file',
    '/usr/bin/awk "/{agent.output}/" file',
    '"awk" "/{agent.output}/" file',
    'LC_ALL=C sudo -n sed "s/a/{agent.output}/" file',
    'busybox awk "/{agent.output}/" file',
    'node --eval="{agent.output}"',
    'php -r "{agent.output}"',
    'if nice -n 5 jq "{agent.output}" file; then true; fi',
    "sqlite3 db \"SELECT '{agent.output}'\"",
    "ssh host ls {agent.output}",
    "sed -e 's/a/{agent.output}/' file",
    "echo {agent.output} | sh",
    "eval echo {agent.output}",
    "source {agent.output}",
    "trap {agent.output} EXIT",
    "{ echo {agent.output}; } | bash -s",
    "sh <<< {agent.output}",
    "sh <<E\n{agent.output}\nE",
    "cat <<E | sh\n{agent.output}\nE",
    "echo $(( {agent.output} + 1 ))",
    "echo $[ {agent.output} ]",
    "n={agent.output}; echo $((n + 1))",
    "n=$(cat n); [[ $n -eq 1 ]] && echo {agent.output}",
    "for n in {agent.output}; do echo $((n)); done",
    "$(echo {agent.output})",
    "ls && `printf '%s' {agent.output}`",
    'sh -c "$(echo {agent.output})"',
    "bash <(echo {agent.output})",
    "echo {agent.output} | xargs -I% sh -c %",
    "(( {agent.output} ))",
    "[[ {agent.output} -eq 1 ]]",
    "[[ {agent.output} == a ]]",
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
    const refused =
      /^task\/untrusted-value at value spec\.verify\[0\]\.command\.run: .* from outside, which cannot be used/;
    expect(refusals({ verify: [command(run)] })).toEqual([expect.stringMatching(refused)]);
  });

  it.each<Step>([
    command("print({agent.output})", { shell: "python3" }),
    command("true", { shell: "{agent.output}" }),
    command("true", { env: { PATH: "{agent.output}" } }),
    command("true", { env: { NODE_OPTIONS: "{steps.s.outputs.o}" } }),
    script("#!/usr/bin/env python3\nprint('{agent.output}')"),
    script("#!{agent.output}\n"),
    { script: { file: "{workspace}/{steps.s.outputs.o}" } },
    { http: { url: "http://a.example/", method: "{agent.output}" } },
    { mcp: { server: "main", tool: "{agent.output}" } },
  ])("%j", (step) => {
    const refused = expect.stringContaining("from outside, which cannot be used");
    expect(refusals({ setup, verify: [step] })).toEqual([refused]);
  });

  it("but for what the author wrote, or asks for as it is", () => {
    const foreach = { var: "tool", in: ["ls", "cat"], steps: [command("{tool} --version")] };
    const raw = script("#!/usr/bin/python3\n{agent.output | raw}");
    expect(wrongIn({ verify: [{ foreach }, command("{env.HOME}/run {random.id} | sh"), raw] })).toEqual([]);
  });

  it("is an error with a shell that only the environment names and that cannot be quoted for", async () => {
    const trial = testTrial({}, { env: { PATH: process.env["PATH"] ?? "", SHELL: "/usr/bin/python3" } });
    const tried = await attempt(command("print {agent.output}"), { output: "1", trial });
    expect(tried).toMatchObject({ outcome: "error", error: { code: "step/cannot-run" } });
  });

  it("in an older task a value names no program", async () => {
    const trial = testTrial({ evil: "touch pwned\n" });
    const env = { BASH_ENV: "{agent.output}" };
    const step = scriptStepOf({ inline: "#!/bin/bash\ntouch ran\n" }, { env });
    const scope = scopeOf({ agent: { output: join(trial.dir, "evil") } });
    const { report } = await playStep(step, { trial, scope });
    expect(report.error).toMatchObject({ code: "task/untrusted-value" });
    expect(["ran", "pwned"].filter((name) => existsSync(join(trial.dir, name)))).toEqual([]);
  });

  it.each([
    ["sh", ["-c", "my-agent {prompt}"]],
    ["env", ["A=1", "python3", "-c", "print('{prompt}')"]],
    ["node", ["-e", "resume('{session}')"]],
  ])("what an agent is told is not part of its program: %s %j", (name, args) => {
    const check = (given: readonly string[]): unknown => {
      const agent = { type: "command", command: name, args: given };
      return checkAgentTemplates({ agent }, { servers: [] }).problems.length;
    };
    const separate = [...args.slice(0, -1), "a program", "{prompt}", "{session}"];
    expect([check(args), check(separate)]).toEqual([1, 0]);
  });
});

describe("a value that begins with - is not an option, and one that is compared as a number is one", () => {
  const notRun = {
    outcome: "failed",
    checks: [{ name: "value", passed: false, evidence: "notRun" }],
    ran: [],
  };

  it.each<[string, string]>([
    ["grep -q {agent.output} /dev/null", "--help"],
    ["test {agent.output} -gt 4", "a[$(touch pwned)]"],
  ])("%s fails with %j, and so does its negation", async (run, output) => {
    expect(await attempt(command(run), { output })).toMatchObject(notRun);
    expect(await outcomeOf({ not: [command(run)] }, { output })).toBe("failed");
  });

  it.each([
    ["grep -q -- {agent.output} given", "--help"],
    ["printf '%s\\n' {agent.output} | grep -q help", "--help"],
    ["test {agent.output} = --help", "--help"],
    ["test {agent.output} -gt 4", "5"],
  ])("%s passes with %j", async (run, output) => {
    const trial = testTrial({ given: "--help\n" });
    expect(await outcomeOf(command(run), { output, trial })).toBe("passed");
  });
});

describe("a value is never a template", () => {
  const said = "{env.SECRET} {steps.s.outputs.o} {{ {workspace} {random.id}";
  const outside = {
    output: said,
    variables: { SECRET: "s3cret" },
    steps: { s: { o: said, list: JSON.stringify([said]) } },
  };
  const equal = { expect: { stdout: escapeTemplate(said) } };
  const each = (list: unknown): Step => {
    return { foreach: { var: "i", in: list, steps: [command("printf %s {i}", equal)] } };
  };
  const again = command("printf %s {steps.s.outputs.o}", { id: "again", outputs: { o: "{stdout}" } });
  const one = { stdout: { json: { path: "$.a", equals: 1 } } };

  it.each<Step>([
    command("printf %s {agent.output}", equal),
    command('printf %s "$X"', { env: { X: "{steps.s.outputs.o}" }, ...equal }),
    command("cat", { stdin: "{agent.output}", ...equal }),
    command("printf %s {agent.output | raw}", { shell: "/bin/echo" }),
    each("{steps.s.outputs.list}"),
    each(["{steps.s.outputs.o}"]),
    { group: { setup: [again], steps: [command("cat", { stdin: "{steps.again.outputs.o}", ...equal })] } },
    script('test -n "$1" && printf %s "$1"', { args: ["{agent.output}"], outputs: { o: "{stdout}" } }),
    { file: { path: "{workspace}/{agent.output}", expect: { exists: false } } },
    command("printf %s {agent.output}", { expect: { stdout: { equals: "{steps.s.outputs.o}" } } }),
    command("printf '{\"a\":%s}' 1", { expect: one }),
  ])("%j", async (step) => {
    const { outcome, input, checks, outputs } = await attempt(step, outside);
    expect(outcome).toBe("passed");
    expect(JSON.stringify([input, checks, outputs])).not.toContain("s3cret");
  });
});
