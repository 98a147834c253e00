import { describe, expect, it } from "vitest";
import { portableTask } from "../../test/support/portable.ts";
import {
  errorResult,
  textResult,
  toolTestTask,
  TrialEvents,
  workflowTask,
} from "../../test/support/trial-events.ts";
import type { JsonObject } from "../base/json.ts";
import type { Task } from "../model/task.ts";
import type { Check, EventBody, EventOf, Phase } from "../model/event.ts";
import type { ExpectedState } from "../model/fields.ts";

function warnings(...bodies: readonly EventBody[]): string[] {
  return warningsOfTask(workflowTask(), ...bodies);
}

function warningsOfTask(task: Task, ...bodies: readonly EventBody[]): string[] {
  const trial = new TrialEvents();
  for (const body of bodies) trial.emit(body);
  return trial.warnings(task);
}

const line = (text: string, server = "s"): EventBody => ({ type: "server.invalid_output", server, text });
const message =
  (direction: "client-to-server" | "server-to-client") =>
  (message: JsonObject, server = "s") =>
    ({ type: "mcp.message", server, direction, message }) as const;
const sent = message("client-to-server");
const got = message("server-to-client");

describe("warnings of messages", () => {
  const [asked, answered] = [sent({ id: 1, method: "ping" }), got({ id: 1, result: {} })];
  const malformed = { ...got({ method: "notifications/progress" }), malformed: "it has a key twice" };
  const advice = "logs belong on stderr, other clients may break on them";
  const other = "other clients may read it in another way or not at all";
  const unasked = "that no request was waiting for";

  it.each<[string, EventBody[], string[]]>([
    [
      "requests, answers and notifications in both directions",
      [
        sent({ id: 1, method: "tools/call" }),
        got({ id: 1, method: "sampling/createMessage" }),
        sent({ id: 1, result: {} }),
        got({ method: "notifications/progress" }),
        got({ id: 1, result: { isError: true } }),
        sent({ id: 2, method: "logging/setLevel" }),
        got({ id: 2, error: { code: -1, message: "no" } }),
      ],
      [],
    ],
    [
      "lines that are not MCP",
      [line("x".repeat(100)), line("two"), line("only", "other")],
      [
        `server "s" wrote 2 lines on stdout that are not MCP, first "${"x".repeat(80)}"; ${advice}`,
        `server "other" wrote a line on stdout that is not MCP, first "only"; ${advice}`,
      ],
    ],
    [
      "answers to requests that were not sent",
      [asked, answered, answered, got({ id: 9, result: {} })],
      [`server "s" gave 2 answers ${unasked}, first with id 1`],
    ],
    [
      "answers with the ids of others",
      [asked, answered, got({ id: 1, result: {} }, "other"), got({ id: "1", result: {} })],
      [
        `server "other" gave an answer ${unasked}, with id 1`,
        `server "s" gave an answer ${unasked}, with id "1"`,
      ],
    ],
    [
      "an answer without an id",
      [got({ id: null, error: { code: -32_700, message: "Parse error" } })],
      [`server "s" gave an answer ${unasked}, with id null: Parse error`],
    ],
    [
      "a malformed message",
      [malformed],
      [`server "s" sent a malformed message: it has a key twice; ${other}`],
    ],
    [
      "malformed messages",
      [malformed, { ...malformed, malformed: "other" }],
      [`server "s" sent 2 malformed messages, first: it has a key twice; ${other}`],
    ],
  ])("counts by server and shows the first of %s", (_, events, told) => {
    expect(warnings(...events)).toEqual(told);
  });

  it.each([
    ["shttp", "POST", 202, [1], ["HTTP 202"]],
    ["shttp", "POST", 204, [1], ["HTTP 204"]],
    ["shttp", "POST", 200, [1], []],
    ["shttp", "POST", 202, [], []],
    ["shttp", "GET", 202, [1], []],
    ["sse", "POST", 202, [1], []],
  ])("over %s, %s with %i for the requests %j", (transport, method, status, requestIds, told) => {
    const events = [
      { type: "server.started", server: "s", transport, target: "http://x" },
      { type: "http.response", server: "s", method, status, requestIds },
    ] as const;
    expect(warnings(...events)).toEqual(
      told.map(
        (what) => `server "s" responded to a request with ${what}, as if there were nothing to answer`,
      ),
    );
  });
});

describe("warnings of servers that end", () => {
  const completed = { type: "trial.finished", outcome: "completed", durationMs: 1 } as const;
  const exited = (expected: boolean, exitCode: number | null, signal: string | null = null): EventBody => ({
    type: "server.exited",
    server: "s",
    exitCode,
    signal,
    expected,
  });
  const closed = { type: "server.stopped", server: "s", by: "stdin", durationMs: 1 } as const;
  const ping = sent({ id: 5, method: "ping" });
  const pinged = 'server "s" answered the ping at the end of the trial with an error';
  const silent =
    'server "s" did not answer the ping at the end of the trial: it may hang since its last answer';

  it.each<[string, EventBody[], string[]]>([
    ["by itself", [exited(false, 3), completed], ['server "s" ended by itself: exit code 3']],
    ["by a signal", [exited(false, null, "SIGABRT"), completed], ['server "s" ended by itself: SIGABRT']],
    ["by itself in a trial that broke", [exited(false, 3), { ...completed, outcome: "error" }], []],
    ["as asked", [exited(true, 0), closed, completed], []],
    ["by a signal of ours", [exited(true, null, "SIGTERM"), closed, completed], []],
    [
      "with a code",
      [exited(true, 1), closed],
      ['server "s" ended with exit code 1 when its stdin was closed'],
    ],
    ["with a code after another way", [exited(true, 1), { ...closed, by: "SIGTERM" }], []],
    ["after a ping", [ping, got({ id: 5, result: {} })], []],
    ["without the method", [ping, got({ id: 5, error: { code: -32601, message: "?" } })], []],
    ["with an error", [ping, got({ id: 5, error: { code: -1, message: "no" } })], [`${pinged}: no`]],
    ["with an error without text", [ping, got({ id: 5, error: { code: -1 } })], [`${pinged}: {"code":-1}`]],
    ["without an answer", [ping], [silent]],
    ["before the answer", [ping, exited(false, 1)], []],
    ["without an answer to the agent", [{ ...ping, client: "1" }], []],
  ])("%s", (_, events, told) => {
    expect(warnings(...events)).toEqual(told);
  });
});

/** The events of a step, with `inside` between its start and its end. */
function step(
  name: string,
  rest: Partial<EventOf<"step.finished">> & { readonly stepType?: string } = {},
  inside: readonly EventBody[] = [],
): EventBody[] {
  const { phase = "verify", parent, attempt = 1, stepType = "command", ...end } = rest;
  const place = { phase, step: name, attempt, ...(parent === undefined ? {} : { parent }) };
  return [
    { type: "step.started", stepType, input: {}, ...place },
    ...inside,
    { outcome: "passed", checks: [], durationMs: 1, ...end, type: "step.finished", ...place },
  ];
}
const created: EventBody = { type: "workspace.created", path: "/w", fixtures: [] };

describe("warnings of steps", () => {
  it("names a tool test that passed only when it was tried again", () => {
    const [failed, passed] = [step("call", { outcome: "failed" }), step("call", { attempt: 2 })];
    const ofTest = (...events: EventBody[]): readonly string[] => warningsOfTask(toolTestTask(), ...events);
    expect(ofTest(...failed, ...passed)).toEqual([
      "passed only at attempt 2; the attempts before are in the trace",
    ]);
    expect(ofTest(...step("call"))).toEqual([]);
    expect(ofTest(...failed, ...step("call", { attempt: 2, outcome: "failed" }))).toEqual([]);
    expect(warnings(...failed, ...passed)).toEqual([]);
  });

  it("names failures that change no verdict, of the innermost steps only, and no polling", () => {
    const ignored = { outcome: "failed", ignored: true } as const;
    const check = { name: "exit code", passed: false, expected: 0, actual: 1, message: "it exited with 1" };
    const error = { code: "step/cannot-run", kind: "environment", message: "no such program" } as const;
    const cleanup: Phase = "cleanup";
    const told = warnings(
      created,
      ...step("poll", { outcome: "failed", attempt: 1 }),
      ...step("poll", { attempt: 2 }),
      ...step("hint", { ...ignored, checks: [check] }),
      ...step("late", { ...ignored, attempt: 1 }),
      ...step("late", { attempt: 2 }),
      ...step(
        "all",
        { ...ignored, phase: cleanup, checks: [check] },
        step("all/drop", { ...ignored, phase: cleanup, parent: "all", outcome: "error", error }),
      ),
      ...step("last", { ...ignored, phase: cleanup, outcome: "timeout" }),
      ...step("look", { ...ignored, phase: "probe" }),
    );
    expect(told).toEqual([
      'verify step "hint" failed, which changes no verdict: exit code: it exited with 1',
      'cleanup step "all › drop" could not act: no such program',
      'cleanup step "last" took too long',
    ]);
    const many = Array.from({ length: 12 }, (_, index) => step(`s${index}`, ignored)).flat();
    expect(warnings(created, ...many).slice(9)).toEqual([
      'verify step "s9" failed, which changes no verdict',
      "2 more steps failed whose failure changes no verdict",
    ]);
  });

  it("names verify steps that were skipped, also in a sequence, but not items and alternatives", () => {
    const outcome = "skipped";
    const told = warnings(
      created,
      ...step("made", { phase: "setup", outcome }),
      ...step("verify[0]", { outcome }),
      ...step("verify[1]"),
      ...step("all", { stepType: "allOf" }, step("all/inner", { parent: "all", outcome })),
      ...step("any", { stepType: "anyOf" }, step("any/inner", { parent: "any", outcome })),
      ...step("dropped", { phase: "cleanup", outcome }),
    );
    expect(told).toEqual([
      'verify step "verify[0]" was skipped: its if does not hold',
      'verify step "all › inner" was skipped: its if does not hold',
    ]);
  });

  it("names verify steps that passed in doubt, each doubt once, of the innermost step", () => {
    const doubtful = (doubt: string, passed = true): Check => ({
      name: "c",
      passed,
      expected: null,
      actual: null,
      message: "",
      doubt,
    });
    const told = warnings(
      created,
      ...step(
        "all",
        { checks: [doubtful("near"), doubtful("gone", false)] },
        step("all/in", { parent: "all", checks: [doubtful("near")] }),
      ),
      ...step("failed", { outcome: "failed", checks: [doubtful("far")] }),
    );
    expect(told).toEqual(['verify step "all › in" passed, but near']);
  });

  it.each([
    [textResult(""), true],
    [{ content: [] }, true],
    [{ content: [], structuredContent: null }, true],
    [{ content: [], structuredContent: {} }, false],
    [{ content: [{ type: "image" }] }, false],
    [textResult("x"), false],
  ])("names an empty result, %j", (result, isEmpty) => {
    const trial = new TrialEvents().server("calc", [{ name: "add" }]);
    trial.step("call", {}, () => trial.call("add", {}, result));
    expect(trial.warnings()).toEqual(isEmpty ? ["add answered with nothing in its result"] : []);
  });
});

it("names every fault that was injected, with how often, and servers that a trial did without", () => {
  const error = { code: "server/exited", message: "it ended", kind: "environment" } as const;
  const fault = { type: "fault.injected", fault: "delay", server: "calc", method: "tools/call" } as const;
  const told = warnings(
    { type: "server.late", server: "slow", error: { ...error, message: "it did not answer in time" } },
    { type: "server.failed", server: "extra", error },
    { ...fault, tool: "add", id: 1 },
    { ...fault, fault: "error", method: "tools/list", id: 2 },
    { ...fault, tool: "add", id: 3 },
  );
  expect(told).toEqual([
    'the trial went on without server "extra", which did not start: it ended',
    "it did not answer in time; the server was started once more",
    "injected on purpose: delay of calc.add (2 times), error of calc.tools/list",
  ]);
});

it.each([
  [["calc"], ['the agent never connected to server "files"']],
  [["calc", "files"], []],
  [[], []],
])("names a server that a program did not connect to, where it did connect to %j", (connected, told) => {
  const ready = {
    type: "server.ready",
    version: "1",
    protocolVersion: "1",
    tools: 1,
    durationMs: 1,
  } as const;
  const events = [
    ...["calc", "files"].map((server) => ({ ...ready, server, name: server })),
    ...connected.map((server) => ({ type: "gateway.connected", server, client: "1", via: "http" }) as const),
  ];
  expect(warnings(...events)).toEqual(told);
});

it("names a tool that a server lists twice, and tools that are called without being listed", () => {
  const trial = new TrialEvents().server("calc", [{ name: "add" }, { name: "add" }]);
  trial.turn("Do it.", () => {
    trial.call("sub", {}, textResult("1"));
    trial.call("mul", {}, errorResult("no such tool"));
  });
  expect(trial.warnings()).toEqual([
    'server "calc" lists the tool "add" more than once, so it is not clear which of them is called',
    "the agent called tools that their server does not list, and was answered: calc.sub",
  ]);
});

// docs/tasks.md, "Many tasks": an entry that fits no tool is noted.
it.each<[JsonObject, string?]>([
  [{ server: "k8s", toolPattern: "^remove_" }, "^remove_"],
  [{ server: "k8s", tool: "purge" }, "purge"],
  [{ server: "k8s", toolPattern: "^delete_" }],
  [{ server: "k8s", tool: "delete_pod" }],
  [{ server: "k8s" }],
  [{ server: "k8s", tool: "drop_all" }],
  [{ server: "unlisted", tool: "purge" }],
])("of toolsNotUsed %j", (entry, unmatched) => {
  const trial = new TrialEvents().server("k8s", [{ name: "list" }, { name: "delete_pod" }]).server("docs");
  trial.emit({ type: "tools.hidden", server: "k8s", tools: ["drop_all"] });
  const why = `fits no tool of server "k8s", so this assertion cannot fail`;
  expect(trial.warnings(portableTask({ assertions: [{ toolsNotUsed: [entry] }] }))).toEqual(
    unmatched === undefined ? [] : [`toolsNotUsed: "${unmatched}" ${why}`],
  );
});

it.each<[string, JsonObject, readonly string[]]>([
  [
    "scripted",
    { forbidden_tools: ["remove_all", "delete_pod", "/drop.*/"] },
    ['forbidden_tools: "remove_all"', 'forbidden_tools: "^(?:drop.*)$"'],
  ],
  [
    "scripted",
    {
      reject_tools: [
        { tool: "remove_all" },
        { tool_pattern: "delete_.*" },
        { source: "builtin", tool: "sh" },
      ],
    },
    ['reject_tools: "remove_all"'],
  ],
  [
    "scripted",
    { expect_tools: [{ tool: "remove_all", min: 0, max: 2 }, { tool: "purge" }] },
    ['expect_tools: "remove_all"'],
  ],
  ["command", { forbidden_tools: ["remove_all"] }, []],
  ["command", { reject_tools: [{ tool: "remove_all", source: "mcp:k8s" }] }, ['reject_tools: "remove_all"']],
])("names what graders forbid to an agent of kind %s and no tool is: %j", (kind, config, named) => {
  const trial = new TrialEvents().server("k8s", [{ name: "delete_pod" }]);
  trial.emit({ type: "agent.started", agent: "a", kind });
  const graders = [{ type: "tool_calls", name: "g", config, weight: 1, required: true, dir: "" }];
  const told = trial.warnings(workflowTask({ graders }));
  expect(told.map((text) => text.split(" fits no tool ")[0])).toEqual(named);
});

it("names forbidden resources and prompts of a server that declares none", () => {
  // It declares only tools.
  const trial = new TrialEvents().server("k8s", [{ name: "list" }]);
  const assertions = [
    { resourcesNotRead: [{ server: "k8s", name: "file:///a" }] },
    { promptsNotUsed: [{ server: "k8s" }, { server: "other" }] },
  ];
  expect(trial.warnings(portableTask({ assertions }))).toEqual([
    'resourcesNotRead: server "k8s" has no resources; that none was used says nothing',
    'promptsNotUsed: server "k8s" has no prompts; that none was used says nothing',
  ]);
});

it("names arguments of steps that the tool does not have, where it did not refuse them", () => {
  const inputSchema = { type: "object", properties: { path: { type: "string" } } };
  const trial = new TrialEvents().server("files", [{ name: "read", inputSchema }, { name: "any" }]);
  trial.step("call", {}, () => {
    trial.call("read", { path: "a", limti: 5 }, textResult("a"));
    trial.call("read", { path: "a", lines: 5 }, errorResult("no argument lines"));
    trial.call("any", { limti: 5 }, textResult("a"));
  });
  expect(trial.warnings()).toEqual(['the tool "read" has no argument "limti" and was called with it']);
});

it("names answers that only repeat what the user said", () => {
  const trial = new TrialEvents();
  trial.turn("Say the sum 5.", () => trial.say(" say  the sum 5.\n"));
  trial.turn("And again?", () => trial.say("Say the sum 5."));
  trial.turn("And?", () => trial.say("You asked: And?"));
  trial.turn(" ", () => trial.say(""));
  const turns = ["Say the sum 5.", "And again?", "And?", " "].map((user) => ({ user }));
  expect(trial.warnings(workflowTask({ turns }))).toEqual([
    "turn 1: the answer only repeats what the user said",
    "turn 2: the answer only repeats what the user said",
  ]);
});

it("names forbidden servers that are nearly those of the trial", () => {
  const trial = new TrialEvents().server("github", [{ name: "list" }]);
  trial.emit({ type: "agent.started", agent: "a", kind: "scripted" });
  const config = { forbidden_mcp_servers: ["GitHub", "githb", "gitlab", "github", "web"] };
  const graders = [{ type: "behavior", name: "g", config, weight: 1, required: true, dir: "" }];
  expect(trial.warnings(workflowTask({ graders }))).toEqual([
    'forbidden_mcp_servers: no server is named "GitHub", did you mean "github"?',
    'forbidden_mcp_servers: no server is named "githb", did you mean "github"?',
  ]);
});

it("names arguments that graders forbid and no tool has", () => {
  const inputSchema = { type: "object", properties: { path: { type: "object" } } };
  const trial = new TrialEvents().server("files", [
    { name: "write", inputSchema },
    { name: "open", inputSchema: { ...inputSchema, additionalProperties: true } },
  ]);
  trial.emit({ type: "agent.started", agent: "a", kind: "scripted" });
  const entry = (tool: string, args: JsonObject): JsonObject => ({ tool, args });
  const config = {
    reject_tools: [
      entry("write", { pth: { contains: "etc" }, "path.name": "x" }),
      entry("/.*/", { pth: 1 }),
      entry("open", { pth: 1 }),
    ],
  };
  const graders = [{ type: "tool_constraint", name: "g", config, weight: 1, required: true, dir: "" }];
  expect(trial.warnings(workflowTask({ graders }))).toEqual([
    'reject_tools: "write" has no argument "pth", so this assertion cannot fail',
  ]);
});

describe("warnings of a solution", () => {
  /** Plays an agent of a kind whose calls end in every way. */
  function solutionWarnings(kind: string): readonly string[] {
    const trial = new TrialEvents().server("files");
    trial.call("setup", {}, errorResult("a step's own"));
    trial.emit({ type: "phase.started", phase: "agent" });
    trial.emit({ type: "agent.started", agent: kind, kind });
    trial.turn("Do it.", () => {
      trial.call("writ_file", {}, errorResult("MCP error -32602: Tool writ_file\nnot found"));
      trial.call("write_file", {}, textResult("done"));
      trial.call("wordless", {}, errorResult(""));
      trial.refuse(trial.request("read_file", {}), -32_000, "no such file");
      trial.reject("lost");
      trial.refuse(trial.send("resources/read", { uri: "x:y" }), -32_002, "unknown");
      trial.request("slow", {});
    });
    trial.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
    trial.step("check", {}, () => void trial.call("checks", {}, errorResult("no")));
    return trial.warnings().filter((warning) => warning.startsWith("solution"));
  }

  it("names its calls that failed, in order, and nobody else's", () => {
    expect(solutionWarnings("oracle")).toEqual([
      "solution: files.writ_file failed: MCP error -32602: Tool writ_file not found",
      "solution: files.wordless failed: it failed without a message",
      "solution: files.read_file failed: no such file (code -32000)",
      "solution: lost failed: no server offers it",
      "solution: x:y of files failed: unknown (code -32002)",
      "solution: files.slow failed: never answered",
    ]);
    expect(solutionWarnings("model")).toEqual([]);
  });

  it("names the first ten", () => {
    const trial = new TrialEvents().server("files");
    trial.emit({ type: "agent.started", agent: "oracle", kind: "oracle" });
    for (let count = 1; count <= 12; count += 1) trial.reject(`t${count}`);
    const told = trial.warnings();
    expect([told.length, told.at(-2), told.at(-1)]).toEqual([
      11,
      "solution: t10 failed: no server offers it",
      "solution: 2 more calls failed",
    ]);
  });
});

it("names turns that the agent ended without words, not those that fail anyway", () => {
  const usage = { inputTokens: 1, outputTokens: 1, requests: 1 };
  const called = { type: "model.called", purpose: "agent", model: "m", durationMs: 1, usage } as const;
  const turn = (number: number, finishReason: string, reason: "done" | "max-tokens"): EventBody[] => [
    { type: "turn.started", turn: number, user: "Do it." },
    { ...called, finishReason },
    { type: "turn.finished", turn: number, reason },
  ];
  expect(warnings(...turn(0, "length", "max-tokens"), ...turn(1, "stop", "done"))).toEqual([
    "turn 2: the model's last answer was empty",
  ]);
});

it.each<[string | ExpectedState, string[]]>([
  [
    "42",
    [
      'turn 1: expectedState "42" is only in the result of add, "The sum is 42.", and not in the answer, "I do not know."; say where it must be with in: answer, toolResult or any',
    ],
  ],
  [{ contains: "42", in: "any" }, []],
])(
  "names the state %j that only a tool's result meets, unless the file says that this is enough",
  (expectedState, told) => {
    const trial = new TrialEvents().server("calc", [{ name: "add" }]);
    trial.turn("Go.", () => {
      trial.call("add", {}, textResult("The sum is 42."));
      trial.say("I do not know.");
    });
    expect(trial.warnings(workflowTask({ turns: [{ user: "Go.", expectedState }] }))).toEqual(told);
  },
);

it.each<[string, string, boolean]>([
  ["Echo hello.", "nothing", true],
  ["Echo hello.", "hello", false],
  ["Greet me.", "nothing", false],
])("names the state that the user's words %j hold and the result %j may: %s", (user, result, isNamed) => {
  const trial = new TrialEvents().server("calc", [{ name: "add" }]);
  trial.turn(user, () => {
    trial.call("add", {}, textResult(result));
    trial.say("hello");
  });
  expect(trial.warnings(workflowTask({ turns: [{ user, expectedState: "hello" }] }))).toEqual(
    isNamed
      ? [
          `turn 1: expectedState "hello" is in the user's message and in no tool result: an agent that repeats the user would pass`,
        ]
      : [],
  );
});
