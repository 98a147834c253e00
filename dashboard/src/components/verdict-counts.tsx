import type { ReactElement } from "react";
import { formatNumber } from "../format.ts";
import { type Status, toneOf, VerdictSign, wordOf } from "./verdict-badge.tsx";

const shown = ["pass", "fail", "error", "timeout", "cut-off", "not-run", "skip"] as const;

/** How many trials have each verdict, but for verdicts that none has. */
export function VerdictCounts({
  counts,
}: {
  readonly counts: Readonly<Partial<Record<Status, number>>>;
}): ReactElement {
  return (
    <span className="inline-flex gap-x-2.5 align-middle tabular-nums">
      {shown.map((verdict) => {
        const count = counts[verdict] ?? 0;
        return (
          count > 0 && (
            <span
              key={verdict}
              title={`${wordOf(verdict)}: ${formatNumber(count)}`}
              className={`inline-flex items-center gap-0.5 ${toneOf(verdict).text}`}
            >
              <VerdictSign status={verdict} />
              <span className="sr-only">{wordOf(verdict)}</span>
              {formatNumber(count)}
            </span>
          )
        );
      })}
    </span>
  );
}
