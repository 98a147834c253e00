import { expect, it } from "vitest";
import { collectEvidence } from "../../src/report/evidence.ts";
import { readTrace } from "../../src/trace/trajectory.ts";
import type { EventBody } from "../../src/model/event.ts";
import type { ReporterName } from "../../src/model/reporter.ts";
import { agentSummary } from "../../src/report/explain.ts";
import { reporters } from "../../src/report/reporters.ts";
import {
  grade,
  play,
  request,
  response,
  sampleRun,
  scripted,
  skipGrade,
  textResult,
  trialOf,
  workflow,
} from "./samples.ts";
import { captureOutput } from "./screen.ts";

const own: EventBody = {
  type: "agent.tool",
  turn: 0,
  callId: "c1",
  name: "Bash",
  source: "builtin",
  status: "failed",
  args: { command: "ls" },
  result: "denied",
};

/** A trial of an agent that makes so many calls, of which the second fails, uses a tool of its own, and says something. */
function trialEvents(calls: number, said: string): EventBody[] {
  return [
    { type: "phase.started", phase: "agent" },
    { type: "turn.started", turn: 0, user: "Do it." },
    ...Array.from({ length: calls }, (_, index) => [
      request(index, `tool${index + 1}`, { text: index === 0 ? "x".repeat(400) : "\u001b[31m" }),
      response(
        index,
        index === 1 ? { isError: true, ...textResult("no\nsuch \u001b[2J") } : textResult("done"),
      ),
    ]).flat(),
    own,
    { type: "agent.message", turn: 0, text: said },
    { type: "turn.finished", turn: 0, reason: "done" },
    { type: "phase.finished", phase: "agent", durationMs: 5 },
  ];
}

async function printed(
  name: ReporterName,
  calls: number,
  options: { said?: string; columns?: number; cited?: readonly number[] } = {},
): Promise<string> {
  const { said = "It is done.", columns, cited } = options;
  const task = workflow("does it");
  const grades = [grade("end-to-end-success", 0, "not reached", cited)];
  const trial = trialOf(task, { agent: "scripted", events: trialEvents(calls, said), grades });
  const tools = {
    toolCalls: calls + 1,
    mcpToolCalls: calls,
    serversUsed: [],
    serversUnused: [],
    servers: {},
  };
  const run = sampleRun({
    tasks: [task],
    agents: [scripted],
    trials: [{ ...trial, result: { ...trial.result, tools } }],
  });
  const output = captureOutput(columns === undefined ? {} : { isTerminal: true, columns });
  await play(run, reporters[name](output));
  return output.text();
}

it("shows what the agent of a failed trial did, in order, with answers, and what it said last", async () => {
  const text = await printed("junit", 2);
  expect(text).toContain('the agent made 3 tool calls\n  call      tool1 {"text":"xxx');
  expect(text).toContain(
    String.raw`
  result    done
  call      tool2 {"text":"\u001b[31m"}  (event 5)
  isError   no\nsuch \x1b[2J
  tool      Bash {"command":"ls"}  (event 7, its own tool)
  failed    denied
  said      It is done.  (event 8)
`.trimEnd(),
  );
});

it("shows all of them in order, with results, also where a grade cites some, and of many those that it cites", async () => {
  const few = await printed("junit", 3, { cited: [5, 8] });
  expect(few).toContain(
    "not reached\n  cited     events 5, 7 below\nthe agent made 4 tool calls\n  call      tool1 {",
  );
  const labels = (text: string): readonly string[] =>
    text
      .slice(text.indexOf("the agent made"))
      .match(/^ {2}(?:call|result|isError|tool)\s+\S+|^ +…[^\n]+/gm) ?? [];
  expect(labels(few).map((line) => line.replaceAll(/ +/g, " ").trim())).toEqual([
    "call tool1",
    "result done",
    "call tool2",
    "isError │",
    "call tool3",
    "result done",
    "tool Bash",
  ]);
  // Its call is event 29.
  const many = await printed("junit", 30, { cited: [29] });
  expect(
    labels(many)
      .filter((line) => /call|…/.test(line))
      .map((line) => line.trim().split(/ {2,}/).at(-1)),
  ).toEqual(["tool1", "tool2", "tool3", "tool4", "… 22 more calls", "tool14", "tool28", "tool29", "tool30"]);
});

it("shows resources that the agent read and prompts that it asked for, in their order", async () => {
  const ask = (id: number, method: string, params: object): EventBody => ({
    type: "mcp.message",
    server: "demo",
    direction: "client-to-server",
    message: { jsonrpc: "2.0", id, method, params: { ...params } },
  });
  const answer = (id: number, body: object): EventBody => ({
    type: "mcp.message",
    server: "demo",
    direction: "server-to-client",
    message: { jsonrpc: "2.0", id, ...body },
  });
  const events: EventBody[] = [
    { type: "phase.started", phase: "agent" },
    { type: "turn.started", turn: 0, user: "Do it." },
    ask(1, "resources/read", { uri: "demo:a" }),
    answer(1, { result: { contents: [{ uri: "demo:a", text: "page\u001b[2J one" }] } }),
    request(2, "add", {}),
    response(2, textResult("5")),
    ask(3, "prompts/get", { name: "greet", arguments: { to: "you" } }),
    answer(3, { error: { code: -32602, message: "no such prompt" } }),
    { type: "turn.finished", turn: 0, reason: "done" },
    { type: "phase.finished", phase: "agent", durationMs: 5 },
    // A verify step reads, too.
    ask(4, "resources/read", { uri: "demo:b" }),
    answer(4, { result: { contents: [] } }),
  ];
  const task = workflow("does it");
  const grades = [grade("end-to-end-success", 0, "not reached", [12])];
  const run = sampleRun({ tasks: [task], trials: [trialOf(task, { agent: "scripted", events, grades })] });
  for (const [name, expected] of [
    [
      "junit",
      String.raw`the agent made 1 tool call, 1 resource read, 1 prompt request
  read      demo:a  (event 3)
  result    page\x1b[2J one
  call      add {}  (event 5)
  result    5
  prompt    greet {"to":"you"}  (event 7)
  error     no such prompt (code -32602)`,
    ],
    ["github", "the agent called resource demo:a, add, prompt greet (failed)"],
  ] as const) {
    const output = captureOutput();
    await play(run, reporters[name](output));
    expect(output.text()).toContain(expected);
    expect(output.text()).not.toContain("demo:b");
  }
});

it("shows the first and the last of many calls, each on one line of a terminal", async () => {
  const text = await printed("console", 30, { columns: 60 });
  const lines = text.slice(text.indexOf("the agent made")).split("\n");
  expect(lines.slice(0, 19).map((line) => line.trim().split(/ {2,}/).slice(0, 2).join(": "))).toEqual([
    "the agent made 31 tool calls",
    expect.stringMatching(/^call: tool1 \{"text":"x+…$/),
    "result: done",
    String.raw`call: tool2 {"text":"\u001b[31m"}`,
    String.raw`isError: no\nsuch \x1b[2J`,
    ...["tool3", "tool4"].flatMap((tool) => [
      String.raw`call: ${tool} {"text":"\u001b[31m"}`,
      "result: done",
    ]),
    "… 23 more calls",
    ...["tool28", "tool29", "tool30"].flatMap((tool) => [
      String.raw`call: ${tool} {"text":"\u001b[31m"}`,
      "result: done",
    ]),
    expect.stringMatching(/^tool: Bash/),
    "failed: denied",
    "said: It is done.",
  ]);
  expect(lines.every((line) => line.length <= 60)).toBe(true);
});

it("says it in a sentence in annotations of GitHub", async () => {
  expect(await printed("github", 2)).toContain(
    "::error title=does it::end-to-end-success: not reached · the agent called tool1, tool2 (failed), Bash; it said: It is done.\n",
  );
});

it("says that an agent called nothing", async () => {
  const task = workflow("does it");
  const events = trialEvents(0, "").filter(({ type }) => type !== "agent.tool");
  const grades = [grade("end-to-end-success", 0, "not reached")];
  const run = sampleRun({ tasks: [task], trials: [trialOf(task, { agent: "scripted", events, grades })] });
  const output = captureOutput();
  await play(run, reporters.markdown(output));
  expect(output.text()).toContain("end-to-end-success 0.00  not reached\nthe agent made no tool calls\n```");
});

it("keeps of a trial that passed only what its grades cite", () => {
  const trial = trialOf(workflow("any"), {
    events: trialEvents(3, "yes"),
    grades: [grade("any", 1, "", [3])],
  });
  expect(collectEvidence(readTrace(trial.events), trial.result.grades).map(({ seq }) => seq)).toEqual([3, 4]);
});

it("shows weights, and graders that a trial passes without as notes", async () => {
  const declared = { type: "program", name: "own", weight: 1, required: true, config: {}, dir: "/" };
  const [bad, good] = [workflow("bad"), { ...workflow("good"), graders: [declared] }];
  const optional = { ...grade("behavior", 0, "2 repeated calls"), required: false as const };
  const weighted = (score: number) => ({ ...grade("text", score, "it says nothing"), weight: 3 });
  const run = sampleRun({
    tasks: [bad, good],
    agents: [scripted],
    trials: [
      trialOf(bad, {
        agent: "scripted",
        grades: [optional, weighted(0), { ...grade("health", 1), weight: 2 }],
      }),
      trialOf(good, {
        agent: "scripted",
        grades: [
          weighted(1),
          optional,
          skipGrade("own", "nothing was said"),
          skipGrade("tool-order", "none"),
        ],
      }),
    ],
  });
  const output = captureOutput();
  await play(run, reporters.console(output));
  expect(output.text()).toContain(`  ✗ bad       41 ms  score 0.33
  ✓ good      41 ms  score 0.75
`);
  expect(output.text()).toContain(`
    text (weight 3) 0.00  it says nothing
    not required: behavior 0.00  2 repeated calls
    passed: health (weight 2)
`);
  expect(output.text()).toContain(`Not required

  - good: behavior 0.00  2 repeated calls
`);
  expect(output.text()).not.toContain("tool-order");
  const file = captureOutput();
  await play(run, reporters.junit(file));
  // The grader that decided, and not the first that failed.
  expect(file.text()).toContain('<failure type="text"');
});

it("counts in its summary what the result knows of and the record does not", () => {
  const { result, events } = trialOf(workflow("does it"), {
    agent: "scripted",
    events: trialEvents(2, "Done."),
  });
  const tools = { toolCalls: 4, mcpToolCalls: 3, serversUsed: [], serversUnused: [], servers: {} };
  expect(agentSummary({ ...result, tools }, events)).toBe(
    "the agent called tool1, tool2 (failed), Bash, … 1 more; it said: Done.",
  );
});
