import type { Task } from "../../core/formats/model.ts";
import type { RunEnd } from "../../core/report/reporter.ts";
import type { TrialResult } from "../../core/report/result.ts";
import { readEvidence } from "../format/evidence-rows.ts";
import { explainBroken, explainGrades } from "../format/explain-trial.ts";
import { fullTitle, varietyOf, variantName, type Variety } from "../format/names.ts";
import { countOf, formatInteger } from "../format/numbers.ts";
import { paintText, type Page } from "../format/rows.ts";
import { clipText } from "../format/clip.ts";

const shownTasks = 40;
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
  const shown = [...failed].slice(0, shownTasks);
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
