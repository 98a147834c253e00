import { describe, expect, it } from "vitest";
import { refusalOf, taskOf, verdictsOf } from "./task-verdicts.ts";

/** Why a task with these steps in verify is refused, with the line; undefined when it is not. */
function refusal(verify: readonly object[], files: object = {}): Promise<string | undefined> {
  return refusalOf({ "t.json": taskOf("t", { verify }), ...files });
}

async function verdict(verify: readonly object[], spec: object = {}): Promise<string> {
  const { t = "" } = await verdictsOf({ "t.json": taskOf("t", { verify, ...spec }) });
  return t;
}

const command = (run: string, rest: object = {}): object => ({ command: { run, ...rest } });
const script = (inline: string, rest: object = {}): object => ({ script: { inline, ...rest } });
const real = command("test -d .");

describe("a check that does nothing is refused where it is written (docs/tasks.md, The first task)", () => {
  it.each<[string, object]>([
    ["a comment", command("# nothing")],
    ["a colon", command(":")],
    ["true", command("true")],
    ["exit 0", command("exit 0")],
    ["blank lines", command("\n \n# \n")],
    ["settings of the shell", command("set -euo pipefail")],
    ["a script of comments", script("#!/bin/sh\n# nothing\n")],
    ["a Python script of comments", script("#!/usr/bin/env python3\n# nothing\n")],
    ["a JavaScript script of comments", script("#!/usr/bin/env node\n// nothing\n")],
    ["a program that does nothing", command("/bin/true")],
    ["nothing, in brackets", command("( : )")],
    ["nothing, of which the output is looked at", command("true", { expect: { stdout: "" } })],
    ["what always writes the same", command("echo ready", { expect: { stdout: "ready" } })],
    ["an answer that is always the same", script(`echo '{"passed": true}'`, { protocol: "json" })],
    ["one in a group", { group: { steps: [command("true")] } }],
    ["one in anyOf", { anyOf: [command("false"), command("true")] }],
    ["one in foreach", { foreach: { var: "x", in: [1], steps: [command(":")] } }],
  ])("%s", async (_, step) => {
    expect(await refusal([real, step])).toMatch(/^\d+: spec\.verify\[1\].* checks nothing: /);
  });

  it.each(["", "#!/bin/sh\n# nothing\n", "#!/bin/sh\nset -e\nexit 0\n"])(
    "a script file: %j",
    async (text) => {
      const step = { script: { file: "check.sh" } };
      expect(await refusal([real, step], { "check.sh": text })).toMatch(
        /^\d+: spec\.verify\[1\]\.script checks nothing: /,
      );
    },
  );

  it("but not in setup, nor where what it writes depends on the trial, nor a check that can fail", async () => {
    const spoken = command("echo {task.name}", { expect: { stdout: "t" } });
    expect(await refusal([real, spoken])).toBeUndefined();
    expect(await refusalOf({ "t.json": taskOf("t", { setup: [command("true")], verify: [real] }) })).toBe(
      undefined,
    );
    expect(await refusal([command("test -f x && echo found")])).toBeUndefined();
  });
});

describe("a verify phase of which nothing can fail is refused", () => {
  it.each<[string, object]>([
    ["a command that ends with || true", command("test -f x || true")],
    ["a command that ends with echo", command("test -f x; echo done")],
    ["a script that ends with exit 0", script("test -f x\nexit 0")],
    [
      "any HTTP status",
      { http: { url: "http://127.0.0.1:1", expect: { status: ["2xx", "3xx", "4xx", "5xx"] } } },
    ],
    ["an anyOf with a way out", { anyOf: [real, command("echo fine")] }],
    ["a command in the background", command("test -f x &")],
    ["a check that is ignored", command("false", { continueOnError: true })],
  ])("%s", async (_, step) => {
    expect(await refusal([step])).toMatch(/^\d+: spec\.verify checks nothing: /);
  });
});

describe("an expectation that every text meets is refused", () => {
  it.each(["", ".*", "^", "$", "^.*$", "[\\s\\S]*", "(x)?"])("matches: %j", async (matches) => {
    const places = [
      command("test -d .", { expect: { stdout: { matches } } }),
      command("test -d .", { expect: { stderr: { matches: ["x", matches] } } }),
      { file: { path: "t.json", expect: { matches } } },
      { http: { url: "http://127.0.0.1:1", expect: { body: { matches } } } },
    ];
    for (const place of places) expect(await refusal([real, place])).toMatch(/matches/);
  });

  it("but not one that only some do", async () => {
    expect(await refusal([command("test -d .", { expect: { stdout: { matches: "^$" } } })])).toBeUndefined();
  });

  it("nor is an empty text something to contain", async () => {
    const step = command("echo x", { expect: { stdout: { contains: "" } } });
    expect(await refusal([step])).toMatch(/contains must not be empty/);
  });
});

describe("lists with nothing in them are refused", () => {
  it.each<[string, object]>([
    ["allOf", { allOf: [] }],
    ["anyOf", { anyOf: [] }],
    ["not", { not: [] }],
    ["group", { group: { steps: [] } }],
    ["foreach without steps", { foreach: { var: "x", in: [1], steps: [] } }],
    ["foreach without items", { foreach: { var: "x", in: [], steps: [real] } }],
    ["contains", command("test -d .", { expect: { stdout: { contains: [] } } })],
    ["matches", command("test -d .", { expect: { stdout: { matches: [] } } })],
    ["json", command("test -d .", { expect: { stdout: { json: [] } } })],
    ["stdout", command("test -d .", { expect: { stdout: {} } })],
    ["status", { http: { url: "http://127.0.0.1:1", expect: { status: [] } } }],
  ])("%s", async (_, step) => {
    expect(await refusal([real, step])).toBeDefined();
  });

  it("and foreach over an empty list that only the run knows fails", async () => {
    const each = { foreach: { var: "x", in: "{env.LIST}", steps: [real] } };
    expect(await verdict([each], { env: { LIST: "[]" } })).toMatch(/^fail: .*the list is empty/);
  });
});

describe("alternatives of which one always holds are refused", () => {
  const file = (expected: object): object => ({ file: { path: "{workspace}/x", expect: expected } });

  it.each<[string, readonly object[]]>([
    ["a text and its denial", [file({ contains: "a" }), { not: file({ contains: "a" }) }]],
    ["in the other order", [{ not: [file({ contains: "a" })] }, file({ contains: "a" })]],
    ["with names", [{ not: { command: { name: "n", run: "test -f x" } } }, command("test -f x")]],
    ["a file that is there, or not", [file({ exists: true }), file({ exists: false })]],
    ["among others", [real, file({ exists: true }), { not: file({ exists: true }) }]],
  ])("%s", async (_, anyOf) => {
    expect(await refusal([{ anyOf }])).toContain("one of two opposites always holds");
    expect(await refusal([{ group: { steps: [{ anyOf }] } }])).toContain("one of two opposites always holds");
  });

  it.each<[string, readonly object[]]>([
    ["different texts", [file({ contains: "a" }), { not: file({ contains: "b" }) }]],
    ["a denial of both", [file({ contains: "a" }), { not: [file({ contains: "a" }), real] }]],
  ])("but not %s", async (_, anyOf) => {
    expect(await refusal([{ anyOf }])).toBeUndefined();
  });
});

describe("what was not looked at is no evidence: nothing passes then", () => {
  const skipped = { if: "{env.NO}" };
  const env = { NO: "false", NOTHING: "true" };

  it.each<[string, readonly object[]]>([
    ["everything was skipped", [command("test -d .", skipped)]],
    ["what was not skipped cannot fail", [command("test -d .", skipped), command("echo done")]],
    [
      "what was not skipped does nothing, as a template says",
      [command("{env.NOTHING}"), command("test -d .", skipped)],
    ],
    ["a group was skipped", [{ group: { steps: [real], if: "{env.NO}" } }]],
    ["all of a group was skipped", [{ group: { steps: [command("test -d .", skipped)] } }]],
    ["all of a not was skipped", [{ not: command("test -d .", skipped) }]],
    [
      "all of a foreach was skipped",
      [{ foreach: { var: "x", in: [1], steps: [command("false", skipped)] } }],
    ],
    ["an anyOf passed with what cannot fail", [{ anyOf: [command("false"), command("{env.NOTHING}")] }]],
    [
      "what cannot fail has stayed so",
      [command("echo done $HOME", { stableFor: "1ms" }), command("test -d .", skipped)],
    ],
    ["nothing has stayed so", [{ group: { steps: [command("test -d .", skipped)], stableFor: "1ms" } }]],
    [
      "an anyOf passed with what cannot fail and has stayed so",
      [{ anyOf: [command("echo $HOME", { stableFor: "1ms" })] }, command("test -d .", skipped)],
    ],
    [
      "only a file was made",
      [command("test -d .", skipped), { file: { path: "{workspace}/x", content: "x" } }],
    ],
    [
      "the only check was ignored",
      [command("test -d .", { continueOnError: true }), command("test -d .", skipped)],
    ],
  ])("%s", async (_, verify) => {
    expect(await verdict(verify, { env })).toMatch(/^skip: .*no step checks anything/);
  });

  it("an anyOf in which everything was skipped is an error", async () => {
    expect(await verdict([{ anyOf: [command("test -d .", skipped)] }], { env })).toMatch(
      /^error: no alternative/,
    );
  });

  it("a not of a not of what cannot fail fails", async () => {
    const made = { file: { path: "{workspace}/x", content: "x" } };
    for (const step of [made, command("{env.NOTHING}"), { group: { steps: [made] } }]) {
      expect(await verdict([{ not: { not: step } }], { env })).toMatch(/^fail: /);
    }
  });

  it("assertions that hold because nothing was done are no evidence either", async () => {
    const task = taskOf("t", { env, prompt: "Hi.", verify: [command("test -d .", skipped)] });
    const assertions = {
      maxToolCalls: 3,
      noDuplicateCalls: true,
    };
    const config = {
      agent: { type: "builtin.llm-agent", model: "openai:none" },
      taskSets: [{ path: "t.json", assertions }],
    };
    const file = { kind: "Eval", apiVersion: "mcp-eval/v1", metadata: { name: "e" }, config };
    expect((await verdictsOf({ "t.json": task, "eval.json": file }, ["eval.json"]))["t"]).toMatch(/^skip: /);
  });

  it("in an older task too", async () => {
    const older = (verify: object): object => ({
      kind: "Task",
      metadata: { name: "t" },
      steps: { prompt: { inline: "Hi." }, verify },
    });
    for (const inline of ["true", "# nothing", "kubectl get pods || true"]) {
      expect((await verdictsOf({ "t.json": older({ inline }) }))["t"]).toMatch(/^skip: /);
    }
    const file = { "t.json": older({ file: "check.sh" }), "check.sh": "#!/bin/sh\n# nothing\n" };
    expect((await verdictsOf(file))["t"]).toMatch(/^skip: /);
    expect((await verdictsOf({ "t.json": older({ inline: "test -d ." }) }))["t"]).toMatch(/^pass: /);
  });
});

describe("a program that answers that it has not passed does not pass (docs/tasks.md, Scripts)", () => {
  const says = (answer: string): string => `#!/bin/sh\ncat <<'END'\n${answer}\nEND\n`;

  it.each([
    '{"passed": false}',
    '{"passed": false, "reason": "why"}',
    '{\n  "passed": false\n}\n',
    'a log line\n{"passed": false}',
    '{"passed": "false"}',
    '{"passed": null}',
    '{"passed": 0}',
    '{"passed": false}\n{"log": 1}\n{"log": 2}',
    '{"passed": false}\na log line',
    '{"passed": true}\n{"passed": false}\n{"log": 1}',
    '{"passed": true, "checks": [{"name": "a", "passed": false}]}',
  ])("without protocol: json: %s", async (answer) => {
    expect(await verdict([script(says(answer))])).toMatch(/^error: the script answers .* protocol: json/);
    expect(await verdict([{ not: script(says(answer)) }])).toMatch(/^error: the script answers/);
    expect(await verdict([command(says(answer))])).toMatch(/^error: the command answers/);
  });

  it.each([
    '{"passed": true}',
    '{"passed": 12, "failed": 3}',
    '{"result": {"passed": false}}',
    '{"case": "a", "passed": false}\n{"passed": true}',
    "[]",
    "{passed: false}",
  ])("but what does not say so is not read: %s", async (answer) => {
    expect(await verdict([script(says(answer))])).toMatch(/^pass/);
  });

  it("nor is the answer of a script of an older task, of which only the exit code counts", async () => {
    const steps = { prompt: { inline: "Hi." }, verify: { inline: says('{"passed": false}') } };
    expect((await verdictsOf({ "t.json": { kind: "Task", metadata: { name: "t" }, steps } }))["t"]).toMatch(
      /^pass/,
    );
  });

  it.each([
    '{"passed": false, "passed": true}',
    '{"p\\u0061ssed": false, "passed": true}',
    '{"passed": true, "checks": [{"name": "a", "passed": false, "passed": true}]}',
    '{"passed": true, "checks": [{"name": "a", "passed": false}], "checks": []}',
    '{"passed": false}{"passed": true}',
    '{"passed": false}\n{"passed": true}',
  ])("with protocol: json and two answers in one: %s", async (answer) => {
    expect(await verdict([script(says(answer), { protocol: "json" })])).toMatch(
      /^error: the script is broken/,
    );
  });
});
