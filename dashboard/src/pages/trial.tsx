import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { TrialDocument } from "../../../src/core/view/documents.ts";
import { Duration, Tokens } from "../components/numbers.tsx";
import { PageTitle } from "../components/page-title.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { EmptyState, Loaded } from "../components/states.tsx";
import { statusOf, VerdictBadge } from "../components/verdict-badge.tsx";
import { useTrial } from "../queries.ts";
import type { RawSearch } from "../search.ts";

const route = getRouteApi("/runs/$run/trials/$trial");

interface TrialSearch {
  /** The event that is shown: what a grade or a finding is based on. */
  readonly event?: number | undefined;
}

export function trialSearch(raw: RawSearch): TrialSearch {
  return { event: typeof raw["event"] === "number" ? raw["event"] : undefined };
}

export function TrialPage(): ReactElement {
  const { run, trial } = route.useParams();
  return (
    <Loaded query={useTrial(run, trial)} what="the trial">
      {(document) => <TrialView trial={document} />}
    </Loaded>
  );
}

function TrialView({ trial }: { readonly trial: TrialDocument }): ReactElement {
  const { run, row, result } = trial;
  return (
    <>
      <p className="mb-1">
        <Link to="/runs/$run" params={{ run: run.id }}>
          <PlainText text={run.name} />
        </Link>
      </p>
      <PageTitle title={row.task}>
        <VerdictBadge status={statusOf(row)} large />
      </PageTitle>
      <p className="text-muted mb-4 flex flex-wrap gap-x-4">
        {row.agent !== undefined && <PlainText text={row.agent} />}
        {row.variant !== undefined && <PlainText text={row.variant} />}
        <span>attempt {row.attempt}</span>
        <Duration ms={row.durationMs} />
        <span>
          <Tokens count={row.inputTokens} /> in, <Tokens count={row.outputTokens} /> out
        </span>
      </p>
      <h2 className="mb-2 text-base font-semibold">Grades</h2>
      {result === undefined || result.grades.length === 0 ? (
        <EmptyState title="There are no grades">
          <p>
            {row.reason === undefined ? "The trial has not been graded." : <PlainText text={row.reason} />}
          </p>
        </EmptyState>
      ) : (
        <ul className="panel divide-line divide-y">
          {result.grades.map((grade, index) => (
            // oxlint-disable-next-line react/no-array-index-key
            <li key={index} className="flex flex-wrap gap-x-3 gap-y-1 px-3 py-2">
              <VerdictBadge status={grade.verdict} />
              <PlainText text={grade.grader} className="font-medium" />
              <PlainText text={grade.reason} className="min-w-0 break-words" />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
