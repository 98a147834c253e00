import type { Json } from "../../../core/formats/model.ts";
import type { Usage } from "../../../core/trace/events.ts";
import { jsonOf } from "../acp-values.ts";

/** A count off the wire; what is none is 0. */
export function countOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
}

/** The items of a list off the wire; what is none has no items. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** An object with one key, or without any where there is no value. */
export function optional<K extends string>(key: K, value: unknown): { readonly [key in K]?: Json } {
  const json = jsonOf(value);
  return json === undefined ? {} : ({ [key]: json } as { readonly [key in K]: Json });
}

export interface Tokens {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/** Tokens as the trace has them. `input` has those of the cache too; `requests` is absent where a program does not tell. */
export function usageOf({ input, output, cacheRead, cacheWrite }: Tokens, requests?: number): Usage {
  return {
    inputTokens: input,
    outputTokens: output,
    cacheReadTokens: cacheRead,
    ...(cacheWrite === 0 ? {} : { cacheWriteTokens: cacheWrite }),
    ...(requests === undefined ? {} : { requests }),
  };
}
