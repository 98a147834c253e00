import type { TrialResult } from "../../core/report/result.ts";
import { visibleText } from "../../core/text/visible-text.ts";
import { countOf } from "./numbers.ts";

/** The servers in whose place mocks stood, as a short text; empty when there were none. */
export function describeMocks(trials: readonly TrialResult[]): string {
  const mocked = trials.filter(({ mocks = [] }) => mocks.length > 0);
  const names = [...new Set(mocked.flatMap(({ mocks = [] }) => mocks))];
  if (names.length === 0) return "";
  const some =
    mocked.length === trials.length ? "" : ` in ${countOf(mocked.length, "trial")} of ${trials.length}`;
  return `${names.map(visibleText).join(", ")}${some}`;
}
