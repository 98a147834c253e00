import { getRouteApi, Link } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { TrialDocument } from "../../../src/report/documents/documents.ts";
import { decidingGrades } from "../../../src/report/rates.ts";
import { FoldedText } from "../components/folded-text.tsx";
import { Duration, Elapsed, Tokens } from "../components/numbers.tsx";
import { PageTitle } from "../components/page-title.tsx";
import { PlainText, ShortenedText } from "../components/plain-text.tsx";
import { Loaded } from "../components/states.tsx";
import { Tabs } from "../components/tabs.tsx";
import { statusOf, VerdictBadge } from "../components/verdict-badge.tsx";
import { counted } from "../format.ts";
import { useTrial } from "../queries.ts";
import { oneOf, type RawSearch, textOf } from "../search.ts";
import { useShortcuts } from "../shortcuts.tsx";
import { EventList } from "../trial/event-list.tsx";
import { Evidence, GradeList } from "../trial/grade-list.tsx";
import { isReason } from "../trial/items.ts";
import { type TrajectorySearch, TrajectoryView } from "../trial/trajectory.tsx";

const route = getRouteApi("/runs/$run/trials/$trial");

const views = ["grades", "events", "task"] as const;

/** Without a view: the trajectory. */
interface TrialSearch extends Omit<TrajectorySearch, "event"> {
  readonly view?: (typeof views)[number];
  /** A text if the address has no number. */
  readonly event?: number | string;
}

export function trialSearch(raw: RawSearch): TrialSearch {
  const event = eventOf(raw["event"]);
  const view = oneOf(raw["view"], views);
  const [lane, text] = [textOf(raw["lane"]), textOf(raw["text"])];
  return {
    ...(view === undefined ? {} : { view }),
    ...(event === undefined ? {} : { event }),
    ...(raw["show"] === "all" ? { show: "all" } : {}),
    ...(lane === undefined ? {} : { lane }),
    ...(text === undefined ? {} : { text }),
  };
}

function eventOf(value: unknown): number | string | undefined {
  if (value === undefined || value === "") return undefined;
  return typeof value === "number" || typeof value === "string" ? value : JSON.stringify(value);
}

export function TrialPage(): ReactElement {
  const { run, trial } = route.useParams();
  return (
    <Loaded query={useTrial(run, trial)} what="the trial">
      {(document) => <TrialView key={`${run}/${trial}`} trial={document} />}
    </Loaded>
  );
}

function TrialView({ trial }: { readonly trial: TrialDocument }): ReactElement {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { run, row, result, previous, next, previousOfTask, nextOfTask, task, taskPlace } = trial;
  const goTo = (id: string | undefined): void => {
    if (id !== undefined)
      void navigate({ to: "/runs/$run/trials/$trial", params: { run: run.id, trial: id } });
  };
  useShortcuts([
    { key: "[", does: "Go to the previous trial", run: () => goTo(previous) },
    { key: "]", does: "Go to the next trial", run: () => goTo(next) },
    { key: "{", does: "Go to the previous trial of this task", run: () => goTo(previousOfTask) },
    { key: "}", does: "Go to the next trial of this task", run: () => goTo(nextOfTask) },
  ]);
  const change = (changes: Readonly<Record<string, string | number | undefined>>): void => {
    const after = trialSearch({ ...search, ...changes });
    // "Back" leads to the view before, and out of the details; not through all that was selected, nor through each letter of a filter.
    const isStep = after.view === search.view && (after.event === undefined) === (search.event === undefined);
    void navigate({ search: after, replace: isStep, resetScroll: false });
  };
  const { event, ...filters } = search;
  const found = trial.events.find(({ seq }) => seq === event)?.seq;
  const shown: TrajectorySearch = found === undefined ? filters : { ...filters, event: found };
  const isSkipped = result?.verdict === "skip";
  const problems = isSkipped ? decidingGrades(result) : (result?.grades.filter(isReason) ?? []);
  const lastOutput = trial.items.findLast((item) => item.kind === "output" && item.stream === "stderr");

  return (
    <>
      <nav aria-label="Where you are" className="mb-1 flex flex-wrap items-center gap-x-3">
        <Link to="/runs/$run" params={{ run: run.id }}>
          <PlainText text={run.name} />
        </Link>
        <span className="flex-1" />
        <TrialLink run={run.id} trial={previous} text="Previous trial" />
        <TrialLink run={run.id} trial={next} text="Next trial" />
        <TrialLink run={run.id} trial={previousOfTask} text="Previous trial of this task" />
        <TrialLink run={run.id} trial={nextOfTask} text="Next trial of this task" />
      </nav>
      <PageTitle title={row.task}>
        <VerdictBadge status={statusOf(row)} large />
      </PageTitle>
      <p className="text-muted mb-3 flex flex-wrap gap-x-4">
        {row.agent !== undefined && (
          <span>
            agent <PlainText text={row.agent} className="text-ink" />
          </span>
        )}
        {row.variant !== undefined && <PlainText text={row.variant} />}
        <span>
          {row.id}, attempt {row.attempt}
        </span>
        {row.durationMs !== undefined && <Duration value={row.durationMs} />}
        {row.state === "running" && trial.startedAt !== undefined && (
          <span>
            running for <Elapsed since={trial.startedAt} />
          </span>
        )}
        {row.toolCalls !== undefined && <span>{counted(row.toolCalls, "tool call")}</span>}
        {row.inputTokens !== undefined && (
          <span>
            <Tokens value={row.inputTokens} /> tokens in, <Tokens value={row.outputTokens} /> out
          </span>
        )}
      </p>
      {(problems.length > 0 || result?.error !== undefined) && (
        <ul
          className={`panel mb-3 space-y-1 border-l-4 px-3 py-2 ${isSkipped ? "border-l-muted" : "border-l-fail"}`}
          aria-label="Why it did not pass"
        >
          {result?.error !== undefined && (
            <li className="break-words">
              <ShortenedText text={result.error.message} className="text-fail" />{" "}
              {result.error.hint !== undefined && (
                <PlainText text={result.error.hint} className="text-muted" />
              )}
            </li>
          )}
          {result?.error !== undefined && lastOutput?.kind === "output" && (
            <li className="break-words">
              <Link
                to="/runs/$run/trials/$trial"
                params={{ run: run.id, trial: row.id }}
                search={{ event: lastOutput.seq }}
              >
                The last stderr of <PlainText text={lastOutput.from} />
              </Link>
              : <ShortenedText text={lastOutput.text.text} />
            </li>
          )}
          {problems.slice(0, maxShownReasons).map(({ grader, reason, evidence }, index) => (
            // oxlint-disable-next-line react/no-array-index-key
            <li key={index} className="break-words">
              <PlainText text={`${grader}:`} className="font-semibold" /> <ShortenedText text={reason} />{" "}
              <Evidence place={{ run: run.id, trial: row.id }} events={evidence} />
            </li>
          ))}
          {problems.length > maxShownReasons && (
            <li>
              <button
                type="button"
                className="text-accent hover:underline"
                onClick={() => change({ view: "grades" })}
              >
                {problems.length - maxShownReasons} more
              </button>
            </li>
          )}
        </ul>
      )}
      {(result?.warnings ?? []).map((warning) => (
        <p key={warning} className="text-error mb-2 break-words">
          Warning: <ShortenedText text={warning} />
        </p>
      ))}
      {event !== undefined && found === undefined && (
        <p role="alert" className="text-error mb-2 break-words">
          This trial has no event <ShortenedText text={String(event)} />. {eventsInWords(trial.events)}
        </p>
      )}
      <Tabs
        label="Views of the trial"
        selected={search.view ?? "trace"}
        onSelect={(view) => change({ view })}
        tabs={[
          {
            id: "trace",
            title: "Trajectory",
            content: <TrajectoryView trial={trial} search={shown} onSearch={change} />,
          },
          {
            id: "grades",
            title: `Grades (${result?.grades.length ?? 0})`,
            content: <GradeList trial={trial} />,
          },
          {
            id: "events",
            title: `Events (${trial.events.length})`,
            content: (
              <EventList
                trial={trial}
                selected={shown.event}
                text={search.text}
                onSelect={(event) => change({ event })}
                onText={(text) => change({ text })}
              />
            ),
          },
          {
            id: "task",
            title: "Task",
            content: (
              <>
                <p className="text-muted mb-2 break-words">
                  {taskPlace !== undefined && (
                    <>
                      Written in <PlainText text={taskPlace} className="text-ink" />.{" "}
                    </>
                  )}
                  This is how it was planned, with what holds where its file says nothing.
                </p>
                <pre className="panel p-3 break-words whitespace-pre-wrap">
                  <FoldedText text={task} />
                </pre>
              </>
            ),
          },
        ]}
      />
    </>
  );
}

function eventsInWords(events: TrialDocument["events"]): string {
  const last = events.at(-1)?.seq;
  return last === undefined ? "No event has been recorded." : `Its events have the numbers 1 to ${last}.`;
}

/** Reasons that stand above the trajectory; the grades have all. */
const maxShownReasons = 3;

function TrialLink({
  run,
  trial,
  text,
}: {
  readonly run: string;
  readonly trial: string | undefined;
  readonly text: string;
}): ReactElement | null {
  if (trial === undefined) return null;
  return (
    <Link to="/runs/$run/trials/$trial" params={{ run, trial }}>
      {text}
    </Link>
  );
}
