import { defaultStringifySearch, getRouteApi } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import type { RunDocument, TrialRow } from "../../../../src/report/documents/documents.ts";
import { meanOf, type Proportion } from "../../../../src/statistics/rates.ts";
import { visibleOnPage } from "../../../../src/base/visible-text.ts";
import { attemptsWidth, FirstAttempts } from "../../components/attempts.tsx";
import { type Column, DataTable, numberColumn } from "../../components/data-table.tsx";
import { IntervalBar } from "../../components/interval-bar.tsx";
import { Duration, Nothing, Tokens } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { counted, formatNumber, formatRange, formatRate } from "../../format.ts";
import { type RawSearch, textOf } from "../../search.ts";
import { byResultText, type TrialGroups } from "./matrix.tsx";

const route = getRouteApi("/runs/$run/");

interface RatesSearch {
  /** Absent: the lowest rates first. */
  readonly sort?: string | undefined;
}

export function ratesSearch(raw: RawSearch): RatesSearch {
  return { sort: textOf(raw["sort"]) };
}

type Rates = NonNullable<RunDocument["rates"]>;
type TaskRate = NonNullable<Rates["tasks"]>[number];

/** How often a task passed with an agent and variant, or all tasks did. */
interface SideRate extends Pick<TaskRate, "passed" | "scored" | "unscored" | "durationMs" | "tokens"> {
  readonly rate?: Proportion | undefined;
  readonly flaky?: true;
  readonly trials: readonly TrialRow[];
}

/** A column of the table: an agent with a variant, or the only one. */
interface Side {
  readonly name: string;
  readonly has: (part: TaskRate) => boolean;
  readonly total: SideRate;
}

/** A task with its rates by side; without a name, all tasks. */
interface RateRow {
  readonly key: string;
  readonly task?: string;
  readonly sides: readonly (SideRate | undefined)[];
}

/** More attempts of a task stand in the list of trials. */
const maxShownAttempts = 12;

/** The rates of a run by task, where it has several agents, variants or attempts; undefined for others, and until it has ended. */
export function shownRates({ rates }: RunDocument): Rates | undefined {
  const isRepeated = rates?.tasks?.some(({ scored, unscored }) => scored + unscored > 1) === true;
  return isRepeated || (rates?.tasks !== undefined && hasSides(rates)) ? rates : undefined;
}

/** Whether there are several columns. Tasks without an agent are no side beside the only agent. */
function hasSides({ groups }: Rates): boolean {
  const agents = new Set(groups.flatMap(({ agent }) => agent ?? []));
  return agents.size > 1 || new Set(groups.map(({ variant }) => variant)).size > 1;
}

/** The pass rates of the tasks of a run with their intervals, those that passed least first: a column for each agent and variant. */
export function RateTable({
  run: { id, passRate, trials, decisions },
  rates,
  groups,
}: {
  readonly run: RunDocument;
  readonly rates: Rates;
  readonly groups: TrialGroups;
}): ReactElement {
  const { sort } = route.useSearch();
  const navigate = route.useNavigate();
  const sides = useMemo(() => sidesOf(rates, passRate), [rates, passRate]);
  const rows = useMemo(() => rowsOf(rates, sides, groups), [rates, sides, groups]);
  const columns = useMemo(() => columnsFor(id, rates, sides), [id, rates, sides]);
  const set = (chosen: string | undefined): void =>
    void navigate({ search: { sort: chosen }, replace: true, resetScroll: false });
  const byResult = byResultText(trials);
  return (
    <Section
      title="Pass rates by task"
      aside={
        <>
          <span className="text-muted">
            with 95% intervals for these tasks
            {decisions !== undefined && ", as if the number of trials had been fixed"}
            {byResult !== "" && `; ${byResult}`}
          </span>
          {sort !== undefined && (
            <button type="button" className="text-accent hover:underline" onClick={() => set(undefined)}>
              Lowest rates first
            </button>
          )}
        </>
      }
    >
      <DataTable
        label="Pass rates by task"
        rows={rows}
        columns={columns}
        rowKey={({ key }) => key}
        sort={sort}
        onSort={set}
        total={rows.length > 1 ? { key: "all tasks", sides: sides.map(({ total }) => total) } : undefined}
      />
    </Section>
  );
}

function sidesOf(rates: Rates, passRate: RunDocument["passRate"]): readonly Side[] {
  const { groups } = rates;
  if (!hasSides(rates)) {
    const sum = (key: "passed" | "scored" | "unscored"): number =>
      groups.reduce((total, group) => total + group[key], 0);
    const counts = { passed: sum("passed"), scored: sum("scored"), unscored: sum("unscored") };
    return [{ name: "Pass rate", has: () => true, total: { ...counts, rate: passRate, trials: [] } }];
  }
  const hasAgents = new Set(groups.map(({ agent }) => agent)).size > 1;
  // What no agent did says the least about a side.
  const ordered = groups.toSorted((a, b) => Number(a.agent === null) - Number(b.agent === null));
  return ordered.map(({ agent, variant, theseTasks, passed, scored, unscored }) => ({
    name: [hasAgents ? (agent ?? "no agent") : [], variant ?? []].flat().join(" · "),
    has: (part) => part.agent === agent && part.variant === variant,
    total: { passed, scored, unscored, rate: theseTasks, trials: [] },
  }));
}

function rowsOf({ tasks = [] }: Rates, sides: readonly Side[], groups: TrialGroups): readonly RateRow[] {
  const trialsOf = new Map(groups.map((group) => [keyOf(group[0]), group]));
  return [...Map.groupBy(tasks, ({ task, suite }) => JSON.stringify([task, suite]))]
    .map(([key, parts]): RateRow => ({
      key,
      task: parts[0]?.task ?? "",
      sides: sides.map(({ has }) => {
        const part = parts.find(has);
        return part && { ...part, trials: trialsOf.get(keyOf(part)) ?? [] };
      }),
    }))
    .map((row) => ({ row, mean: meanOfSides(row) }))
    .sort((a, b) => a.mean - b.mean)
    .map(({ row }) => row);
}

function keyOf(
  part: (Pick<TaskRate, "task" | "suite" | "variant"> & { readonly agent?: string | null }) | undefined,
): string {
  return JSON.stringify([part?.task, part?.suite, part?.agent ?? null, part?.variant]);
}

/** What a task is placed by: the mean of its rates; one that was not measured comes first, since nothing shows that it passes. */
function meanOfSides({ sides }: RateRow): number {
  const known = sides.flatMap((side) => side?.rate?.value ?? []);
  return known.length === 0 ? -1 : meanOf(known);
}

function columnsFor(run: string, { tasks = [] }: Rates, sides: readonly Side[]): readonly Column<RateRow>[] {
  const named: Column<RateRow> = {
    id: "task",
    title: "Task",
    value: ({ task = "" }) => task,
    cell: ({ task }) =>
      task === undefined ? "All tasks" : <PlainText text={task} hasTitle className="font-medium" />,
  };
  const hasUnscored = sides.some(({ total }) => total.unscored > 0);
  const rates = sides.map(({ name }, index): Column<RateRow> => ({
    id: `rate ${name}`,
    title: visibleOnPage(name),
    value: (row) => row.sides[index]?.rate?.value,
    cell: ({ task, sides: all }) => <RateCell run={run} task={task} side={all[index]} />,
    // Room for what few cells have.
    width: hasUnscored ? 18 : 14,
  }));
  if (sides.length > 1) return [named, ...rates];
  const only = (row: RateRow): SideRate | undefined => row.sides[0];
  const hasTokens = tasks.some(({ tokens }) => tokens !== undefined);
  const attempts = Math.max(3, ...tasks.map(({ scored, unscored }) => scored + unscored));
  return [
    named,
    ...rates,
    numberColumn({ id: "time", title: "Time", value: (row) => only(row)?.durationMs, as: Duration }),
    ...(hasTokens
      ? [
          numberColumn<RateRow>({
            id: "tokens",
            title: "Tokens",
            value: (row) => only(row)?.tokens,
            as: Tokens,
          }),
        ]
      : []),
    {
      id: "attempts",
      title: "Attempts",
      cell: (row) => <FirstAttempts run={run} trials={only(row)?.trials ?? []} most={maxShownAttempts} />,
      width: attemptsWidth(attempts, maxShownAttempts),
    },
  ];
}

/** A rate with its interval and how many trials it is of: a link to the trials of a task. */
function RateCell({
  run,
  task,
  side,
}: {
  readonly run: string;
  readonly task: string | undefined;
  readonly side: SideRate | undefined;
}): ReactElement {
  if (side === undefined) return <Nothing />;
  const { rate, passed, scored, unscored, flaky, trials } = side;
  const content = (
    <>
      <span className="flex items-baseline gap-x-2 tabular-nums">
        {rate === undefined ? (
          <span className="text-muted grow">no verdict</span>
        ) : (
          <span className="grow">
            <span className={`inline-block w-11 font-medium group-hover/cell:underline ${toneOf(side)}`}>
              {formatRate(rate.value)}
            </span>{" "}
            <span className="text-muted">
              <span className="sr-only">95% interval </span>
              {formatRange(rate)}
            </span>
          </span>
        )}
        {flaky === true && <span className="text-error text-xs">flaky</span>}
        {unscored > 0 && <span className="text-error text-xs">{formatNumber(unscored)} not judged</span>}
        <span className="text-muted" title={countTitle(side)}>
          {formatNumber(passed)}/{formatNumber(scored)}
        </span>
      </span>
      {rate !== undefined && <IntervalBar rate={rate} />}
    </>
  );
  const [trial] = trials;
  if (task === undefined || trial === undefined) return <span className="block py-1">{content}</span>;
  // A plain link: a large table has hundreds, and one of the router takes several times as long.
  const search = defaultStringifySearch({ task, agent: trial.agent, variant: trial.variant });
  return (
    <a
      href={`#/runs/${encodeURIComponent(run)}/trials${search}`}
      className="group/cell text-ink block py-1 no-underline!"
    >
      {content}
    </a>
  );
}

/** Only what passed always, and by the answer, is good; what never passed is bad. */
function toneOf({ passed, scored, unscored, trials }: SideRate): string {
  if (passed === 0) return "text-fail";
  return passed === scored && unscored === 0 && byResultText(trials) === "" ? "text-pass" : "";
}

function countTitle({ passed, scored, unscored, trials }: SideRate): string {
  const byResult = byResultText(trials);
  return [
    `${formatNumber(passed)} of ${counted(scored, "trial")} with a verdict passed`,
    ...(unscored === 0 ? [] : [`${counted(unscored, "trial")} without a verdict`]),
    ...(byResult === "" ? [] : [byResult]),
  ].join("; ");
}
