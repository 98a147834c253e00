import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { McpExpectation, McpRequest, Step } from "../../src/model/step.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { TrialResult } from "../../src/model/result.ts";
import { nullAgentWarning } from "../../src/report/result.ts";
import { evaluate } from "../../src/evaluate.ts";
import { SchemaValidator } from "../../src/graders/schema-validator.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { startSession, stdioSpec } from "../servers/support.ts";
import { folderOf } from "../support/cli.ts";
import { lyingAddress, lyingServer } from "../support/hostile.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";
import { command, taskOf } from "./task-verdicts.ts";

type ToolTest = NonNullable<Config["toolHealthSuites"]>[number]["tests"][number];
/** Name, server, verdict, what the trial has to say in its error, grades or warnings, and what the test expects. */
type Attack = readonly [
  name: string,
  server: string | NonNullable<Config["server"]>,
  verdict: TrialResult["verdict"],
  says: string,
  test?: Partial<ToolTest>,
];

const five = { expectedResult: 5 };

/** Tries every attack as a tool test of `add`, with a server of its own, in one run. */
async function play(attacks: readonly Attack[]): Promise<Map<string, TrialResult>> {
  const tests = attacks.map(([name, , , , test = five]) => {
    return { name: "add", description: name, server: name, ...test };
  });
  const servers = attacks.map(([name, server]) => [
    name,
    typeof server === "string" ? lyingServer(server) : server,
  ]);
  const suites = [{ name: "s", parallel: true, tests }];
  const config: Config = {
    servers: Object.fromEntries(servers) as Config["servers"],
    toolHealthSuites: suites,
  };
  const { trials } = await evaluate(config, { output: false });
  return new Map(trials.map((trial) => [trial.task.slice("s/".length), trial]));
}

function itGives(attacks: readonly Attack[]): void {
  let trials: Map<string, TrialResult>;
  beforeAll(async () => {
    trials = await play(attacks);
  });
  it.each(attacks.map(([name, , ...expected]) => [name, ...expected] as const))(
    "%s: %s",
    (name, verdict, says) => {
      const trial = trials.get(name);
      const text = JSON.stringify(trial).replaceAll('\\"', '"');
      expect([trial?.verdict, text]).toEqual([verdict, expect.stringContaining(says)]);
    },
  );
}

// docs/guide.md, "Tool tests".
describe("a tool test passes only for a tool that its server lists, once", () => {
  itGives([
    ["a good call", "none", "pass", "the number found is 5"],
    ["a tool that is not listed", "unlisted", "fail", 'does not list the tool "add"; listed: sub'],
    ["a server without the capability", "no-capability", "fail", "it does not declare that it has tools"],
    [
      "a misspelt tool whose error is expected",
      "none",
      "fail",
      'listed: add; did you mean "add"?',
      { name: "ad", expectedError: "not found" },
    ],
    [
      "a listed tool of a server that calls none",
      "method-not-found",
      "fail",
      'offers no tool "add": Method not found',
      { expectedError: "not found" },
    ],
    ["a tool that is listed twice", "twice", "fail", 'lists the tool "add" 2 times'],
    ["a tool that is listed on two pages", "twice-on-pages", "fail", 'lists the tool "add" more than once'],
  ]);
});

describe("a step of a task passes only for what its server lists", () => {
  const timeoutMs = 20_000;
  const step = (request: McpRequest, expectation: McpExpectation = {}): Step => {
    return { type: "mcp", id: "call", request, expect: expectation, timeoutMs };
  };
  const call = (tool: string, expectation?: McpExpectation): Step =>
    step({ kind: "tool", tool, args: {} }, expectation);
  const add = call("add");
  const not = (inner: Step): Step => ({ type: "not", id: "not", steps: [inner], timeoutMs });

  async function outcomes(lies: string | readonly string[], ...steps: readonly Step[]): Promise<string[]> {
    const started = [lies].flat().map((lie) => {
      const { command: program, args } = lyingServer(lie);
      return startSession(stdioSpec(program, args));
    });
    const sessions = (await Promise.all(started)).map(({ session }) => session);
    await using validator = new SchemaValidator();
    using trial = temporaryTrial({ validateSchema: (schema, value) => validator.validate(schema, value) });
    const context = stepContext({ sessions, scope: scopeOf({}), trial });
    const reports = [];
    for (const each of steps) reports.push((await runStep(each, context)).outcome);
    return reports;
  }

  const isError = call("add", { isError: true });
  const text = (expected: object): Step => call("add", { text: expected });
  const prompts = ["greet", "gret"].map((prompt) =>
    step({ kind: "prompt", prompt, args: {} }, { error: "not found" }),
  );
  it.each<[string | string[], Step[], string]>([
    ...["unlisted", "no-capability", "twice"].map((lie): [string, Step[], string] => [
      lie,
      [add, isError, not(add)],
      "failed failed failed",
    ]),
    // Answers that not all readers read in one way.
    ...["empty-block", "IsError", "StructuredContent"].map((lie): [string, Step[], string] => [
      lie,
      [add, isError, not(isError)],
      "error error error",
    ]),
    [["none", "unlisted"], [add, not(call("addd"))], "passed failed"],
    ["learns-add", [add, call("learn"), add], "failed passed passed"],
    ["none", prompts, "passed failed"],
    ["picture-of-five", [text({ contains: ["5"] })], "failed"],
    // The schema of the tool counts as it was before the call.
    ["loosens-schema", [text({ equals: "5" }), not(text({ equals: "5" }))], "failed failed"],
  ])("%s", async (lies, steps, expected) => {
    expect((await outcomes(lies, ...steps)).join(" ")).toBe(expected);
  });
});

// docs/servers.md, "Start, recording, stop".
describe("a server that is gone when it has answered proves nothing", () => {
  const perRun = (lie: string): Attack[1] => ({ ...lyingServer(lie), lifetime: "per_run" });
  itGives([
    ["by a signal", "answer:kill", "fail", '" was ended by SIGKILL'],
    ["with an exit code", "answer:exit-1", "fail", '" exited with code 1'],
    ["of several trials", perRun("answer:kill"), "fail", '" was ended by SIGKILL'],
    [
      "with a code when it was to end",
      "stdin:exit-1",
      "pass",
      "ended with exit code 1 when its stdin was closed",
    ],
    ["no ping", "ping:hangs", "pass", "did not answer the ping at the end of the trial"],
    ["bad ping", "ping:fails", "pass", "answered the ping at the end of the trial with an error: it broke"],
    ["but not one that mcpvals ended", "none", "pass", "result"],
    ["but not one that goes on", perRun("none"), "pass", "result"],
  ]);
});

// docs/tasks.md, "Steps": what holds for a tool test holds for a task, until its cleanup begins.
describe("a server of a task that is gone when it has answered proves nothing", () => {
  const killed = ["error", 'server "s" was ended by SIGKILL', [nullAgentWarning]];
  const ended = ["pass", undefined, ['server "s" ended by itself: SIGKILL', nullAgentWarning]];
  const kills = command("kill -9 $(cat {workspace}/pid)");

  it.each([
    ["answer:kill", [], killed],
    ["answer:kill", [kills], killed],
    ["none", [kills], ended],
  ])("%s, with the cleanup %j", async (lie, cleanup, [verdict, message, warnings]) => {
    const server = lyingServer(lie);
    const line = 'echo $$ > "$1/pid"; shift; exec "$@"';
    const args = ["-c", line, "sh", "{workspace}", server.command, ...server.args];
    const verify = [{ mcp: { server: "s", tool: "add", expect: { text: { equals: "5" } } } }];
    const spec = { servers: { s: { command: "sh", args } }, prompt: "Add.", verify, cleanup };
    using folder = folderOf({ "task.json": taskOf("sum", spec) });
    const { trials } = await evaluate(join(folder.path, "task.json"), { output: false, agents: ["null"] });
    expect(trials).toMatchObject([{ verdict }]);
    expect(trials[0]?.error?.message).toBe(message);
    if (verdict === "pass") expect(trials[0]?.warnings).toEqual(warnings);
  });
});

// docs/guide.md, "Tool tests".
describe("an answer that readers can read in different ways fails a tool test", () => {
  const malformed = "the answer is malformed: its bytes are not UTF-8";
  itGives([
    ["in bytes that are no UTF-8", "no-text", "fail", malformed],
    ["with a key twice", "error-twice", "fail", 'it has the key "isError" twice'],
    ["with an isError that is a text", "is-error-text", "fail", "isError is neither true nor false"],
    ["with an empty block", "empty-block", "fail", "content[0] has no type", {}],
    ["with the number beside a picture", "picture-of-five", "fail", "found no number"],
    ["IsError", "IsError", "fail", 'it has the key "IsError", which only some readers take for isError'],
    ["StructuredContent", "StructuredContent", "fail", "take for structuredContent"],
    ["with the number in the error", "code-5", "fail", "the call failed: MCP error -32602, attempt 5"],
    ["with the number in colours", "colours", "fail", "found no number"],
    ["with the text in colours", "colours", "fail", "does not contain", { expectedResult: "5" }],
    [
      "but not where only the list has such bytes",
      "bytes-in-list",
      "pass",
      "sent a malformed message: its bytes are not UTF-8",
    ],
    ["and one with nothing in it is noted", "nothing", "pass", "add answered with nothing in its result", {}],
  ]);

  it("but a server that knows no ping is fine", async () => {
    const [trial] = (await play([["a", "ping:unknown", "pass", ""]])).values();
    expect([trial?.verdict, trial?.warnings]).toEqual(["pass", undefined]);
  });

  it.each<[lie: string, path: string, verdict: string, says: string]>([
    ["no-text", "mcp", "fail", malformed],
    ["error-twice", "events", "fail", "twice"],
    ["accepted", "mcp", "fail", "HTTP 202, as if there were nothing to answer"],
    ["elsewhere", "mcp", "fail", "HTTP 307"],
  ])("over HTTP: %s at /%s", async (lie, path, verdict, says) => {
    const test = { ...five, ...(lie === "accepted" ? { timeout: 200 } : {}) };
    const [trial] = (await play([["a", await lyingAddress(lie, path), "fail", "", test]])).values();
    expect([trial?.verdict, JSON.stringify(trial)]).toEqual([verdict, expect.stringContaining(says)]);
  });
});
