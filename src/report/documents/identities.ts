import { withoutUndefined } from "../../base/json.ts";
import type { AgentIdentity } from "../../model/agent.ts";
import type { TrialResult } from "../../model/result.ts";

/** What identities need of a trial. */
interface ActedTrial {
  readonly agent?: string | null;
  readonly ran?: TrialResult["ran"];
}

/** The agents that have some of the trials, with what their programs reported in these. */
export function identitiesOf(
  agents: readonly AgentIdentity[],
  trials: readonly ActedTrial[],
): readonly AgentIdentity[] {
  return agents.flatMap((agent) => {
    const own = trials.filter((trial) => trial.agent === agent.name);
    const reported = (key: "programs" | "models"): readonly string[] | undefined => {
      const names = new Set(own.flatMap(({ ran }) => ran?.[key] ?? []));
      return names.size === 0 ? agent[key] : [...names].toSorted();
    };
    if (own.length === 0) return [];
    return [withoutUndefined({ ...agent, programs: reported("programs"), models: reported("models") })];
  });
}

/** What an agent is, in the words of notes. */
const traits = {
  type: "type",
  preset: "preset",
  programs: "program",
  model: "chosen model",
  models: "model",
  permissions: "permissions",
  home: "home",
  effort: "effort",
  systemHash: "system prompt",
  maxTurns: "maxTurns",
  allowedTools: "allowed tools",
  sessionOptions: "options of the session",
} as const;

/** What a program may not report, and older versions did not record: unknown is not known to be another. */
const unsure = ["programs", "models", "preset", "permissions"];

/** A side of a comparison, with the agents that its run had. */
interface IdentifiedSide {
  readonly name: string;
  /** Absent: not known. */
  readonly agents?: readonly AgentIdentity[] | undefined;
  readonly trials: readonly ActedTrial[];
}

/** How the agents differ that are compared with each other: those of the same name, or the only ones. A sentence for each. */
export function agentDifferences(first: IdentifiedSide, second: IdentifiedSide): readonly string[] {
  if (first.agents === undefined || second.agents === undefined) return [];
  const [before, after] = [first, second].map(({ agents = [], trials }) => identitiesOf(agents, trials));
  const [only, ...more] = before ?? [];
  const isAlone = more.length === 0 && after?.length === 1;
  return (before ?? []).flatMap((one) => {
    const other = isAlone && one === only ? after[0] : after?.find(({ name }) => name === one.name);
    if (other === undefined) return [];
    const differences = Object.entries(traits).flatMap(([key, word]) => {
      const [was, is] = [one, other].map((agent) => traitText(agent[key as keyof typeof traits]));
      const isUnknown = unsure.includes(key) && (was === "none" || is === "none");
      return was === is || isUnknown ? [] : [`${word} ${was} and ${is}`];
    });
    if (differences.length === 0) return [];
    const name = one.name === other.name ? one.name : `${one.name} and ${other.name}`;
    return [
      `The agents of ${first.name} and ${second.name} are not the same (${name}): ${differences.join("; ")}.`,
    ];
  });
}

function traitText(value: AgentIdentity[keyof typeof traits]): string {
  if (typeof value !== "object") return value === undefined ? "none" : String(value);
  const texts = Array.isArray(value) ? value : Object.entries(value).map((pair) => pair.join("="));
  return texts.length === 0 ? "an empty list" : texts.join(", ");
}
