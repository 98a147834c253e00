import { expect, it } from "vitest";
import type { Json } from "../formats/model.ts";
import type { EventBody, Phase, TraceEvent } from "./events.ts";
import { warningsOf } from "./warnings.ts";

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
