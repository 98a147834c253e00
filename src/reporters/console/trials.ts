import type { Task } from "../../core/formats/model.ts";
import type { Verdict } from "../../core/grade/grader.ts";
import type { Plan, Trial } from "../../core/plan/plan.ts";
import type { RunEnd } from "../../core/report/reporter.ts";
import type { TrialResult } from "../../core/report/result.ts";
import { wasNotRun } from "../../core/report/trial-result.ts";
import { visibleText } from "../../core/text/visible-text.ts";
import { explainBroken, explainGrades, readEvidence } from "../format/evidence.ts";
import {
  fullTitle,
  groupName,
  type Nameable,
  taskTitle,
  variantName,
  type Variety,
  varietyOf,
} from "../format/names.ts";
import {
  clipText,
  countOf,
  cutToWidth,
  displayWidth,
  formatDuration,
  formatInteger,
  padToWidth,
  type Page,
  paintText,
  type Tone,
} from "../format/text.ts";

/** How each verdict is marked. */
const verdictMarks: Readonly<Record<Verdict, { readonly mark: string; readonly tone: Tone }>> = {
  pass: { mark: "✓", tone: "good" },
  fail: { mark: "✗", tone: "bad" },
  error: { mark: "!", tone: "warn" },
  timeout: { mark: "!", tone: "warn" },
  skip: { mark: "-", tone: "dim" },
};

const maxNameWidth = 60;
const durationWidth = 9;

/** Writes one line for each finished trial, names and times in columns that hold for the whole run. */
export interface TrialLines {
  /** The lines to print for a result, a heading included where its group begins. */
  of(result: TrialResult): string[];
  /** A planned trial's name in one line, for progress. */
  readonly nameOf: (trial: Trial) => string;
}

/**
 * Lays out the lines of a run. Groups get headings when trials run one after the other; where several groups overlap, the
 * group's name stands before each task instead.
 */
export function createTrialLines(plan: Plan, { style, width }: Page): TrialLines {
  const variety = varietyOf(plan.trials);
  const tasks = new Map(plan.tasks.map((task) => [task.name, task]));
  const groups = new Set(plan.tasks.map(groupName));
  const unsaid = groups.size === 1 && (groups.has("workflows") || groups.has("tasks"));
  const headed = !unsaid && (plan.concurrency === 1 || groups.size === 1);
  const named = (trial: Trial): Nameable => ({ form: "workflow", ...tasks.get(trial.task), ...trial });
  const title = headed || unsaid ? taskTitle : fullTitle;
  const nameWidth = Math.min(
    plan.trials.reduce((most, trial) => Math.max(most, displayWidth(nameOf(named(trial)))), 0),
    maxNameWidth,
    Math.max(20, width - 24),
  );
  let group: string | undefined;

  function nameOf(trial: Nameable): string {
    const variant = variantName(trial, variety);
    return variant === "" ? title(trial) : `${title(trial)} · ${variant}`;
  }

  function headingOf(result: TrialResult): string[] {
    if (!headed || group === groupName(result)) return [];
    const first = group === undefined;
    group = groupName(result);
    return [...(first ? [] : [""]), `  ${style.strong(group)}`];
  }

  return {
    nameOf: (trial) => nameOf(named(trial)),
    of(result) {
      if (wasNotRun(result)) return [];
      const { mark, tone } = verdictMarks[result.verdict];
      const name = padToWidth(nameOf(result), nameWidth);
      const time = style.dim(formatDuration(result.durationMs).padStart(durationWidth));
      const note = noteOf(result);
      const remark = note === "" ? "" : `  ${style[tone](note)}`;
      const shown = result.verdict === "skip" ? style.dim(name) : name;
      return [...headingOf(result), `  ${style[tone](mark)} ${shown}  ${time}${remark}`];
    },
  };
}

function noteOf({ verdict, error }: TrialResult): string {
  switch (verdict) {
    case "pass":
    case "fail":
      return "";
    case "error":
      return error?.code ?? "no verdict";
    case "timeout":
      return "timeout";
    case "skip":
      return "skipped";
  }
}

const shownTasks = 30;
const maxTitleWidth = 50;
/** A wider table is hard to read also where lines have no end. */
const widestTable = 120;

interface Cell {
  passed: number;
  total: number;
  failed: number;
}

interface Row {
  readonly title: string;
  readonly cells: ReadonlyMap<string, Cell>;
}

type Table = Map<string, { readonly title: string; readonly cells: Map<string, Cell> }>;

/** How many attempts of each task passed, by agent and set of servers; nothing for a run of one of each and one attempt. */
export function byTaskLines(trials: readonly TrialResult[], page: Page): string[] {
  const variety = varietyOf(trials);
  if (!variety.agents && !variety.variants && !variety.attempts) return [];
  const { table, columns } = tabulate(trials, variety);
  const rows = [...table.values()];
  const mixed = rows.filter(({ cells }) => [...cells.values()].some((cell) => cell.passed < cell.total));
  const shown = rows.length <= shownTasks ? rows : mixed.slice(0, shownTasks);
  const layout = { columns, shown, page };
  return [
    ...(tableLines(layout) ?? listLines(layout)),
    ...restLines(rows.length, mixed.length, shown.length).map((line) => page.style.dim(line)),
  ];
}

interface Layout {
  readonly columns: readonly string[];
  readonly shown: readonly Row[];
  readonly page: Page;
}

/** A row a task; undefined where that is wider than the page. */
function tableLines({ columns, shown, page }: Layout): string[] | undefined {
  const { style, width } = page;
  const widest = widestOf(shown.map((row) => displayWidth(row.title)));
  const titleWidth = Math.min(maxTitleWidth, Math.max(7, widest));
  const widths = columns.map((name) =>
    Math.max(displayWidth(name), widestOf(shown.map(({ cells }) => cellText(cells.get(name)).length))),
  );
  const total = widths.reduce((sum, each) => sum + each + 2, titleWidth + 2);
  if (total > Math.min(width, widestTable) && columns.length > 1) return undefined;
  const headings = columns.map((name, index) => padToWidth(name, widths[index] ?? 0)).join("  ");
  return [
    `${style.strong(padToWidth("By task", titleWidth + 2))}  ${style.dim(headings.trimEnd())}`.trimEnd(),
    "",
    ...shown.map(({ title, cells }) => {
      const painted = columns.map((name, index) => {
        const cell = cells.get(name);
        return style[cellTone(cell)](padToWidth(cellText(cell), widths[index] ?? 0));
      });
      return `  ${padToWidth(cutToWidth(title, titleWidth), titleWidth)}  ${painted.join("  ")}`.trimEnd();
    }),
  ];
}

/** A call takes only so many arguments, so not all at once. */
function widestOf(widths: readonly number[]): number {
  return widths.reduce((widest, width) => Math.max(widest, width), 0);
}

/** A block a task, with a line for each column. */
function listLines({ columns, shown, page: { style, width } }: Layout): string[] {
  const nameWidth = Math.min(Math.max(20, width - 20), widestOf(columns.map(displayWidth)));
  const blocks = shown.flatMap(({ title, cells }) => [
    `  ${cutToWidth(title, width - 4)}`,
    ...columns.flatMap((name) => {
      const cell = cells.get(name);
      if (cell === undefined) return [];
      const padded = padToWidth(cutToWidth(name, nameWidth), nameWidth);
      return [`    ${style.dim(padded)}  ${style[cellTone(cell)](cellText(cell))}`];
    }),
  ]);
  return [style.strong("By task"), "", ...blocks];
}

function tabulate(
  trials: readonly TrialResult[],
  variety: Variety,
): { readonly table: Table; readonly columns: string[] } {
  const table: Table = new Map();
  const columns = new Set<string>();
  for (const trial of trials) {
    const column = columnOf(trial, variety);
    columns.add(column);
    const row = table.get(trial.task) ?? { title: fullTitle(trial), cells: new Map<string, Cell>() };
    table.set(trial.task, row);
    const cell = row.cells.get(column) ?? { passed: 0, total: 0, failed: 0 };
    row.cells.set(column, cell);
    cell.total += 1;
    if (trial.verdict === "pass") cell.passed += 1;
    if (trial.verdict === "fail") cell.failed += 1;
  }
  return { table, columns: [...columns] };
}

function columnOf({ agent, variant }: TrialResult, { agents }: Variety): string {
  const who = agent === null ? "no agent" : visibleText(agent);
  if (variant === undefined) return who;
  return agents || agent === null ? `${who} · ${visibleText(variant)}` : visibleText(variant);
}

function cellText(cell: Cell | undefined): string {
  if (cell === undefined) return "";
  const unjudged = cell.total - cell.passed - cell.failed;
  const note = unjudged === 0 ? "" : `, ${formatInteger(unjudged)} not judged`;
  return `${cell.passed}/${cell.total}${note}`;
}

function cellTone(cell: Cell | undefined): Tone {
  if (cell === undefined) return "dim";
  if (cell.failed > 0) return "bad";
  return cell.passed === cell.total ? "good" : "warn";
}

function restLines(all: number, mixed: number, shown: number): string[] {
  if (shown === all) return [];
  const hidden = mixed - shown;
  const passed = all - mixed;
  return [
    ...(hidden > 0 ? [`  and ${countOf(hidden, "more task")} with attempts that did not pass`] : []),
    ...(passed > 0 ? [`  and ${countOf(passed, "task")} of which every attempt passed`] : []),
  ];
}

const shownFailures = 40;
const shownReasons = 3;
const shownErrors = 20;
const shownNames = 4;

/** What the report at the end is made from. */
export interface Ending {
  readonly end: RunEnd;
  readonly tasks: ReadonlyMap<string, Task>;
  readonly page: Page;
}

/** The tasks that failed, each with why and the evidence; attempts that failed in the same way are told once. */
export function failedLines(ending: Ending): string[] {
  const { trials } = ending.end.result;
  const variety = varietyOf(trials);
  const failed = Map.groupBy(
    trials.filter((trial) => trial.verdict === "fail"),
    taskAndAgent,
  );
  if (failed.size === 0) return [];
  const attempts = variety.attempts ? countAttempts(trials) : new Map<string, Attempts>();
  const shown = [...failed].slice(0, shownFailures);
  const rest = failed.size - shown.length;
  return [
    ending.page.style.strong("Failed"),
    ...shown.flatMap(([key, group]) => ["", ...failedTask(group, variety, attempts.get(key), ending)]),
    ...(rest > 0 ? ["", `  and ${countOf(rest, "more failed task")}, marked ✗ above`] : []),
  ];
}

interface Attempts {
  readonly passed: number;
  readonly total: number;
}

function countAttempts(trials: readonly TrialResult[]): Map<string, Attempts> {
  const counts = new Map<string, Attempts>();
  for (const trial of trials) {
    const key = taskAndAgent(trial);
    const { passed, total } = counts.get(key) ?? { passed: 0, total: 0 };
    counts.set(key, { passed: passed + (trial.verdict === "pass" ? 1 : 0), total: total + 1 });
  }
  return counts;
}

function taskAndAgent({ task, agent, variant }: TrialResult): string {
  return JSON.stringify([task, agent, variant]);
}

function failedTask(
  group: readonly TrialResult[],
  variety: Variety,
  attempts: Attempts | undefined,
  ending: Ending,
): string[] {
  const [first] = group;
  if (first === undefined) return [];
  const { style } = ending.page;
  const agent = variantName(first, { ...variety, attempts: false });
  const share = attempts === undefined ? "" : `  ${attempts.passed}/${attempts.total} passed`;
  const name = `${fullTitle(first)}${agent === "" ? "" : ` · ${agent}`}`;
  const id = attempts === undefined ? `  ${first.id}` : "";
  const alike = [...Map.groupBy(group, reasonKey).values()];
  const rest = alike.slice(shownReasons).flat().length;
  return [
    `  ${style.bad("✗")} ${style.strong(name)}${style.dim(share + id)}`,
    ...alike
      .slice(0, shownReasons)
      .flatMap((trials) => [
        ...(attempts === undefined ? [] : [style.dim(`    ${attemptsOf(trials)}`)]),
        ...explainFirst(trials, ending),
      ]),
    ...(rest > 0 ? [style.dim(`    and ${countOf(rest, "more attempt")} that failed in other ways`)] : []),
  ];
}

function attemptsOf(trials: readonly TrialResult[]): string {
  const numbers = listOf(trials.map((trial) => String(trial.attempt)));
  return `attempt${trials.length === 1 ? "" : "s"} ${numbers}  ${listOf(trials.map((trial) => trial.id))}`;
}

/** Trials with equal keys failed for the same reasons. */
function reasonKey({ grades, error }: TrialResult): string {
  const told = grades.filter(({ verdict }) => verdict === "fail" || verdict === "error");
  return JSON.stringify([error?.code, error?.message, told.map((grade) => [grade.grader, grade.reason])]);
}

function explainFirst(trials: readonly TrialResult[], { end, tasks, page }: Ending): string[] {
  const [trial] = trials;
  if (trial === undefined) return [];
  const evidence = readEvidence(end.evidence.get(trial.id) ?? [], trial, tasks.get(trial.task));
  if (trial.error !== undefined) return explainBroken(trial.error, evidence, 4, page);
  return explainGrades(trial.grades, evidence, 4, page);
}

/** The trials that could not be judged; those that broke in the same way are told once. */
export function errorLines(ending: Ending): string[] {
  const { trials } = ending.end.result;
  const broken = trials.filter(({ verdict }) => verdict === "error" || verdict === "timeout");
  if (broken.length === 0) return [];
  const { style } = ending.page;
  const variety = varietyOf(trials);
  const groups = [...Map.groupBy(broken, reasonKey).values()];
  const rest = groups.slice(shownErrors).flat().length;
  const note = "not judged: the environment broke or time ran out";
  return [
    `${style.strong("Errors")}  ${style.dim(note)}`,
    ...groups
      .slice(0, shownErrors)
      .flatMap((group) => [
        "",
        ...brokenHeading(group, variety, ending.page),
        ...explainFirst(group, ending),
      ]),
    ...(rest > 0 ? ["", `  and ${countOf(rest, "more trial")}, marked ! above`] : []),
  ];
}

function brokenHeading(group: readonly TrialResult[], variety: Variety, page: Page): string[] {
  const { style } = page;
  const names = group.slice(0, shownNames).map((trial) => trialName(trial, variety));
  const [first] = group;
  if (group.length === 1 && first !== undefined) {
    return [`  ${style.warn("!")} ${style.strong(names.join(""))}  ${style.dim(first.id)}`];
  }
  const more = group.length > shownNames ? `, and ${formatInteger(group.length - shownNames)} more` : "";
  return [
    `  ${style.warn("!")} ${style.strong(countOf(group.length, "trial"))}`,
    ...paintText({ text: `${names.join(", ")}${more}`, tone: "dim" }, 4, page, 2),
  ];
}

/** A trial's name in one piece. */
export function trialName(trial: TrialResult, variety: Variety): string {
  const variant = variantName(trial, variety);
  return clipText(variant === "" ? fullTitle(trial) : `${fullTitle(trial)} · ${variant}`, 120);
}

function listOf(items: readonly string[]): string {
  const most = 8;
  if (items.length <= most) return items.join(", ");
  return `${items.slice(0, most).join(", ")} and ${formatInteger(items.length - most)} more`;
}
