import { Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import type { RunRow } from "../../../src/report/documents/documents.ts";
import { PlainText } from "../components/plain-text.tsx";
import { Section } from "../components/section.tsx";
import { TrendChart, type TrendPoint } from "../components/trend-chart.tsx";
import { formatDate, formatRate, formatSource, selectionOf, variantNames } from "../format.ts";

interface RunPoint extends TrendPoint {
  readonly run: RunRow;
}

/** The pass rate over runs with the same selection: the newest that has several runs, of the chosen source or of any. */
export function Trend({
  runs,
  source: chosen,
}: {
  readonly runs: readonly RunRow[];
  readonly source: string | undefined;
}): ReactElement | null {
  const { of, points } = useMemo(() => trendOf(runs, chosen), [runs, chosen]);
  if (of?.source === undefined) return null;
  const selection = selectionInWords(of);
  return (
    <Section
      title="Pass rate"
      aside={
        <span className="text-muted min-w-0 break-words">
          of <PlainText text={formatSource(of.source)} />
          {selection !== "" && (
            <>
              {" "}
              (<PlainText text={selection} />)
            </>
          )}{" "}
          over {points.length === maxShownPoints ? "the newest " : ""}
          {points.length} runs, with 95% intervals
        </span>
      }
    >
      <div className="panel p-2">
        <TrendChart points={points} />
        <details>
          <summary className="text-muted text-xs">As a table</summary>
          <table className="mt-1 text-left">
            <caption className="sr-only">Pass rate of each run</caption>
            <thead>
              <tr className="text-muted text-xs">
                <th scope="col" className="pr-6 font-medium">
                  Run
                </th>
                <th scope="col" className="pr-6 text-right font-medium">
                  Pass rate
                </th>
                <th scope="col" className="text-right font-medium">
                  95% interval
                </th>
              </tr>
            </thead>
            <tbody>
              {points.toReversed().map(({ run, value, low, high }) => (
                <tr key={run.id} className="tabular-nums">
                  <td className="pr-6">
                    <Link to="/runs/$run" params={{ run: run.id }}>
                      {formatDate(run.startedAt, "seconds")}
                    </Link>{" "}
                    <PlainText text={run.id} className="text-muted" />
                  </td>
                  <td className="pr-6 text-right">{formatRate(value)}</td>
                  <td className="text-right">
                    {formatRate(low)} to {formatRate(high)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      </div>
    </Section>
  );
}

/** More points than this cannot be told apart. */
const maxShownPoints = 200;

function trendOf(
  runs: readonly RunRow[],
  chosen: string | undefined,
): { readonly of: RunRow | undefined; readonly points: readonly RunPoint[] } {
  const selections = new Map<string, RunPoint[]>();
  for (const run of runs) {
    const { source, summary, kind, startedAt } = run;
    if (source === undefined || summary === undefined || kind !== "run") continue;
    if (chosen !== undefined && source !== chosen) continue;
    const judged = summary.pass + summary.fail;
    if (judged === 0) continue;
    const share = summary.pass / judged;
    // Runs of older versions say no interval.
    const rate = run.passRate ?? { value: share, low: share, high: share };
    const key = selectionOf(run);
    const points = selections.get(key) ?? [];
    // Month, day and time: runs of one minute are told apart.
    const label = formatDate(startedAt, "seconds").slice(-14);
    if (points.length < maxShownPoints) points.push({ ...rate, run, label });
    selections.set(key, points);
  }
  const points = [...selections.values()].find(({ length }) => length > 1) ?? [];
  return { of: points[0]?.run, points: points.toReversed() };
}

/** What was asked for beside the source, in words: agents, variants and a filter of tasks. */
function selectionInWords(run: RunRow): string {
  const { agents, filter = "" } = run;
  const parts = [agents.map(({ name }) => name).join(", "), variantNames(run).join(", "), filter];
  return parts.filter((part) => part !== "").join(" · ");
}
