import { expect, it } from "vitest";
import type { Json } from "../base/json.ts";
import type { EventBody, TraceEvent } from "../model/event.ts";
import type { Grade } from "../model/grade.ts";
import { readTrace } from "../trace/trajectory.ts";
import { collectEvidence, KeptEvidence } from "./evidence.ts";

const events = stamp([
  { type: "trial.started", task: "task", agent: null, attempt: 1 },
  message("client-to-server", { id: 1, method: "initialize", params: {} }),
  message("server-to-client", { id: 1, result: {} }),
  { type: "step.started", phase: "verify", step: "call", stepType: "mcp", attempt: 1, input: {} },
  message("client-to-server", { id: 2, method: "tools/call", params: {} }),
  message("server-to-client", { id: 2, method: "sampling/createMessage", params: {} }),
  message("client-to-server", { id: 2, result: { role: "assistant" } }),
  {
    type: "http.response",
    server: "s",
    method: "POST",
    status: 500,
    requestIds: [2],
  },
  message("server-to-client", { id: 2, result: { content: [] } }),
  {
    type: "step.finished",
    phase: "verify",
    step: "call",
    attempt: 1,
    outcome: "failed",
    checks: [],
    durationMs: 1,
  },
  { type: "agent.message", turn: 0, text: "hello" },
]);

it.each([
  ["a response with its request and HTTP status", [9], [5, 8, 9]],
  ["a server's request with our answer, though the numbers are alike", [6], [6, 7]],
  ["a step with all that it exchanged", [10], [4, 5, 6, 7, 8, 9, 10]],
  ["nothing for numbers that do not exist", [99], []],
])("gives %s", (_, cited, expected) => {
  const grades = [{ grader: "g", verdict: "fail", score: 0, reason: "", evidence: cited }] as const;
  expect(collectEvidence(readTrace(events), grades).map((event) => event.seq)).toEqual(expected);
});

const nested = stamp([
  ...attempt("poll", 1, []),
  ...attempt("poll", 2, []),
  ...attempt("poll", 3, [
    ...attempt("poll/one", 1, [], { parent: "poll" }),
    ...attempt("poll/one", 2, [message("client-to-server", { id: 7, method: "ping" })], { parent: "poll" }),
    ...attempt("poll/two", 1, [], { parent: "poll" }),
  ]),
  ...attempt("other", 1, [], { outcome: "passed" }),
  ...attempt("drop", 1, [], { phase: "cleanup" }),
]);

it("gives of a trial without grades the steps of setup and verify that did not pass", () => {
  const kept = collectEvidence(readTrace(nested), []).map((event) => event.seq);
  expect(kept).toEqual([1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
});

it("keeps the events of a run's first hundred bad trials, without what is long where there is no room", () => {
  const said = (seq: number): TraceEvent => {
    const text = "x".repeat(5000);
    return { seq, at: 0, trial: "t1", type: "agent.message", turn: 0, text };
  };
  const grades: Grade[] = [{ grader: "any", verdict: "fail", score: 0, reason: "", evidence: [1, 2] }];
  const kept = new KeptEvidence(8000);
  for (let id = 1; id <= 102; id += 1) kept.keep({ id: `t${id}`, grades }, readTrace([said(1), said(2)]));
  expect(kept.byTrial.size).toBe(100);
  const [whole, cut] = kept.byTrial.get("t1") ?? [];
  expect(whole).toEqual(said(1));
  expect(cut).toMatchObject({ seq: 2, text: expect.stringMatching(/^x{1000}… \[4000 more characters/) });
});

function attempt(
  step: string,
  number: number,
  inside: readonly EventBody[],
  options: {
    readonly parent?: string;
    readonly outcome?: "passed" | "failed";
    readonly phase?: "verify" | "cleanup";
  } = {},
): EventBody[] {
  const { parent, outcome = "failed", phase = "verify" } = options;
  const place = { phase, step, attempt: number, ...(parent === undefined ? {} : { parent }) };
  return [
    { type: "step.started", stepType: "group", input: {}, ...place },
    ...inside,
    { type: "step.finished", outcome, checks: [], durationMs: 1, ...place },
  ];
}

function message(
  direction: "client-to-server" | "server-to-client",
  fields: { readonly [key: string]: Json },
): EventBody {
  return { type: "mcp.message", server: "s", direction, message: { jsonrpc: "2.0", ...fields } };
}

function stamp(bodies: readonly EventBody[]): TraceEvent[] {
  return bodies.map((body, index) => ({ seq: index + 1, at: index, trial: "t1", ...body }));
}
