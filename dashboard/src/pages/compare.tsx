import { alikeFindings } from "../../../src/model/alike-findings.ts";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactElement, type ReactNode, useMemo } from "react";
import type { ComparisonDocument } from "../../../src/model/comparison.ts";
import { pointsText, visibleOnPage } from "../../../src/base/visible-text.ts";
import { type ComparedTask, compareRuns, type Kind } from "../../../src/report/documents/compare-runs.ts";
import {
  comparableKinds,
  comparisonOf,
  type NamedSide,
  refusalOf,
  sidesOfRun,
} from "../../../src/report/documents/compare-sides.ts";
import type { Proportion } from "../../../src/statistics/rates.ts";
import type { RunDocument, RunRow, TrialRow } from "../../../src/report/documents/documents.ts";
import { attemptsWidth, FirstAttempts } from "../components/attempts.tsx";
import { type Column, DataTable } from "../components/data-table.tsx";
import { Said } from "../components/statements.tsx";
import { IntervalAxis, IntervalRow } from "../components/interval-bar.tsx";
import { Nothing } from "../components/numbers.tsx";
import { PageTitle } from "../components/page-title.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { Section } from "../components/section.tsx";
import { EmptyState, Loaded } from "../components/states.tsx";
import { statusOf, VerdictBadge, wordOf } from "../components/verdict-badge.tsx";
import { counted, formatCompact, formatDuration, formatNumber, formatSource } from "../format.ts";
import { useRun, useRuns } from "../queries.ts";
import { oneOf, type RawSearch, textOf } from "../search.ts";
import { hasEnoughTasks, headline, rangeText, rateText } from "../../../src/report/documents/statements.ts";

const route = getRouteApi("/compare");

interface CompareSearch {
  /** Id of the run that the others are compared with. */
  readonly a?: string | undefined;
  /** Ids of the others, with commas between. Absent: the variants or agents of the only run are compared. */
  readonly b?: string | undefined;
  /** Which of them; absent: what the run has several of. */
  readonly by?: Kind | undefined;
  /** In points: a difference of pass rates that does not matter. */
  readonly margin?: number | undefined;
}

export function compareSearch(raw: RawSearch): CompareSearch {
  const margin = Number(raw["margin"]);
  return {
    a: textOf(raw["a"]),
    b: textOf(raw["b"]),
    by: oneOf(raw["by"], ["variant", "agent"]),
    margin: margins.find((each) => each === margin),
  };
}

const margins = [1, 2, 5, 10, 20] as const;

/** Runs have letters, in the order in which they are named. */
const maxRuns = 26;

function letterOf(index: number): string {
  return String.fromCodePoint("A".charCodeAt(0) + index);
}

/** Runs side by side, or the variants or agents of one: each with the first. */
export function ComparePage(): ReactElement {
  const { a, b = "", by, margin } = route.useSearch();
  const navigate = route.useNavigate();
  const set = (change: CompareSearch): void =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const others = b
    .split(",")
    .filter((id) => id !== "")
    .slice(0, maxRuns - 1);
  const ids = [...(a === undefined ? [] : [a]), ...others];
  const setRuns = ([first, ...rest]: readonly string[]): void =>
    set({ a: first, b: rest.length === 0 ? undefined : rest.join(",") });
  return (
    <>
      <PageTitle title="Compare runs" />
      <Loaded query={useRuns()} what="the runs">
        {(document) => (
          <div className="mb-4 flex flex-wrap items-center gap-2">
            {[...ids, undefined].slice(0, maxRuns).map((id, index) => (
              <RunSelect
                // oxlint-disable-next-line react/no-array-index-key
                key={index}
                name={letterOf(index)}
                empty={index < 2 ? "Choose a run" : "Add a run"}
                runs={document?.runs ?? []}
                value={id}
                onChange={(chosen) =>
                  setRuns(ids.toSpliced(index, 1, ...(chosen === undefined ? [] : [chosen])))
                }
              />
            ))}
            {ids.length === 2 && (
              <button type="button" className="control" onClick={() => setRuns(ids.toReversed())}>
                Swap
              </button>
            )}
            <select
              aria-label="A difference that does not matter"
              className="control"
              value={margin ?? ""}
              onChange={({ target }) =>
                set({ margin: margins.find((each) => String(each) === target.value) })
              }
            >
              <option value="">No margin</option>
              {margins.map((points) => (
                <option key={points} value={points}>
                  Margin of {counted(points, "point")}
                </option>
              ))}
            </select>
          </div>
        )}
      </Loaded>
      {a === undefined ? (
        <EmptyState title="Choose two runs or more, or one with several variants or agents">
          <p>Their tasks are paired by name, so runs of the same file say most.</p>
        </EmptyState>
      ) : (
        <WithRuns ids={ids} loaded={[]}>
          {([first, ...rest]) =>
            rest.length === 0 ? (
              <PartsOfRun run={first} by={by} margin={margin} onBy={(chosen) => set({ by: chosen })} />
            ) : (
              <Runs runs={[first, ...rest]} margin={margin} />
            )
          }
        </WithRuns>
      )}
    </>
  );
}

function RunSelect({
  name,
  empty,
  runs,
  value,
  onChange,
}: {
  readonly name: string;
  readonly empty: string;
  readonly runs: readonly RunRow[];
  readonly value: string | undefined;
  readonly onChange: (id: string | undefined) => void;
}): ReactElement {
  return (
    <label className="flex max-w-full min-w-0 items-center gap-2">
      <span className="font-medium">{name}</span>
      <select
        aria-label={`Run ${name}`}
        className="control max-w-full min-w-0"
        value={value ?? ""}
        onChange={({ target }) => onChange(target.value === "" ? undefined : target.value)}
      >
        <option value="">{empty}</option>
        {runs.map((run) => (
          <option key={run.id} value={run.id}>
            {visibleOnPage(
              [run.id, run.name, run.source && formatSource(run.source), wordOf(statusOf(run)).toLowerCase()]
                .filter((each) => each !== undefined)
                .join("  "),
            )}
          </option>
        ))}
      </select>
    </label>
  );
}

type SomeRuns = readonly [RunDocument, ...RunDocument[]];

/** Loads runs one after the other, and shows something of all of them. */
function WithRuns({
  ids: [id = "", ...rest],
  loaded,
  children,
}: {
  readonly ids: readonly string[];
  readonly loaded: readonly RunDocument[];
  readonly children: (runs: SomeRuns) => ReactNode;
}): ReactElement {
  return (
    <Loaded query={useRun(id)} what={`run ${letterOf(loaded.length)}`}>
      {(run) => {
        const all = [...loaded, run];
        const [first, ...others] = all;
        return rest.length === 0 && first !== undefined ? (
          children([first, ...others])
        ) : (
          <WithRuns key={rest[0]} ids={rest} loaded={all}>
            {children}
          </WithRuns>
        );
      }}
    </Loaded>
  );
}

/** A side with the run that its trials are of. */
interface RunSide extends NamedSide<TrialRow> {
  readonly run: string;
}

function sideOf(run: RunDocument, index: number, isCheck = false): RunSide {
  const { id, origin = id, agents, trials, fingerprints, decisions, isAttacked } = run;
  return {
    run: id,
    name: letterOf(index),
    alias: id,
    ...unfinished(run),
    origin,
    trials: isCheck ? trials : trials.filter(({ form }) => form !== "check"),
    agents,
    fingerprints,
    ...(decisions === undefined ? {} : { isUntilDecided: true }),
    ...(isAttacked === undefined ? {} : { isAttacked }),
  };
}

/** Why a run did not come to its end, as `mcpvals compare` says it. */
function unfinished({ state, verdict }: RunDocument): { readonly unfinished?: string } {
  if (verdict === "interrupted" && state === "ended") return { unfinished: "was interrupted" };
  if (state === "running") return { unfinished: "still goes on" };
  return state === "cut-off" ? { unfinished: "was killed before its end" } : {};
}

type Sides = readonly [RunSide, ...RunSide[]];

function Runs({
  runs,
  margin,
}: {
  readonly runs: SomeRuns;
  readonly margin: number | undefined;
}): ReactElement {
  // Of checks the trials are shown, and nothing is said of their pass rate.
  const isCheck = runs.every(({ kind }) => kind === "check");
  const [first, ...others] = runs;
  const sides: Sides = [
    sideOf(first, 0, isCheck),
    ...others.map((run, index) => sideOf(run, index + 1, isCheck)),
  ];
  return (
    <SideBySide sides={sides} margin={margin} hasRates={!isCheck}>
      <Section title="Totals">
        <Totals runs={runs} />
      </Section>
    </SideBySide>
  );
}

/** The variants, or the agents, of one run. */
function PartsOfRun({
  run,
  by,
  margin,
  onBy,
}: {
  readonly run: RunDocument;
  readonly by: Kind | undefined;
  readonly margin: number | undefined;
  readonly onBy: (by: Kind) => void;
}): ReactElement {
  const { sides, across, kinds } = useMemo(() => {
    const whole = sideOf(run, 0);
    const comparable = comparableKinds(whole);
    const parts = sidesOfRun(
      whole,
      comparable.find((kind) => kind === by),
    );
    return {
      ...parts,
      sides: parts.sides.map((side) => ({ ...side, run: run.id })),
      kinds: comparable,
    };
  }, [run, by]);
  const [first, ...others] = sides;
  return (
    <>
      {kinds.length > 1 && (
        <div className="mb-4 flex gap-2">
          {kinds.map((kind) => (
            <button
              key={kind}
              type="button"
              className="control aria-pressed:bg-accent-soft aria-pressed:text-accent"
              aria-pressed={kind === across}
              onClick={() => onBy(kind)}
            >
              {kind === "variant" ? "Variants" : "Agents"}
            </button>
          ))}
        </div>
      )}
      {first === undefined || others.length === 0 ? (
        <EmptyState title="Choose another run">
          <p>
            {run.isAttacked === true
              ? "The variants of this one are attacks, which its own page compares with no attack."
              : "This one has neither several variants nor several agents, which could be compared."}
          </p>
        </EmptyState>
      ) : (
        <SideBySide sides={[first, ...others]} across={across} margin={margin} hasRates />
      )}
    </>
  );
}

function SideBySide({
  sides,
  across,
  margin,
  hasRates,
  children,
}: {
  readonly sides: Sides;
  readonly across?: Kind;
  /** In points. */
  readonly margin: number | undefined;
  readonly hasRates: boolean;
  /** What stands before the tasks. */
  readonly children?: ReactNode;
}): ReactElement {
  const refusal = refusalOf(sides, across);
  if (refusal !== undefined)
    return (
      <EmptyState title={`${visibleOnPage(refusal.message)}.`}>
        <PlainText text={refusal.hint} />
      </EmptyState>
    );
  const comparison = comparisonOf(sides, {
    across,
    margin: margin === undefined ? undefined : margin / 100,
  });
  const { compared } = comparison;
  const [first, ...others] = sides;
  return (
    <>
      <Section title="Summary">
        {hasRates ? (
          <div className="panel divide-line divide-y">
            {compared.map((each) => (
              <Said key={each.name} comparison={comparison} compared={each} />
            ))}
          </div>
        ) : (
          <p>Checks have findings, and no pass rate that could be compared.</p>
        )}
      </Section>
      {hasRates && compared.some(({ rates }) => rates !== undefined) && <RateChart comparison={comparison} />}
      {children}
      {others.map((side) => (
        <Section
          key={side.name}
          title={
            others.length === 1 ? "Tasks" : <PlainText text={`Tasks of ${first.name} and ${side.name}`} />
          }
          aside={<span className="text-muted">paired by name; what changed comes first</span>}
        >
          <TaskTable first={first} second={side} tasks={compareRuns(first, side, { across }).tasks} />
        </Section>
      ))}
    </>
  );
}

interface ChartRow {
  readonly name: string;
  readonly rate: Proportion;
  readonly wider: Proportion | undefined;
}

/** The pass rates of the sides with their intervals: each pair has its own tasks, and one row for the first side where these are the same. */
function chartsOf(
  comparison: ComparisonDocument,
): readonly { readonly title?: string; readonly rows: readonly ChartRow[] }[] {
  const pairs = comparison.compared.flatMap((compared) => {
    const { name, rates } = compared;
    if (rates === undefined) return [];
    const rowOf = (side: string, { theseTasks, tasksLikeThese }: typeof rates.first): ChartRow => ({
      name: side,
      rate: theseTasks,
      wider: hasEnoughTasks(compared) ? tasksLikeThese : undefined,
    });
    const [before, after] = [rowOf(comparison.first, rates.first), rowOf(name, rates.second)];
    return [{ title: headline(comparison, compared), before, after }];
  });
  const [one, ...others] = pairs;
  if (one === undefined) return [];
  const isSame = others.every(({ before }) => JSON.stringify(before) === JSON.stringify(one.before));
  if (isSame) return [{ rows: [one.before, ...pairs.map(({ after }) => after)] }];
  return pairs.map(({ title, before, after }) => ({ title, rows: [before, after] }));
}

function RateChart({ comparison }: { readonly comparison: ComparisonDocument }): ReactElement {
  const charts = useMemo(() => chartsOf(comparison), [comparison]);
  const hasWider = charts.some(({ rows }) => rows.some(({ wider }) => wider !== undefined));
  return (
    <Section
      title="Pass rates"
      aside={
        <span className="text-muted">
          of the tasks that both measured; bar: 95 % interval on these tasks
          {hasWider && ", line: for tasks like these"}; dashed: {visibleOnPage(comparison.first)}
        </span>
      }
    >
      {charts.map(({ title, rows }) => (
        <table key={title ?? ""} className="panel mb-3 block px-3 py-2">
          <caption className={title === undefined ? "sr-only" : "mb-1 block text-left font-medium"}>
            <PlainText text={title ?? "Pass rates of the sides"} />
          </caption>
          <thead className="block">
            <tr className={chartRow}>
              <th scope="col" className="sr-only">
                Side
              </th>
              <th scope="col" className="font-normal sm:col-start-2">
                <span className="sr-only">Pass rate with its 95 % interval</span>
                <IntervalAxis />
              </th>
            </tr>
          </thead>
          <tbody className="block">
            {rows.map(({ name, rate, wider }) => (
              <tr key={name} className={chartRow}>
                <th scope="row" className="truncate text-left font-medium max-sm:pt-1">
                  <PlainText text={name} hasTitle />
                </th>
                <td className="contents">
                  <IntervalRow rate={rate} wider={wider} reference={rows[0]?.rate.value ?? 0} />
                  <span className="tabular-nums">
                    {rateText(rate)} on these tasks
                    {wider !== undefined && (
                      <span className="text-muted block text-xs">
                        {rangeText(wider)} for tasks like these
                      </span>
                    )}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </Section>
  );
}

/** Name, chart and numbers; on a phone one below the other. */
const chartRow = "grid items-center gap-x-6 sm:grid-cols-[8rem_1fr_19rem]";

interface Total {
  readonly name: string;
  readonly of: (run: RunDocument) => number | undefined;
  readonly format: (value: number) => string;
}

const totals: readonly Total[] = [
  { name: "Trials", of: ({ trials }) => trials.length, format: formatNumber },
  {
    name: "Errors and timeouts",
    of: ({ summary }) => (summary === undefined ? undefined : summary.error + summary.timeout),
    format: formatNumber,
  },
  {
    name: "Findings",
    of: ({ kind, findings }) => (kind === "check" ? alikeFindings(findings).length : undefined),
    format: formatNumber,
  },
  { name: "Duration", of: ({ durationMs }) => durationMs, format: formatDuration },
  { name: "Input tokens", of: ({ usage }) => usage?.inputTokens, format: formatCompact },
  { name: "Output tokens", of: ({ usage }) => usage?.outputTokens, format: formatCompact },
  {
    name: "Tool calls",
    of: ({ trials }) => {
      const counts = trials.flatMap(({ toolCalls }) => toolCalls ?? []);
      return counts.length === 0 ? undefined : counts.reduce((sum, count) => sum + count, 0);
    },
    format: formatNumber,
  },
];

const cell = "border-line border-b px-2 py-1.5 group-last:border-b-0 sm:px-3";

/** What runs have in all; nothing is said of their differences, since they may be of other tasks. */
function Totals({ runs }: { readonly runs: SomeRuns }): ReactElement {
  return (
    <div className="panel w-fit max-w-full overflow-x-auto">
      <table className="border-separate border-spacing-0">
        <caption className="sr-only">Totals of the runs</caption>
        <thead>
          <tr className="text-muted text-xs">
            <th scope="col" className={`${cell} text-left font-medium`}>
              Total
            </th>
            {runs.map(({ id }, index) => (
              // oxlint-disable-next-line react/no-array-index-key
              <th key={index} scope="col" className={`${cell} text-right font-medium max-sm:max-w-28`}>
                {letterOf(index)}:{" "}
                <Link to="/runs/$run" params={{ run: id }}>
                  <PlainText text={id} />
                </Link>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <tr className="group">
            <th scope="row" className={`${cell} text-left font-normal`}>
              Verdict
            </th>
            {runs.map((run, index) => (
              // oxlint-disable-next-line react/no-array-index-key
              <td key={index} className={`${cell} text-right`}>
                <VerdictBadge status={statusOf(run)} />
              </td>
            ))}
          </tr>
          {totals.map(({ name, of, format }) => {
            const values = runs.map(of);
            if (values.every((value) => value === undefined)) return null;
            return (
              <tr key={name} className="group tabular-nums">
                <th scope="row" className={`${cell} text-left font-normal`}>
                  {name}
                </th>
                {values.map((value, index) => (
                  // oxlint-disable-next-line react/no-array-index-key
                  <td key={index} className={`${cell} text-right`}>
                    {value === undefined ? <Nothing /> : format(value)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function signed(value: number, format: (value: number) => string): string {
  return `${value < 0 ? "−" : value > 0 ? "+" : ""}${format(Math.abs(value))}`;
}

/** More attempts of a task are not shown in the table. */
const maxShownAttempts = 10;

function TaskTable({
  first,
  second,
  tasks,
}: {
  readonly first: RunSide;
  readonly second: RunSide;
  readonly tasks: readonly ComparedTask<TrialRow>[];
}): ReactElement {
  const columns = useMemo(() => taskColumns(first, second, tasks), [first, second, tasks]);
  return (
    <DataTable
      label={`Tasks of ${visibleOnPage(first.name)} and ${visibleOnPage(second.name)}`}
      rows={tasks}
      columns={columns}
      rowKey={({ key }) => key}
    />
  );
}

function taskColumns(
  { run: a, name: first }: RunSide,
  { run: b, name: second }: RunSide,
  tasks: readonly ComparedTask<TrialRow>[],
): readonly Column<ComparedTask<TrialRow>>[] {
  const attempts = Math.max(
    ...tasks.flatMap(({ before, after }) => [before?.trials.length ?? 0, after?.trials.length ?? 0]),
  );
  // "not on this side" needs seven rem.
  const width = Math.max(8, attemptsWidth(attempts, maxShownAttempts));
  const hasTokens = tasks.some(({ before, after }) => (before ?? after)?.tokens !== undefined);
  return [
    {
      id: "task",
      title: "Task",
      cell: ({ task, agent, variant }) => (
        <span className="flex gap-x-1.5">
          <PlainText text={task} hasTitle className="min-w-0 truncate font-medium" />{" "}
          <PlainText text={namesOf(agent, variant)} className="text-muted max-w-[60%] shrink-0 truncate" />
        </span>
      ),
    },
    { id: "a", title: visibleOnPage(first), cell: ({ before }) => <Side run={a} side={before} />, width },
    { id: "b", title: visibleOnPage(second), cell: ({ after }) => <Side run={b} side={after} />, width },
    changeColumn({ of: "passRate", title: "Pass rate", format: pointsText }),
    {
      id: "trials",
      title: "Trials",
      align: "right",
      cell: (pair) => <TrialsLink a={a} b={b} pair={pair} />,
      width: 7,
    },
    changeColumn({ of: "durationMs", title: "Duration", format: formatDuration }),
    ...(hasTokens ? [changeColumn({ of: "tokens", title: "Tokens", format: formatCompact })] : []),
  ];
}

function namesOf(...names: readonly (string | undefined)[]): string {
  return names.filter((each) => each !== undefined).join(" · ");
}

function Side({
  run,
  side,
}: {
  readonly run: string;
  readonly side: ComparedTask<TrialRow>["before"];
}): ReactElement {
  if (side === undefined) return <span className="text-muted text-xs">not on this side</span>;
  return <FirstAttempts run={run} trials={side.trials} most={maxShownAttempts} />;
}

/** The first attempts that have another verdict, or else the first two: what one looks at side by side. */
function trialsToCompare(
  a: string,
  b: string,
  { before, after }: ComparedTask<TrialRow>,
): { a: string; b: string } | undefined {
  if (before === undefined || after === undefined) return undefined;
  const [first] = before.trials;
  const differs = after.trials.flatMap((second) => {
    const other = before.trials.find(({ verdict }) => verdict !== second.verdict);
    return other === undefined ? [] : [[other, second] as const];
  });
  const [[one, other] = [first, after.trials[0]]] = differs;
  return one === undefined || other === undefined
    ? undefined
    : { a: `${a}/${one.id}`, b: `${b}/${other.id}` };
}

function TrialsLink({
  a,
  b,
  pair,
}: {
  readonly a: string;
  readonly b: string;
  readonly pair: ComparedTask<TrialRow>;
}): ReactNode {
  const trials = trialsToCompare(a, b, pair);
  if (trials === undefined) return <Nothing />;
  return (
    <Link
      to="/compare/trials"
      search={trials}
      aria-label={`Trials of ${visibleOnPage(pair.task)} side by side`}
    >
      side by side
    </Link>
  );
}

/** What the second side has more or less than the first. One task shows nothing, so that no difference is good or bad. */
function changeColumn({
  of,
  title,
  format,
}: {
  readonly of: "passRate" | "durationMs" | "tokens";
  readonly title: string;
  readonly format: (value: number) => string;
}): Column<ComparedTask<TrialRow>> {
  return {
    id: of,
    title,
    align: "right",
    width: 7,
    cell({ before, after }) {
      const [first, second] = [before?.[of], after?.[of]];
      const difference = first === undefined || second === undefined ? undefined : second - first;
      return difference === undefined ? (
        <Nothing />
      ) : format(Math.abs(difference)) === format(0) ? (
        <span className="text-muted">same</span>
      ) : (
        <span className="tabular-nums">{signed(difference, format)}</span>
      );
    },
  };
}
