import { anError, contentProblem, outputProblem, resultText } from "../expect/tool-result.ts";
import { containsText } from "../expect/contains-text.ts";
import { turnOf } from "../model/task.ts";
import { isJsonObject, type Json } from "../base/json.ts";
import { commonSequence } from "../expect/json-difference.ts";
import { shortened } from "../base/visible-text.ts";
import { type EventOf, eventsOf } from "../model/event.ts";
import {
  lostToFault,
  type ToolCall,
  type ToolDeclaration,
  type Trajectory,
  withInner,
} from "../trace/trajectory.ts";
import {
  type GradeContext,
  graderKind,
  listed,
  nearestTool,
  offeredTools,
  passOrFail,
  qualified,
  skip,
} from "./grader.ts";

const maxShownProblems = 5;

/**
 * Tool Call Health of the MCPVals specification, 6.3: of all tool calls, the share that returned successfully: no
 * exception, no `isError`, content that clients can use, HTTP status 200 to 299 where the transport is HTTP, structured
 * content valid against the tool's `outputSchema`. A failure that its turn expects is healthy. A turn without the error that it
 * expects counts as one unhealthy call, and so does a server that was lost while no call was pending. Not counted are: a call of a
 * step that expects an error, since the step checks it, unless the server was lost; attempts of a step that was tried again; and calls
 * with an injected fault.
 */
export const toolCallHealth = graderKind({
  type: "tool-call-health",
  forms: ["workflow", "tool-test"],
  async grade(_, trajectory, context) {
    const made = trajectory.calls.filter((call) => !call.superseded && !lostToFault(call));
    const calls = made.filter((call) => !isJudgedByStep(call, trajectory));
    const missing = [...missingErrors(trajectory, calls), ...idleLosses(trajectory, calls)];
    const total = calls.length + missing.length;
    if (total === 0) {
      if (made.length > 0) return skip("the step that expects an error judges its call");
      if (trajectory.transcript !== undefined) return skip("a transcript has no messages of servers");
      const isFaulted = trajectory.calls.some(lostToFault);
      return skip(isFaulted ? "every tool call had a fault injected" : "no tool was called");
    }
    const problems = await outputProblems(calls, context);
    const diagnoses = calls.map((call) => diagnose(call, problems.get(call), trajectory));
    const unhealthy = [...diagnoses.filter(({ status }) => status === "unhealthy"), ...missing];
    const reported = unhealthy.length === 0 ? diagnoses : unhealthy;
    return passOrFail(total - unhealthy.length, total, {
      reason: unhealthy.length === 0 ? healthyReason(diagnoses) : unhealthyReason(unhealthy, total),
      evidence: [...new Set(reported.flatMap(({ evidence }) => evidence))],
    });
  },
});

interface Diagnosis {
  readonly status: "healthy" | "expected-error" | "unhealthy";
  readonly reason: string;
  readonly evidence: readonly number[];
}

/** What is wrong with the structured content of calls that succeeded, by the `outputSchema` of their tools. */
async function outputProblems(
  calls: readonly ToolCall[],
  { validateSchema }: GradeContext,
): Promise<ReadonlyMap<ToolCall, string>> {
  const problems = new Map<ToolCall, string>();
  const check = async (call: ToolCall, schema: Json): Promise<void> => {
    const problem = await outputProblem(schema, call.result ?? {}, validateSchema);
    if (problem !== undefined) problems.set(call, problem);
  };
  const checks: Promise<void>[] = [];
  for (const call of calls) {
    const schema = call.declared?.[0]?.definition["outputSchema"];
    if (schema !== undefined && failureOf(call) === undefined) checks.push(check(call, schema));
  }
  await Promise.all(checks);
  return problems;
}

function diagnose(call: ToolCall, problem: string | undefined, trajectory: Trajectory): Diagnosis {
  const { tool, declared = [] } = call;
  const loss = lossIn(call, trajectory);
  const evidence = [call.responseSeq ?? call.seq];
  if (loss !== undefined) evidence.push(loss.seq);
  const unhealthy = (reason: string): Diagnosis => ({
    status: "unhealthy",
    reason: `${tool} ${reason}`,
    evidence,
  });
  const failure = failureOf(call);
  const unoffered = unofferedNote(call, trajectory);
  if (loss !== undefined) return unhealthy(`gave no result: ${describeLoss(loss)}`);
  if (failure !== undefined) {
    if (isExpected(failure, call, trajectory))
      return { status: "expected-error", reason: `${tool} failed as expected`, evidence };
    const said = failure.text === "" ? "" : `: ${shortened(failure.text, 300)}`;
    return unhealthy(`${failure.kind}${said}${unoffered}`);
  }
  if (unoffered !== "") return unhealthy(`was answered${unoffered}`);
  if (declared.length > 1) return unhealthy(`is listed ${declared.length} times by its server`);
  return problem === undefined
    ? { status: "healthy", reason: `${tool} is healthy`, evidence }
    : unhealthy(problem);
}

type Loss = EventOf<"server.lost">;

/** The loss of the server of a call before the answer; undefined: none. */
function lossIn({ server, responseSeq, error }: ToolCall, { events }: Trajectory): Loss | undefined {
  if (responseSeq !== undefined || error?.kind !== "no-response" || error.cancelled !== undefined)
    return undefined;
  return eventsOf(events, "server.lost").find((loss) => loss.server === server);
}

/** Servers that were lost before or after a call, each with the last call that it got. */
function idleLosses(trajectory: Trajectory, calls: readonly ToolCall[]): Diagnosis[] {
  const reported = new Set(calls.map((call) => lossIn(call, trajectory)));
  return eventsOf(trajectory.events, "server.lost").flatMap((loss): Diagnosis[] => {
    if (reported.has(loss)) return [];
    const last = trajectory.calls.findLast(({ server }) => server === loss.server);
    const evidence = [...(last === undefined ? [] : [last.responseSeq ?? last.seq]), loss.seq];
    return [{ status: "unhealthy", reason: describeLoss(loss), evidence }];
  });
}

/** Maximum length of the end of a server's stderr in a reason. */
const maxShownDetail = 300;

function describeLoss({ error: { message, detail = "" } }: Loss): string {
  const tail = detail.trim().slice(-maxShownDetail);
  return tail === "" ? message : `${message}: ${tail}`;
}

/** A note on a called tool that its server does not list; "" for a listed tool, and where the list is not known. */
function unofferedNote({ server, tool }: ToolCall, trajectory: Trajectory): string {
  const isAsked = (offer: ToolDeclaration): boolean => server === null || offer.server === server;
  if (trajectory.tools.some((offer) => offer.name === tool && isAsked(offer))) return "";
  const tools = trajectory.tools.filter(isAsked);
  if (tools.length === 0) return "";
  const help = nearestTool(tool, tools) ?? offeredTools(tools);
  return server === null ? ` (${help})` : ` (the server offers no such tool; ${help})`;
}

interface Failure {
  /** A predicate about the call. */
  readonly kind: string;
  /** The message of the server, else of mcpvals. */
  readonly text: string;
  /** The text is from mcpvals, so it cannot be the expected error of the server. */
  readonly ours?: boolean;
  readonly status?: string;
}

const failureKinds = {
  protocol: "answered with an error",
  rejected: "cannot be called",
  "no-response": "gave no result",
} as const;

function failureOf({ httpStatus, error, result }: ToolCall): Failure | undefined {
  if (httpStatus !== undefined && (httpStatus < 200 || httpStatus > 299)) {
    const status = `HTTP ${httpStatus}`;
    return { kind: `answered ${status}`, text: error?.kind === "protocol" ? error.message : "", status };
  }
  if (error !== undefined)
    return { kind: failureKinds[error.kind], text: error.message, ours: error.kind !== "protocol" };
  if (result === undefined) return undefined;
  if (result["isError"] === true) return { kind: "answered isError", text: resultText(result) };
  if (result["content"] === undefined && !("structuredContent" in result))
    return { kind: "answered without content", text: JSON.stringify(result), ours: true };
  const problem = contentProblem(result);
  return problem === undefined
    ? undefined
    : { kind: "answered with unusable content", text: problem, ours: true };
}

/** Whether the call was made by a step that expects an error, and was answered. */
function isJudgedByStep(call: ToolCall, trajectory: Trajectory): boolean {
  const run = withInner(trajectory.steps).find(({ step }) => step === call.step);
  const checks = run?.last.finished?.checks ?? [];
  const expects = checks.some(
    ({ name, expected }) =>
      name === "error" ||
      (name === "call" && expected === anError) ||
      (name === "result" && isJsonObject(expected) && expected["isError"] === true),
  );
  return expects && lossIn(call, trajectory) === undefined;
}

/** An error for a tool that the server does not list is not the tool's own. */
function isExpected(failure: Failure, call: ToolCall, { task }: Trajectory): boolean {
  if (call.turn === undefined || call.declared === undefined) return false;
  return contains(failure, turnOf(task, call.turn)?.expectedError);
}

function contains(failure: Failure | undefined, expected: string | undefined): boolean {
  if (failure === undefined || failure.ours === true || expected === undefined) return false;
  return containsText(`${failure.status ?? ""} ${failure.text}`, expected);
}

function missingErrors({ task }: Trajectory, calls: readonly ToolCall[]): Diagnosis[] {
  return task.turns.flatMap((wanted, index): Diagnosis[] => {
    const { expectedError } = wanted;
    const inTurn = calls.filter(({ turn }) => turn !== undefined && turnOf(task, turn) === wanted);
    const isSeen = inTurn.some(
      (call) => call.declared !== undefined && contains(failureOf(call), expectedError),
    );
    if (expectedError === undefined || isSeen) return [];
    const reason = `turn ${index + 1} expected a tool error containing ${JSON.stringify(expectedError)}, there was none`;
    return [{ status: "unhealthy", reason, evidence: inTurn.map((call) => call.responseSeq ?? call.seq) }];
  });
}

function healthyReason(diagnoses: readonly Diagnosis[]): string {
  const expected = diagnoses.filter(({ status }) => status === "expected-error").length;
  const calls = `${diagnoses.length} ${diagnoses.length === 1 ? "call" : "calls"} healthy`;
  return expected === 0 ? calls : `${calls}, ${expected} of them failed as expected`;
}

function unhealthyReason(unhealthy: readonly Diagnosis[], total: number): string {
  const reasons = unhealthy.slice(0, maxShownProblems).map(({ reason }) => reason);
  const more = unhealthy.length > maxShownProblems ? `; and ${unhealthy.length - maxShownProblems} more` : "";
  const share = total === 1 ? "" : `${unhealthy.length} of ${total} calls unhealthy: `;
  return `${share}${reasons.join("; ")}${more}`;
}

/**
 * Tool Invocation Order of the MCPVals specification, 6.2: were the expected tools called, in the expected order?
 * Matched is the longest common subsequence of the expected tools and the agent's calls; other
 * calls in between are allowed and named. Score = matched / expected; only a full match passes. An expected tool is
 * its name, or `SERVER.TOOL` where several servers offer it. If a fault was injected into every call, they are no evidence.
 */
export const toolInvocationOrder = graderKind({
  type: "tool-invocation-order",
  forms: ["workflow"],
  grade(_, trajectory) {
    const expected = trajectory.task.expectTools;
    if (expected.length === 0) return skip("no expectTools to look for");
    const calls = trajectory.calls.filter((call) => call.step === undefined && call.server !== null);
    const pairs = commonSequence(expected, calls, isCallOf);
    const matched = pairs.flatMap(([, index]) => calls[index]?.seq ?? []);
    if (pairs.length < expected.length) {
      const reason = failReason(trajectory, calls, new Set(pairs.map(([index]) => index)));
      return passOrFail(pairs.length, expected.length, { reason, evidence: calls.map(({ seq }) => seq) });
    }
    const isShown = calls.some((call) => !lostToFault(call) && expected.some((tool) => isCallOf(tool, call)));
    if (!isShown)
      return skip(`called in order, but every call had a fault injected: ${expected.join(", ")}`, matched);
    const others = calls.length - expected.length;
    const extra = others === 0 ? "" : `, with ${others} other ${others === 1 ? "call" : "calls"}`;
    return passOrFail(1, 1, { reason: `called in order: ${expected.join(", ")}${extra}`, evidence: matched });
  },
});

function isCallOf(expected: string, { server, tool }: ToolCall): boolean {
  return tool === expected || `${server}.${tool}` === expected;
}

function failReason(
  { task, tools }: Trajectory,
  calls: readonly ToolCall[],
  matched: ReadonlySet<number>,
): string {
  const { expectTools, servers } = task;
  const unoffered = "offered by no server";
  const groups = Map.groupBy(
    expectTools.filter((_, index) => !matched.has(index)),
    (expected) => {
      if (calls.some((call) => isCallOf(expected, call))) return "out of order or too few times";
      const isOffered = tools.some((tool) => tool.name === expected || qualified(tool) === expected);
      return isOffered ? "not called" : unoffered;
    },
  );
  const problems = [...groups].map(
    ([problem, names]) =>
      `${problem}: ${problem === unoffered ? unofferedTools(names, tools) : names.join(", ")}`,
  );
  const names = calls.map(({ server, tool }) => (servers.length > 1 ? `${server}.${tool}` : tool));
  const called = calls.length === 0 ? "no tool was called" : `called: ${listed(names, 20)}`;
  return `${problems.join("; ")}; expected: ${expectTools.join(", ")}; ${called}`;
}

/** Names of unknown tools, each with the tool that is probably meant; else with a list of all tools at the end. */
function unofferedTools(names: readonly string[], tools: Trajectory["tools"]): string {
  const questions = names.map((name) => nearestTool(name, tools));
  const reported = names.map((name, index) =>
    questions[index] === undefined ? name : `${name} (${questions[index]})`,
  );
  const all = tools.length > 0 && questions.includes(undefined) ? ` (${offeredTools(tools)})` : "";
  return `${reported.join(", ")}${all}`;
}
