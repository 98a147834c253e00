import { canonicalJson, type Json } from "../../base/json.ts";
import { commonSequence } from "../../expect/json-difference.ts";
import type { CallItem, Excerpt, TraceItem } from "./documents.ts";

export type Call = TraceItem & CallItem;

/** A call of one trial beside the one of another trial that it corresponds to. */
export interface AlignedCalls {
  readonly first?: Call;
  readonly second?: Call;
  /** `equal`: the same tool, arguments and result. `changed`: the same tool. `only-first`, `only-second`: the other trial has no such call there. */
  readonly relation: "equal" | "changed" | "only-first" | "only-second";
  /** What differs between two calls of the same tool. */
  readonly differs: readonly ("arguments" | "result" | "status")[];
}

/** Of calls in the middle of each trial; the table of the alignment has the square of this. */
const maxAligned = 2000;

/**
 * Aligns the agent's calls of two trials, or all calls if no agent made one: a longest common subsequence of tools, after equal calls at both ends. Between
 * two aligned calls, those of the first trial stand before those of the second. Values of which only the beginning is there are compared by their hashes.
 */
export function alignCalls(
  first: readonly TraceItem[],
  second: readonly TraceItem[],
): readonly AlignedCalls[] {
  const [a, b] = comparedCalls(first, second);
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && isSameTool(a[start], b[start])) start += 1;
  let end = 0;
  while (end < shorter - start && isSameTool(a.at(-1 - end), b.at(-1 - end))) end += 1;
  const middle = (calls: readonly Call[]): readonly Call[] =>
    calls.slice(start, start + maxAligned).slice(0, calls.length - start - end);
  const pairs = [
    ...Array.from({ length: start }, (_, index) => [index, index] as const),
    ...commonSequence(middle(a), middle(b), isSameTool).map(([x, y]) => [start + x, start + y] as const),
    ...Array.from({ length: end }, (_, index) => [a.length - end + index, b.length - end + index] as const),
    [a.length, b.length] as const,
  ];
  let [nextA, nextB] = [0, 0];
  return pairs.flatMap(([indexA, indexB]) => {
    const rows = [
      ...a.slice(nextA, indexA).map(onlyFirst),
      ...b.slice(nextB, indexB).map(onlySecond),
      ...paired(a[indexA], b[indexB]),
    ];
    [nextA, nextB] = [indexA + 1, indexB + 1];
    return rows;
  });
}

function onlyFirst(first: Call): AlignedCalls {
  return { first, relation: "only-first", differs: [] };
}

function onlySecond(second: Call): AlignedCalls {
  return { second, relation: "only-second", differs: [] };
}

function comparedCalls(
  first: readonly TraceItem[],
  second: readonly TraceItem[],
): readonly [readonly Call[], readonly Call[]] {
  const [a, b] = [callsOf(first), callsOf(second)];
  if (![...a, ...b].some(({ byAgent }) => byAgent)) return [a, b];
  return [a.filter(({ byAgent }) => byAgent), b.filter(({ byAgent }) => byAgent)];
}

function callsOf(items: readonly TraceItem[]): readonly Call[] {
  return items.filter((item): item is Call => item.kind === "call");
}

function isSameTool(a: Call | undefined, b: Call | undefined): boolean {
  return a?.tool === b?.tool && a?.server === b?.server && a?.source === b?.source;
}

/** The row of two calls of the same tool; none behind the last calls. */
function paired(first: Call | undefined, second: Call | undefined): readonly AlignedCalls[] {
  if (first === undefined || second === undefined) return [];
  const differs = (["arguments", "result", "status"] as const).filter(
    (part) => partOf(first, part) !== partOf(second, part),
  );
  return [{ first, second, relation: differs.length === 0 ? "equal" : "changed", differs }];
}

function partOf(call: Call, part: AlignedCalls["differs"][number]): string {
  if (part === "status") return call.status;
  const hash = call.hashes?.[part];
  if (hash !== undefined) return hash;
  return part === "arguments" ? valueOf(call.args) : `${valueOf(call.result)} ${call.error ?? ""}`;
}

/** A text to compare values by: the order of keys makes no difference. */
function valueOf({ text, type }: Pick<Excerpt, "text" | "type"> = { text: "", type: "text" }): string {
  return type === "text" ? text : canonicalJson(JSON.parse(text) as Json);
}
