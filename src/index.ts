export { evaluate } from "./evaluate.ts";
export type { EvaluateOptions } from "./evaluate.ts";
export { check } from "./check.ts";
export type { CheckOptions, CheckResult, Target, TargetOptions } from "./check.ts";
export { formatReport } from "./evaluate.ts";
export type { Evaluation, TrialEvidence } from "./evaluate.ts";
export { defineGrader, type GraderDefinition } from "./graders/programs/answer.ts";
export type { GraderAnswer } from "./graders/programs/answer.ts";
export type { TrajectoryRecord } from "./graders/programs/trajectory-record.ts";
export { defineConfig } from "./formats/load.ts";
export {
  configSchema as ConfigSchema,
  type Config,
  workflowSchema as WorkflowSchema,
} from "./formats/config/config-schema.ts";
export { serverSchema as ServerSchema } from "./model/server.ts";
export { McpvalsError, type Diagnostic, type ErrorDetails, type SourceLocation } from "./base/error.ts";
export type { SerializedError } from "./base/serialized-error.ts";
export type { ErrorCode, ErrorKind } from "./base/catalogue.ts";
export type { Grade, RunVerdict, Usage, Verdict } from "./model/grade.ts";
export type { Finding, FindingPlace, Severity } from "./model/finding.ts";
export type { AgentSummary } from "./model/agent.ts";
export type { Plan } from "./model/plan.ts";
export type { RunFinding } from "./model/finding.ts";
export type {
  RunEnvironment,
  RunResult,
  RunSummary,
  ServerDigest,
  ToolDigest,
  TrialResult,
} from "./model/result.ts";
export type { TraceEvent } from "./model/event.ts";
export type { ToolCall } from "./trace/trajectory.ts";
export { exitCode } from "./report/result.ts";
export { version } from "./base/version.ts";
