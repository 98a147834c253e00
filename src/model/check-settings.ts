import type { AcceptedFinding } from "./check.ts";

/** Which tools a check calls: those that are annotated `readOnlyHint: true`, all, or none. */
export const callPolicies = ["safe", "all", "none"] as const;

export type CallPolicy = (typeof callPolicies)[number];

/** What an eval says of checks of its servers; a command line may say otherwise. */
export interface CheckSettings {
  readonly calls: CallPolicy;
  /** Codes of rules that are left out. */
  readonly disable: readonly string[];
  /** Codes of rules that look only when they are named. */
  readonly enable: readonly string[];
  /** Findings that are reported as info, with their reasons. */
  readonly accepted: readonly AcceptedFinding[];
  /** More warnings fail the check. Absent: any number may pass. */
  readonly maxWarnings?: number;
  /** Absolute path of the file with the definitions that the servers must have. */
  readonly snapshot?: string;
  /** How long a request may take. */
  readonly callMs: number;
  /** Whether the official conformance suite runs, too. */
  readonly conformance: boolean;
  /** Whether the servers run in a sandbox with planted secrets, and what they touch is watched. */
  readonly security: boolean;
}
