import { Link } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";
import type { TrialResult } from "../../../src/model/result.ts";
import type { TrialDocument } from "../../../src/report/documents/documents.ts";
import { PlainText } from "../components/plain-text.tsx";
import { EmptyState } from "../components/states.tsx";
import { VerdictBadge } from "../components/verdict-badge.tsx";
import { formatNumber, formatPercent } from "../format.ts";

type Grade = TrialResult["grades"][number];

/** In numbers of events; a grade may cite thousands. */
const maxShownLinks = 20;

/** The grades of a trial with links to their evidence, and how the agent used tools. */
export function GradeList({ trial }: { readonly trial: TrialDocument }): ReactElement {
  const { result, row, run } = trial;
  if (result === undefined) {
    return (
      <EmptyState title="There are no grades yet">
        <p>Trials are graded when they have ended.</p>
      </EmptyState>
    );
  }
  const place = { run: run.id, trial: row.id };
  return (
    <div className="space-y-4">
      {result.grades.length === 0 ? (
        <EmptyState title="The trial was not graded">
          {result.error !== undefined && (
            <p>
              <PlainText text={result.error.message} />
            </p>
          )}
        </EmptyState>
      ) : (
        <ul className="panel divide-line divide-y">
          {result.grades.map((grade, index) => (
            // oxlint-disable-next-line react/no-array-index-key
            <GradeEntry key={index} grade={grade} place={place} />
          ))}
        </ul>
      )}
      {result.measurements !== undefined && <Measurements measurements={result.measurements} />}
    </div>
  );
}

interface Place {
  readonly run: string;
  readonly trial: string;
}

function GradeEntry({ grade, place }: { readonly grade: Grade; readonly place: Place }): ReactElement {
  const { grader, verdict, score, reason, weight, required, judge, evidence, findings = [], error } = grade;
  return (
    <li className="grid gap-x-3 gap-y-1 px-3 py-2 sm:grid-cols-[7rem_minmax(0,1fr)]">
      <span>
        <VerdictBadge status={verdict} />
      </span>
      <div className="min-w-0 space-y-1">
        <p className="break-words">
          <PlainText text={grader} className="font-medium" />
          <span className="text-muted text-xs tabular-nums">
            {" "}
            {[
              ...(score === null ? [] : [`score ${formatPercent(score)}`]),
              ...(weight === undefined ? [] : [`weight ${formatNumber(weight)}`]),
              ...(required === false ? ["not required"] : []),
            ].join(", ")}
          </span>
        </p>
        <p className="break-words whitespace-pre-wrap">
          <PlainText text={reason} />
        </p>
        {error?.hint !== undefined && (
          <p className="text-muted break-words">
            <PlainText text={error.hint} />
          </p>
        )}
        {judge !== undefined && (
          <p className="text-muted text-xs">
            Judge <PlainText text={judge.model} />, passes from {judge.threshold}
            {judge.votes.length > 1 && `, votes ${judge.votes.join(", ")}`}
          </p>
        )}
        {findings.length > 0 && (
          <ul className="space-y-1">
            {findings.map((finding) => (
              <li key={finding.code + finding.message} className="break-words">
                <span
                  className={
                    finding.severity === "error"
                      ? "text-fail"
                      : finding.severity === "warning"
                        ? "text-error"
                        : "text-muted"
                  }
                >
                  {finding.severity}
                </span>{" "}
                <code>{finding.code}</code> <PlainText text={finding.message} />{" "}
                <Evidence place={place} events={finding.evidence} />
              </li>
            ))}
          </ul>
        )}
        <Evidence place={place} events={evidence} />
      </div>
    </li>
  );
}

/** Links to the events that something rests on. */
export function Evidence({
  place,
  events,
}: {
  readonly place: Place;
  readonly events: readonly number[];
}): ReactNode {
  if (events.length === 0) return null;
  const rest = events.length - maxShownLinks;
  return (
    <span className="text-muted text-xs">
      Evidence:{" "}
      {events.slice(0, maxShownLinks).map((seq, index) => (
        <span key={seq}>
          {index > 0 && ", "}
          <Link
            to="/runs/$run/trials/$trial"
            params={place}
            search={{ event: seq }}
            aria-label={`Event ${seq} in the trajectory`}
          >
            {seq}
          </Link>
        </span>
      ))}
      {rest > 0 && ` and ${formatNumber(rest)} more`}
    </span>
  );
}

const measured = {
  calls: "Calls of servers' tools",
  invalidCalls: "Calls with invalid arguments",
  unknownTools: "Calls of tools that do not exist",
  redundantCalls: "Redundant calls",
  errors: "Calls that failed",
  recoveredErrors: "Failed calls that the agent recovered from",
  identicalRetries: "Failed calls repeated as they were",
  definitionTokens: "Tokens of tool definitions (estimate)",
  unusedDefinitionTokens: "Those of tools that were not called (estimate)",
} as const;

function Measurements({
  measurements,
}: {
  readonly measurements: NonNullable<TrialResult["measurements"]>;
}): ReactElement {
  const { unsupportedClaims = [], ignoredErrors, invalidCauses = {} } = measurements;
  const causes = Object.entries(invalidCauses).map(([cause, count]) => `${cause}: ${count}`);
  return (
    <section className="panel p-3">
      <h2 className="mb-2 text-base font-semibold">How the agent used tools</h2>
      <dl className="grid grid-cols-[minmax(0,max-content)_max-content] gap-x-4">
        {Object.entries(measured).map(([key, name]) => (
          <MeasuredNumber key={key} name={name} value={measurements[key as keyof typeof measured]} />
        ))}
      </dl>
      {causes.length > 0 && <p className="mt-2">Invalid arguments: {causes.join(", ")}</p>}
      {unsupportedClaims.map(({ tool, text }) => (
        <p key={text} className="text-fail mt-2 break-words">
          It says “<PlainText text={text} />
          ”, but no call of <PlainText text={tool} /> did this.
        </p>
      ))}
      {ignoredErrors.map((tool) => (
        <p key={tool} className="text-fail mt-2 break-words">
          <PlainText text={tool} /> failed, and no later message speaks of a failure.
        </p>
      ))}
    </section>
  );
}

function MeasuredNumber({
  name,
  value,
}: {
  readonly name: string;
  readonly value: number | undefined;
}): ReactElement {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className="text-right tabular-nums">{value === undefined ? "unknown" : formatNumber(value)}</dd>
    </>
  );
}
