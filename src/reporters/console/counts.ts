import type { RunSummary } from "../../core/report/result.ts";
import { countOf, formatInteger } from "../format/numbers.ts";
import type { Piece } from "../format/rows.ts";

/** The counts that are not zero, in words: `4 passed`, `1 failed`. */
export function countPieces(summary: Omit<RunSummary, "total">): Piece[] {
  const { pass, fail, error, timeout, skip } = summary;
  return [
    ...(pass > 0 ? [{ text: `${formatInteger(pass)} passed`, tone: "good" } as const] : []),
    ...(fail > 0 ? [{ text: `${formatInteger(fail)} failed`, tone: "bad" } as const] : []),
    ...(error > 0 ? [{ text: countOf(error, "error"), tone: "warn" } as const] : []),
    ...(timeout > 0 ? [{ text: countOf(timeout, "timeout"), tone: "warn" } as const] : []),
    ...(skip > 0 ? [{ text: `${formatInteger(skip)} skipped`, tone: "dim" } as const] : []),
  ];
}
