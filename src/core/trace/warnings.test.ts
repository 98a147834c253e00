import { expect, it } from "vitest";
import { portableTask } from "../../../test/support/portable.ts";
import { errorResult, textResult, TrialEvents, workflowTask } from "../../../test/support/trial-events.ts";
import type { AssertionSet, Json } from "../formats/model.ts";
import type { EventBody, Phase, TraceEvent } from "./events.ts";
import { turnWarnings, warningsOf } from "./warnings.ts";

function warnings(...bodies: readonly EventBody[]): string[] {
  return warningsOf(
    bodies.map((body, index): TraceEvent => ({ seq: index + 1, at: 0, trial: "t1", ...body })),
  );
}

function line(text: string, server = "s"): EventBody {
  return { type: "server.invalid_output", server, text };
}

function sent(message: { readonly [key: string]: Json }, server = "s"): EventBody {
  return { type: "mcp.message", server, direction: "client-to-server", message };
}

function got(message: { readonly [key: string]: Json }, server = "s"): EventBody {
  return { type: "mcp.message", server, direction: "server-to-client", message };
}

it("says nothing of requests, answers and notifications in both directions", () => {
  expect(
    warnings(
      sent({ id: 1, method: "tools/call" }),
      got({ id: 1, method: "sampling/createMessage" }),
      sent({ id: 1, result: {} }),
      got({ method: "notifications/progress" }),
      got({ id: 1, result: {} }),
      sent({ id: 2, method: "logging/setLevel" }),
      got({ id: 2, error: { code: -1, message: "no" } }),
    ),
  ).toEqual([]);
});

const advice = "logs belong on stderr, other clients may break on them";

it("counts lines that are not MCP, by server, and shows the first", () => {
  expect(warnings(line("x".repeat(100)), line("two"), line("only", "other"))).toEqual([
    `server "s" wrote 2 lines on stdout that are not MCP, first "${"x".repeat(80)}"; ${advice}`,
    `server "other" wrote a line on stdout that is not MCP, first "only"; ${advice}`,
  ]);
});

it("counts answers to what was not asked, by server, and shows the first", () => {
  const asked = sent({ id: 1, method: "tools/call" });
  const answered = got({ id: 1, result: {} });
  expect(warnings(asked, answered, answered, got({ id: 9, result: {} }))).toEqual([
    'server "s" gave 2 answers that no request was waiting for, first with id 1',
  ]);
  expect(warnings(asked, got({ id: 1, result: {} }, "other"), got({ id: "1", result: {} }))).toEqual([
    'server "other" gave an answer that no request was waiting for, with id 1',
    'server "s" gave an answer that no request was waiting for, with id "1"',
  ]);
  expect(warnings(got({ id: null, error: { code: -32_700, message: "Parse error" } }))).toEqual([
    'server "s" gave an answer that no request was waiting for, with id null: Parse error',
  ]);
});

it("tells of a step that passed only when it was tried again", () => {
  const attempt = (number: number, outcome: "passed" | "failed"): EventBody => ({
    type: "step.finished",
    phase: "verify",
    step: "call",
    attempt: number,
    outcome,
    checks: [],
    durationMs: 1,
  });
  expect(warnings(attempt(1, "failed"), attempt(2, "passed"))).toEqual([
    "passed only at attempt 2; the attempts before are in the trace",
  ]);
  expect(warnings(attempt(1, "passed"))).toEqual([]);
  expect(warnings(attempt(1, "failed"), attempt(2, "failed"))).toEqual([]);
});

it("tells of failures that change no verdict, of the innermost steps only, and of no polling", () => {
  const step = (name: string, rest: Partial<Finished>, inside: readonly EventBody[] = []): EventBody[] => {
    const { phase = "verify", parent, attempt = 1 } = rest;
    const place = { phase, step: name, attempt, ...(parent === undefined ? {} : { parent }) };
    const end = {
      type: "step.finished",
      outcome: "passed",
      checks: [],
      durationMs: 1,
      ...rest,
      ...place,
    } as const;
    return [{ type: "step.started", stepType: "command", input: {}, ...place }, ...inside, end];
  };
  const ignored = { outcome: "failed", ignored: true } as const;
  const check = { name: "exit code", passed: false, expected: 0, actual: 1, message: "it exited with 1" };
  const error = { code: "step/cannot-run", kind: "environment", message: "no such program" } as const;
  expect(
    warnings(
      { type: "workspace.created", path: "/w", fixtures: [] },
      ...step("poll", { outcome: "failed", attempt: 1 }),
      ...step("poll", { attempt: 2 }),
      ...step("hint", { ...ignored, checks: [check] }),
      ...step("late", { ...ignored, attempt: 1 }),
      ...step("late", { attempt: 2 }),
      ...step(
        "all",
        { ...ignored, phase: "cleanup", checks: [check] },
        step("all/drop", { ...ignored, phase: "cleanup", parent: "all", outcome: "error", error }),
      ),
      ...step("last", { ...ignored, phase: "cleanup", outcome: "timeout" }),
    ),
  ).toEqual([
    'verify step "hint" failed, which changes no verdict: exit code: it exited with 1',
    'cleanup step "all › drop" could not act: no such program',
    'cleanup step "last" took too long',
  ]);
});

type Finished = Extract<EventBody, { type: "step.finished" }>;

it("tells of verify steps that were skipped, also in a row, but not of items and alternatives", () => {
  const step = (
    name: string,
    { type = "command", parent, phase = "verify", skipped = false }: Shape,
    inside: readonly EventBody[] = [],
  ): EventBody[] => {
    const place = { phase, step: name, attempt: 1, ...(parent === undefined ? {} : { parent }) };
    const outcome = skipped ? "skipped" : "passed";
    return [
      { type: "step.started", stepType: type, input: {}, ...place },
      ...inside,
      { type: "step.finished", outcome, checks: [], durationMs: 1, ...place },
    ];
  };
  expect(
    warnings(
      { type: "workspace.created", path: "/w", fixtures: [] },
      ...step("made", { phase: "setup", skipped: true }),
      ...step("verify[0]", { skipped: true }),
      ...step("verify[1]", {}),
      ...step("all", { type: "allOf" }, step("all/inner", { parent: "all", skipped: true })),
      ...step("any", { type: "anyOf" }, step("any/inner", { parent: "any", skipped: true })),
      ...step("dropped", { phase: "cleanup", skipped: true }),
    ),
  ).toEqual([
    'verify step "verify[0]" was skipped: its if does not hold',
    'verify step "all › inner" was skipped: its if does not hold',
  ]);
});

interface Shape {
  readonly type?: string;
  readonly parent?: string;
  readonly phase?: Phase;
  readonly skipped?: boolean;
}

it("tells of every fault that was injected, with how often, and of servers that a trial did without", () => {
  const trial = new TrialEvents().begin("workflow", "agent");
  const error = { code: "server/exited", message: "it ended", kind: "environment" } as const;
  trial.emit({ type: "server.failed", server: "extra", error });
  const about = { server: "calc", method: "tools/call" } as const;
  trial.emit({ type: "fault.injected", fault: "delay", ...about, tool: "add", id: 1 });
  trial.emit({ type: "fault.injected", fault: "error", server: "calc", method: "tools/list", id: 2 });
  trial.emit({ type: "fault.injected", fault: "delay", ...about, tool: "add", id: 3 });
  expect(trial.trajectory(workflowTask()).warnings).toEqual([
    'the trial went on without server "extra", which did not start: it ended',
    "injected on purpose: delay of calc.add (2 times), error of calc.tools/list",
  ]);
});

it("tells of a server that a program did not connect to, where it did connect to another one", () => {
  const warningsOf = (...connected: readonly string[]): readonly string[] => {
    const trial = new TrialEvents().begin("workflow", "agent");
    const ready = {
      type: "server.ready",
      version: "1",
      protocolVersion: "1",
      tools: 1,
      durationMs: 1,
    } as const;
    for (const server of ["calc", "files"]) trial.emit({ ...ready, server, name: server });
    for (const server of connected)
      trial.emit({ type: "gateway.connected", server, client: server, via: "http" });
    return trial.trajectory(workflowTask()).warnings;
  };
  expect(warningsOf("calc")).toEqual(['the agent never connected to server "files"']);
  expect(warningsOf("calc", "files")).toEqual([]);
  expect(warningsOf()).toEqual([]);
});

function assertionWarningsOf(toolsNotUsed: AssertionSet["toolsNotUsed"]): readonly string[] {
  const trial = new TrialEvents().server("k8s", [{ name: "list" }, { name: "delete_pod" }]).server("docs");
  trial.emit({ type: "tools.hidden", server: "k8s", tools: ["drop_all"] });
  return trial.trajectory(portableTask({ assertions: [{ toolsNotUsed: toolsNotUsed ?? [] }] })).warnings;
}

// docs/tasks.md, "Many tasks": an entry that fits no tool is noted.
it.each([
  { server: "k8s", pattern: "^remove_" },
  { server: "k8s", name: "purge" },
])("warns of %j, which fits no tool", (entry) => {
  expect(assertionWarningsOf([entry])).toEqual([
    `toolsNotUsed: ${JSON.stringify(entry.name ?? entry.pattern)} fits no tool of server "k8s"; that it was not called says nothing`,
  ]);
});

it.each([
  { server: "k8s", pattern: "^delete_" },
  { server: "k8s", name: "delete_pod" },
  { server: "k8s" },
  { server: "k8s", name: "drop_all" },
  { server: "unlisted", name: "purge" },
  { pattern: "^Bash$" },
])("but not of %j", (entry) => {
  expect(assertionWarningsOf([entry])).toEqual([]);
});

/** Plays an agent of a kind whose calls end in every way. */
function played(kind: string): readonly string[] {
  const trial = new TrialEvents().server("files");
  trial.call("setup", {}, errorResult("a step's own"));
  trial.emit({ type: "phase.started", phase: "agent" });
  trial.emit({ type: "agent.started", agent: kind, kind });
  trial.turn("Do it.", () => {
    trial.call("writ_file", {}, errorResult("MCP error -32602: Tool writ_file\nnot found"));
    trial.call("write_file", {}, textResult("done"));
    trial.refuse(trial.request("read_file", {}), -32_000, "no such file");
    trial.reject("lost");
    trial.refuse(trial.send("resources/read", { uri: "x:y" }), -32_002, "unknown");
    trial.request("slow", {});
  });
  trial.emit({ type: "phase.finished", phase: "agent", durationMs: 1 });
  trial.step("check", {}, () => void trial.call("checks", {}, errorResult("no")));
  return warningsOf(trial.events);
}

it("tells of a solution's calls that failed, in order, and of nobody else's", () => {
  expect(played("oracle")).toEqual([
    "solution: files.writ_file failed: MCP error -32602: Tool writ_file not found",
    "solution: files.read_file failed: no such file",
    "solution: lost failed: no server offers it",
    "solution: x:y of files failed: unknown",
    "solution: files.slow failed: there was no answer",
  ]);
  expect(played("model").filter((warning) => warning.startsWith("solution"))).toEqual([]);
});

it("tells of the first ten", () => {
  const trial = new TrialEvents().server("files");
  trial.emit({ type: "agent.started", agent: "oracle", kind: "oracle" });
  for (let count = 1; count <= 12; count += 1) trial.reject(`t${count}`);
  const told = warningsOf(trial.events);
  expect([told.length, told.at(-2), told.at(-1)]).toEqual([
    11,
    "solution: t10 failed: no server offers it",
    "solution: 2 more calls failed",
  ]);
});

const started: EventBody = { type: "turn.started", turn: 0, user: "Do it." };
const said: EventBody = { type: "agent.message", turn: 0, text: "Done." };
const done: EventBody = { type: "turn.finished", turn: 0, reason: "done" };

function asked(finishReason: string, purpose: "agent" | "judge" = "agent"): EventBody {
  const usage = { inputTokens: 1, outputTokens: 1, requests: 1 };
  return { type: "model.called", purpose, model: "m", durationMs: 1, finishReason, usage };
}

it.each<[string, EventBody[], string[]]>([
  ["a turn that ends with words", [started, asked("tool-calls"), asked("stop"), said, done], []],
  ["a turn without a model", [started, done], []],
  ["the judge's answer", [started, asked("stop"), said, done, asked("length", "judge")], []],
  [
    "an answer that ended for another reason",
    [started, asked("other"), said, done],
    ['turn 1: the model\'s last answer ended for a reason that is not known: "other"'],
  ],
  [
    "a turn that fails anyway",
    [started, asked("length"), said, { type: "turn.finished", turn: 0, reason: "max-tokens" }],
    [],
  ],
  [
    "an empty answer after words",
    [started, asked("tool-calls"), said, asked("stop"), done],
    ["turn 1: the model's last answer was empty"],
  ],
  [
    "the second turn only",
    [started, asked("stop"), said, done, { ...started, turn: 1 }, asked("stop"), { ...done, turn: 1 }],
    ["turn 2: the model's last answer was empty"],
  ],
])("of %s", (_, bodies, warnings) => {
  const events = bodies.map((body, index): TraceEvent => ({ seq: index + 1, at: 0, trial: "t1", ...body }));
  expect(turnWarnings(events)).toEqual(warnings);
});
