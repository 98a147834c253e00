import { alikeFindings } from "../../../src/model/alike-findings.ts";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactElement, type ReactNode, useMemo } from "react";
import { visibleOnPage } from "../../../src/base/visible-text.ts";
import {
  compareRuns,
  type ComparedTask,
  rateOfTrials,
  type RunComparison,
  statementsOf,
} from "../../../src/report/documents/compare-runs.ts";
import type { RunDocument, RunRow, TrialRow } from "../../../src/report/documents/documents.ts";
import { attemptsWidth, FirstAttempts } from "../components/attempts.tsx";
import { type Column, DataTable } from "../components/data-table.tsx";
import { Nothing } from "../components/numbers.tsx";
import { PageTitle } from "../components/page-title.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { Section } from "../components/section.tsx";
import { EmptyState, Loaded } from "../components/states.tsx";
import { statusOf, VerdictBadge, wordOf } from "../components/verdict-badge.tsx";
import {
  counted,
  formatCompact,
  formatDuration,
  formatNumber,
  formatPercent,
  formatSource,
} from "../format.ts";
import { useRun, useRuns } from "../queries.ts";
import { type RawSearch, textOf } from "../search.ts";

const route = getRouteApi("/compare");

interface CompareSearch {
  /** Ids of the runs, the earlier one first. */
  readonly a?: string | undefined;
  readonly b?: string | undefined;
}

export function compareSearch(raw: RawSearch): CompareSearch {
  return { a: textOf(raw["a"]), b: textOf(raw["b"]) };
}

/** Two runs side by side. */
export function ComparePage(): ReactElement {
  const { a, b } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <>
      <PageTitle title="Compare two runs" />
      <Loaded query={useRuns()} what="the runs">
        {(document) => (
          <div className="mb-4 flex flex-wrap items-center gap-2">
            <RunSelect
              name="A"
              runs={document?.runs ?? []}
              value={a}
              onChange={(id) => void navigate({ search: { a: id, b }, replace: true })}
            />
            <RunSelect
              name="B"
              runs={document?.runs ?? []}
              value={b}
              onChange={(id) => void navigate({ search: { a, b: id }, replace: true })}
            />
            {a !== undefined && b !== undefined && (
              <button
                type="button"
                className="control"
                onClick={() => void navigate({ search: { a: b, b: a }, replace: true })}
              >
                Swap
              </button>
            )}
          </div>
        )}
      </Loaded>
      {a === undefined || b === undefined ? (
        <EmptyState title="Choose two runs">
          <p>Their tasks are paired by name, so runs of the same file say most.</p>
        </EmptyState>
      ) : (
        <TwoRuns a={a} b={b} />
      )}
    </>
  );
}

function RunSelect({
  name,
  runs,
  value,
  onChange,
}: {
  readonly name: string;
  readonly runs: readonly RunRow[];
  readonly value: string | undefined;
  readonly onChange: (id: string | undefined) => void;
}): ReactElement {
  return (
    <label className="flex max-w-full min-w-0 items-center gap-2">
      <span className="font-medium">{name}</span>
      <select
        className="control max-w-full min-w-0"
        value={value ?? ""}
        onChange={({ target }) => onChange(target.value === "" ? undefined : target.value)}
      >
        <option value="">Choose a run</option>
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

function TwoRuns({ a, b }: { readonly a: string; readonly b: string }): ReactElement {
  const before = useRun(a);
  const after = useRun(b);
  return (
    <Loaded query={before} what="run A">
      {(first) => (
        <Loaded query={after} what="run B">
          {(second) => <Comparison a={first} b={second} />}
        </Loaded>
      )}
    </Loaded>
  );
}

function Comparison({ a, b }: { readonly a: RunDocument; readonly b: RunDocument }): ReactElement {
  const comparison = useMemo(() => compareRuns(a, b), [a, b]);
  return (
    <>
      <Section title="Summary">
        <div className="panel space-y-1 px-3 py-2">
          {(a.id === b.id
            ? ["A and B are the same run. Choose another one to compare it with."]
            : inWords(comparison)
          ).map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
        </div>
      </Section>
      <Section title="Totals">
        <Totals a={a} b={b} comparison={comparison} />
      </Section>
      <Section
        title="Tasks"
        aside={
          <span className="text-muted">
            paired by name{a.agents.length > 1 || b.agents.length > 1 ? " and agent" : ""}; what changed comes
            first
          </span>
        }
      >
        <TaskTable a={a.id} b={b.id} tasks={comparison.tasks} />
      </Section>
    </>
  );
}

/** What the comparison says, in sentences. */
function inWords(comparison: RunComparison<TrialRow>): readonly string[] {
  const [statements = []] = statementsOf([{ comparison, first: { name: "A" }, second: { name: "B" } }]);
  const single = comparison.tasks.filter(
    ({ before, after }) => before === undefined || after === undefined,
  ).length;
  const changed = comparison.tasks.filter((task) => task.changed === true).length;
  return [
    ...(statements.length === 0
      ? ["The runs have no task in common that both measured."]
      : statements.map(({ text, changes = "" }) => `${text} ${changes}`.trimEnd())),
    ...(single === 0 ? [] : [`${counted(single, "task is", "tasks are")} in one run only.`]),
    ...(changed === 0
      ? []
      : [`${counted(changed, "task is", "tasks are")} not the same in both runs, and not compared.`]),
  ];
}

interface Total {
  readonly name: string;
  readonly of: (run: RunDocument) => number | undefined;
  readonly format: (value: number) => string;
  /** Of a difference; absent: as values. */
  readonly formatDifference?: (value: number) => string;
  /** Whether more is better; absent: neither. */
  readonly better?: "more" | "less";
  /** Only tasks that both runs measured make it comparable; absent: tasks that both have. */
  readonly ofVerdicts?: true;
}

const totals: readonly Total[] = [
  {
    name: "Pass rate",
    of: ({ passRate, trials }) => passRate?.value ?? rateOfTrials(trials)?.value,
    format: formatPercent,
    formatDifference: formatPoints,
    better: "more",
    ofVerdicts: true,
  },
  { name: "Trials", of: ({ trials }) => trials.length, format: formatNumber },
  {
    name: "Errors and timeouts",
    of: ({ summary }) => (summary === undefined ? undefined : summary.error + summary.timeout),
    format: formatNumber,
    better: "less",
  },
  {
    name: "Findings",
    of: ({ kind, findings }) => (kind === "check" ? alikeFindings(findings).length : undefined),
    format: formatNumber,
    better: "less",
  },
  { name: "Duration", of: ({ durationMs }) => durationMs, format: formatDuration },
  { name: "Input tokens", of: ({ usage }) => usage?.inputTokens, format: formatCompact, better: "less" },
  { name: "Output tokens", of: ({ usage }) => usage?.outputTokens, format: formatCompact, better: "less" },
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

function Totals({
  a,
  b,
  comparison: { tasks, theseTasks },
}: {
  readonly a: RunDocument;
  readonly b: RunDocument;
  readonly comparison: RunComparison<TrialRow>;
}): ReactElement {
  const hasCommonTasks = tasks.some(({ before, after }) => before !== undefined && after !== undefined);
  return (
    <div className="panel w-fit max-w-full overflow-x-auto">
      <table className="border-separate border-spacing-0">
        <caption className="sr-only">Totals of both runs</caption>
        <thead>
          <tr className="text-muted text-xs">
            <th scope="col" className={`${cell} text-left font-medium`}>
              Total
            </th>
            <RunHeading name="A" run={a} />
            <RunHeading name="B" run={b} />
            <th scope="col" className={`${cell} text-right font-medium`}>
              B − A
            </th>
          </tr>
        </thead>
        <tbody>
          <tr className="group">
            <th scope="row" className={`${cell} text-left font-normal`}>
              Verdict
            </th>
            {[a, b].map((run, index) => (
              // oxlint-disable-next-line react/no-array-index-key
              <td key={index} className={`${cell} text-right`}>
                <VerdictBadge status={statusOf(run)} />
              </td>
            ))}
            <td className={`${cell} text-right`}>
              <Nothing />
            </td>
          </tr>
          {totals.map((total) => (
            <TotalRow
              key={total.name}
              total={total}
              a={total.of(a)}
              b={total.of(b)}
              isComparable={total.ofVerdicts === true ? theseTasks !== undefined : hasCommonTasks}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function RunHeading({ name, run }: { readonly name: string; readonly run: RunDocument }): ReactElement {
  return (
    <th scope="col" className={`${cell} text-right font-medium max-sm:max-w-28`}>
      {name}:{" "}
      <Link to="/runs/$run" params={{ run: run.id }}>
        <PlainText text={run.id} />
      </Link>
    </th>
  );
}

function TotalRow({
  total: { name, format, formatDifference = format, better },
  a,
  b,
  isComparable,
}: {
  readonly total: Total;
  readonly a: number | undefined;
  readonly b: number | undefined;
  readonly isComparable: boolean;
}): ReactElement | null {
  if (a === undefined && b === undefined) return null;
  const difference = a === undefined || b === undefined || !isComparable ? undefined : b - a;
  return (
    <tr className="group tabular-nums">
      <th scope="row" className={`${cell} text-left font-normal`}>
        {name}
      </th>
      <td className={`${cell} text-right`}>{a === undefined ? <Nothing /> : format(a)}</td>
      <td className={`${cell} text-right`}>{b === undefined ? <Nothing /> : format(b)}</td>
      <td className={`${cell} text-right ${toneOfDifference(difference, better)}`}>
        {difference === undefined ? <Nothing /> : signed(difference, formatDifference)}
      </td>
    </tr>
  );
}

function formatPoints(share: number): string {
  return counted(Math.round(share * 1000) / 10, "point");
}

function signed(value: number, format: (value: number) => string): string {
  return `${value < 0 ? "−" : value > 0 ? "+" : ""}${format(Math.abs(value))}`;
}

function toneOfDifference(difference: number | undefined, better: "more" | "less" | undefined): string {
  if (difference === undefined || difference === 0 || better === undefined) return "";
  return difference > 0 === (better === "more") ? "text-pass" : "text-fail";
}

/** More attempts of a task are not shown in the table. */
const maxShownAttempts = 10;

function TaskTable({
  a,
  b,
  tasks,
}: {
  readonly a: string;
  readonly b: string;
  readonly tasks: readonly ComparedTask<TrialRow>[];
}): ReactElement {
  const columns = useMemo(() => taskColumns(a, b, tasks), [a, b, tasks]);
  return <DataTable label="Tasks of both runs" rows={tasks} columns={columns} rowKey={({ key }) => key} />;
}

function taskColumns(
  a: string,
  b: string,
  tasks: readonly ComparedTask<TrialRow>[],
): readonly Column<ComparedTask<TrialRow>>[] {
  const attempts = Math.max(
    ...tasks.flatMap(({ before, after }) => [before?.trials.length ?? 0, after?.trials.length ?? 0]),
  );
  // "not in this run" needs seven rem.
  const width = Math.max(8, attemptsWidth(attempts, maxShownAttempts));
  const hasTokens = tasks.some(({ before, after }) => (before ?? after)?.tokens !== undefined);
  return [
    {
      id: "task",
      title: "Task",
      cell: ({ task, agent, variant }) => (
        <>
          <PlainText text={task} hasTitle className="font-medium" />{" "}
          <PlainText text={namesOf(agent, variant)} className="text-muted" />
        </>
      ),
    },
    { id: "a", title: "A", cell: ({ before }) => <Side run={a} side={before} />, width },
    { id: "b", title: "B", cell: ({ after }) => <Side run={b} side={after} />, width },
    changeColumn({ of: "passRate", title: "Pass rate", format: formatPoints, better: "more" }),
    {
      id: "trials",
      title: "Trials",
      align: "right",
      cell: (pair) => <SideBySide a={a} b={b} pair={pair} />,
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
  if (side === undefined) return <span className="text-muted text-xs">not in this run</span>;
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

function SideBySide({
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

/** What B has more or less than A. */
function changeColumn({
  of,
  title,
  format,
  better,
}: {
  readonly of: "passRate" | "durationMs" | "tokens";
  readonly title: string;
  readonly format: (value: number) => string;
  readonly better?: "more";
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
      ) : difference === 0 ? (
        <span className="text-muted">same</span>
      ) : (
        <span className={`tabular-nums ${toneOfDifference(difference, better)}`}>
          {signed(difference, format)}
        </span>
      );
    },
  };
}
