import { getRouteApi, Link, Navigate } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import type { RunRow, RunsDocument } from "../../../src/report/documents/documents.ts";
import { type Column, DataTable, numberColumn } from "../components/data-table.tsx";
import { ChoiceFilter, FilterBar, NoMatch, TextFilter } from "../components/filters.tsx";
import { Count, DateTime, Duration, Nothing, Percent } from "../components/numbers.tsx";
import { PageTitle } from "../components/page-title.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { EmptyState, Loaded } from "../components/states.tsx";
import { statusOf, statusOrder, VerdictBadge, wordOf } from "../components/verdict-badge.tsx";
import { VerdictCounts } from "../components/verdict-counts.tsx";
import { toleranceInWords } from "./run/layout.tsx";
import { Trend } from "./trend.tsx";
import { formatSource, variantNames } from "../format.ts";
import { useDataSource, useRun, useRuns } from "../queries.ts";
import { oneOf, type RawSearch, textOf } from "../search.ts";

const route = getRouteApi("/");

interface RunsSearch {
  readonly text?: string | undefined;
  readonly verdict?: string | undefined;
  readonly kind?: RunRow["kind"] | undefined;
  readonly source?: string | undefined;
  readonly sort?: string | undefined;
}

export function runsSearch(raw: RawSearch): RunsSearch {
  return {
    text: textOf(raw["text"]),
    verdict: oneOf(raw["verdict"], statusOrder),
    kind: oneOf(raw["kind"], ["run", "check"]),
    source: textOf(raw["source"]),
    sort: textOf(raw["sort"]),
  };
}

export function RunsPage(): ReactElement {
  const { runs } = useDataSource();
  return runs === undefined ? <OnlyRun /> : <AllRuns />;
}

/** A report has one run: it is the first page. */
function OnlyRun(): ReactElement {
  return (
    <Loaded query={useRun("")} what="the run">
      {({ id }) => <Navigate to="/runs/$run" params={{ run: id }} replace />}
    </Loaded>
  );
}

function AllRuns(): ReactElement {
  return (
    <Loaded query={useRuns({ isRenewed: true })} what="the runs">
      {(document) => document !== undefined && <RunList document={document} />}
    </Loaded>
  );
}

function RunList({ document: { folder, runs } }: { readonly document: RunsDocument }): ReactElement {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const set = (change: Partial<RunsSearch>): void =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const shown = useMemo(() => runs.filter((run) => isShown(run, search)), [runs, search]);
  const sources = [...new Set(runs.flatMap(({ source = [] }) => source))].sort();

  return (
    <>
      <PageTitle title="Runs">
        <span className="text-muted">
          <PlainText text={folder} />
        </span>
      </PageTitle>
      {runs.length === 0 ? (
        <EmptyState title="There are no runs yet">
          <p>
            Check a server with <code>mcpvals check -- COMMAND</code>, or run an eval with{" "}
            <code>mcpvals run FILE</code>. Runs appear here by themselves.
          </p>
        </EmptyState>
      ) : (
        <>
          <FilterBar noun="run" shown={shown.length} all={runs.length}>
            <TextFilter label="Filter by text" value={search.text} onChange={(text) => set({ text })} />
            <ChoiceFilter
              label="Verdict"
              all="All verdicts"
              choices={statusOrder
                .filter((status) => runs.some((run) => statusOf(run) === status))
                .map((value) => ({ value, title: wordOf(value) }))}
              value={search.verdict}
              onChange={(verdict) => set({ verdict })}
            />
            <ChoiceFilter
              label="Kind"
              all="Runs and checks"
              choices={[
                { value: "run", title: "Runs" },
                { value: "check", title: "Checks" },
              ]}
              value={search.kind}
              onChange={(kind) => set({ kind: oneOf(kind, ["run", "check"]) })}
            />
            <ChoiceFilter
              label="Source"
              all="All sources"
              choices={sources.map((value) => ({ value, title: formatSource(value) }))}
              value={search.source}
              onChange={(source) => set({ source })}
            />
          </FilterBar>
          <Trend runs={runs} source={search.source} />
          {shown.length === 0 ? (
            <NoMatch noun="run" onReset={() => void navigate({ search: {} })} />
          ) : (
            <DataTable
              label="Runs"
              rows={shown}
              columns={columns.filter(({ needs }) => needs === undefined || runs.some((run) => run[needs]))}
              rowKey={({ id }) => id}
              sort={search.sort}
              onSort={(sort) => set({ sort })}
            />
          )}
        </>
      )}
    </>
  );
}

function isShown(run: RunRow, { text, verdict, kind, source }: RunsSearch): boolean {
  if (verdict !== undefined && statusOf(run) !== verdict) return false;
  if (kind !== undefined && run.kind !== kind) return false;
  if (source !== undefined && run.source !== source) return false;
  if (text === undefined) return true;
  const { id, name, agents, servers, variants = [], filter = "" } = run;
  const texts = [
    id,
    name,
    run.source ?? "",
    filter,
    ...variants,
    ...servers,
    ...agents.flatMap(({ name, model = "" }) => [name, model]),
  ];
  return texts.some((each) => each.toLowerCase().includes(text.toLowerCase()));
}

/** Columns that no run has something for are left out. */
const columns: readonly (Column<RunRow> & { readonly needs?: keyof RunRow })[] = [
  {
    id: "name",
    title: "Name and source",
    value: ({ name, source = "" }) => `${name} ${source}`,
    cell: ({ id, name, kind, source, problem, gradedFrom, replayed }) => {
      const more = [
        ...(kind === "check" ? ["check"] : []),
        ...(source === undefined ? [] : [formatSource(source)]),
        ...(gradedFrom === undefined ? [] : ["graded again"]),
        ...(replayed === undefined ? [] : ["replayed"]),
        ...(problem === undefined ? [] : [problem]),
      ].join(", ");
      return (
        <>
          <Link to="/runs/$run" params={{ run: id }} className="font-medium">
            <PlainText text={name} hasTitle />
          </Link>{" "}
          <PlainText text={more} hasTitle className="text-muted" />
        </>
      );
    },
  },
  {
    id: "verdict",
    title: "Verdict",
    value: (run) => statusOrder.indexOf(statusOf(run)),
    cell: (run) => (
      <>
        <VerdictBadge status={statusOf(run)} />
        {run.passesBy !== undefined && <Tolerance {...toleranceInWords(run.passesBy)} />}
      </>
    ),
    width: 8.5,
  },
  numberColumn({ id: "rate", title: "Passed", value: passRate, as: Percent, width: 4.5 }),
  {
    id: "trials",
    title: "Trials",
    value: ({ summary }) => summary?.total,
    cell: ({ summary }) => (summary === undefined ? <Nothing /> : <VerdictCounts counts={summary} />),
    width: 7,
  },
  numberColumn({
    id: "warnings",
    title: "Warnings",
    value: ({ summary }) => summary?.warnings,
    as: Count,
    width: 4.5,
  }),
  {
    id: "variants",
    title: "Variants",
    needs: "variants",
    value: (run) => variantNames(run).join(", "),
    cell: (run) => namesCell(variantNames(run)),
    width: 5.5,
  },
  {
    id: "filter",
    title: "Filter",
    needs: "filter",
    value: ({ filter }) => filter,
    cell: ({ filter }) => (filter === undefined ? <Nothing /> : <PlainText text={filter} hasTitle />),
    width: 8,
  },
  {
    id: "started",
    title: "Started",
    value: ({ startedAt }) => startedAt,
    cell: ({ startedAt }) => <DateTime iso={startedAt} />,
    width: 9,
  },
  numberColumn({ id: "duration", title: "Duration", value: ({ durationMs }) => durationMs, as: Duration }),
  {
    id: "agents",
    title: "Agents",
    value: ({ agents }) => agents.map(({ name }) => name).join(", "),
    cell: ({ agents }) =>
      namesCell(
        agents.map(({ name, model, home }) => {
          const about = [model ?? [], home === "user" ? "in the home of the user" : []].flat();
          return about.length === 0 ? name : `${name} (${about.join(", ")})`;
        }),
      ),
    width: 7,
  },
  {
    id: "servers",
    title: "Servers",
    value: ({ servers }) => servers.join(", "),
    cell: ({ servers }) => namesCell(servers),
    width: 6.5,
  },
  {
    id: "id",
    title: "Id",
    value: ({ id }) => id,
    cell: ({ id }) => <PlainText text={id} className="text-muted text-xs tabular-nums" />,
    width: 12,
  },
];

/** Why a run with failed trials passes. */
function Tolerance({ sentence, short }: ReturnType<typeof toleranceInWords>): ReactElement {
  return (
    <span className="text-muted ml-1.5 text-xs whitespace-nowrap" title={`The run ${sentence}.`}>
      {short}
    </span>
  );
}

/** The mean pass rate of the tasks; of a run of an older version, the share of the trials with a verdict that passed. */
function passRate({ kind, summary, passRate: mean }: RunRow): number | undefined {
  if (mean !== undefined) return mean.value;
  const judged = (summary?.pass ?? 0) + (summary?.fail ?? 0);
  return kind === "check" || summary === undefined || judged === 0 ? undefined : summary.pass / judged;
}

function namesCell(names: readonly string[]): ReactElement {
  return names.length === 0 ? <Nothing /> : <PlainText text={names.join(", ")} hasTitle />;
}
