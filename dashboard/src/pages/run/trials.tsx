import { getRouteApi, Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import type { TrialRow } from "../../../../src/report/documents/documents.ts";
import { type Column, DataTable, numberColumn, type RowGroup } from "../../components/data-table.tsx";
import { ChoiceFilter, FilterBar, NoMatch, TextFilter } from "../../components/filters.tsx";
import { Count, Duration, Nothing, Percent, Tokens } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { EmptyState } from "../../components/states.tsx";
import { type Status, statusOf, statusOrder, VerdictBadge, wordOf } from "../../components/verdict-badge.tsx";
import { oneOf, type RawSearch, textOf } from "../../search.ts";
import { useShownRun } from "./layout.tsx";
import { byResultText, judgedOf, type TrialGroups, trialsByTask } from "./matrix.tsx";

const route = getRouteApi("/runs/$run/trials");

interface TrialsSearch {
  readonly text?: string | undefined;
  readonly verdict?: Status | undefined;
  readonly task?: string | undefined;
  readonly agent?: string | undefined;
  readonly variant?: string | undefined;
  readonly sort?: string | undefined;
}

export function trialsSearch(raw: RawSearch): TrialsSearch {
  return {
    text: textOf(raw["text"]),
    verdict: oneOf(raw["verdict"], statusOrder),
    task: textOf(raw["task"]),
    agent: textOf(raw["agent"]),
    variant: textOf(raw["variant"]),
    sort: textOf(raw["sort"]),
  };
}

/** A choice of more values is not help. */
const maxChoices = 500;

/** All trials, those of a task, agent and variant together; what did not pass comes first. */
export function TrialsView(): ReactElement {
  const { id, trials } = useShownRun();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const set = (change: Partial<TrialsSearch>): void =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const shown = useMemo(() => trials.filter((trial) => isShown(trial, search)), [trials, search]);
  const groups = useMemo(() => groupsOf(shown), [shown]);
  // Of one attempt each, the heading would say what its row says.
  const isGrouped = search.sort === undefined && groups.some(({ length }) => length > 1);
  const columns = useMemo(() => columnsFor(id, trials, isGrouped), [id, trials, isGrouped]);
  const groupOf = useMemo(() => headingsOf(groups), [groups]);
  const { statuses, tasks, agents, variants } = useMemo(() => choicesOf(trials), [trials]);

  return (
    <>
      <FilterBar noun="trial" shown={shown.length} all={trials.length}>
        <TextFilter label="Filter by task or reason" value={search.text} onChange={(text) => set({ text })} />
        <ChoiceFilter
          label="Verdict"
          all="All verdicts"
          choices={statuses.map((value) => ({ value, title: wordOf(value) }))}
          value={search.verdict}
          onChange={(verdict) => set({ verdict: oneOf(verdict, statusOrder) })}
        />
        <NameFilter name="task" names={tasks} value={search.task} onChange={(task) => set({ task })} />
        <NameFilter name="agent" names={agents} value={search.agent} onChange={(agent) => set({ agent })} />
        <NameFilter
          name="variant"
          names={variants}
          value={search.variant}
          onChange={(variant) => set({ variant })}
        />
      </FilterBar>
      {trials.length === 0 ? (
        <EmptyState title="The run has no trials" />
      ) : shown.length === 0 ? (
        <NoMatch noun="trial" onReset={() => void navigate({ search: {} })} />
      ) : (
        <DataTable
          label="Trials"
          rows={isGrouped ? groups.flat() : shown}
          columns={columns}
          rowKey={(trial) => trial.id}
          sort={search.sort ?? (isGrouped ? undefined : "verdict")}
          groupOf={isGrouped ? groupOf : undefined}
          onSort={(sort) => set({ sort })}
        />
      )}
    </>
  );
}

/** Shown where there is something to choose. */
function NameFilter({
  name,
  names,
  value,
  onChange,
}: {
  readonly name: string;
  readonly names: readonly string[];
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}): ReactElement | null {
  if ((names.length < 2 || names.length > maxChoices) && value === undefined) return null;
  return (
    <ChoiceFilter
      label={`By ${name}`}
      all={`All ${name}s`}
      choices={(value === undefined || names.includes(value) ? names : [value, ...names]).map((each) => ({
        value: each,
      }))}
      value={value}
      onChange={onChange}
    />
  );
}

function choicesOf(trials: readonly TrialRow[]): {
  readonly statuses: readonly Status[];
  readonly tasks: readonly string[];
  readonly agents: readonly string[];
  readonly variants: readonly string[];
} {
  const found = new Set(trials.map(statusOf));
  const distinct = (name: "task" | "agent" | "variant"): readonly string[] =>
    [...new Set(trials.flatMap((trial) => trial[name] ?? []))].sort();
  return {
    statuses: statusOrder.filter((status) => found.has(status)),
    tasks: distinct("task"),
    agents: distinct("agent"),
    variants: distinct("variant"),
  };
}

function isShown(trial: TrialRow, { text, verdict, task, agent, variant }: TrialsSearch): boolean {
  if (verdict !== undefined && statusOf(trial) !== verdict) return false;
  if (task !== undefined && trial.task !== task) return false;
  if (agent !== undefined && trial.agent !== agent) return false;
  if (variant !== undefined && trial.variant !== variant) return false;
  if (text === undefined) return true;
  const wanted = text.toLowerCase();
  return [trial.task, trial.reason ?? ""].some((each) => each.toLowerCase().includes(wanted));
}

/** The place of the worst status of some trials in the order of statuses. */
function worstIn(trials: readonly TrialRow[]): number {
  return trials.reduce((least, trial) => Math.min(least, statusOrder.indexOf(statusOf(trial))), Infinity);
}

/** Trials by task, agent and variant, those groups first in which something did not pass. */
function groupsOf(trials: readonly TrialRow[]): TrialGroups {
  return trialsByTask(trials)
    .map((group) => ({ group, rank: worstIn(group) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ group }) => group);
}

/** What stands above each group: what its trials have in common, and how many of those with a verdict passed. */
function headingsOf(groups: TrialGroups): (trial: TrialRow) => RowGroup {
  const headings = new Map<TrialRow, RowGroup>();
  for (const group of groups) {
    const [first] = group;
    if (first === undefined) continue;
    const { judged, passed } = judgedOf(group);
    const byResult = byResultText(group);
    const more = [first.agent, first.variant].filter((each) => each !== undefined).join(" · ");
    const heading = (
      <span className="flex min-w-0 items-baseline gap-x-3">
        <PlainText text={first.task} hasTitle className="min-w-0 truncate font-medium" />
        {more !== "" && (
          <PlainText text={more} hasTitle className="text-muted max-w-[50%] shrink-0 truncate" />
        )}
        {judged > 0 && (
          <span className="text-muted shrink-0 tabular-nums">
            {passed}/{judged} passed
            {byResult !== "" && `, ${byResult}`}
          </span>
        )}
      </span>
    );
    const row = { key: `group of ${first.id}`, heading };
    for (const trial of group) headings.set(trial, row);
  }
  return (trial) => headings.get(trial) ?? { key: "", heading: "" };
}

/** Columns that no trial has something for, and what the heading of a group says, are left out. */
function columnsFor(
  run: string,
  trials: readonly TrialRow[],
  isGrouped: boolean,
): readonly Column<TrialRow>[] {
  const some = (name: keyof TrialRow): boolean => trials.some((trial) => trial[name] !== undefined);
  const hasAttempts = trials.some(({ attempt }) => attempt > 1);
  const columns: readonly (Column<TrialRow> & { readonly needs?: keyof TrialRow })[] = [
    {
      id: "task",
      title: "Task",
      value: ({ task }) => task,
      cell: ({ id, task, variant, attempt }) =>
        isGrouped ? (
          <Link to="/runs/$run/trials/$trial" params={{ run, trial: id }} className="font-medium">
            Attempt {attempt}
          </Link>
        ) : (
          <span className="flex min-w-0 gap-x-2">
            <Link
              to="/runs/$run/trials/$trial"
              params={{ run, trial: id }}
              className="min-w-0 truncate font-medium"
            >
              <PlainText text={task} hasTitle />
            </Link>
            {/* The columns that say it are out of sight on a phone. */}
            {(variant !== undefined || hasAttempts) && (
              <PlainText
                text={[variant, hasAttempts ? `#${attempt}` : undefined]
                  .filter((each) => each !== undefined)
                  .join(" ")}
                className="text-muted max-w-[50%] shrink-0 truncate sm:hidden"
              />
            )}
          </span>
        ),
    },
    {
      id: "verdict",
      title: "Verdict",
      value: (trial) => statusOrder.indexOf(statusOf(trial)),
      cell: (trial) => <VerdictBadge status={statusOf(trial)} />,
      width: 6.5,
    },
    ...(isGrouped
      ? []
      : [
          nameColumn("agent", "Agent"),
          nameColumn("variant", "Variant"),
          numberColumn<TrialRow>({
            id: "attempt",
            title: "Attempt",
            value: ({ attempt }) => attempt,
            as: Count,
            width: 4.5,
          }),
        ]),
    {
      ...numberColumn({ id: "score", title: "Score", value: ({ score }) => score, as: Percent, width: 4.5 }),
      needs: "score",
    },
    {
      ...numberColumn({
        id: "calls",
        title: "Calls",
        value: ({ toolCalls }) => toolCalls,
        as: Count,
        width: 4,
      }),
      needs: "toolCalls",
    },
    {
      ...numberColumn({ id: "tokens", title: "Tokens", value: tokensOf, as: Tokens, width: 4.5 }),
      needs: "inputTokens",
    },
    numberColumn({ id: "duration", title: "Duration", value: ({ durationMs }) => durationMs, as: Duration }),
    {
      id: "reason",
      title: "Reason",
      needs: "reason",
      cell: ({ reason }) => (reason === undefined ? "" : <PlainText text={reason} hasTitle />),
      width: 32,
    },
  ];
  return columns.filter(({ needs }) => needs === undefined || some(needs));
}

function tokensOf({ inputTokens, outputTokens = 0 }: TrialRow): number | undefined {
  return inputTokens === undefined ? undefined : inputTokens + outputTokens;
}

function nameColumn(
  name: "agent" | "variant",
  title: string,
): Column<TrialRow> & { readonly needs: keyof TrialRow } {
  return {
    id: name,
    title,
    needs: name,
    value: (trial) => trial[name],
    cell: (trial) => {
      const text = trial[name];
      return text === undefined ? <Nothing /> : <PlainText text={text} hasTitle />;
    },
    width: 7,
  };
}
