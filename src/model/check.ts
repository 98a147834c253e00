import type { JsonObject } from "../base/json.ts";

/** The parts of a check of a server, each a task, with the names of its probes. A rule can look only for these names. */
export interface Probes {
  readonly handshake: "initialize";
  readonly requests:
    | "handshake"
    | "ping"
    | "lists"
    | "unknown-method"
    | "unknown-tool"
    | "missing-params"
    | "unknown-notification"
    | "cancellation"
    | "concurrent"
    | "malformed-json"
    | "not-json-rpc"
    | "logging"
    | "completions"
    | "unknown-session"
    | "foreign-origin";
  readonly shutdown: "handshake" | "shutdown";
  readonly definitions: "list" | "second-start";
  readonly calls: "list" | "call" | "cancelled-call" | "concurrent-calls";
  readonly reads: "handshake" | "read";
  readonly stability: "first-listing" | "second-listing";
  readonly conformance: `conformance ${string}`;
}

export type CheckKind = keyof Probes;

/** The name of a probe. The journal of another version may have other names, for which no rule looks. */
export type ProbeName = Probes[CheckKind];

/** A tool that a check does not call: why, and what to do. */
export interface NotCalled {
  readonly tool: string;
  readonly reason: string;
}

/** One part of a check of a server, all that is decided before it runs. */
export interface CheckSpec {
  readonly kind: CheckKind;
  /** Codes of rules that are left out. */
  readonly disable: readonly string[];
  /** Why this part has nothing to do, so that its trial is skipped; absent: it has. */
  readonly skipped?: string;
  /** The calls to make, in order; only for `calls`. */
  readonly calls?: readonly PlannedCall[];
  /** The resources to read and the prompts to get, in order; only for `reads`. */
  readonly reads?: readonly PlannedRead[];
  /** Resources and prompts that are not read, and why, in sentences; only for `definitions`. */
  readonly notRead?: readonly string[];
  /** What the server said of itself when the check was planned; only for `definitions`. */
  readonly about?: ServerSummary;
  /** Tools that are not called, and why; only for `definitions`. */
  readonly notCalled?: readonly NotCalled[];
  /** Tools of which other servers of the check have one with the same name, and those servers; only for `definitions`. */
  readonly sharedNames?: readonly { readonly tool: string; readonly servers: readonly string[] }[];
  /** Whether the server cannot start while it runs already, so that each start has to wait for the end of the one before. */
  readonly runsOnce?: boolean;
  /** What the server listed when the check was planned; only for `stability`. */
  readonly listing?: JsonObject;
  /** The committed listing that the server's must equal; only for `stability`. */
  readonly snapshot?: JsonObject;
  /** What runs of the official conformance suite; only for `conformance`. */
  readonly conformance?: ConformancePlan;
}

/** An installed conformance suite. */
export interface ConformanceSuite {
  readonly version: string;
  /** Absolute path of its main file. */
  readonly main: string;
}

export interface ConformancePlan {
  readonly suite: ConformanceSuite;
  /** Scenarios to run. */
  readonly scenarios: readonly string[];
  /** Scenarios that say nothing about the server, and why. */
  readonly skipped: readonly SkippedScenario[];
}

export interface SkippedScenario {
  readonly scenario: string;
  readonly reason: string;
}

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
  /** More warnings fail the check. Absent: any number may pass. */
  readonly maxWarnings?: number;
  /** Absolute path of the file with the definitions that the servers must have. */
  readonly snapshot?: string;
  /** How long a request may take. */
  readonly callMs: number;
  /** Whether the official conformance suite runs, too. */
  readonly conformance: boolean;
}

/** What a server says that it is; "" where it does not say. */
export interface ServerIdentity {
  readonly name: string;
  readonly version: string;
  readonly protocolVersion: string;
}

/** What a server is, in a few words: what it says of itself, and how much it lists. */
export interface ServerSummary extends ServerIdentity {
  readonly tools: number;
  readonly resources: number;
  readonly prompts: number;
}

/** A call of a tool with generated arguments. */
export interface PlannedCall {
  readonly tool: string;
  readonly args: JsonObject;
  /** `result`: the arguments are valid; `refusal`: they are not. */
  readonly expects: "result" | "refusal";
  /** How the arguments were made, such as `defaults and examples` or `path is missing`. */
  readonly why: string;
}

/** A resource that a check reads, or a prompt that it gets. */
export interface PlannedRead {
  readonly kind: "resource" | "prompt";
  /** The URI of the resource, or the name of the prompt. */
  readonly name: string;
  /** Made up for a prompt that requires arguments, so that the server may refuse them. */
  readonly args?: JsonObject;
}
