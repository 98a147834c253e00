import { equalJson } from "../../expect/json-difference.ts";
import { fitsPlainly } from "../../expect/plain-schema.ts";
import {
  formatSchemaError,
  type SchemaCheck,
  type SchemaError,
  type ValidateSchema,
} from "../../expect/tool-result.ts";
import { asObject, estimateTokens, isJsonObject, type Json } from "../../base/json.ts";
import type { TrialMeasurements } from "../../model/result.ts";
import { type EventOf, eventsOf } from "../../model/event.ts";
import type { Trajectory } from "../../trace/trajectory.ts";
import { qualified } from "../grader.ts";
import { isOfServer } from "../../trace/agent-acts.ts";
import { mentionsFailure, unsupportedClaims } from "./claims.ts";
import { namesOf, repeatsOf, seqsOf, toolsForAgent, type ToolUse, toolUses } from "../tool-uses.ts";

/** The measurements of a trial. */
export interface Measured {
  readonly row: TrialMeasurements;
  /** Numbers of the events that show what was counted. */
  readonly evidence: Readonly<Partial<Record<keyof TrialMeasurements, readonly number[]>>>;
  readonly definitions: readonly OfferedDefinition[];
}

/** A tool that an agent was offered, with the size of its definition. */
export interface OfferedDefinition {
  readonly server: string;
  readonly tool: string;
  /** Estimate. */
  readonly tokens: number;
  readonly isCalled: boolean;
}

/** Maximum number of claims, and of tools with ignored errors, in the row of a trial. */
const maxNamed = 5;

const measured = new WeakMap<Trajectory, Measured | undefined>();

/** Measures how an agent used tools. Undefined if it had no tool of a server and called none. */
export function measure(trajectory: Trajectory): Measured | undefined {
  if (trajectory.agentStarted === undefined || trajectory.task.form === "check") return undefined;
  if (trajectory.tools.length === 0 && trajectory.calls.length === 0) return undefined;
  if (!measured.has(trajectory)) measured.set(trajectory, measureNow(trajectory));
  return measured.get(trajectory);
}

function measureNow(trajectory: Trajectory): Measured | undefined {
  const offered = toolsForAgent(trajectory);
  const uses = toolUses(trajectory);
  const calls = uses.filter((use) => isOfServer(use) || use.isUnknown);
  if (offered.length === 0 && calls.length === 0) return undefined;
  const unknown = calls.filter(({ isUnknown }) => isUnknown);
  const { errors, recovered, retries, open } = followErrors(calls.filter(({ isUnknown }) => !isUnknown));
  const redundant = redundantUses(uses);
  const called = new Set(namesOf(calls));
  const definitions = offered.map((tool) => ({
    server: tool.server,
    tool: tool.name,
    tokens: estimateTokens(tool.definition),
    isCalled: called.has(qualified(tool)),
  }));
  const answer = trajectory.messages.at(-1);
  const claims = unsupportedClaims(
    answer?.text ?? "",
    offered.map((tool) => ({ name: qualified(tool), tool: tool.name })),
    uses
      .filter(succeeded)
      .map((use) => ({ tool: use.tool, reads: readsOnly(use), foreign: !isOfServer(use) })),
  );
  const invalid = eventsOf(trajectory.events, "calls.invalid").at(-1)?.calls ?? [];
  const ignored = ignoredErrors(open, trajectory);
  return {
    row: {
      calls: calls.length,
      unknownTools: unknown.length,
      invalidCalls: invalid.length,
      invalidCauses: countCauses(invalid.flatMap(({ causes }) => causes)),
      redundantCalls: redundant.length,
      errors: errors.length,
      recoveredErrors: recovered.length,
      identicalRetries: retries.length,
      definitionTokens: sumOf(definitions),
      unusedDefinitionTokens: sumOf(definitions.filter(({ isCalled }) => !isCalled)),
      unsupportedClaims: claims.slice(0, maxNamed),
      ignoredErrors: namesOf(ignored).slice(0, maxNamed),
    },
    evidence: {
      calls: seqsOf(calls),
      unknownTools: seqsOf(unknown),
      invalidCalls: invalid.map(({ seq }) => seq),
      redundantCalls: seqsOf(redundant),
      errors: seqsOf(errors),
      recoveredErrors: seqsOf(errors),
      identicalRetries: seqsOf(retries),
      unsupportedClaims: answer === undefined ? [] : [answer.seq],
      ignoredErrors: seqsOf(ignored),
    },
    definitions,
  };
}

/**
 * The calls of the agent whose arguments violate the `inputSchema` of their tools, without calls of unknown tools. They are recorded,
 * since `measure` has no validator.
 */
export async function invalidCalls(
  trajectory: Trajectory,
  validateSchema: ValidateSchema,
): Promise<EventOf<"calls.invalid">["calls"]> {
  const calls = toolUses(trajectory).filter((use) => isOfServer(use) && !use.isUnknown);
  return (await callFaults(calls, validateSchema)).flatMap(({ use: { seq }, faults = [] }) =>
    faults.length === 0 ? [] : { seq, causes: [...new Set(faults.map(({ cause }) => cause))] },
  );
}

/** How often each cause occurs. */
function countCauses(causes: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...Map.groupBy(causes, (cause) => cause)].map(([cause, all]) => [cause, all.length]),
  );
}

function succeeded({ failure, faulted }: ToolUse): boolean {
  return failure === undefined && faulted === undefined;
}

/** Whether the server declares that the tool only reads. */
function readsOnly({ declared }: ToolUse): boolean {
  return asObject(declared?.definition["annotations"])["readOnlyHint"] === true;
}

function sumOf(definitions: readonly OfferedDefinition[]): number {
  return definitions.reduce((sum, { tokens }) => sum + tokens, 0);
}

interface FollowedErrors {
  readonly errors: readonly ToolUse[];
  /** Those after which a call of the same tool succeeded. */
  readonly recovered: readonly ToolUse[];
  /** The others. */
  readonly open: readonly ToolUse[];
  /** Calls with the same arguments as the call of that tool before, which had failed. */
  readonly retries: readonly ToolUse[];
}

/** The calls that failed, with those that came after them. */
export function followErrors(calls: readonly ToolUse[]): FollowedErrors {
  const [errors, recovered, retries]: [ToolUse[], ToolUse[], ToolUse[]] = [[], [], []];
  const open = new Map<string, ToolUse[]>();
  for (const call of calls) {
    const failed = open.get(call.name) ?? [];
    const before = failed.at(-1);
    if (before !== undefined && equalJson(before.args, call.args)) retries.push(call);
    if (!succeeded(call)) {
      errors.push(call);
      failed.push(call);
      open.set(call.name, failed);
    } else {
      for (const each of failed) recovered.push(each);
      open.delete(call.name);
    }
  }
  return { errors, recovered, retries, open: [...open.values()].flat() };
}

/**
 * Successful calls that repeat one with equal arguments and an equal result, without a use between them of a tool that may have changed
 * something: any tool that its server does not declare as read-only.
 */
function redundantUses(uses: readonly ToolUse[]): readonly ToolUse[] {
  const repeats = repeatsOf(uses);
  const results = new Map<ToolUse, Json>();
  return uses.filter((use) => {
    const { result } = use;
    const first = repeats.get(use) ?? use;
    const before = results.get(first);
    if (!readsOnly(use)) results.clear();
    if (result === undefined || !succeeded(use)) return false;
    results.set(first, result);
    return before !== undefined && equalJson(before, result);
  });
}

/** The failed calls after which the agent said something, but mentioned no failure. */
function ignoredErrors(failed: readonly ToolUse[], { messages }: Trajectory): readonly ToolUse[] {
  if (failed.length === 0) return [];
  const said = messages.filter(({ text }) => text.trim() !== "");
  const lastSaid = said.at(-1)?.seq ?? 0;
  const lastMention = said.findLast(({ text }) => mentionsFailure(text))?.seq ?? 0;
  return failed.filter(({ seq }) => seq < lastSaid && seq > lastMention);
}

/** How the arguments of a call violate the schema of the tool. */
export type CallFaultCause =
  | "unknown tool"
  | "unknown key"
  | "missing key"
  | "wrong type"
  | "unknown value"
  | "invalid value";

export interface CallFault {
  readonly cause: CallFaultCause;
  /** What is wrong, as a sentence. */
  readonly message: string;
  /** JSON Pointer to the wrong part of the arguments; empty: all of them. */
  readonly pointer: string;
}

const causes: Readonly<Record<string, CallFaultCause>> = {
  additionalProperties: "unknown key",
  unevaluatedProperties: "unknown key",
  required: "missing key",
  dependentRequired: "missing key",
  type: "wrong type",
  enum: "unknown value",
  const: "unknown value",
};

type Arguments = Pick<ToolUse, "args" | "declared">;

/** A call with its faults. */
export interface CheckedCall<T extends Arguments> {
  readonly use: T;
  /** Undefined if they are not known: the tool was not declared, or its schema cannot be used. */
  readonly faults: readonly CallFault[] | undefined;
}

/**
 * The faults of calls, by the `inputSchema` of their tools. A key that the schema does not name is unknown even if the schema allows any
 * key, since the server cannot know what it means.
 */
export async function callFaults<T extends Arguments>(
  calls: readonly T[],
  validateSchema: ValidateSchema,
): Promise<readonly CheckedCall<T>[]> {
  // Most calls fit a plain schema, and a promise for each would take longer than this test.
  const unclear = calls.filter((use) => !fitsPlainly(schemaOf(use) ?? true, use.args));
  const checks = await Promise.all(
    unclear.map(async (use) => [use, await validateSchema(schemaOf(use) ?? true, use.args)] as const),
  );
  const byUse = new Map(checks);
  return calls.map((use) => ({ use, faults: faultsOf(use, byUse.get(use)) }));
}

function schemaOf({ declared }: Arguments): Json | undefined {
  return declared?.definition["inputSchema"];
}

/** `check` is absent for arguments that fit a plain schema. */
function faultsOf(use: Arguments, check: SchemaCheck | undefined): readonly CallFault[] | undefined {
  const schema = schemaOf(use);
  if (schema === undefined || check?.status === "unusable") return undefined;
  if (check?.status === "invalid") return check.errors.map(faultOf);
  return unnamedKeys(schema, use.args).map((key) => {
    return {
      cause: "unknown key",
      message: `${JSON.stringify(key.slice(0, 80))} is not an argument of the tool`,
      pointer: `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`,
    };
  });
}

function faultOf(error: SchemaError): CallFault {
  return {
    cause: causes[error.keyword] ?? "invalid value",
    message: formatSchemaError(error, "the arguments"),
    pointer: error.instancePath,
  };
}

/** Keywords by which a schema may allow keys besides those of `properties`. */
const otherKeywords = [
  "$ref",
  "$dynamicRef",
  "allOf",
  "anyOf",
  "oneOf",
  "if",
  "additionalProperties",
  "patternProperties",
  "propertyNames",
  "dependentSchemas",
  "unevaluatedProperties",
];

/** Keys of arguments that a schema does not mention. */
function unnamedKeys(schema: Json, args: Json): readonly string[] {
  if (!isJsonObject(schema) || !isJsonObject(schema["properties"])) return [];
  const { properties } = schema;
  const unnamed = Object.keys(asObject(args)).filter((key) => !Object.hasOwn(properties, key));
  const allowsOthers = unnamed.length > 0 && otherKeywords.some((keyword) => Object.hasOwn(schema, keyword));
  return allowsOthers ? [] : unnamed;
}
