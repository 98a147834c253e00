import { Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import { wilson } from "../../../../src/core/statistics/wilson.ts";
import type { RunDocument, TrialRow } from "../../../../src/core/view/documents.ts";
import { type Column, DataTable } from "../../components/data-table.tsx";
import { Count } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { statusOf, VerdictBadge } from "../../components/verdict-badge.tsx";
import { counted, formatPercent } from "../../format.ts";
import { useShownRun } from "./layout.tsx";
import { TrialMatrix } from "./matrix.tsx";

/** So many trials that did not pass are named at once. */
const mostNamed = 5;

export function OverviewView(): ReactElement {
  const run = useShownRun();
  return (
    <>
      {run.gates !== undefined && <Gates gates={run.gates} />}
      <NotPassed run={run} />
      <Section title="Trials by task" aside={<PassRate trials={run.trials} />}>
        {run.trials.length === 0 ? (
          <EmptyState title="The run has no trials" />
        ) : (
          <TrialMatrix run={run.id} trials={run.trials} />
        )}
      </Section>
    </>
  );
}

type Gate = NonNullable<RunDocument["gates"]>[number];

const gateColumns: readonly Column<Gate>[] = [
  {
    id: "verdict",
    title: "Verdict",
    cell: ({ verdict }) => <VerdictBadge status={verdict} />,
    className: "w-30",
  },
  { id: "name", title: "Measured", cell: ({ name }) => <PlainText text={gateNames[name] ?? name} /> },
  {
    id: "value",
    title: "Value",
    align: "right",
    cell: ({ value }) => (value === null ? "–" : formatPercent(value)),
    className: "w-20",
  },
  {
    id: "threshold",
    title: "At least",
    align: "right",
    cell: ({ threshold }) => formatPercent(threshold),
    className: "w-20",
  },
  {
    id: "trials",
    title: "Trials",
    align: "right",
    cell: ({ trials }) => <Count value={trials} />,
    className: "w-20",
  },
];

const gateNames: Readonly<Record<string, string>> = { passRate: "Pass rate", score: "Mean score" };

function Gates({ gates }: { readonly gates: readonly Gate[] }): ReactElement {
  return (
    <Section title="Thresholds">
      <DataTable label="Thresholds" rows={gates} columns={gateColumns} rowKey={({ name }) => name} />
    </Section>
  );
}

/** The first trials that did not pass, in the order of the plan, with their reasons. */
function NotPassed({ run }: { readonly run: RunDocument }): ReactElement | null {
  const trials = useMemo(
    () =>
      run.trials.filter(({ verdict }) => verdict === "fail" || verdict === "error" || verdict === "timeout"),
    [run.trials],
  );
  if (trials.length === 0) return null;
  return (
    <Section
      title="What went wrong first"
      aside={
        trials.length > mostNamed && (
          <Link to="/runs/$run/trials" params={{ run: run.id }}>
            All {counted(trials.length, "trial")} that did not pass
          </Link>
        )
      }
    >
      <ul className="panel divide-line divide-y">
        {trials.slice(0, mostNamed).map((trial) => (
          <li key={trial.id} className="flex flex-wrap items-baseline gap-x-3 gap-y-1 px-3 py-2">
            <VerdictBadge status={statusOf(trial)} />
            <Link
              to="/runs/$run/trials/$trial"
              params={{ run: run.id, trial: trial.id }}
              className="font-medium"
            >
              <PlainText text={nameOf(trial)} />
            </Link>
            {trial.reason !== undefined && (
              <PlainText
                text={trial.reason}
                className="text-muted line-clamp-3 min-w-0 grow basis-80 break-words"
              />
            )}
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** A trial's task, agent, variant and attempt. */
export function nameOf({ task, agent, variant, attempt }: TrialRow): string {
  const more = [agent, variant, attempt === 1 ? undefined : `attempt ${attempt}`].filter(
    (each) => each !== undefined,
  );
  return [task, ...more].join(" · ");
}

function PassRate({ trials }: { readonly trials: readonly TrialRow[] }): ReactElement | null {
  const judged = trials.filter(({ verdict }) => verdict === "pass" || verdict === "fail");
  const rate = wilson(judged.filter(({ verdict }) => verdict === "pass").length, judged.length);
  if (rate === undefined) return null;
  return (
    <span className="text-muted">
      {formatPercent(rate.value)} of {counted(judged.length, "trial")} with a verdict passed (95 % interval{" "}
      {formatPercent(rate.low)} to {formatPercent(rate.high)})
    </span>
  );
}
