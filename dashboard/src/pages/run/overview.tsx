import { alikeFindings } from "../../../../src/model/alike-findings.ts";
import { Link } from "@tanstack/react-router";
import { type ReactElement, useMemo } from "react";
import { decisionText } from "../../../../src/report/decisions.ts";
import { namesIn, rateOfTrials } from "../../../../src/report/documents/compare-runs.ts";
import { comparisonsOf } from "../../../../src/report/documents/compare-sides.ts";
import { trialsUnder } from "../../../../src/report/rates.ts";
import type { RunDocument, TrialRow } from "../../../../src/report/documents/documents.ts";
import { type Column, DataTable, numberColumn } from "../../components/data-table.tsx";
import { Count, Nothing } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { Said, Statements } from "../../components/statements.tsx";
import { EmptyState } from "../../components/states.tsx";
import { type Status, statusOf, VerdictBadge } from "../../components/verdict-badge.tsx";
import { counted, formatRange, formatRate } from "../../format.ts";
import { useDataSource } from "../../queries.ts";
import { FindingText } from "./findings.tsx";
import { gateName, gateValue, gateWanted, useShownRun } from "./layout.tsx";
import { byResultText, type TrialGroups, TrialMatrix, trialsByTask } from "./matrix.tsx";
import { RateTable, shownRates } from "./rates.tsx";

/** So many tasks that did not pass, or findings, are named at once. */
const maxShownNames = 5;

export function OverviewView(): ReactElement {
  const run = useShownRun();
  const groups = useMemo(() => trialsByTask(run.trials), [run.trials]);
  return (
    <>
      {run.gates !== undefined && <Gates gates={run.gates} />}
      {run.decisions !== undefined && <Decisions decisions={run.decisions} />}
      {run.comparison !== undefined && <WithBaseline comparison={run.comparison} />}
      {run.attacks !== undefined && <Attacks attacks={run.attacks} />}
      {run.kind === "check" ? <FirstFindings run={run} /> : <NotPassed run={run.id} groups={groups} />}
      {run.isAttacked !== true && <ByTask run={run} groups={groups} />}
    </>
  );
}

/** How often each task passed, and how agents or variants compare; its trials in a run that tries each task once, or goes on. */
function ByTask({ run, groups }: { readonly run: RunDocument; readonly groups: TrialGroups }): ReactElement {
  const rates = shownRates(run);
  if (rates === undefined)
    return (
      <Section title="Trials by task" aside={<PassRate run={run} />}>
        {run.trials.length === 0 ? (
          <EmptyState title="The run has no trials" />
        ) : (
          <TrialMatrix run={run.id} groups={groups} />
        )}
      </Section>
    );
  return (
    <>
      <RateTable run={run} rates={rates} groups={groups} />
      {run.decisions === undefined && <Sides run={run} />}
    </>
  );
}

type Gate = NonNullable<RunDocument["gates"]>[number];

const gateColumns: readonly Column<Gate>[] = [
  { id: "name", title: "Measured", cell: ({ name }) => <PlainText text={gateName(name)} hasTitle /> },
  { id: "verdict", title: "Verdict", cell: ({ verdict }) => <VerdictBadge status={verdict} />, width: 7 },
  {
    id: "value",
    title: "Value",
    align: "right",
    cell: (gate) => (gate.value === null ? <Nothing /> : gateValue(gate)),
    width: 6,
  },
  { id: "threshold", title: "Wanted", align: "right", cell: gateWanted, width: 8 },
  numberColumn({ id: "trials", title: "Trials", value: ({ trials }) => trials, as: Count }),
];

function Gates({ gates }: { readonly gates: readonly Gate[] }): ReactElement {
  return (
    <Section title="Thresholds">
      <DataTable label="Thresholds" rows={gates} columns={gateColumns} rowKey={({ name }) => name} />
    </Section>
  );
}

type Attack = NonNullable<RunDocument["attacks"]>[number];

/** The columns of attacks; one in which nothing would stand is left out. */
function attackColumns(attacks: readonly Attack[]): readonly Column<Attack>[] {
  const agents = new Set(attacks.map(agentOf));
  const countColumn = (title: string, value: (row: Attack) => number): readonly Column<Attack>[] =>
    when(
      attacks.some((attack) => value(attack) > 0),
      {
        id: title,
        title,
        align: "right",
        width: 8,
        value,
        cell: (row: Attack) => (value(row) === 0 ? "0" : `${value(row)} of ${trialsUnder(row)}`),
      },
    );
  return [
    {
      id: "class",
      title: "Class",
      cell: ({ class: name }) =>
        name === undefined ? <strong>All attacks</strong> : <PlainText text={name} hasTitle />,
    },
    ...when(agents.size > 1, {
      id: "agent",
      title: "Agent",
      width: 8,
      cell: (row: Attack) => <PlainText text={agentOf(row)} hasTitle />,
    }),
    {
      id: "succeeded",
      title: "Succeeded",
      align: "right",
      width: 6,
      value: ({ succeeded }) => succeeded,
      cell: ({ succeeded, judged }) => (judged === 0 ? <Nothing /> : `${succeeded}/${judged}`),
    },
    shareColumn("rate", "Share", ({ rate }) => rate),
    ...countColumn("Not delivered", ({ notDelivered }) => notDelivered),
    ...countColumn("Proved nothing", ({ provedNothing }) => provedNothing),
    ...countColumn("Not judged", ({ unjudged }) => unjudged),
    shareColumn("with", "Tasks pass", ({ taskWith }) => taskWith),
    shareColumn("without", "Without attack", ({ taskWithout }) => taskWithout),
    ...when(
      attacks.some(({ furtherTools }) => furtherTools !== undefined),
      {
        id: "further",
        title: "Also called",
        cell: ({ furtherTools = [] }: Attack) =>
          furtherTools.length === 0 ? <Nothing /> : <PlainText text={furtherTools.join(", ")} hasTitle />,
      },
    ),
  ];
}

function when<Part>(isShown: boolean, part: Part): readonly Part[] {
  return isShown ? [part] : [];
}

function agentOf({ agent, variant }: Attack): string {
  return [agent ?? "no agent", ...(variant === undefined ? [] : [variant])].join(" · ");
}

function shareColumn(id: string, title: string, shareOf: (row: Attack) => Attack["rate"]): Column<Attack> {
  return {
    id,
    title,
    align: "right",
    width: 10,
    value: (row) => shareOf(row)?.value,
    cell: (row) => {
      const share = shareOf(row);
      if (share === undefined) return <Nothing />;
      return `${formatRate(share.value)} (${formatRange(share)})`;
    },
  };
}

/** What came of the attacks of a run, by class. */
function Attacks({ attacks }: { readonly attacks: readonly Attack[] }): ReactElement {
  return (
    <Section title="Attacks" aside={<span className="text-muted">shares with their 95% intervals</span>}>
      <DataTable
        label="Attacks"
        rows={attacks}
        columns={attackColumns(attacks)}
        rowKey={({ class: name, agent, variant }) => JSON.stringify([name, agent, variant])}
      />
    </Section>
  );
}

/** What `--until decided` was to find out. */
function Decisions({
  decisions,
}: {
  readonly decisions: NonNullable<RunDocument["decisions"]>;
}): ReactElement {
  return (
    <Section title={decisions.length === 1 ? "Decision" : "Decisions"}>
      <div className="panel px-3 py-2.5">
        <Statements
          statements={decisions.map((decision) => ({
            verdict: decision.verdict,
            text: decisionText(decision),
          }))}
        />
      </div>
    </Section>
  );
}

/** What is said of the run and the baseline that it was compared with. */
function WithBaseline({
  comparison,
}: {
  readonly comparison: NonNullable<RunDocument["comparison"]>;
}): ReactElement {
  return (
    <Section title="Compared with its baseline">
      <div className="panel">
        {comparison.compared.map((compared) => (
          <Said key={compared.name} comparison={comparison} compared={compared} />
        ))}
      </div>
    </Section>
  );
}

/** How the variants of the run compare with the first, or its agents. */
function Sides({ run: { id, trials } }: { readonly run: RunDocument }): ReactElement | null {
  const { runs } = useDataSource();
  const statements = useMemo(
    () => comparisonsOf(trials.filter(({ form }) => form !== "check")).flat(),
    [trials],
  );
  if (statements.length === 0) return null;
  return (
    <Section
      title={`${namesIn(trials, "variant").length > 1 ? "Variants" : "Agents"} compared`}
      // A report has no other page for it.
      aside={
        runs !== undefined && (
          <Link to="/compare" search={{ a: id }}>
            In full
          </Link>
        )
      }
    >
      <div className="panel px-3 py-2.5">
        <Statements statements={statements} />
      </div>
    </Section>
  );
}

/** The first tasks that did not pass, in the order of the plan, with the reason of an attempt. */
function NotPassed({
  run,
  groups,
}: {
  readonly run: string;
  readonly groups: TrialGroups;
}): ReactElement | null {
  const failed = useMemo(() => notPassed(groups), [groups]);
  if (failed.length === 0) return null;
  return (
    <Section
      title="First failures and errors"
      aside={
        failed.length > maxShownNames && (
          <Link to="/runs/$run/trials" params={{ run }}>
            All {counted(failed.length, "task")} that did not pass
          </Link>
        )
      }
    >
      <ul className="panel divide-line divide-y">
        {failed.slice(0, maxShownNames).map(({ first, count, attempts }) => (
          <li key={first.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-1.5">
            <VerdictBadge status={statusOf(first)} />
            <Link
              to="/runs/$run/trials/$trial"
              params={{ run, trial: first.id }}
              className="min-w-0 font-medium break-words"
            >
              <PlainText text={nameOf(first)} />
            </Link>
            {attempts > 1 && (
              <span className="text-muted">
                {count} of {attempts} attempts
              </span>
            )}
            {first.reason !== undefined && (
              <PlainText
                text={first.reason}
                className="text-muted line-clamp-2 min-w-0 grow basis-80 break-words"
              />
            )}
          </li>
        ))}
      </ul>
    </Section>
  );
}

interface FailedTask {
  readonly first: TrialRow;
  readonly count: number;
  readonly attempts: number;
}

const wentWrong: readonly Status[] = ["fail", "error", "timeout", "cut-off"];

function notPassed(groups: TrialGroups): readonly FailedTask[] {
  return groups.flatMap((group) => {
    const failed = group.filter((trial) => wentWrong.includes(statusOf(trial)));
    const [first] = failed;
    return first === undefined ? [] : [{ first, count: failed.length, attempts: group.length }];
  });
}

/** The worst findings of a check. */
function FirstFindings({ run: { id, findings } }: { readonly run: RunDocument }): ReactElement | null {
  const groups = useMemo(() => alikeFindings(findings), [findings]);
  if (groups.length === 0) return null;
  return (
    <Section
      title="What is wrong"
      aside={
        <Link to="/runs/$run/findings" params={{ run: id }}>
          All {counted(groups.length, "finding")}
        </Link>
      }
    >
      <ul className="panel divide-line divide-y">
        {groups.slice(0, maxShownNames).map((group, index) => (
          // oxlint-disable-next-line react/no-array-index-key
          <li key={index} className="px-3 py-2">
            <FindingText run={id} findings={group} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

function nameOf({ task, agent, variant }: TrialRow): string {
  return [task, agent, variant].filter((each) => each !== undefined).join(" · ");
}

/** The mean of the tasks' rates; counted here only for runs of older versions, and those that go on. */
function PassRate({ run: { kind, trials, passRate } }: { readonly run: RunDocument }): ReactElement | null {
  const rate = kind === "run" ? (passRate ?? rateOfTrials(trials)) : undefined;
  if (rate === undefined) return null;
  const byResult = byResultText(trials);
  return (
    <span className="text-muted">
      Pass rate {formatRate(rate.value)} (95% interval for these tasks {formatRate(rate.low)} to{" "}
      {formatRate(rate.high)}){byResult !== "" && `, ${byResult}`}
    </span>
  );
}
