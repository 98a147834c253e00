import type { Usage } from "../../core/trace/events.ts";
import { objectOf } from "./acp-values.ts";

/** Tokens of each turn, where an agent tells them with its answer to the prompt. It does not tell of single requests. */
export class AcpUsage {
  readonly #of: "turn" | "session";
  #before: Usage = none;

  /** `session`: the agent tells the sum of all turns so far. */
  constructor(of: "turn" | "session") {
    this.#of = of;
  }

  /** The tokens of the turn that was answered; undefined when the agent does not tell. */
  take(answer: unknown): Usage | undefined {
    const told = toldUsage(answer);
    if (told === undefined || this.#of === "turn") return told;
    const before = this.#before;
    this.#before = told;
    return {
      inputTokens: told.inputTokens - before.inputTokens,
      outputTokens: told.outputTokens - before.outputTokens,
      ...difference("cacheReadTokens", told, before),
      ...difference("cacheWriteTokens", told, before),
    };
  }
}

const none: Usage = { inputTokens: 0, outputTokens: 0 };

function difference(
  name: "cacheReadTokens" | "cacheWriteTokens",
  told: Usage,
  before: Usage,
): Partial<Usage> {
  const now = told[name];
  return now === undefined ? {} : { [name]: now - (before[name] ?? 0) };
}

function toldUsage(answer: unknown): Usage | undefined {
  const told = objectOf(objectOf(answer)["usage"]);
  const input = countOf(told["inputTokens"]);
  const output = countOf(told["outputTokens"]);
  if (input === undefined || output === undefined) return undefined;
  const read = countOf(told["cachedReadTokens"]);
  const written = countOf(told["cachedWriteTokens"]);
  const cached = (read ?? 0) + (written ?? 0);
  // Some tell those of the cache apart from the input, as the sum of all shows.
  const isApart = told["totalTokens"] === input + cached + output;
  return {
    inputTokens: isApart ? input + cached : input,
    outputTokens: output,
    ...(read === undefined ? {} : { cacheReadTokens: read }),
    ...(written === undefined ? {} : { cacheWriteTokens: written }),
  };
}

function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
