import type { Json } from "../formats/model.ts";
import { resultText } from "../checks/result-text.ts";
import type { ToolCall, Trajectory } from "../trace/trajectory.ts";
import type { Grade, GradeContext, Grader } from "./grade.ts";

const name = "tool-call-health";
const shownProblems = 5;

/**
 * Tool Call Health of the MCPVals specification, 6.3: of all tool calls, the share that returned successfully: no
 * exception, no `isError`, HTTP status 200 to 299 where the transport is HTTP, structured content valid against the
 * tool's `outputSchema`. A failure with the expected error's text is healthy, and a turn or step that expects an error
 * is unhealthy without one. Attempts of a step that were tried again do not count.
 */
export const toolCallHealth: Grader = { name, grade };

async function grade(trajectory: Trajectory, context: GradeContext): Promise<Grade> {
  const calls = trajectory.calls.filter((call) => !call.superseded);
  const missing = missingErrors(trajectory, calls);
  if (calls.length + missing.length === 0) {
    return { grader: name, verdict: "skip", score: null, reason: "no tool was called", evidence: [] };
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
    evidence: (sick.length === 0 ? diagnoses : sick).flatMap((diagnosis) => diagnosis.evidence),
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
  const expected = expectedErrorOf(call, trajectory);
  if (failure !== undefined) {
    const known = expected !== undefined && failure.text.toLowerCase().includes(expected.toLowerCase());
    return known
      ? { status: "expected-error", reason: `${call.tool} failed as expected`, evidence }
      : { status: "sick", reason: `${call.tool} ${failure.kind}: ${shorten(failure.text)}`, evidence };
  }
  return { ...(await validateOutput(call, trajectory, context)), evidence };
}

function failureOf(call: ToolCall): { kind: string; text: string } | undefined {
  if (call.httpStatus !== undefined && (call.httpStatus < 200 || call.httpStatus > 299)) {
    return { kind: `answered HTTP ${call.httpStatus}`, text: call.error?.message ?? "" };
  }
  if (call.error !== undefined) return { kind: failureKinds[call.error.kind], text: call.error.message };
  if (call.result?.["isError"] === true) return { kind: "answered isError", text: resultText(call.result) };
  if (
    call.result !== undefined &&
    !Array.isArray(call.result["content"]) &&
    !("structuredContent" in call.result)
  ) {
    return { kind: "answered without content", text: JSON.stringify(call.result) };
  }
  return undefined;
}

const failureKinds = {
  protocol: "answered with an error",
  rejected: "cannot be called",
  "no-response": "gave no result",
} as const;

function expectedErrorOf(call: ToolCall, { task }: Trajectory): string | undefined {
  if (call.turn !== undefined) return task.turns[call.turn]?.expectedError;
  return task.verify.find((step) => step.id === call.step)?.expect.error;
}

/** A turn that expects an error needs one; a step says the same through its own check, but without evidence here too. */
function missingErrors(trajectory: Trajectory, calls: readonly ToolCall[]): Diagnosis[] {
  return trajectory.task.turns.flatMap((turn, index): Diagnosis[] => {
    const wanted = turn.expectedError?.toLowerCase();
    if (wanted === undefined) return [];
    const seen = calls.some(
      (call) => call.turn === index && (failureOf(call)?.text.toLowerCase().includes(wanted) ?? false),
    );
    const reason = `turn ${index + 1} expected a tool error containing ${JSON.stringify(turn.expectedError)}, there was none`;
    return seen ? [] : [{ status: "sick", reason, evidence: [] }];
  });
}

type OutputVerdict = Pick<Diagnosis, "status" | "reason">;

async function validateOutput(
  call: ToolCall,
  trajectory: Trajectory,
  context: GradeContext,
): Promise<OutputVerdict> {
  const healthy: OutputVerdict = { status: "healthy", reason: `${call.tool} is healthy` };
  const schema = outputSchemaOf(call, trajectory);
  if (schema === undefined) return healthy;
  const structured = call.result?.["structuredContent"];
  if (structured === undefined) {
    return { status: "sick", reason: `${call.tool} declares an outputSchema but gave no structuredContent` };
  }
  const check = await context.validateSchema(schema, structured);
  switch (check.status) {
    case "valid":
      return healthy;
    case "invalid":
      return { status: "sick", reason: `${call.tool} violates its outputSchema: ${check.errors.join(", ")}` };
    case "unusable":
      return {
        status: "sick",
        reason: `the outputSchema of ${call.tool} cannot be used: ${check.reason}`,
      };
  }
}

function outputSchemaOf(call: ToolCall, trajectory: Trajectory): Json | undefined {
  return trajectory.tools.findLast((tool) => tool.server === call.server && tool.name === call.tool)
    ?.outputSchema;
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
