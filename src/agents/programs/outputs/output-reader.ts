import type { Json } from "../../../core/formats/model.ts";
import type { TurnEnd, Usage } from "../../../core/trace/events.ts";
import { jsonOf, type WireObject } from "../acp-values.ts";

/** What a line of a program's output tells. */
export type OutputEvent =
  | { readonly kind: "session"; readonly id: string }
  | { readonly kind: "message"; readonly text: string }
  | ({ readonly kind: "tool" } & ToolUse)
  | { readonly kind: "usage"; readonly usage: Usage }
  /** How an answer of the model ended; the last one is the end of the turn. */
  | { readonly kind: "end"; readonly reason: TurnEnd }
  /** What runs: the program with its version, or a model that answered. */
  | { readonly kind: "ran"; readonly program?: string; readonly model?: string }
  /** What the program tells of itself, which is none of its answer. */
  | { readonly kind: "note"; readonly text: string }
  /** Its key was refused: no further attempt mends that. */
  | { readonly kind: "refused"; readonly message: string }
  /** The turn is over, unless something else comes. */
  | { readonly kind: "complete" }
  /** The program could not act. */
  | { readonly kind: "failed"; readonly message: string };

export interface ToolUse {
  readonly callId: string;
  readonly name: string;
  readonly status: "started" | "completed" | "failed";
  readonly args?: Json;
  readonly result?: Json;
  readonly parentCallId?: string;
  /** Where the program tells them apart from the name. */
  readonly origin?: { readonly server: string; readonly tool: string };
}

/** Reads the lines of JSON that one kind of program prints; one reader reads all turns of a conversation. */
export interface OutputReader {
  /** The event that ends each turn, by the program's own name. */
  readonly lastEvent: string;
  /** What a line tells; nothing, where its kind is not known. */
  read(line: WireObject): readonly OutputEvent[];
  /** What is still to be told when the turn is over. */
  finish(): readonly OutputEvent[];
}

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
