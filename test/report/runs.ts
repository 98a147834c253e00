import type { Check, EventBody } from "../../src/model/event.ts";
import {
  brokenTrial,
  checkTask,
  claude,
  finding,
  findingsGrade,
  grade,
  request,
  response,
  sampleRun,
  scripted,
  skipGrade,
  textResult,
  toolTest,
  trialOf,
  workflow,
  type SampleRun,
} from "./samples.ts";
import { failedCheck, stepEvents } from "./step-runs.ts";

const folder = ".mcpvals/runs/20261121-101500-4f2a";

/** Two tool tests that pass. */
export function passingRun(): SampleRun {
  const tasks = [toolTest("echo answers what it was told"), toolTest("adds two numbers")];
  return sampleRun({
    tasks,
    trials: [trialOf(tasks[0]!, { ms: 41 }), trialOf(tasks[1]!, { ms: 1234 })],
    durationMs: 1290,
    folder,
  });
}

/** A wrong number, wrong structured content, a tool's error with escape sequences, and a workflow off its goal. */
export function failingRun(): SampleRun {
  const [echo, sum, weather, cursed, nothing] = [
    toolTest("echo answers what it was told"),
    toolTest("adds two numbers"),
    toolTest("gives the weather"),
    toolTest("answers isError"),
    toolTest("checks nothing"),
  ];
  const flow = workflow("get the sum");
  return sampleRun({
    tasks: [echo, sum, weather, cursed, nothing, flow],
    agents: [scripted],
    folder,
    trials: [
      trialOf(echo, { warnings: ['server "everything" wrote a line on stdout that is not MCP, first "hi"'] }),
      trialOf(sum, {
        ms: 39,
        events: sumEvents,
        grades: [
          grade("tool-call-health", 1, "1 call healthy", [3]),
          grade("verify-steps", 0, "result: the last number in the text is 5, expected 6", [4]),
        ],
      }),
      trialOf(weather, {
        ms: 245,
        events: weatherEvents,
        grades: [
          grade("tool-call-health", 1, "1 call healthy", [3]),
          grade(
            "verify-steps",
            0,
            "result: the result does not contain what was expected: /city is missing; latency: 240.1 ms, 100 ms allowed",
            [4],
          ),
        ],
      }),
      trialOf(cursed, {
        events: cursedEvents,
        grades: [
          grade("tool-call-health", 0, "annotated answered isError: bad \u001b[2J thing", [2]),
          skipGrade("verify-steps", "no step checks anything"),
        ],
      }),
      trialOf(nothing, {
        ms: 12,
        grades: [
          skipGrade("tool-call-health", "no tool was called"),
          skipGrade("verify-steps", "no step checks anything"),
        ],
      }),
      trialOf(flow, {
        agent: "scripted",
        ms: 131,
        events: flowEvents,
        grades: [
          grade(
            "end-to-end-success",
            0,
            'turn 1: neither the last assistant message nor the last tool result contains "5"',
            [4, 3],
          ),
          grade("tool-invocation-order", 1, "called in order: get-sum", [2]),
          grade("tool-call-health", 1, "1 call healthy", [3]),
        ],
      }),
    ],
  });
}

/** One server that cannot start, one that dies, a trial that takes too long, a judge without a verdict. */
export function brokenRun(): SampleRun {
  const tasks = ["first", "second", "third", "fourth", "fifth"].map((name) => toolTest(name));
  const judged = workflow("is polite");
  const spawn = {
    code: "server/spawn-failed",
    kind: "environment",
    message: 'server "everything": could not start "nod": no such program',
  } as const;
  return sampleRun({
    tasks: [...tasks, judged],
    agents: [scripted],
    folder,
    trials: [
      trialOf(tasks[0]!),
      brokenTrial(tasks[1]!, spawn, { ms: 3 }),
      brokenTrial(tasks[2]!, spawn, { ms: 4 }),
      brokenTrial(tasks[3]!, {
        code: "server/exited",
        kind: "environment",
        message: 'the server "everything" ended with code 1 before it answered initialize',
        hint: "Run the same command in a terminal: node everything.js",
        detail: "Error: Cannot find module 'zod'\nRequire stack:\n- /srv/\u001b[1meverything.js\n",
      }),
      brokenTrial(
        tasks[4]!,
        { code: "trial/timeout", kind: "timeout", message: "the trial did not finish within 2 s" },
        { ms: 2001 },
      ),
      trialOf(judged, {
        agent: "scripted",
        usage: { inputTokens: 1200, outputTokens: 34, requests: 2 },
        grades: [
          grade("tool-call-health", 1, "1 call healthy"),
          {
            grader: "judge",
            verdict: "error",
            score: null,
            reason: "the judge answered with something that is not a verdict",
            evidence: [],
            error: {
              code: "judge/no-verdict",
              kind: "environment",
              message: 'not JSON: "I would say fine"',
            },
          },
        ],
      }),
    ],
  });
}

/** Two agents, three attempts of each task. */
export function variedRun(): SampleRun {
  const tasks = [workflow("books a flight"), workflow("finds the cheapest"), workflow("日本語のタスク 🎉")];
  const trials = tasks.flatMap((task, index) =>
    ["claude", "scripted"].flatMap((agent) =>
      [1, 2, 3].map((attempt) => {
        const model = agent === "claude";
        const usage = { inputTokens: 12_000, outputTokens: 340, cacheReadTokens: 9000, requests: 4 };
        const common = { agent, attempt, ms: model ? 8200 : 12, ...(model ? { usage } : {}) };
        if (index === 2 && model && attempt === 2)
          return brokenTrial(task, unreachable, { ...common, ms: 31_200 });
        const bad = index === 1 && (!model || attempt > 1);
        return trialOf(task, bad ? { ...common, events: searchEvents, grades: wrongOrder } : common);
      }),
    ),
  );
  return sampleRun({
    name: "travel",
    tasks,
    trials,
    agents: [claude, scripted],
    durationMs: 94_200,
    concurrency: 4,
    folder,
  });
}

/** Ctrl-C after the first of four. */
export function interruptedRun(): SampleRun {
  const tasks = ["a", "b", "c", "d"].map((name) => toolTest(name));
  const error = {
    code: "run/interrupted",
    kind: "interrupted",
    message: "the run was interrupted before this trial started",
  } as const;
  return sampleRun({
    tasks,
    interrupted: true,
    trials: [trialOf(tasks[0]!), ...tasks.slice(1).map((task) => brokenTrial(task, error, { ms: 0 }))],
  });
}

/** No tasks at all. */
export function emptyRun(): SampleRun {
  return sampleRun({ tasks: [], trials: [], durationMs: 2 });
}

const about = {
  name: "notes-server",
  version: "1.2.0",
  protocolVersion: "2025-11-25",
  tools: 5,
  resources: 1,
  prompts: 0,
};

/** A check with findings of every kind: of the server, of one tool, of many tools, in two trials, of clients. */
export function checkedRun(options: { readonly maxWarnings?: number } = {}): SampleRun {
  const notCalled = [{ tool: "delete_note", reason: "it is not annotated readOnlyHint: true" }];
  const tasks = [checkTask("definitions", { about, notCalled }), checkTask("calls")];
  const strict = ["search", "read", "list", "delete_note"].map((tool) =>
    finding("client/openai-strict", { tool }, "additionalProperties is not false", {
      clients: { "OpenAI strict mode": "refused" },
    }),
  );
  const junk = finding("protocol/stdout", {}, 'a line is "started \u001b[31m"');
  return sampleRun({
    tasks,
    folder,
    ...options,
    trials: [
      trialOf(tasks[0]!, {
        ms: 120,
        grades: [
          findingsGrade(
            junk,
            finding(
              "schema/dangling-ref",
              { tool: "search", parameter: "user" },
              'nothing is at "#/$defs/User"',
              { clients: { Gemini: "refused" } },
            ),
            finding("client/name-characters", { tool: "notes.read" }, "the name has a dot", {
              clients: { Codex: "refused", "Claude Desktop": "refused" },
            }),
            finding(
              "schema/untyped-parameter",
              { tool: "search", parameter: "q" },
              "it has no type, enum or const",
              {
                clients: { Codex: "changed" },
              },
            ),
            ...strict,
          ),
        ],
      }),
      trialOf(tasks[1]!, {
        ms: 900,
        grades: [
          findingsGrade(
            junk,
            finding("call/crash", { tool: "read" }, "exit code 7 after {}", { evidence: [4, 5] }),
          ),
        ],
      }),
    ],
    durationMs: 1100,
  });
}

const unreachable = {
  code: "model/unreachable",
  kind: "environment",
  message: "anthropic/claude-sonnet-4-5 did not answer: 529 overloaded",
} as const;

const wrongOrder = [
  grade("tool-invocation-order", 0.5, "not called: compare; expected: search, compare; called: search", [1]),
  grade("tool-call-health", 1, "1 call healthy", [2]),
];

const searchEvents: EventBody[] = [
  request(1, "search", { q: "cheap" }),
  response(1, textResult("3 flights")),
];

function failedCall(request: EventBody, response: EventBody, ...checks: readonly Check[]): EventBody[] {
  return stepEvents("call", { type: "mcp", input: { tool: "get-sum", args: {} }, checks }, [
    request,
    response,
  ]);
}

const sumEvents = failedCall(
  request(1, "get-sum", { a: 2, b: 3 }),
  response(1, textResult("The sum of 2 and 3 is 5.")),
  failedCheck("result", "the last number in the text is 5, expected 6", 6, 5),
);

const forecast = {
  temperature: 33,
  conditions: "Cloudy",
  humidity: 82,
  wind: { speed: 3, direction: "NW" },
};
const wanted = { conditions: "Sunny", temperature: 33, wind: { speed: 3, direction: "SE" } };

const weatherEvents = failedCall(
  request(1, "get-structured-content", { location: "New York" }),
  response(1, { structuredContent: forecast, content: [] }),
  failedCheck("result", "the result does not contain what was expected: /city is missing", wanted, forecast),
  failedCheck("latency", "240.1 ms, 100 ms allowed", 100, 240.1),
);

const cursedEvents: EventBody[] = [
  request(1, "annotated", { text: "\u001b[31mred" }),
  response(1, { isError: true, ...textResult("bad \u001b[2J\u0007 thing\nat line 2") }),
];

const flowEvents: EventBody[] = [
  { type: "turn.started", turn: 0, user: "Add 2 and 3." },
  request(1, "get-sum", { a: 2, b: 2 }),
  response(1, textResult("The sum of 2 and 2 is 4.")),
  {
    type: "agent.message",
    turn: 0,
    text: "I have added the two numbers for you, and the answer that I arrived at is 4. Anything else?",
  },
  { type: "turn.finished", turn: 0, reason: "done" },
];
