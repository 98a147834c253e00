import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkJson } from "../../src/expect/expectations.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { statesText } from "../../src/expect/contains-text.ts";
import type { Json } from "../../src/base/json.ts";
import type { JudgeSpec } from "../../src/model/eval.ts";
import type { FileStep, JsonExpectation } from "../../src/model/step.ts";
import type { RunResult } from "../../src/model/result.ts";
import type { Check } from "../../src/model/event.ts";
import { evaluate } from "../../src/evaluate.ts";
import { scoreForm, yesOrNoForm } from "../../src/graders/judge/verdict-forms.ts";
import { askJudge } from "../../src/graders/judge/judge.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { fixtureServer, trialOf } from "../e2e/support.ts";
import { load } from "../formats/support/load.ts";
import { folderOf } from "../support/cli.ts";
import { startFakeProvider } from "../support/fake-provider.ts";
import { scopeOf, stepContext, temporaryTrial } from "../support/step-context.ts";
import { command, type Step, taskOf } from "./task-verdicts.ts";
import { commandAgent } from "../support/programs.ts";

const value: Json = {
  items: [
    { name: "a", status: "ok", tags: [] },
    { name: "b", status: "ok", tags: ["x"] },
  ],
  user1: { email: "a@b.c" },
  next: null,
  total: 2,
};
const nulls: Json = { items: [{ tag: null }, { tag: null }], mixed: [null, { name: "a" }] };

function only(expectation: JsonExpectation, from: Json = value): Check {
  const [check, ...others] = checkJson("json", [expectation], from);
  if (check === undefined || others.length > 0) throw new Error("not one check");
  return check;
}

const absent = { exists: false };
const none = { count: 0 };
const misspelt = (name: string): string => `there is "${name}" there, did you mean that?`;

// docs/tasks.md, "Steps".
describe("that nothing is at a path is evidence only where its parent is there", () => {
  it.each<[string, Omit<JsonExpectation, "path">, string, Json?]>([
    ["$.itmes[0].error", absent, `$.itmes leads to nothing already; ${misspelt("items")}`],
    ["$.itmes[?@.status == 'failed']", none, "$.itmes leads to nothing already"],
    ["$.itmes[*].name", { equals: [] }, "$.itmes leads to nothing already"],
    ["$.total[*]", none, "$.total is 2, which has no members"],
    ["$.user1[0]", absent, "which has no entries"],
    ["$.error", absent, '$ is "fine", which has no members', "fine"],
    ["$.next[*]", none, "$.next is null, which has no members"],
    ["$.next..a", absent, "$.next is null"],
    ["$.error", absent, "$ is [], which has no members", []],
  ])("%s %j", (path, expected, reason, from) => {
    const message = expect.stringContaining(reason) as string;
    expect(only({ path, ...expected }, from)).toMatchObject({
      passed: false,
      evidence: "pathMissing",
      message,
    });
  });

  it.each<[string, Omit<JsonExpectation, "path">, Json?]>([
    ["$.error", absent],
    ["$.items[*].tag.name", absent, nulls],
    ["$.items[2]", absent],
    ["$.items[0].tags[*]", none],
    ["$..error", absent],
    ["$.error", absent, {}],
    ["$.items[?@.status != 'failed']", { count: 2 }],
    ["$.items[?!@.error]", { count: 2 }],
    ["$.items[0]['name', 'error']", { count: 1 }],
    ["$.items[?@.tags[?@ == 'x']]", { count: 1 }],
  ])("%s %j is evidence, without a doubt", (path, expected, from) => {
    const { passed, doubt } = only({ path, ...expected }, from);
    expect([passed, doubt]).toEqual([true, undefined]);
  });

  it.each<[string, Omit<JsonExpectation, "path">, string, Json?]>([
    ["$.itmes", absent, "items"],
    ["$..itmes", absent, "items"],
    ["$.items[*].staus", absent, "status"],
    ["$.items[?@.staus == 'failed']", none, "status"],
    ["$.items[?@.staus != 'failed']", { count: 2 }, "status"],
    ["$.items[?!@.staus]", { count: 2 }, "status"],
    ["$.items[?@.staus == 'x' || @.name == 'a']", { exists: true }, "status"],
    ["$.items[?@.name != @.staus]", { count: 2 }, "status"],
    ["$.items[?@.name != $.totl]", { count: 2 }, "total"],
    ["$.items[?!match(@.staus, 'f.*')]", { count: 2 }, "status"],
    ["$[?@.meta.colur != 'red'].name", { count: 1 }, "colour", [{ name: "a", meta: { colour: "red" } }]],
    ["$.items[?@.staus != 'failed'].name", { equals: ["a", "b"] }, "status"],
  ])("%s %j passes with a doubt", (path, expected, near, from) => {
    const { passed, doubt } = only({ path, ...expected }, from);
    expect([passed, doubt]).toEqual([true, expect.stringContaining(misspelt(near))]);
  });
});

// docs/tasks.md, "Control flow".
describe("a `not` does not pass when there was nothing to check", () => {
  type Look = Omit<Extract<FileStep["action"], { kind: "check" }>, "kind" | "exists">;
  const failed = (path: string): Look => ({ content: { json: [{ path, equals: "failed" }] } });
  const text = JSON.stringify(value);

  it.each<[string | undefined, Look, string]>([
    [text, failed("$.itmes[0].status"), "failed"],
    ["oops", failed("$.items[0].status"), "failed"],
    ['{"a":1,"a":2}', failed("$.a"), "failed"],
    [undefined, { content: { contains: ["secret"] } }, "failed"],
    [text, failed("$.items[0].status"), "passed"],
    [text, failed("$.error"), "passed"],
    [undefined, {}, "passed"],
  ])("a file with %j, not %j: %3$s", async (content, look, expected) => {
    using trial = temporaryTrial();
    const path = join(trial.workspace, "a.json");
    if (content !== undefined) writeFileSync(path, content);
    const action = { kind: "check", exists: true, ...look } as const;
    const step: FileStep = { type: "file", id: "f", path, action, timeoutMs: 60_000 };
    const { outcome, checks } = await runStep(
      { type: "not", id: "not", steps: [step], timeoutMs: 60_000 },
      stepContext({ trial, scope: scopeOf({}) }),
    );
    expect(outcome).toBe(expected);
    if (expected === "failed") expect(checks.every(({ evidence }) => evidence === "pathMissing")).toBe(true);
  });
});

// docs/tasks.md, "Steps".
describe("a check that passes with a doubt gives the trial a warning", () => {
  const state = (json: object): Step => ({ file: { path: "state.json", expect: { json } } });
  const itmes = /^verify step ".*" passed, but \$\.itmes leads to nothing; there is "items" there/;

  it.each<[Step, RegExp | undefined]>([
    [state({ path: "$.itmes", exists: false }), itmes],
    [{ not: state({ path: "$.itmes" }) }, itmes],
    [
      { file: { path: "{workspace}/out/a.txt", expect: { exists: false } } },
      /passed, but the folder of the file does not exist either$/,
    ],
    [state({ path: "$.error", exists: false }), undefined],
  ])("%j", async (step, warning) => {
    const servers = { m: { transport: "mock", mock: { tools: { t: { responses: [{ return: "x" }] } } } } };
    const task = taskOf("t", { servers, verify: [{ allOf: [step] }] });
    using folder = folderOf({ "state.json": value, "t.json": task });
    const options = { cwd: folder.path, output: false, agents: ["null"] } as const;
    const { verdict, warnings } = trialOf(await evaluate("t.json", options), "t");
    const expected = warning === undefined ? undefined : [expect.stringMatching(warning) as string];
    expect([verdict, warnings]).toEqual(["pass", expected]);
  });
});

/** A program that connects to its server, repeats what it was told, and does nothing else. */
const actions = [["connect", "{mcpConfig}"], ["stdin"]];
const parrot: NonNullable<Config["agents"]>[string] = {
  type: "command",
  command: process.execPath,
  args: [commandAgent, JSON.stringify(actions)],
  stdin: true,
};

type Workflow = NonNullable<Config["workflows"]>[number];

function configWith(workflow: Omit<Workflow, "name">, rest: Partial<Config> = {}): Config {
  const workflows = [{ name: "sum", ...workflow }];
  return { server: fixtureServer(), agents: { parrot }, agent: "parrot", workflows, ...rest };
}

function judgeAt(url: string): NonNullable<Config["judge"]> {
  return { model: "openai/gpt-5", baseURL: `${url}/v1`, apiKey: "k" };
}

// docs/guide.md, "Workflows".
// What a trial of such an agent warns of is in src/trace/warnings.test.ts.
describe("a workflow that an agent passes by repeating what the user says is accepted", () => {
  const turn = (user: string, expectedState: string) => [{ user, expectedState }];
  it.each<[Workflow["steps"], Partial<Config>?, (readonly string[])?]>([
    [turn("Say 42", "42")],
    [turn("What is 15 plus 27?", "5")],
    [turn("Say it in words.", "five")],
    [[...turn("What is 2 plus 3?", "5"), ...turn("And 5 times 5?", "25")]],
    [turn("Say 42.", "42"), { llmJudge: true }],
    [turn("Echo hello.", "hello"), {}, ["echo"]],
  ])("%j is accepted, with %j and the tools %j", async (steps, rest, expectTools = []) => {
    const { eval: spec } = await load(import.meta.dirname, {
      source: configWith({ steps, expectTools: [...expectTools] }, rest),
    });
    expect(spec.tasks).toHaveLength(1);
  });
});

// docs/guide.md, "Workflows".
describe("a state's number is a whole number", () => {
  it.each([
    ["It is 5.0.", "5"],
    ["2-5", "5"],
    ["[10,5,3]", "5"],
    ["15, then 5", "5"],
    ["3.50", "3.50"],
    ["x5y", "5"],
    ["\u001b[1m5\u001b[0m", "5"],
    ["\u001b[31mred", "\u001b[31m"],
    ["total:\u200b 5", "total: 5"],
    ["a\u200bb", "\u200b"],
  ])("%j states %j", (text, state) => {
    expect(statesText(text, state)).toBe(true);
  });

  const numbers = ["51", "of .5", "5.05", "\u22125", "(-5)", "", "\u001b[5m"];
  const marks = ["\u009b5m", "\u001b]8;;http://127.0.0.1/5\u0007here", "1\u200b5", "1\u00855"];
  const digits = ["\u06635", "5\u00b2", "\u20135", "\uff0d5"];
  it.each([
    ...[...numbers, ...marks, ...digits].map((text) => [text, "5"] as const),
    ["total 50", "total 5"],
    ["3.55", "3.5"],
    ["abc", "\u200b"],
  ] as const)("%j does not state %j", (text, state) => {
    expect(statesText(text, state)).toBe(false);
  });

  it("in a text of any length", () => {
    const text = "1".repeat(2_000_000);
    expect([statesText(text, "1".repeat(10)), statesText(`${text} 1`, "1")]).toEqual([false, true]);
  });
});

async function runTask(verify: Step, rest: object = {}): Promise<RunResult> {
  const prompt = "What is 19 plus 23? It is not 41, it is 42.";
  using folder = folderOf({
    "t.json": taskOf("t", { prompt, verify: [verify] }),
    "mcp-eval.config.json": {
      servers: {},
      mocks: { m: { tools: { t: { responses: [{ return: "x" }] } } } },
      tasks: ["t.json"],
      agent: parrot,
      ...rest,
    },
  });
  return await evaluate("mcp-eval.config.json", { cwd: folder.path, output: false });
}

// docs/tasks.md, "Templates".
describe("a check of the agent's answer whose expected text is in the prompt gives a warning", () => {
  const look = (run: string, stdout: unknown): Step =>
    command(run, { stdin: "{agent.output}", expect: { stdout } });
  const contains = look("cat", { contains: "42" });
  const warning = (text: string): string =>
    `expects "${text}" of the agent's answer, which is in the prompt: an agent that repeats the prompt may pass`;

  it.each<[string, Step, string]>([
    ["contains", contains, "42"],
    ["equals", look("grep -o 42", "42"), "42"],
    ["inside other steps", { anyOf: [{ foreach: { var: "x", in: [1], steps: [contains] } }] }, "42"],
    [
      "but only where the prompt has it, and the agent's answer is looked at",
      {
        allOf: [
          look("cat", { contains: "plus" }),
          command("expr 40 + 2", { expect: { stdout: "42" } }),
          look("wc -w", { matches: "1" }),
        ],
      },
      "plus",
    ],
  ])("by %s", async (_, verify, text) => {
    expect(trialOf(await runTask(verify), "t")).toMatchObject({
      verdict: "pass",
      warnings: [expect.stringMatching(new RegExp(`^verify step ".*" ${warning(text)}$`)) as string],
    });
  });

  it("by llm", async () => {
    await using provider = await startFakeProvider(() => ({ text: '{"passed": true, "reason": "It is."}' }));
    const result = await runTask({ llm: { contains: "42" } }, { judge: judgeAt(provider.url) });
    expect(trialOf(result, "t").warnings).toEqual([expect.stringContaining(warning("42"))]);
  });
});

/** What a judge's model has to answer for the rejection to match. */
async function expectNoVerdict(
  form: typeof scoreForm | typeof yesOrNoForm,
  reply: { readonly text: string } | { readonly raw: string },
  expected: object | undefined,
): Promise<void> {
  await using provider = await startFakeProvider([reply]);
  const spec: JudgeSpec = {
    model: "openai/gpt-4o",
    api: "chat",
    baseURL: provider.url,
    apiKey: "k",
    passThreshold: 0.8,
  };
  const options = { env: {}, emit: () => 0, signal: new AbortController().signal, modelMs: 10_000 };
  const prompt = { system: "Judge.", user: "Was it well done?" };
  const asked = askJudge<unknown>({ prompt, form }, spec, options);
  if (expected === undefined) await expect(asked).resolves.toMatchObject({ score: 1 });
  else await expect(asked).rejects.toMatchObject(expected);
}

/** A body of the chat API with a verdict that passes. */
function envelope(choices = "@first", more = ""): string {
  const message = `{"role":"assistant","content":${JSON.stringify('{"score":1,"reason":"fine"}')}}`;
  const first = '{"index":0,"message":@message,"finish_reason":"stop"}';
  const all = choices.replaceAll("@first", first).replaceAll("@message", message);
  return `{"id":"c","object":"chat.completion","created":1,"model":"m",${more}"choices":[${all}]}`;
}

// docs/guide.md, "The judge".
describe("a judge's answer that is not exactly one verdict is none", () => {
  const twice = {
    code: "judge/no-verdict",
    message: expect.stringMatching(/"\w+" twice in one answer$/) as string,
  };
  it.each([
    [scoreForm, '{"score":0,"score":1,"reason":"x"}'],
    [scoreForm, '{"score":0,"\\u0073core":1,"reason":"x"}'],
    [scoreForm, '{"score":1,"reason":"x","details":{"ok":false,"ok":true}}'],
    [yesOrNoForm, '{"passed":false,"reason":"no","passed":true}'],
  ])("a key twice: %2$s", (form, text) => expectNoVerdict(form, { text }, twice));

  it.each([
    [scoreForm, '{"score":1,"reason":"x","passed":false}', "passed"],
    [scoreForm, '{"score":1,"Score":0,"reason":"x"}', "Score"],
    [yesOrNoForm, '{"Passed":false,"passed":true,"reason":"x"}', "Passed"],
  ])("a second verdict: %2$s", (form, text, key) => {
    const message = `openai/gpt-4o gave "${key}" beside its verdict, which may contradict it`;
    return expectNoVerdict(form, { text }, { code: "judge/no-verdict", message });
  });

  it.each([
    [envelope(), undefined],
    [envelope("@first", '"error":null,'), undefined],
    [envelope('{"index":0,"message":{"content":"{}","content":"{}"}}'), /has the key "content" twice/],
    [envelope("@first", '"error":{"message":"overloaded"},'), /has an error: .*overloaded/],
    [envelope("@first,@first"), /more than one answer/],
  ])("an envelope %s", (raw, message) => {
    const expected = {
      code: "model/invalid-response",
      message: expect.stringMatching(message ?? "") as string,
    };
    return expectNoVerdict(scoreForm, { raw }, message && expected);
  });

  it.each([
    ['"error"', 'did not end its answer: finish reason "error"'],
    ['"length"', "was cut off at its output limit"],
    ['"content_filter"', "refused to judge"],
    ['"tool_calls"', 'did not end its answer: finish reason "tool_calls"'],
    ["null", "did not end its answer: no finish reason"],
  ])("a finish reason of %s", (reason, message) => {
    const raw = envelope(`{"index":0,"message":@message,"finish_reason":${reason}}`);
    return expectNoVerdict(
      scoreForm,
      { raw },
      { code: "judge/no-verdict", message: `openai/gpt-4o ${message}` },
    );
  });
});
