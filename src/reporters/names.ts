import type { AgentSummary, Trial } from "../core/plan/plan.ts";
import type { RunEnvironment, TrialResult } from "../core/report/result.ts";
import { visibleText } from "../core/text/visible-text.ts";
import { addUsage } from "../core/trace/trajectory.ts";
import type { Usage } from "../core/trace/events.ts";
import { countOf, formatInteger } from "./text.ts";

/** What a name is read from; a planned trial and its result both have it. */
export type Nameable = Pick<TrialResult, "task" | "agent" | "variant" | "attempt" | "form"> & {
  readonly suite?: string;
};

/** Whether a run has several agents, sets of servers or attempts, so that names must say which one is meant. */
export interface Variety {
  readonly agents: boolean;
  readonly variants: boolean;
  readonly attempts: boolean;
}

/** Finds out which variants trials come in. */
export function varietyOf(trials: readonly Pick<Trial, "agent" | "variant" | "attempt">[]): Variety {
  const agents = new Set<string>();
  const variants = new Set<string>();
  let attempts = false;
  for (const { agent, variant, attempt } of trials) {
    if (agent !== null) agents.add(agent);
    if (variant !== undefined) variants.add(variant);
    if (attempt > 1) attempts = true;
  }
  return { agents: agents.size > 1, variants: variants.size > 0, attempts };
}

const groups: Readonly<Record<Nameable["form"], string>> = {
  workflow: "workflows",
  "tool-test": "tool tests",
  task: "tasks",
};

/** The name of the group that a trial is shown under: its suite, or what it is. */
export function groupName(trial: Pick<Nameable, "suite" | "form">): string {
  return trial.suite === undefined ? groups[trial.form] : visibleText(trial.suite);
}

/** A task's name within its group: without the suite's name where the task repeats it. */
export function taskTitle({ task, suite }: Pick<Nameable, "task" | "suite">): string {
  if (suite === undefined || !task.startsWith(suite)) return visibleText(task);
  const rest = /^\s*(?:::|[/›>:.·])\s*(\S.*)$/su.exec(task.slice(suite.length));
  return visibleText(rest?.[1] ?? task);
}

/** A task's name with its group in front, for places without a heading. */
export function fullTitle(trial: Nameable): string {
  return trial.suite === undefined ? taskTitle(trial) : `${groupName(trial)} › ${taskTitle(trial)}`;
}

/** Which agent, set of servers and attempt a trial is, where a run has several; empty otherwise. */
export function variantName(
  { agent, variant, attempt }: Pick<Nameable, "agent" | "variant" | "attempt">,
  variety: Variety,
): string {
  const parts = [
    ...(variety.agents && agent !== null ? [visibleText(agent)] : []),
    ...(variety.variants && variant !== undefined ? [visibleText(variant)] : []),
    ...(variety.attempts ? [`attempt ${attempt}`] : []),
  ];
  return parts.join(" · ");
}

/** What the types of agents are that act without any model. */
const withoutModel: Readonly<Record<string, string>> = {
  scripted: "a written plan, not a model",
  oracle: "the task's own solution, not a model",
  null: "does nothing",
};

/** Says who an agent is: its model, or that it is a written plan. */
export function describeAgent({ name, type, model }: AgentSummary): string {
  const what = model ?? withoutModel[type] ?? type;
  return `${visibleText(name)} (${visibleText(what)})`;
}

/** The agents among the configured ones that have trials. */
export function agentsIn(
  trials: readonly { readonly agent: string | null }[],
  agents: readonly AgentSummary[],
): AgentSummary[] {
  const names = new Set(trials.map((trial) => trial.agent));
  return agents.filter((agent) => names.has(agent.name));
}

/**
 * What models took part, as short sentences: tokens by agent, `no model took part`, or that a model was configured
 * and none answered; and who judged. Empty when it is not known, as with agents that run their own.
 */
export function describeModels(
  trials: readonly TrialResult[],
  { agents, judge }: Pick<RunEnvironment, "agents" | "judge">,
): string[] {
  const used = new Map<string | null, Usage>();
  let asked: Usage | undefined;
  for (const { agent, usage, judgeUsage } of trials) {
    if (usage !== undefined) used.set(agent, addUsage(used.get(agent), usage));
    if (judgeUsage !== undefined) asked = addUsage(asked, judgeUsage);
  }
  const tokens = asked === undefined ? "" : ` (${describeUsage(asked)})`;
  const judged = judge === undefined ? [] : [`judged by ${visibleText(judge.model)}${tokens}`];
  if (used.size > 0) {
    const acted = [...used].map(([agent, usage]) => {
      const who = used.size > 1 && agent !== null ? `${visibleText(agent)}: ` : "";
      return `${who}${describeUsage(usage)}`;
    });
    return [...acted, ...judged];
  }
  const acting = agentsIn(trials, agents);
  if (acting.some((agent) => agent.model !== undefined)) return ["no model answered", ...judged];
  const isKnown = acting.every((agent) => agent.type in withoutModel);
  return [...(isKnown ? [judge === undefined ? "no model took part" : "no model acted"] : []), ...judged];
}

function describeUsage({ inputTokens, outputTokens, cacheReadTokens, requests }: Usage): string {
  const cached = cacheReadTokens === undefined ? "" : ` (${formatInteger(cacheReadTokens)} cached)`;
  const tokens = `${formatInteger(inputTokens)} tokens in${cached}, ${formatInteger(outputTokens)} out`;
  // Some programs tell tokens and not how often they asked.
  return requests === undefined ? tokens : `${tokens}, ${countOf(requests, "model request")}`;
}

/** The servers in whose place mocks stood, as a short text; empty when there were none. */
export function describeMocks(trials: readonly TrialResult[]): string {
  const mocked = trials.filter(({ mocks = [] }) => mocks.length > 0);
  const names = [...new Set(mocked.flatMap(({ mocks = [] }) => mocks))];
  if (names.length === 0) return "";
  const some =
    mocked.length === trials.length ? "" : ` in ${countOf(mocked.length, "trial")} of ${trials.length}`;
  return `${names.map(visibleText).join(", ")}${some}`;
}
