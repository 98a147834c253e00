import type { JsonObject } from "../formats/model.ts";
import { containsText } from "../formats/contains-text.ts";
import { contentProblem, outputProblem, resultText } from "../checks/result-text.ts";
import type { ToolCall, Trajectory } from "../trace/trajectory.ts";
import type { Grade, GradeContext, Grader } from "./grader.ts";
import { lostToFault, nearestTool, offeredTools } from "./offered-tools.ts";

const name = "tool-call-health";
const shownProblems = 5;

/**
 * Tool Call Health of the MCPVals specification, 6.3: of all tool calls, the share that returned successfully: no
 * exception, no `isError`, content that clients can use, HTTP status 200 to 299 where the transport is HTTP, structured
 * content valid against the tool's `outputSchema`. A failure that its turn or step expects is healthy. A turn that
 * expects an error and saw none counts as one unhealthy call; of a step, `verify-steps` says that. Attempts of a step
 * that were tried again do not count, and neither do calls that we made fail on purpose.
 */
export const toolCallHealth: Grader = { name, grade };

async function grade(trajectory: Trajectory, context: GradeContext): Promise<Grade> {
  const calls = trajectory.calls.filter((call) => !call.superseded && !lostToFault(call));
  const missing = missingErrors(trajectory, calls);
  if (calls.length + missing.length === 0) {
    const anyFault = trajectory.calls.some(lostToFault);
    const reason = anyFault ? "every tool call had a fault injected" : "no tool was called";
    return { grader: name, verdict: "skip", score: null, reason, evidence: [] };
  }
  const diagnoses = await Promise.all(calls.map((call) => diagnose(call, trajectory, context)));
  const sick = [...diagnoses.filter((diagnosis) => diagnosis.status === "sick"), ...missing];
  const total = calls.length + missing.length;
  const healthy = total - sick.length;
  return {
    grader: name,
    verdict: sick.length === 0 ? "pass" : "fail",
    score: healthy / total,
    reason: sick.length === 0 ? healthyReason(diagnoses) : sickReason(sick, total),
    evidence: [...new Set((sick.length === 0 ? diagnoses : sick).flatMap((diagnosis) => diagnosis.evidence))],
  };
}

interface Diagnosis {
  readonly status: "healthy" | "expected-error" | "sick";
  readonly reason: string;
  readonly evidence: readonly number[];
}

async function diagnose(call: ToolCall, trajectory: Trajectory, context: GradeContext): Promise<Diagnosis> {
  const evidence = [call.responseSeq ?? call.seq];
  const failure = failureOf(call);
  if (failure !== undefined) {
    if (isExpected(failure, call, trajectory)) {
      return { status: "expected-error", reason: `${call.tool} failed as expected`, evidence };
    }
    const said = failure.text === "" ? "" : `: ${shorten(failure.text)}`;
    const reason = `${call.tool} ${failure.kind}${said}${unofferedNote(call, trajectory)}`;
    return { status: "sick", reason, evidence };
  }
  const unoffered = unofferedNote(call, trajectory);
  if (unoffered !== "") return { status: "sick", reason: `${call.tool} was answered${unoffered}`, evidence };
  return { ...(await diagnoseOutput(call, context)), evidence };
}

/** Says so when the called tool is none of those that its server listed; nothing when the list is not known. */
function unofferedNote({ server, tool }: ToolCall, trajectory: Trajectory): string {
  const tools = trajectory.tools.filter((offer) => server === null || offer.server === server);
  if (tools.length === 0 || tools.some((offer) => offer.name === tool)) return "";
  const help = nearestTool(tool, tools) ?? offeredTools(tools);
  return server === null ? ` (${help})` : ` (the server offers no such tool; ${help})`;
}

interface Failure {
  /** What the call did, as a verb. */
  readonly kind: string;
  /** What the server said to it, or else what we say of it. */
  readonly text: string;
  /** Whether the text is ours, so that it cannot be the error that the server was expected to give. */
  readonly ours?: true;
  readonly status?: string;
}

function failureOf(call: ToolCall): Failure | undefined {
  if (call.httpStatus !== undefined && (call.httpStatus < 200 || call.httpStatus > 299)) {
    const status = `HTTP ${call.httpStatus}`;
    const text = call.error?.kind === "protocol" ? call.error.message : "";
    return { kind: `answered ${status}`, text, status };
  }
  if (call.error !== undefined) {
    const { kind, message } = call.error;
    return { kind: failureKinds[kind], text: message, ...(kind === "protocol" ? {} : { ours: true }) };
  }
  return call.result === undefined ? undefined : resultFailure(call.result);
}

function resultFailure(result: JsonObject): Failure | undefined {
  if (result["isError"] === true) return { kind: "answered isError", text: resultText(result) };
  if (result["content"] === undefined && !("structuredContent" in result)) {
    return { kind: "answered without content", text: JSON.stringify(result), ours: true };
  }
  const problem = contentProblem(result);
  return problem === undefined
    ? undefined
    : { kind: "answered with unusable content", text: problem, ours: true };
}

const failureKinds = {
  protocol: "answered with an error",
  rejected: "cannot be called",
  "no-response": "gave no result",
} as const;

/**
 * A step has compared the whole answer with what it expects, of which the body of an HTTP error is not on record. What a
 * server says of a tool that it does not list is not the tool's error.
 */
function isExpected(failure: Failure, call: ToolCall, { task, steps }: Trajectory): boolean {
  const step = steps.find((candidate) => candidate.step === call.step)?.last;
  if (step !== undefined) return step.checks.some((check) => check.name === "error" && check.passed);
  if (call.turn === undefined || call.declared === undefined) return false;
  return contains(failure, task.turns[call.turn]?.expectedError);
}

function contains(failure: Failure | undefined, expected: string | undefined): boolean {
  if (failure === undefined || failure.ours === true || expected === undefined) return false;
  return containsText(`${failure.status ?? ""} ${failure.text}`, expected);
}

function missingErrors(trajectory: Trajectory, calls: readonly ToolCall[]): Diagnosis[] {
  return trajectory.task.turns.flatMap(({ expectedError }, index): Diagnosis[] => {
    if (expectedError === undefined) return [];
    const inTurn = calls.filter((call) => call.turn === index);
    if (inTurn.some((call) => call.declared !== undefined && contains(failureOf(call), expectedError)))
      return [];
    const reason = `turn ${index + 1} expected a tool error containing ${JSON.stringify(expectedError)}, there was none`;
    return [{ status: "sick", reason, evidence: inTurn.map((call) => call.responseSeq ?? call.seq) }];
  });
}

/** Whether what came back is what the tool's own schema promises. */
async function diagnoseOutput(
  { tool, declared = [], result = {} }: ToolCall,
  context: GradeContext,
): Promise<Pick<Diagnosis, "status" | "reason">> {
  const [declaration] = declared;
  if (declared.length > 1)
    return { status: "sick", reason: `${tool} is listed ${declared.length} times by its server` };
  if (declaration?.outputSchema === undefined) return { status: "healthy", reason: `${tool} is healthy` };
  const problem = await outputProblem(declaration.outputSchema, result, (schema, value) =>
    context.validateSchema(schema, value),
  );
  return problem === undefined
    ? { status: "healthy", reason: `${tool} is healthy` }
    : { status: "sick", reason: `${tool} ${problem}` };
}

function healthyReason(diagnoses: readonly Diagnosis[]): string {
  const expected = diagnoses.filter((diagnosis) => diagnosis.status === "expected-error").length;
  const calls = `${diagnoses.length} ${diagnoses.length === 1 ? "call" : "calls"} healthy`;
  return expected === 0 ? calls : `${calls}, ${expected} of them failed as expected`;
}

function sickReason(sick: readonly Diagnosis[], total: number): string {
  const reasons = sick.slice(0, shownProblems).map((diagnosis) => diagnosis.reason);
  const more = sick.length > shownProblems ? `; and ${sick.length - shownProblems} more` : "";
  const share = total === 1 ? "" : `${sick.length} of ${total} calls unhealthy: `;
  return `${share}${reasons.join("; ")}${more}`;
}

function shorten(text: string): string {
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
