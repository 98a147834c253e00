import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { startHttp } from "../support/http.ts";
import {
  command,
  holders,
  type Phase,
  phasesNotRefused,
  phasesWithout,
  refusalOf,
  script,
  type Step,
  taskOf,
  verdictsOf,
} from "./task-verdicts.ts";

const real = command("test -d .");
const { allOf, anyOf, foreach, group, not } = holders;
const says = (answer: string): string => `#!/bin/sh\ncat <<'END'\n${answer}\nEND\n`;
const anyUrl = "http://127.0.0.1:1";

// docs/tasks.md, "The first task".
describe("a check that cannot fail is refused at load", () => {
  it("but not in setup, nor beside a check", async () => {
    const idle = command("true");
    expect(await phasesNotRefused(/^accepted$/, [[real, idle]])).toEqual([]);
    const task = taskOf("t", { setup: [idle], verify: [real] });
    expect(await refusalOf({ "t.json": task })).toBeUndefined();
  });

  it("as a phase of which nothing can fail", async () => {
    const phases = [
      command("# nothing"),
      command(": ; true\nexit 0"),
      script("#!/usr/bin/env python3\n# nothing\n"),
      command("false", { continueOnError: true }),
      group(command("true")),
      foreach(command(":")),
      not(command("true")),
    ];
    expect(await phasesNotRefused(/^\d+: spec\.verify checks nothing: /, phases)).toEqual([]);
  });

  it("as an empty list or expectation", async () => {
    const output = [{ contains: [] }, { matches: [] }, { json: [] }, {}];
    const phases = [
      { allOf: [] },
      { anyOf: [] },
      { not: [] },
      { group: { steps: [] } },
      { foreach: { var: "x", in: [1], steps: [] } },
      { foreach: { var: "x", in: [], steps: [real] } },
      { http: { url: anyUrl, expect: { status: [] } } },
      ...output.map((stdout) => command("test -d .", { expect: { stdout } })),
    ].map((step) => [real, step]);
    expect(await phasesNotRefused(/^\d+: /, phases)).toEqual([]);
    const each = { foreach: { var: "x", in: "{env.LIST}", steps: [real] } };
    expect(await phasesWithout(/^fail: .*the list is empty/, [each], { env: { LIST: "[]" } })).toEqual([]);
  });
});

describe("what was not looked at is not evidence", () => {
  const env = { NO: "false", NOTHING: "true" };
  const skipped = command("test -d .", { if: "{env.NO}" });
  const idle = command("{env.NOTHING}");
  const made = { file: { path: "{workspace}/x", content: "x" } };

  it("so a task without other checks is skipped", async () => {
    const stays = command("{env.NOTHING}", { stableFor: "1ms" });
    const phases = [
      skipped,
      [idle, skipped],
      { group: { steps: [real], if: "{env.NO}" } },
      group(skipped),
      not(skipped),
      foreach(command("false", { if: "{env.NO}" })),
      { anyOf: [command("false"), idle] },
      [stays, skipped],
      { group: { steps: [skipped], stableFor: "1ms" } },
      [anyOf(stays), skipped],
      [skipped, made],
      [command("test -d .", { continueOnError: true }), skipped],
    ];
    expect(await phasesWithout(/^skip: .*no step checks anything/, phases, { env })).toEqual([]);
  });

  it("an anyOf in which everything was skipped is an error, a not of a not of what cannot fail fails", async () => {
    expect(await phasesWithout(/^error: no alternative/, [anyOf(skipped)], { env })).toEqual([]);
    const denied = [made, idle, group(made)].map((step) => [not(not(step)), skipped]);
    expect(await phasesWithout(/^(?:fail|skip): /, denied, { env })).toEqual([]);
  });

  it("nor are assertions that hold because nothing was done", async () => {
    const task = taskOf("t", { env, prompt: "Hi.", verify: [skipped] });
    const assertions = { maxToolCalls: 3, noDuplicateCalls: true };
    const agent = { type: "builtin.llm-agent", model: "openai:none" };
    const spec = { agent, taskSets: [{ path: "t.json", assertions }] };
    const file = { kind: "Eval", apiVersion: "mcp-eval/v1", metadata: { name: "e" }, config: spec };
    expect((await verdictsOf({ "t.json": task, "eval.json": file }, ["eval.json"]))["t"]).toMatch(/^skip: /);
  });

  it("in an older task too", async () => {
    const verifies = [
      ["true", "# nothing"].map((inline) => ({ inline })),
      { file: "check.sh" },
      { inline: "test -d ." },
      // Only the exit code of a script of an older task counts.
      { inline: says('{"passed": false}') },
    ].flat();
    const files = verifies.map((verify, index) => [
      `${index}.json`,
      { kind: "Task", metadata: { name: `t${index}` }, steps: { prompt: { inline: "Hi." }, verify } },
    ]);
    const found = await verdictsOf({ ...Object.fromEntries(files), "check.sh": "#!/bin/sh\n# nothing\n" });
    const verdicts = verifies.map((_, index) => found[`t${index}`]?.split(":")[0]);
    expect(verdicts).toEqual(["skip", "skip", "skip", "pass", "pass"]);
  });

  // docs/tasks.md, "Control flow".
  it("what a step only made is not evidence, however it is denied", async () => {
    const trees = Object.values(holders).flatMap((outer) =>
      Object.values(holders).flatMap((inner) =>
        [made, idle].map((step): Phase => [outer(inner({ not: step })), skipped]),
      ),
    );
    expect(await phasesWithout(/^(?:fail|skip): /, trees, { env })).toEqual([]);
  });
});

// docs/tasks.md, "Scripts".
describe("a program that answers that it has not passed does not pass", () => {
  it("without protocol: json", async () => {
    const answers = [
      '{"passed": false}',
      'a log line\n{"passed": false}',
      '{"passed": "false"}',
      '{"passed": null}',
      '{"passed": 0}',
      '{"passed": true}\n{"passed": false}\n{"log": 1}',
      '{"passed": true, "checks": [{"name": "a", "passed": false}]}',
    ].map(says);
    const phases = answers.flatMap((text) => [script(text), not(script(text)), command(text)]);
    expect(
      await phasesWithout(/^error: the (?:script|command) reports a failure .* protocol: json/, phases),
    ).toEqual([]);
  });

  it("but what does not say so is not read", async () => {
    const answers = [
      '{"passed": true}',
      '{"passed": 12, "failed": 3}',
      '{"result": {"passed": false}}',
      '{"case": "a", "passed": false}\n{"passed": true}',
    ];
    expect(
      await phasesWithout(
        /^pass/,
        answers.map((answer) => script(says(answer))),
      ),
    ).toEqual([]);
  });

  it("with protocol: json and two answers in one", async () => {
    const answers = [
      '{"passed": false, "passed": true}',
      '{"p\\u0061ssed": false, "passed": true}',
      '{"passed": true, "checks": [{"name": "a", "passed": false, "passed": true}]}',
      '{"passed": false}\n{"passed": true}',
    ];
    const phases = answers.map((answer) => script(says(answer), { protocol: "json" }));
    expect(await phasesWithout(/^error: the script is broken/, phases)).toEqual([]);
  });
});

// docs/tasks.md, "Control flow", as are the following.
describe("an answer that is not MCP proves nothing, whatever step holds it", () => {
  const results = "null a-text a-list an-empty-object empty-blocks content-of-another-type both".split(" ");
  const errors =
    "an-empty-error an-error-without-code an-error-without-message an-error-as-a-text a-null-error";
  const unusable = [...results, ...errors.split(" ")];
  const requests = [
    ...[...unusable, "a-block-without-text", "isError-as-a-text"].map((tool) => ({ tool })),
    ...unusable.map((prompt) => ({ prompt })),
    ...unusable.map((name) => ({ resource: `odd:${name}` })),
  ];

  const unusableAnswer = /^error: step .* gave an unusable answer: /;
  const isError = { expect: { isError: true } };

  it("whatever is asked for", async () => {
    const phases = requests.flatMap((request): Phase[] => {
      const mcp = { server: "odd", ...request };
      return [{ mcp: { ...mcp, ...isError } }, not({ mcp }), not({ mcp: { ...mcp, ...isError } })];
    });
    expect(await phasesWithout(unusableAnswer, phases)).toEqual([]);
  });

  it("wherever it is asked for", async () => {
    const phases = [{ tool: "null" }, { prompt: "a-list" }, { resource: "odd:both" }].flatMap((request) => {
      const mcp = { server: "odd", ...request };
      const outside = [not, anyOf, group, foreach].map((hold) => hold(not({ mcp })));
      const again = [{ retry: { for: "1ms" } }, { stableFor: "1ms" }].map((rest) =>
        not({ mcp: { ...mcp, ...rest } }),
      );
      return [{ mcp }, not(allOf({ mcp })), not(anyOf({ mcp })), ...outside, ...again];
    });
    expect(await phasesWithout(unusableAnswer, phases)).toEqual([]);
  });

  it("but a refusal and a failure do", async () => {
    const denied = ["a-refusal", "a-failure"].map((tool) => not({ [`odd.${tool}`]: {} }));
    expect(await phasesWithout(/^pass: not: it does not hold/, denied)).toEqual([]);
    expect(await phasesWithout(/^fail: not: it holds/, [not({ "odd.a-result": {} })])).toEqual([]);
  });
});

describe("a call that failed tells nothing of its result", () => {
  const looks = [
    { text: { contains: "buy milk" } },
    { json: { path: "$.state", equals: "bad" } },
    { schema: { type: "object", required: ["state"] } },
    { isError: false, text: "buy milk" },
  ];

  it("whatever is looked at, and whatever holds the look in a not", async () => {
    const same = (step: Step): Step => step;
    const phases = ["a-refusal", "a-failure", "an-internal-error"].flatMap((tool) =>
      looks.flatMap((expected) =>
        [same, allOf, anyOf, group, foreach].map((hold) =>
          not(hold({ [`odd.${tool}`]: { expect: expected } })),
        ),
      ),
    );
    expect(await phasesWithout(/^fail: .*no result: /, phases)).toEqual([]);
  });

  it("nor does an error of the protocol tell anything at all", async () => {
    const errors = ["an-internal-error", "an-invalid-request"];
    const phases = errors.flatMap((name) =>
      [{ tool: name }, { prompt: name }, { resource: `odd:${name}` }].map((request) =>
        not({ mcp: { server: "odd", ...request } }),
      ),
    );
    const unknown = /^fail: .*the failure means neither .* expect it instead of using not/;
    expect(await phasesWithout(unknown, phases)).toEqual([]);
    const expected = errors.map((name) => ({ [`odd.${name}`]: { expect: { isError: true } } }));
    expect(await phasesWithout(/^pass: /, expected)).toEqual([]);
  });

  it("but another value does, and a success where a failure is expected", async () => {
    const passing = [
      { "odd.a-result": { expect: { text: { contains: "buy milk" } } } },
      { "odd.a-result": { expect: { isError: true } } },
      { "odd.a-failure": { expect: { isError: true, text: "gone" } } },
      { "odd.no-text": { expect: { text: { contains: "buy milk" } } } },
    ];
    expect(await phasesWithout(/^pass: not: it does not hold/, passing.map(not))).toEqual([]);
  });
});

describe("not passes only for an exit code that means no", () => {
  const sh = (run: string, rest: object = {}): Step => command(run, { shell: "/bin/sh", ...rest });
  const inSh = (inline: string): Step => script(`#!/bin/sh\n${inline}`);

  it("not for any other end of a program", async () => {
    const phases = [
      sh("if then"),
      sh("grep -q x no-such-file"),
      sh("test 1 -gt one"),
      sh("no-such-program"),
      sh("kill -9 $$"),
      sh("exit 22"),
      sh("exit 4", { expect: { exitCode: 3 } }),
      inSh("exit 2"),
      { allOf: [sh("exit 1"), sh("exit 2")] },
      { anyOf: [sh("exit 2"), sh("exit 1")] },
      sh("exit 1", { expect: { stdout: "b" } }),
      sh("exit 1", { expect: { stderr: { contains: "b" } } }),
    ];
    expect(await phasesWithout(/^fail: .*(exited with|ended by)/s, phases.map(not))).toEqual([]);
    const told =
      /it exited with 22, expected 0; the exit code means neither yes nor no; to check for it, expect it instead of using not/;
    expect(await phasesWithout(told, [not(sh("exit 22"))])).toEqual([]);
  });

  it("but for 1, for 0 where another is expected, and for an output that is not as expected", async () => {
    const three = { expect: { exitCode: 3 } };
    const other = sh("echo {task.name}", { expect: { stdout: "b" } });
    const denied = [sh("exit 1"), sh("test -d .", three), sh("exit 1", three), other, inSh("exit 1")].map(
      not,
    );
    expect(await phasesWithout(/^pass/, [...denied, sh("exit 22", { expect: { exitCode: 22 } })])).toEqual(
      [],
    );
    expect(await phasesWithout(/^fail/, [not(sh("exit 3", three))])).toEqual([]);
  });
});

describe("not does not pass for what could not be looked at", () => {
  /** A step that asks a server for a status and a body. */
  async function asking(status: number, body: string, expected?: object): Promise<Step> {
    const url = await startHttp((_, response) => response.writeHead(status).end(body));
    return { http: { url: `${url}/`, ...(expected === undefined ? {} : { expect: expected }) } };
  }

  it("an HTTP status that says nothing", async () => {
    const statuses = await Promise.all([500, 502, 503, 504, 429, 408].map((status) => asking(status, "")));
    const other = [{ body: { contains: "secret" } }, { headers: { "x-a": "b" } }];
    const looks = await Promise.all(other.map((expected) => asking(404, "", expected)));
    const unknown = /^fail: .*the status is (?:50[0234]|429|408|404).*means neither/;
    expect(await phasesWithout(unknown, [...statuses, ...looks].map(not))).toEqual([]);
  });

  it("but for 404, and for another body", async () => {
    const expected = { body: { contains: "secret" } };
    const [missing, page] = [await asking(404, ""), await asking(200, "fine", expected)];
    const down = await asking(503, "", { status: 503 });
    expect(await phasesWithout(/^pass/, [not(missing), not(page), down])).toEqual([]);
    expect(await phasesWithout(/^fail/, [not(down)])).toEqual([]);
  });

  it("a text that has to be JSON and is not", async () => {
    const json = { path: "$.state", equals: "bad" };
    const line = command("echo {task.name}", { expect: { stdout: { json } } });
    const page = await asking(200, "<html>", { body: { json } });
    const phases = [page, line, { "odd.a-result": { expect: { json } } }].map(not);
    expect(await phasesWithout(/^fail: .*JSON/, phases)).toEqual([]);
  });
});

describe("a tree of steps", () => {
  /** Steps that make something, and checks that do not count. */
  const idle = fc.constantFrom<Step>(
    { file: { path: "{workspace}/a", content: "x" } },
    command("true"),
    command("test -f nope", { continueOnError: true }),
    command("test -d .", { continueOnError: true }),
    command("test -f nope", { if: "{env.KIND} == other" }),
  );
  const { tree } = fc.letrec<{ tree: Step; steps: Step[] }>((tie) => ({
    steps: fc.array(tie("tree"), { minLength: 1, maxLength: 2 }),
    tree: fc.oneof(
      { maxDepth: 2, withCrossShrink: true },
      idle,
      tie("tree").map((step) => ({ not: step })),
      fc
        .tuple(tie("steps"), fc.constantFrom("allOf", "anyOf", "not"))
        .map(([steps, key]) => ({ [key]: steps })),
      tie("steps").map((steps) => ({ group: { setup: [real], steps, cleanup: [real] } })),
      tie("steps").map((steps) => ({ foreach: { var: "x", in: [1], steps } })),
    ),
  }));
  const spec = { env: { KIND: "this" } };

  /** Fails when one of these phases is accepted and its task passes. */
  async function expectNoPass(phases: readonly (readonly Step[])[]): Promise<void> {
    const refusals = await Promise.all(
      phases.map((verify) => refusalOf({ "t.json": taskOf("t", { ...spec, verify }) })),
    );
    const accepted = phases.filter((_, index) => refusals[index] === undefined);
    if (accepted.length > 0) expect(await phasesWithout(/^(?!pass)/, accepted, spec)).toEqual([]);
  }

  it("of which none is a check is refused, or does not pass", async () => {
    const phase = fc.array(tree, { minLength: 1, maxLength: 2 });
    await fc.assert(fc.asyncProperty(fc.array(phase, { minLength: 12, maxLength: 16 }), expectNoPass), {
      numRuns: 1,
      endOnFailure: true,
    });
  });

  it("of which one alternative holds whose result does not count is not evidence", async () => {
    const ignored = command("test -d .", { continueOnError: true });
    const skipped = command("test -d .", { if: "{env.KIND} == other" });
    const failed = command("test -f nope", { continueOnError: true });
    const alternatives = [[ignored], [skipped, ignored], [{ allOf: [skipped] }, ignored]];
    const phases = alternatives.map((steps) => [{ anyOf: steps }, skipped]);
    await expectNoPass([...phases, [{ not: { anyOf: [failed] } }]]);
  });
});
