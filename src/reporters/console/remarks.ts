import { wasNotRun } from "../../core/report/summarize.ts";
import type { TrialResult } from "../../core/report/result.ts";
import { clipText } from "../format/clip.ts";
import { fullTitle, varietyOf } from "../format/names.ts";
import { countOf } from "../format/numbers.ts";
import { paintText, type Page } from "../format/rows.ts";
import { trialName } from "./failures.ts";

const shownGroups = 20;
const characters = 400;
const shownNames = 12;

/** Trials that were skipped, by reason; those that lack what their tasks require with the names of the tasks. */
export function skippedLines(trials: readonly TrialResult[], page: Page): string[] {
  const skipped = trials.filter((trial) => trial.verdict === "skip");
  return remarks("Skipped", trials, Map.groupBy(skipped, skipReason), page);
}

/** What deserves a look though it changed no verdict, each warning once. */
export function warningLines(trials: readonly TrialResult[], page: Page): string[] {
  const byText = new Map<string, TrialResult[]>();
  for (const trial of trials) {
    for (const warning of new Set(trial.warnings)) {
      const others = byText.get(warning);
      if (others === undefined) byText.set(warning, [trial]);
      else others.push(trial);
    }
  }
  return remarks("Warnings", trials, byText, page);
}

function skipReason(trial: TrialResult): string {
  if (trial.error !== undefined) return trial.error.message;
  if (wasNotRun(trial)) return "not run";
  return [...new Set(trial.grades.map((grade) => grade.reason))].join("; ");
}

function remarks(
  title: string,
  trials: readonly TrialResult[],
  groups: ReadonlyMap<string, readonly TrialResult[]>,
  page: Page,
): string[] {
  if (groups.size === 0) return [];
  const variety = varietyOf(trials);
  const rest = groups.size - shownGroups;
  return [
    page.style.strong(title),
    "",
    ...[...groups].slice(0, shownGroups).flatMap(([text, group]) => {
      const [first] = group;
      const who =
        group.length > 1 || first === undefined ? countOf(group.length, "trial") : trialName(first, variety);
      const told = paintText({ text: `- ${who}: ${clipText(text, characters)}`, tone: "dim" }, 2, page, 2);
      const lack = group.length > 1 && first?.error?.code === "task/missing-requirement";
      return lack ? [...told, ...paintText({ text: tasksOf(group), tone: "dim" }, 4, page)] : told;
    }),
    ...(rest > 0 ? [page.style.dim(`  and ${countOf(rest, "more reason")}`)] : []),
  ];
}

/** The tasks that trials are of, each once. */
function tasksOf(trials: readonly TrialResult[]): string {
  const names = [...new Set(trials.map((trial) => clipText(fullTitle(trial), 80)))];
  const rest = names.length - shownNames;
  return `${names.slice(0, shownNames).join(", ")}${rest > 0 ? ` and ${countOf(rest, "more task")}` : ""}`;
}
