import { isJudged } from "../../../../src/report/rates.ts";
import { type ReactElement, useMemo } from "react";
import type { TrialRow } from "../../../../src/report/documents/documents.ts";
import { Attempts } from "../../components/attempts.tsx";
import { rowHeader } from "../../components/data-table.tsx";
import { LongTable } from "../../components/long-table.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { formatNumber, formatRate } from "../../format.ts";

/** Attempts of one task, agent and variant: those that fit in a line. */
interface MatrixRow {
  readonly key: string;
  readonly task: string;
  /** Agent and variant, as far as the run has several. */
  readonly more: string;
  /** Passes that rest on a tool's result; empty where none does. */
  readonly byResult: string;
  /** Absent where it says no more than the one attempt. */
  readonly passRate: number | undefined;
  readonly trials: readonly TrialRow[];
}

const attemptsInLine = 20;

/** A line for each task (with agent and variant), a cell for each attempt. */
export function TrialMatrix({
  run,
  groups,
}: {
  readonly run: string;
  readonly groups: TrialGroups;
}): ReactElement {
  const rows = useMemo(() => {
    // The head of the page names the only agent.
    const hasAgents = new Set(groups.map(([one]) => one?.agent)).size > 1;
    return groups.flatMap((group) => linesOf(group, hasAgents));
  }, [groups]);
  return (
    <LongTable
      label="Trials by task: a row for each task, a link for each attempt"
      columns={3}
      rows={rows}
      renderRow={(row, attributes) => (
        <tr key={row.key} {...attributes} className="hover:bg-raised group">
          <th
            scope="row"
            className={`border-line w-1/3 max-w-44 truncate border-b px-2 text-left font-normal group-last:border-b-0 sm:max-w-96 ${rowHeader}`}
          >
            {/* On a phone, too, some of both is in sight. */}
            <span className="flex gap-x-1.5">
              <PlainText text={row.task} hasTitle className="min-w-0 truncate font-medium" />
              {row.more !== "" && (
                <PlainText
                  text={row.more}
                  hasTitle
                  className="text-muted max-w-[60%] shrink-0 truncate sm:max-w-[70%]"
                />
              )}
            </span>
          </th>
          <td className="border-line text-muted w-16 border-b px-2 text-right max-sm:hidden tabular-nums group-last:border-b-0">
            {row.passRate === undefined ? "" : formatRate(row.passRate)}
          </td>
          <td className="border-line border-b px-2 group-last:border-b-0">
            <span className="flex items-center gap-x-3">
              <Attempts run={run} trials={row.trials} />
              {row.byResult !== "" && (
                <span className="text-muted shrink-0 whitespace-nowrap">{row.byResult}</span>
              )}
            </span>
          </td>
        </tr>
      )}
    />
  );
}

/** The attempts of each task, agent and variant. */
export type TrialGroups = readonly (readonly TrialRow[])[];

export function trialsByTask(trials: readonly TrialRow[]): TrialGroups {
  const groups = new Map<string, TrialRow[]>();
  let group: TrialRow[] = [];
  for (const trial of trials) {
    const [before] = group;
    // Most follow one of the same task, and need no key.
    if (before === undefined || !isSameTask(before, trial)) {
      const { task, suite, agent, variant } = trial;
      const key = JSON.stringify([task, suite, agent, variant]);
      group = groups.get(key) ?? [];
      groups.set(key, group);
    }
    group.push(trial);
  }
  return [...groups.values()];
}

/** Whether two trials are attempts of one task with one agent and variant. */
function isSameTask(a: TrialRow, b: TrialRow): boolean {
  return a.task === b.task && a.suite === b.suite && a.agent === b.agent && a.variant === b.variant;
}

/** How many trials have a verdict, and how many of these passed. */
export function judgedOf(trials: readonly TrialRow[]): { readonly judged: number; readonly passed: number } {
  const judged = trials.filter(isJudged);
  return { judged: judged.length, passed: judged.filter(({ verdict }) => verdict === "pass").length };
}

/** How many passes rest on a tool's result and not on the answer, in words; empty where none does. */
export function byResultText(trials: readonly TrialRow[]): string {
  const count = trials.filter(({ byToolResult }) => byToolResult === true).length;
  return count === 0 ? "" : `${formatNumber(count)} by the tool's result only`;
}

function linesOf(group: readonly TrialRow[], hasAgents: boolean): readonly MatrixRow[] {
  const { judged, passed } = judgedOf(group);
  const [one] = group;
  const more = [hasAgents ? one?.agent : undefined, one?.variant]
    .filter((each) => each !== undefined)
    .join(" · ");
  const count = Math.ceil(group.length / attemptsInLine);
  return Array.from({ length: count }, (_, line) => {
    const from = line * attemptsInLine;
    const part = group.slice(from, from + attemptsInLine);
    const range = count === 1 ? "" : `attempts ${from + 1} to ${from + part.length}`;
    return {
      key: `${one?.id ?? ""} ${line}`,
      task: one?.task ?? "",
      more: [more, range].filter((each) => each !== "").join(" · "),
      passRate: line === 0 && judged > 1 ? passed / judged : undefined,
      byResult: line === 0 ? byResultText(group) : "",
      trials: part,
    };
  });
}
