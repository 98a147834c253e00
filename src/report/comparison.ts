import { padToWidth, displayWidth, wrapText } from "../base/columns.ts";
import { McpvalsError } from "../base/error.ts";
import { withoutUndefined } from "../base/json.ts";
import { visibleText, escapeMarkdown } from "../base/visible-text.ts";
import type { ComparisonDocument, ComparedDocument } from "../model/comparison.ts";
import type { TrialResult } from "../model/result.ts";
import type { ComparedTrial, Kind } from "./documents/compare-runs.ts";
import {
  comparisonOf,
  type CompareSidesOptions,
  type NamedSide,
  refusalOf,
} from "./documents/compare-sides.ts";
import { agentUse, costOf, wasLeftOut } from "./rates.ts";
import {
  hasEnoughTasks,
  headline,
  nothingCommon,
  rangeText,
  rateText,
  toolLines,
} from "./documents/statements.ts";

/**
 * Compares sides with the first, and says what `--fail-on` makes of it. Throws `usage/invalid-option` for the same trials on two sides, and for sides with several
 * agents or variants of which none has a name that the other one has.
 */
export function compareSides(
  sides: readonly [NamedSide, ...NamedSide[]],
  options: CompareSidesOptions = {},
): ComparisonDocument {
  refuseIncomparable(sides, options.across);
  return comparisonOf(sides, options);
}

/** Throws what {@link compareSides} does; sides need only have the tasks, agents and variants that they will have. */
export function refuseIncomparable(sides: readonly [NamedSide, ...NamedSide[]], across?: Kind): void {
  const refusal = refusalOf(sides, across);
  if (refusal !== undefined)
    throw new McpvalsError("usage/invalid-option", refusal.message, { hint: refusal.hint });
}

/** Most tasks that are listed. */
const maxShownTasks = 20;
/** Where sentences begin, behind the longest verdict. */
const textColumn = 14;
const maxNameWidth = 40;

type TaskDocument = ComparedDocument["tasks"][number];

/** A comparison for people, wrapped to a width. */
export function comparisonText(document: ComparisonDocument, columns: number): string {
  const wrapped = (text: string, indent: number, hang = indent): readonly string[] =>
    wrapText(visibleText(text), columns - hang).map(
      (line, index) => " ".repeat(index === 0 ? indent : hang) + line,
    );
  const blocks = document.compared.map((compared) => [
    [...wrapped(headline(document, compared), 0, 2), ...compared.notes.flatMap((note) => wrapped(note, 2))],
    compared.statements.length === 0
      ? wrapped(nothingCommon, 2)
      : compared.statements.flatMap(({ verdict, text, changes = "" }) =>
          wrapText(visibleText(`${text} ${changes}`.trimEnd()), columns - textColumn).map(
            (line, at) => (at === 0 ? `  ${verdict}` : "").padEnd(textColumn) + line,
          ),
        ),
    rateLines(document.first, compared).flatMap((line) => wrapped(line, 2, 4)),
    toolLines(compared).flatMap((line) => wrapped(line, 2, 4)),
    taskLines(document.first, compared).flatMap((line) => wrapped(line, 2, 4)),
  ]);
  return blocks
    .map((sections) => sections.filter((lines) => lines.length > 0).map((lines) => lines.join("\n")))
    .map((sections) => sections.join("\n\n"))
    .join("\n\n");
}

type Rates = NonNullable<ComparedDocument["rates"]>["first"];

function rateLines(first: string, compared: ComparedDocument): readonly string[] {
  const { name: second, rates } = compared;
  if (rates === undefined) return [];
  const names = [first, second].map(visibleText);
  const width = Math.min(maxNameWidth, Math.max(...names.map(displayWidth)));
  const isKnown = hasEnoughTasks(compared);
  const line = (name: string | undefined, { theseTasks: these, tasksLikeThese: others }: Rates): string =>
    `${padToWidth(name ?? "", width)}  ${rateText(these)} on these tasks${others === undefined || !isKnown ? "" : `, ${rangeText(others)} for tasks like these`}`;
  return ["Pass rates, with 95 % intervals:", line(names[0], rates.first), line(names[1], rates.second)];
}

/** The tasks that are of interest: those that changed, and those that are not compared. */
function taskLines(first: string, { name, tasks }: ComparedDocument): readonly string[] {
  const moved = tasks.filter(({ difference = 0 }) => difference !== 0);
  const others = tasks.filter(({ difference }) => difference === undefined);
  const shown = [...moved, ...others].slice(0, maxShownTasks);
  const more = moved.length + others.length - shown.length;
  if (shown.length === 0) return [];
  return [
    "Tasks that changed or were not compared:",
    ...shown.map((task) => `${nameOf(task)}  ${changeText(task, first, name)}`),
    ...(more === 0 ? [] : [`… and ${more} more; all are in --format json`]),
  ];
}

function nameOf({ task, agent, variant }: TaskDocument): string {
  const rest = [agent, variant].filter((each) => each !== undefined);
  return rest.length === 0 ? task : `${task} (${rest.join(", ")})`;
}

function changeText({ first, second, changed }: TaskDocument, firstName: string, secondName: string): string {
  if (first === undefined) return `only in ${secondName}`;
  if (second === undefined) return `only in ${firstName}`;
  if (changed === true) return "not compared: the task, or how it is graded, is not the same";
  return `${countText(first)} → ${countText(second)}`;
}

function countText({ passed, scored, unscored, leftOut }: NonNullable<TaskDocument["first"]>): string {
  const parts = [
    ...(scored === 0 ? [] : [`${passed}/${scored}`]),
    ...(unscored === 0 ? [] : [`${unscored} without a verdict`]),
    ...(leftOut === 0 ? [] : [`${leftOut} skipped`]),
  ];
  return parts.join(", ");
}

function cell(text: string): string {
  return escapeMarkdown(visibleText(text));
}

/** A comparison in Markdown. */
export function comparisonMarkdown(document: ComparisonDocument): string {
  const { first } = document;
  const sections = document.compared.map((compared) => [
    [`## ${cell(headline(document, compared))}`],
    compared.notes.map(cell),
    compared.statements.length === 0
      ? [nothingCommon]
      : compared.statements.map(
          ({ verdict, text, changes = "" }) => `- **${verdict}**: ${cell(`${text} ${changes}`.trimEnd())}`,
        ),
    toolLines(compared).map((line, index) => (index === 0 ? line : `- ${cell(line)}`)),
    rateTable(first, compared)
      .map((cells) => `| ${cells.map(cell).join(" | ")} |`)
      .toSpliced(1, 0, "| --- | --- | --- |"),
    [
      `| task | ${cell(first)} | ${cell(compared.name)} |`,
      "| --- | --- | --- |",
      ...compared.tasks.map(
        (task) =>
          `| ${cell(nameOf(task))}${task.changed === true ? " (not the same task)" : ""} | ${task.first === undefined ? "-" : countText(task.first)} | ${task.second === undefined ? "-" : countText(task.second)} |`,
      ),
    ],
  ]);
  return sections
    .map((parts) =>
      parts.filter((lines) => lines.length > 1 || (lines[0]?.startsWith("|") !== true && lines.length > 0)),
    )
    .map((parts) => parts.map((lines) => lines.join("\n")).join("\n\n"))
    .join("\n\n");
}

/** Rows of a table of pass rates, with its heading; empty if nothing was measured on both sides. */
function rateTable(first: string, compared: ComparedDocument): readonly (readonly string[])[] {
  const { name: second, rates } = compared;
  if (rates === undefined) return [];
  const isKnown = hasEnoughTasks(compared);
  const row = (name: string, { theseTasks: these, tasksLikeThese: others }: Rates): readonly string[] => [
    name,
    rateText(these),
    others === undefined || !isKnown ? "-" : rangeText(others),
  ];
  return [
    ["pass rate", "on these tasks (95 % interval)", "for tasks like these"],
    row(first, rates.first),
    row(second, rates.second),
  ];
}

/** What a comparison needs of the trials of a run; a check has no pass rate. */
export function comparedTrials(trials: readonly TrialResult[]): readonly ComparedTrial[] {
  return trials.filter(({ form }) => form !== "check").map(comparedTrial);
}

function comparedTrial(result: TrialResult): ComparedTrial {
  const { task, suite, tool, agent, variant, verdict, reported, durationMs, usage, ran } = result;
  const known = usage?.isPartial === true ? undefined : usage;
  return withoutUndefined({
    task,
    suite,
    tool,
    agent,
    variant,
    verdict,
    reported,
    isLeftOut: wasLeftOut(result) ? (true as const) : undefined,
    // The times of its calls say nothing of how long it took.
    durationMs: reported === undefined ? durationMs : undefined,
    inputTokens: known?.inputTokens,
    outputTokens: known?.outputTokens,
    cost: costOf([agentUse(result)]),
    ran,
  });
}
