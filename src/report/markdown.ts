import { alikeFindings, countFindings } from "../model/alike-findings.ts";
import { countOf, visibleText, clipText, escapeMarkdown } from "../base/visible-text.ts";
import { clientTable } from "../check/client-table.ts";
import { partsOf } from "../model/check.ts";
import type { Task } from "../model/task.ts";
import { findingsOf, type RunFinding, type Severity } from "../model/finding.ts";
import { coverageGaps } from "./counters.ts";
import { type Reporter, reporterAtEnd, type ReporterOutput, type RunEnd } from "./reporter.ts";
import type { RunResult, TrialResult } from "../model/result.ts";
import { explainTrial } from "./explain.ts";
import { calledText, checkedServers, hasSeveralServers, placesText, serverText } from "./findings.ts";
import { comparedTrials, comparisonMarkdown } from "./comparison.ts";
import { comparisonsOf } from "./documents/compare-sides.ts";
import { decisionText } from "./decisions.ts";
import { measurementLines } from "./measurements.ts";
import {
  describeCost,
  describeCoverage,
  describeMocks,
  fullTitle,
  gapText,
  recordText,
  othersOf,
  optionalRemarks,
  remarkSubject,
  type Remarks,
  skipRemarks,
  trialReason,
  hasSeveral,
  variantName,
  varietyOf,
  verdictReason,
  warningRemarks,
  byResultSentence,
} from "./text.ts";
import { type Gate, formatMeasure, wantedText } from "./gates.ts";
import { formatDuration } from "../base/duration.ts";
import { createStyle, type Page } from "../base/columns.ts";
import { type RateRow, ratesByTask, totalRows, rateText, attackTable } from "./rate-text.ts";
import { taskKey } from "./rates.ts";

const maxShownFindings = 200;
const maxShownTrials = 40;
const maxShownMessage = 400;
const page: Page = { style: createStyle(false), width: Infinity };

/** Writes Markdown at the end, for pull requests and pages: the verdict, findings, and what failed, with its evidence. */
export function markdownReporter(output: ReporterOutput): Reporter {
  return reporterAtEnd((end, { tasks, coverage }) => output.write(markdownText(end, tasks, { coverage })));
}

/** The report of a run in Markdown; with `coverage` it lists what no trial used. */
export function markdownText(
  end: RunEnd,
  tasks: ReadonlyMap<string, Task>,
  { coverage }: { readonly coverage: boolean },
): string {
  const { result } = end;
  const { name, verdict, trials, durationMs, summary } = result;
  const findings = findingsOf(trials);
  const isCheck = trials.length > 0 && trials.every(({ form }) => form === "check");
  const naming = hasSeveralServers(trials);
  const cost = describeCost(result);
  const mocked = describeMocks(trials);
  const used = describeCoverage(result.coverage ?? {});
  const graded = recordText(result);
  const counts = Object.entries({
    passed: summary.pass,
    failed: summary.fail,
    errors: summary.error,
    timeouts: summary.timeout,
    skipped: summary.skip,
  }).flatMap(([word, count]) => (count === 0 ? [] : [`${count} ${word}`]));
  const facts = isCheck
    ? [countFindings(findings), ...calledText(tasks.values(), trials).map(plain)]
    : [
        ...counts,
        countOf(summary.total, "trial"),
        ...(cost === "" ? [] : [plain(cost)]),
        ...(mocked === "" ? [] : [`mocks: ${plain(mocked)}`]),
        ...(used === "" ? [] : [`used ${used}`]),
        ...(graded === "" ? [] : [plain(graded)]),
      ];
  const reason = verdictReason(result);
  const byResult = byResultSentence(trials);
  const sections = [
    [`# ${isCheck ? "mcpvals check" : `mcpvals: ${plain(name)}`}: ${verdict}`],
    [[...facts, formatDuration(durationMs)].join(" · ")],
    ...(reason === "" ? [] : [[plain(reason)]]),
    ...(byResult === "" ? [] : [[plain(`${byResult}.`)]]),
    gateTable(result.gates ?? []),
    isCheck ? [] : rateTable(result),
    isCheck ? [] : statementLines(result),
    result.comparison === undefined ? [] : [comparisonMarkdown(result.comparison)],
    ...[...checkedServers(tasks.values())].map(([server, about]) => [
      `**${plain(server)}**: ${plain(serverText(about))}`,
    ]),
    ...severitySections(findings, naming),
    clientSection(findings, naming),
    ...profileSections(trials),
    ...trialSections(end),
    ...remarkSections(trials),
    ...toolUseSections(result),
    ...(coverage && !isCheck ? coverageSections(result) : []),
  ];
  return `${sections
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join("\n"))
    .join("\n\n")}\n`;
}

function coverageSections(result: RunResult): (readonly string[])[] {
  const lines = coverageGaps(result).flatMap(({ server, isUsed, gaps }) => [
    `- **${plain(server)}**${isUsed ? "" : ": no test used it"}`,
    ...gaps.map((gap) => `  - ${plain(gapText(gap))}`),
  ]);
  return [["## Not used by any test"], lines.length === 0 ? ["nothing: everything listed was used"] : lines];
}

function codeCell(texts: readonly string[]): string {
  return texts.map((text) => `\`${plain(text)}\``).join(", ");
}

/** What servers touched, of each a table. */
function profileSections(trials: readonly TrialResult[]): (readonly string[])[] {
  return trials.flatMap(({ suite, grades }) =>
    grades.flatMap(({ profile }): (readonly string[])[] => {
      if (profile === undefined) return [];
      const parts = partsOf(profile).map(({ kind, name, touched: { read, write, run, connect } }) => ({
        kind,
        name: kind === undefined ? name : `${kind} ${plain(name)}`,
        cells: [read, write, run, connect],
      }));
      const isRow = ({ kind, cells }: (typeof parts)[number]): boolean =>
        kind === undefined || cells.some((each) => each.length > 0);
      const others = Map.groupBy(parts, (part) => (isRow(part) ? undefined : part.kind));
      const rest = [...others].flatMap(([kind, all]) =>
        kind === undefined ? [] : countOf(all.length, kind),
      );
      return [
        [`## What ${plain(suite ?? "the server")} touches`],
        [
          "| | reads | writes | starts | connects to |",
          "| --- | --- | --- | --- | --- |",
          ...parts.filter(isRow).map(({ name, cells }) => `| ${name} | ${cells.map(codeCell).join(" | ")} |`),
        ],
        ...(rest.length > 0 ? [[`${rest.join(", ")} more: nothing besides.`]] : []),
        ...(profile.watched === "files" ? [["Only changes of files were seen: there is no `strace`."]] : []),
      ];
    }),
  );
}

function gateTable(gates: readonly Gate[]): readonly string[] {
  if (gates.length === 0) return [];
  return [
    "| threshold | measured | wanted | trials | verdict |",
    "| --- | --- | --- | --- | --- |",
    ...gates.map(
      (gate) =>
        `| ${plain(gate.name)} | ${formatMeasure(gate)} | ${wantedText(gate)} | ${gate.trials} | ${gate.verdict} |`,
    ),
  ];
}

const headings: Readonly<Record<Severity, string>> = { error: "Errors", warning: "Warnings", info: "Info" };

function severitySections(findings: readonly RunFinding[], naming: boolean): (readonly string[])[] {
  return [...Map.groupBy(findings, ({ severity }) => severity)].flatMap(([severity, group]) => {
    const rows = alikeFindings(group);
    const rest = rows.length - maxShownFindings;
    const table = [
      "| where | what is wrong | what to do |",
      "| --- | --- | --- |",
      ...rows.slice(0, maxShownFindings).map((same) => {
        const [{ code, title, message, fix }] = same;
        const what = `${plain(title)} (${plain(code)}): ${plain(message)}`;
        return `| ${plain(placesText(same, naming))} | ${what} | ${plain(fix)} |`;
      }),
    ];
    return [
      [`## ${headings[severity]} (${rows.length})`],
      table,
      rest > 0 ? [`and ${countOf(rest, "more finding")}`] : [],
    ];
  });
}

function clientSection(findings: readonly RunFinding[], naming: boolean): readonly string[] {
  const rows = clientTable(findings, naming).slice(0, maxShownFindings);
  const [first] = rows;
  if (first === undefined) return [];
  const clients = Object.keys(first.effects);
  return [
    "## Clients",
    "",
    `| tool | ${clients.map(plain).join(" | ")} |`,
    `| --- |${" --- |".repeat(clients.length)}`,
    ...rows.map(({ tool, effects }) => `| ${plain(tool)} | ${Object.values(effects).join(" | ")} |`),
  ];
}

function toolUseSections(result: RunResult): (readonly string[])[] {
  const lines = measurementLines(result);
  return lines.length === 0 ? [] : [["## Use of tools"], lines.map((line) => `- ${plain(line)}`)];
}

const maxShownRows = 100;

/** Rates by task, those first of which not all attempts passed. */
function rateTable(result: RunResult): readonly string[] {
  const variety = varietyOf(result.trials);
  if (!hasSeveral(variety)) return [];
  if (result.attacks !== undefined) {
    const { head, rows } = attackTable(result, variety);
    const columns = rateCells(head);
    const lines = [columns, columns.map(() => "---"), ...rows.map(rateCells)];
    return [
      "Attacks, shares with their 95 % intervals:",
      "",
      ...lines.map((cells) => `| ${cells.filter((_, at) => columns[at] !== "").join(" | ")} |`),
    ];
  }
  const rows = ratesByTask(result.trials, variety);
  const sorted = rows.toSorted((a, b) => Number(b.isMixed) - Number(a.isMixed));
  const rest = rows.length - maxShownRows;
  // A run that is to decide something ends when it has.
  const interval = `95 % interval${result.decisions === undefined ? "" : ", as if the number of trials had been fixed"}`;
  const shown = [...sorted.slice(0, maxShownRows), ...totalRows(result, variety)].map(rateCells);
  const columns = ["task", "agent, variant", "passed", `rate (${interval})`, "time", "tokens", "cost", ""];
  // Prices are seldom known.
  const isKept = (column: number): boolean =>
    columns[column] !== "cost" || shown.some((cells) => cells[column] !== "");
  const line = (cells: readonly string[]): string =>
    `| ${cells.filter((_, column) => isKept(column)).join(" | ")} |`;
  return [
    line(columns),
    line(columns.map(() => "---")),
    ...shown.map(line),
    ...(rest > 0 ? ["", `and ${othersOf(rest, variety)}`] : []),
  ];
}

/** What the run decided; without decisions, how its variants or agents compare. */
function statementLines({ decisions, trials, attacks }: RunResult): readonly string[] {
  if (attacks !== undefined) return [];
  const statements =
    decisions?.map((decision) => ({ verdict: decision.verdict, text: decisionText(decision) })) ??
    comparisonsOf(comparedTrials(trials)).flat();
  return statements.map(({ verdict, text }) => `- **${verdict}**: ${escapeMarkdown(visibleText(text))}`);
}

function rateCells({ title, name, count, cells }: RateRow): readonly string[] {
  return [title, name, count, ...cells].map(plain);
}

/** A section for each task, agent and variant, with its rate and its first trial that failed. */
function trialSections({ result: { trials }, evidence }: RunEnd): (readonly string[])[] {
  const variety = { ...varietyOf(trials), attempts: false };
  const attempts = Map.groupBy(trials, taskKey);
  // What failed in a check is among the findings.
  const failed = trials.filter(({ verdict, form }) => verdict === "fail" && form !== "check");
  const broken = trials.filter(({ verdict }) => verdict === "error" || verdict === "timeout");
  const sectionOf = (heading: string, group: readonly TrialResult[]): (readonly string[])[] => {
    if (group.length === 0) return [];
    const byTask = [...Map.groupBy(group, taskKey)];
    const rest = byTask.length - maxShownTrials;
    const items = byTask.slice(0, maxShownTrials).flatMap(([key, [trial]]) => {
      if (trial === undefined) return [];
      const variant = variantName(trial, variety);
      const all = attempts.get(key) ?? [];
      const which = all.length > 1 ? `${rateText(all, " passed")}; ${trial.id}` : trial.id;
      const title = `${fullTitle(trial)}${variant === "" ? "" : ` · ${variant}`} (${which})`;
      const lines = explainTrial(trial, evidence.get(trial.id) ?? [], { indent: 0, page });
      return [
        [`### ${plain(title)}`],
        [plain(trialReason(trial))],
        lines.length === 0 ? [] : ["```text", ...lines.map((line) => line.replaceAll("```", "'''")), "```"],
      ];
    });
    return [
      [`## ${heading} (${group.length})`],
      ...items,
      rest > 0 ? [`and ${othersOf(rest, variety)}`] : [],
    ];
  };
  return [...sectionOf("Failed", failed), ...sectionOf("Not judged", broken)];
}

/** Sections of what the verdicts of the trials do not say: why some were skipped, warnings, and graders that are not required. */
function remarkSections(trials: readonly TrialResult[]): (readonly string[])[] {
  const variety = varietyOf(trials);
  const sections: Readonly<Record<string, Remarks>> = {
    Skipped: skipRemarks(trials),
    Warnings: warningRemarks(trials),
    "Not required": optionalRemarks(trials),
  };
  return Object.entries(sections).flatMap(([heading, remarks]) => {
    if (remarks.length === 0) return [];
    const rest = remarks.length - maxShownTrials;
    return [
      [`## ${heading}`],
      remarks
        .slice(0, maxShownTrials)
        .map(([text, group]) => `- ${plain(remarkSubject(group, variety))}: ${plain(text)}`),
      rest > 0 ? [`and ${countOf(rest, "more reason")}`] : [],
    ];
  });
}

/** Text that Markdown shows as it is, in one line. */
function plain(text: string): string {
  return escapeMarkdown(clipText(text, maxShownMessage));
}
