import type { ReactElement } from "react";
import type { RunSummary } from "../../../src/core/report/result.ts";
import { formatNumber } from "../format.ts";
import { toneOf, VerdictSign, wordOf } from "./verdict-badge.tsx";

const shown = ["pass", "fail", "error", "timeout", "skip"] as const;

/** How many trials have each verdict, but for verdicts that none has. */
export function VerdictCounts({ summary }: { readonly summary: RunSummary }): ReactElement {
  return (
    <span className="inline-flex gap-x-2.5 align-middle tabular-nums">
      {shown.map(
        (verdict) =>
          summary[verdict] > 0 && (
            <span
              key={verdict}
              title={`${wordOf(verdict)}: ${formatNumber(summary[verdict])}`}
              className={`inline-flex items-center gap-0.5 ${toneOf(verdict).text}`}
            >
              <VerdictSign status={verdict} />
              <span className="sr-only">{wordOf(verdict)}</span>
              {formatNumber(summary[verdict])}
            </span>
          ),
      )}
    </span>
  );
}
