import { equalJson } from "../../checks/json-difference.ts";
import type { ValidateSchema } from "../../checks/tool-result.ts";
import { asObject, estimateTokens, type Json } from "../../formats/json.ts";
import type { TrialMeasurements } from "../../report/result.ts";
import { type EventOf, eventsOf } from "../../trace/events.ts";
import { agentCalls, perObject, type ToolDeclaration, type Trajectory } from "../../trace/trajectory.ts";
import { qualified } from "../grader.ts";
import { identitiesOf, isMcp, nameOfUse, type ToolUse, toolUses } from "../tool-uses.ts";
import { callFaults } from "./call-faults.ts";
import { mentionsFailure, unsupportedClaims } from "./answer.ts";

/** The measurements of a trial. */
export interface Measured {
  readonly row: TrialMeasurements;
  /** Numbers of the events that show what was counted. */
  readonly evidence: Readonly<Partial<Record<keyof TrialMeasurements, readonly number[]>>>;
  readonly definitions: readonly OfferedDefinition[];
}

/** What the definition of a tool costs that an agent was offered. */
export interface OfferedDefinition {
  readonly server: string;
  readonly tool: string;
  /** Estimate. */
  readonly tokens: number;
  readonly isCalled: boolean;
}

/** Claims, and tools with ignored errors, that a trial's row names. */
const mostNamed = 5;

const measured = new WeakMap<Trajectory, Measured | undefined>();

/** Measures how an agent used tools. Undefined where it had no tool of a server and called none. */
export function measure(trajectory: Trajectory): Measured | undefined {
  if (trajectory.agentStarted === undefined || trajectory.task.form === "check") return undefined;
  if (trajectory.tools.length === 0 && trajectory.calls.length === 0) return undefined;
  if (!measured.has(trajectory)) measured.set(trajectory, measureNow(trajectory));
  return measured.get(trajectory);
}

function measureNow(trajectory: Trajectory): Measured | undefined {
  const offered = offeredTools(trajectory);
  const uses = toolUses(trajectory);
  const isUnknown = unknownToolTest(trajectory);
  const calls = uses.filter((use) => isMcp(use) || isUnknown(use));
  if (offered.length === 0 && calls.length === 0) return undefined;
  const unknown = calls.filter(isUnknown);
  const { errors, recovered, retries, open } = followErrors(calls.filter((use) => !isUnknown(use)));
  const redundant = redundantUses(uses, trajectory);
  const called = new Set(calls.map(nameOfUse));
  const definitions = offered.map((tool) => ({
    server: tool.server,
    tool: tool.name,
    tokens: estimateTokens(tool.definition),
    isCalled: called.has(qualified(tool)),
  }));
  const answer = eventsOf(trajectory.events, "agent.message").at(-1);
  const claims = unsupportedClaims(
    answer?.text ?? "",
    offered.map((tool) => ({ name: qualified(tool), tool: tool.name })),
    uses.filter(succeeded).map((use) => ({ tool: use.tool, reads: readsOnly(use), foreign: !isMcp(use) })),
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
      unsupportedClaims: claims.slice(0, mostNamed),
      ignoredErrors: [...new Set(ignored.map(nameOfUse))].slice(0, mostNamed),
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
 * The calls of the agent whose arguments do not fit what their servers declare. They are recorded, since `measure` has no
 * validator. Calls of tools that do not exist are not among them.
 */
export async function invalidCalls(
  trajectory: Trajectory,
  validateSchema: ValidateSchema,
): Promise<EventOf<"calls.invalid">["calls"]> {
  const isUnknown = unknownToolTest(trajectory);
  const calls = toolUses(trajectory).filter((use) => isMcp(use) && !isUnknown(use));
  return (await callFaults(calls, validateSchema)).flatMap(({ use: { seq }, faults = [] }) => {
    const causes = [...new Set(faults.map(({ cause }) => cause))];
    return causes.length === 0 ? [] : [{ seq, causes }];
  });
}

/** Tells whether a use is a call of a tool that does not exist: no server has it, or it is not in the list of the server that was asked. */
export function unknownToolTest(trajectory: Trajectory): (use: ToolUse) => boolean {
  const offered = offeredTools(trajectory);
  const names = new Set(offered.map(qualified));
  const listing = new Set(offered.map(({ server }) => `mcp:${server}`));
  const rejected = new Set(trajectory.calls.flatMap(({ server, seq }) => (server === null ? [seq] : [])));
  return (use) => rejected.has(use.seq) || (listing.has(use.source) && !names.has(nameOfUse(use)));
}

/** The tools that servers listed for the agent, each once, as they were listed last. */
const offeredTools = perObject(({ tools, events }: Trajectory): readonly ToolDeclaration[] => {
  const hidden = new Set(
    eventsOf(events, "tools.hidden").flatMap(({ server, tools: names }) =>
      names.map((name) => qualified({ server, name })),
    ),
  );
  const offered = new Map(tools.map((tool) => [qualified(tool), tool]));
  return [...offered].flatMap(([name, tool]) => (hidden.has(name) ? [] : [tool]));
});

/** How often each cause occurs. */
function countCauses(causes: readonly string[]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    [...Map.groupBy(causes, (cause) => cause)].map(([cause, all]) => [cause, all.length]),
  );
}

function seqsOf(uses: readonly ToolUse[]): readonly number[] {
  return uses.map(({ seq }) => seq);
}

function succeeded({ failure, faulted }: ToolUse): boolean {
  return failure === undefined && faulted === undefined;
}

/** Whether the server says that the tool does not change anything. */
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

/** Which calls failed, and what came of it. */
export function followErrors(calls: readonly ToolUse[]): FollowedErrors {
  const [errors, recovered, retries]: [ToolUse[], ToolUse[], ToolUse[]] = [[], [], []];
  const open = new Map<string, ToolUse[]>();
  for (const call of calls) {
    const tool = nameOfUse(call);
    const failed = open.get(tool) ?? [];
    const before = failed.at(-1);
    if (before !== undefined && equalJson(before.args, call.args)) retries.push(call);
    if (!succeeded(call)) {
      errors.push(call);
      failed.push(call);
      open.set(tool, failed);
    } else {
      for (const each of failed) recovered.push(each);
      open.delete(tool);
    }
  }
  return { errors, recovered, retries, open: [...open.values()].flat() };
}

/**
 * Successful calls that repeat one with equal arguments and get an equal result, with nothing between the two that may have
 * changed something: every use of a tool that its server does not declare to only read may have.
 */
function redundantUses(uses: readonly ToolUse[], trajectory: Trajectory): readonly ToolUse[] {
  const answers = new Map(agentCalls(trajectory).map(({ seq, answer }) => [seq, answer?.message["result"]]));
  const identities = identitiesOf(uses);
  const results = new Map<string, Json | undefined>();
  return uses.filter((use, index) => {
    const key = identities[index] ?? "";
    const [before, result] = [results.get(key), answers.get(use.seq)];
    if (!readsOnly(use)) results.clear();
    if (result === undefined || !succeeded(use)) return false;
    results.set(key, result);
    return before !== undefined && equalJson(before, result);
  });
}

/** The failed calls after which the agent says something, and nothing of a failure. */
function ignoredErrors(failed: readonly ToolUse[], { events }: Trajectory): readonly ToolUse[] {
  if (failed.length === 0) return [];
  const said = eventsOf(events, "agent.message").filter(({ text }) => text.trim() !== "");
  const lastSaid = said.at(-1)?.seq ?? 0;
  const lastTold = said.findLast(({ text }) => mentionsFailure(text))?.seq ?? 0;
  return failed.filter(({ seq }) => seq < lastSaid && seq > lastTold);
}
