import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactElement, useMemo, useState } from "react";
import { alignCalls, type AlignedCalls, type Call } from "../../../src/report/documents/align-calls.ts";
import type { TrialDocument } from "../../../src/report/documents/documents.ts";
import { visibleOnPage } from "../../../src/base/visible-text.ts";
import { ExcerptView } from "../components/excerpt-view.tsx";
import { Duration, Tokens } from "../components/numbers.tsx";
import { PageTitle } from "../components/page-title.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { EmptyState, Loaded } from "../components/states.tsx";
import { statusOf, VerdictBadge } from "../components/verdict-badge.tsx";
import { compactJson, counted, formatNumber } from "../format.ts";
import { useTrial } from "../queries.ts";
import { type RawSearch, textOf } from "../search.ts";

const route = getRouteApi("/compare/trials");

/** Each is `RUN/TRIAL`. */
export function compareTrialsSearch(raw: RawSearch): { readonly a?: string; readonly b?: string } {
  const [a, b] = [textOf(raw["a"]), textOf(raw["b"])];
  return { ...(a === undefined ? {} : { a }), ...(b === undefined ? {} : { b }) };
}

/** Two trials side by side, aligned call by call. */
export function CompareTrialsPage(): ReactElement {
  const { a, b } = route.useSearch();
  const [first, second] = [placeOf(a), placeOf(b)];
  if (first === undefined || second === undefined) {
    return (
      <>
        <PageTitle title="Two trials" />
        <EmptyState title="Choose two trials">
          <p>
            The address names none, or cannot be read. <Link to="/compare">Compare two runs</Link>, and open a
            pair of trials from there.
          </p>
        </EmptyState>
      </>
    );
  }
  return <Comparison first={first} second={second} />;
}

interface Place {
  readonly run: string;
  readonly trial: string;
}

function placeOf(text: string | undefined): Place | undefined {
  const [run = "", trial = "", ...rest] = text?.split("/") ?? [];
  return run === "" || trial === "" || rest.length > 0 ? undefined : { run, trial };
}

function Comparison({ first, second }: { readonly first: Place; readonly second: Place }): ReactElement {
  const queries = [useTrial(first.run, first.trial), useTrial(second.run, second.trial)] as const;
  return (
    <Loaded query={queries[0]} what="the first trial">
      {(a) => (
        <Loaded query={queries[1]} what="the second trial">
          {(b) => <ComparisonView a={a} b={b} />}
        </Loaded>
      )}
    </Loaded>
  );
}

function ComparisonView({ a, b }: { readonly a: TrialDocument; readonly b: TrialDocument }): ReactElement {
  const [onlyChanges, setOnlyChanges] = useState(false);
  const [most, setMost] = useState(rowsAtOnce);
  const rows = useMemo(() => alignCalls(a.items, b.items), [a.items, b.items]);
  const changes = rows.filter(({ relation }) => relation !== "equal");
  const shown = onlyChanges ? changes : rows;
  return (
    <>
      <PageTitle title={a.row.task === b.row.task ? a.row.task : `${a.row.task} and ${b.row.task}`} />
      <div className="mb-3 grid gap-3 sm:grid-cols-2">
        <TrialHead name="A" trial={a} />
        <TrialHead name="B" trial={b} />
      </div>
      {rows.length === 0 ? (
        <EmptyState title="No tool was called in these trials" />
      ) : (
        <>
          <p className="mb-2 flex flex-wrap items-center gap-3">
            <output>
              {changes.length > 0
                ? `${changes.length} of ${counted(rows.length, "call")} ${changes.length === 1 ? "differs" : "differ"}`
                : rows.length === 1
                  ? "The call is equal"
                  : `All ${rows.length} calls are equal`}
            </output>
            <label className="flex items-center gap-1.5">
              <input
                type="checkbox"
                checked={onlyChanges}
                onChange={({ target }) => setOnlyChanges(target.checked)}
              />
              Only what differs
            </label>
          </p>
          <div className="panel overflow-x-auto">
            <table className="w-full table-fixed">
              <caption className="sr-only">Calls of the two trials, aligned</caption>
              <thead className="text-muted text-left text-xs">
                <tr>
                  <th scope="col" className="w-20 px-2 py-1.5 font-medium sm:w-24">
                    Relation
                  </th>
                  <th scope="col" className="px-2 py-1.5 font-medium">
                    A
                  </th>
                  <th scope="col" className="px-2 py-1.5 font-medium">
                    B
                  </th>
                </tr>
              </thead>
              <tbody>
                {shown.slice(0, most).map((row) => (
                  <AlignedRow key={`${row.first?.seq} ${row.second?.seq}`} row={row} a={a} b={b} />
                ))}
              </tbody>
            </table>
          </div>
          {shown.length > most && (
            <button type="button" className="control mt-2" onClick={() => setMost(most + rowsAtOnce)}>
              Show more ({formatNumber(shown.length - most)} calls left)
            </button>
          )}
        </>
      )}
    </>
  );
}

const rowsAtOnce = 500;

function TrialHead({ name, trial }: { readonly name: string; readonly trial: TrialDocument }): ReactElement {
  const { run, row } = trial;
  return (
    <section className="panel px-3 py-2" aria-label={`Trial ${name}`}>
      <h2 className="flex flex-wrap items-center gap-2 font-semibold">
        {name} <VerdictBadge status={statusOf(row)} />
        <Link to="/runs/$run/trials/$trial" params={{ run: run.id, trial: row.id }}>
          {row.id}
        </Link>
      </h2>
      <p className="text-muted break-words">
        <PlainText text={run.name} />, {run.id}
        {row.agent !== undefined && (
          <>
            , agent <PlainText text={row.agent} />
          </>
        )}
        , attempt {row.attempt}
      </p>
      <p className="text-muted flex gap-3">
        <Duration value={row.durationMs} />
        {row.inputTokens !== undefined && (
          <span>
            <Tokens value={row.inputTokens} /> tokens in, <Tokens value={row.outputTokens} /> out
          </span>
        )}
      </p>
      {row.reason !== undefined && (
        <p className="text-fail break-words">
          <PlainText text={row.reason} />
        </p>
      )}
    </section>
  );
}

const relations = {
  equal: { word: "equal", style: "text-muted" },
  changed: { word: "changed", style: "text-error" },
  "only-first": { word: "only A", style: "text-fail" },
  "only-second": { word: "only B", style: "text-accent" },
} as const;

function AlignedRow({
  row,
  a,
  b,
}: {
  readonly row: AlignedCalls;
  readonly a: TrialDocument;
  readonly b: TrialDocument;
}): ReactElement {
  const { first, second, relation, differs } = row;
  const { word, style } = relations[relation];
  // Equal calls take one line each, which leaves room for the differences.
  const isShort = relation === "equal";
  const [isOpen, setOpen] = useState(!isShort);
  return (
    <tr className="border-line border-t align-top">
      <td className={`px-2 py-1.5 text-xs ${style}`}>
        {word}
        {differs.length > 0 &&
          `: ${differs.map((part) => (isBehind(part, row) ? `${part}, behind its beginning` : part)).join(", ")}`}
        {isShort && (
          <button
            type="button"
            className="text-accent ml-1.5 hover:underline"
            aria-expanded={isOpen}
            onClick={() => setOpen(!isOpen)}
          >
            {isOpen ? "Hide" : "Show"}
            <span className="sr-only"> the calls of {visibleOnPage(first?.tool ?? "")}</span>
          </button>
        )}
      </td>
      <CallCell call={first} trial={a} differs={differs} isOpen={isOpen} />
      <CallCell call={second} trial={b} differs={differs} isOpen={isOpen} />
    </tr>
  );
}

/** Whether the beginnings of the two values are the same. */
function isBehind(part: AlignedCalls["differs"][number], { first, second }: AlignedCalls): boolean {
  if (part === "status") return false;
  const name = part === "arguments" ? "args" : part;
  return first?.hashes?.[part] !== undefined && first[name]?.text === second?.[name]?.text;
}

function CallCell({
  call,
  trial,
  differs,
  isOpen,
}: {
  readonly call: Call | undefined;
  readonly trial: TrialDocument;
  readonly differs: AlignedCalls["differs"];
  /** Whether arguments and result are shown, or the beginning of the arguments. */
  readonly isOpen: boolean;
}): ReactElement {
  if (call === undefined)
    return (
      <td className="bg-raised">
        <span className="sr-only">no such call</span>
      </td>
    );
  const place = { run: trial.run.id, trial: trial.row.id };
  const mark = (part: AlignedCalls["differs"][number]): string =>
    `mt-1 border-l-2 pl-2 ${differs.includes(part) ? "border-error" : "border-transparent"}`;
  return (
    <td className="px-1 py-1.5 sm:px-2">
      <Link
        to="/runs/$run/trials/$trial"
        params={place}
        search={{ event: call.seq }}
        className="font-mono break-all"
      >
        <PlainText text={call.server === undefined ? call.tool : `${call.server}.${call.tool}`} />
      </Link>{" "}
      {call.status !== "ok" && <span className="text-fail text-xs">{call.status}</span>}{" "}
      <span className="text-muted text-xs">
        <Duration value={call.durationMs} />
      </span>
      {isOpen ? (
        <>
          <div className={mark("arguments")}>
            <ExcerptView {...place} excerpt={call.args} />
          </div>
          {call.result !== undefined && (
            <div className={mark("result")}>
              <ExcerptView {...place} excerpt={call.result} />
            </div>
          )}
        </>
      ) : (
        <PlainText
          text={compactJson(call.args.text)}
          className="text-muted line-clamp-1 font-mono text-xs break-all"
        />
      )}
      {call.error !== undefined && (
        <p className="text-fail text-xs break-words">
          <PlainText text={call.error} />
        </p>
      )}
    </td>
  );
}
