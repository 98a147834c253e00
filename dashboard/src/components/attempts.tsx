import { memo, type ReactElement, useDeferredValue, useMemo } from "react";
import type { TrialRow } from "../../../src/report/documents/documents.ts";
import { formatNumber } from "../format.ts";
import { type Status, statusOf, toneOf, useShownStatus, VerdictSign, wordOf } from "./verdict-badge.tsx";

const none: readonly TrialRow[] = [];

/** The attempts of a task: a link for each, with its verdict. */
export const Attempts = memo(
  ({ run, trials }: { readonly run: string; readonly trials: readonly TrialRow[] }): ReactElement => {
    const shown = useShownStatus();
    // Their links are most of what a table draws, and rows that are only scrolled past need none.
    const drawn = useDeferredValue(trials, none);
    return (
      <div className="flex gap-1">
        {drawn.map((trial) => (
          <Attempt key={trial.id} run={run} trial={trial} status={shown(statusOf(trial))} />
        ))}
      </div>
    );
  },
);
Attempts.displayName = "Attempts";

/** A plain link: there are a thousand of them in view, and a link of the router takes several times as long. */
function Attempt({
  run,
  trial,
  status,
}: {
  readonly run: string;
  readonly trial: TrialRow;
  readonly status: Status;
}): ReactElement {
  const name = `Attempt ${trial.attempt}: ${wordOf(status)}`;
  return (
    <a
      href={`#/runs/${encodeURIComponent(run)}/trials/${encodeURIComponent(trial.id)}`}
      aria-label={name}
      title={name}
      className={`flex size-6 shrink-0 items-center justify-center rounded hover:brightness-95 ${toneOf(status).soft}`}
    >
      <VerdictSign status={status} />
    </a>
  );
}

/** The first attempts of a task, and how many more there are. */
export function FirstAttempts({
  run,
  trials,
  most,
}: {
  readonly run: string;
  readonly trials: readonly TrialRow[];
  readonly most: number;
}): ReactElement {
  const first = useMemo(() => trials.slice(0, most), [trials, most]);
  const rest = trials.length - most;
  return (
    <div className="flex items-center gap-1">
      <Attempts run={run} trials={first} />
      {rest > 0 && <span className="text-muted text-xs">+{formatNumber(rest)}</span>}
    </div>
  );
}

/** In rem: an attempt is 1.5 wide, with a gap. */
export function attemptsWidth(attempts: number, most: number): number {
  return Math.min(attempts, most + 1) * 1.75 + 1;
}
