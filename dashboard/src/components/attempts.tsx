import { memo, type ReactElement } from "react";
import type { TrialRow } from "../../../src/report/documents/documents.ts";
import { type Status, statusOf, toneOf, useShownStatus, VerdictSign, wordOf } from "./verdict-badge.tsx";

/** The attempts of a task: a link for each, with its verdict. */
export const Attempts = memo(
  ({ run, trials }: { readonly run: string; readonly trials: readonly TrialRow[] }): ReactElement => {
    const shown = useShownStatus();
    return (
      <div className="flex gap-1">
        {trials.map((trial) => (
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
