import type { AgentSummary } from "../../core/plan/plan.ts";
import type { RunEnvironment, TrialResult } from "../../core/report/result.ts";
import { visibleText } from "../../core/text/visible-text.ts";
import { addUsage } from "../../core/trace/build-trajectory.ts";
import type { Usage } from "../../core/trace/events.ts";
import { countOf, formatInteger } from "./numbers.ts";

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
 * What models took part, as short sentences: tokens by agent, `no model took part`, or that a model was to take part
 * and none answered; and who judged. Empty when it is not known, as with agents that run their own.
 */
export function describeModels(
  trials: readonly TrialResult[],
  { agents, judge }: Pick<RunEnvironment, "agents" | "judge">,
): string[] {
  const asked = trials.reduce<Usage | undefined>(
    (sum, { judgeUsage }) => (judgeUsage === undefined ? sum : addUsage(sum, judgeUsage)),
    undefined,
  );
  const tokens = asked === undefined ? "" : ` (${describeUsage(asked)})`;
  const judged = judge === undefined ? [] : [`judged by ${visibleText(judge.model)}${tokens}`];
  return [...describeActing(trials, agents, judge !== undefined), ...judged];
}

function describeActing(
  trials: readonly TrialResult[],
  agents: readonly AgentSummary[],
  isJudged: boolean,
): string[] {
  const used = usageByAgent(trials);
  if (used.size > 0) {
    return [...used].map(([agent, usage]) => {
      const who = used.size > 1 && agent !== null ? `${visibleText(agent)}: ` : "";
      return `${who}${describeUsage(usage)}`;
    });
  }
  const acting = agentsIn(trials, agents);
  if (acting.some((agent) => agent.model !== undefined)) return ["no model answered"];
  return acting.every((agent) => agent.type in withoutModel)
    ? [isJudged ? "no model acted" : "no model took part"]
    : [];
}

function usageByAgent(trials: readonly TrialResult[]): Map<string | null, Usage> {
  const used = new Map<string | null, Usage>();
  for (const { agent, usage } of trials) {
    if (usage !== undefined) used.set(agent, addUsage(used.get(agent), usage));
  }
  return used;
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
