export { evaluate } from "./evaluate.ts";
export type { EvaluateOptions } from "./evaluate.ts";
export { check } from "./check.ts";
export type { CheckOptions, CheckResult, Target, TargetOptions } from "./check.ts";
export { formatReport } from "./evaluate.ts";
export type { Evaluation, TrialEvidence } from "./evaluate.ts";
export { defineGrader, type GraderDefinition } from "./core/grade/programs/answer.ts";
export type { GraderAnswer } from "./core/grade/programs/answer.ts";
export type { TrajectoryRecord } from "./core/grade/programs/trajectory-record.ts";
export { defineConfig } from "./load/load.ts";
export {
  configSchema as ConfigSchema,
  type Config,
  workflowSchema as WorkflowSchema,
} from "./core/formats/config/config-schema.ts";
export { serverSchema as ServerSchema } from "./core/formats/config/server.ts";
export {
  McpvalsError,
  type Diagnostic,
  type ErrorDetails,
  type SerializedError,
  type SourceLocation,
} from "./core/errors/error.ts";
export type { ErrorCode, ErrorKind } from "./core/errors/catalogue.ts";
export type { Grade, Verdict } from "./core/trace/events.ts";
export type { Finding, FindingPlace, Severity } from "./core/lint/finding.ts";
export type { AgentSummary, Plan } from "./core/plan/plan.ts";
export type { RunFinding } from "./core/lint/finding.ts";
export type {
  RunEnvironment,
  RunResult,
  RunSummary,
  RunVerdict,
  ServerDigest,
  ToolDigest,
  TrialResult,
} from "./core/report/result.ts";
export type { TraceEvent, Usage } from "./core/trace/events.ts";
export type { ToolCall } from "./core/trace/trajectory.ts";
export { exitCode } from "./core/report/trial-result.ts";
export { version } from "./core/version.ts";
