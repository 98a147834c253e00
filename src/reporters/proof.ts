import {
  proofExitCode,
  type ProofProblem,
  type ProofStatus,
  type ProofTrial,
  type TaskProof,
  wasCutOff,
} from "../core/report/proof.ts";
import { nullAgentWarning } from "../core/report/trial-result.ts";
import { visibleText } from "../core/text/visible-text.ts";
import {
  clipText,
  countOf,
  cutToWidth,
  displayWidth,
  formatDuration,
  padToWidth,
  type Page,
  paintFlow,
  paintText,
  type Piece,
  type Tone,
} from "./format/text.ts";
import { explainBroken, explainGrades, readEvidence } from "./format/evidence.ts";
import { describeMocks } from "./format/names.ts";

const maxNameWidth = 44;
const shownDifferences = 8;

const marks: Readonly<Record<ProofStatus, { readonly mark: string; readonly tone: Tone }>> = {
  proven: { mark: "✓", tone: "good" },
  "not-proven": { mark: "✗", tone: "bad" },
  open: { mark: "!", tone: "warn" },
  skipped: { mark: "-", tone: "dim" },
};

/** What came of proving tasks. */
export interface ProofEnd {
  readonly proofs: readonly TaskProof[];
  readonly durationMs: number;
  readonly interrupted: boolean;
}

/** What came of proving tasks, as lines: a table, the reasons for whatever is not right, and what deserves a look. */
export function proofLines(end: ProofEnd, page: Page): string[] {
  const { proofs } = end;
  const parts = [
    tableLines(proofs, page),
    groupLines("Not proven", proofs, "not-proven", page),
    groupLines("Open", proofs, "open", page),
    skippedLines(proofs, page),
    warningLines(proofs, page),
    summaryLines(end, page),
  ];
  return parts
    .filter((part) => part.length > 0)
    .flatMap((part, index) => (index === 0 ? part : ["", ...part]));
}

function tableLines(proofs: readonly TaskProof[], { style, width }: Page): string[] {
  const room = Math.min(maxNameWidth, Math.max(16, width - 46));
  const names = proofs.map((proof) => cutToWidth(visibleText(nameOf(proof)), room));
  const nameWidth = names.reduce((widest, name) => Math.max(widest, displayWidth(name)), 4);
  const row = (name: string, cells: readonly Piece[]): string =>
    `${padToWidth(name, nameWidth)}  ${cells.map(({ text, tone }) => style[tone ?? "plain"](padToWidth(text, 11))).join("  ")}`.trimEnd();
  const heading = row(
    "task",
    ["null agent", "oracle", "state"].map((text): Piece => ({ text, tone: "dim" })),
  );
  return [
    `    ${heading}`,
    ...proofs.map((proof, index) => {
      const { mark, tone } = marks[proof.status];
      return `  ${style[tone](mark)} ${row(names[index] ?? "", cellsOf(proof))}`;
    }),
  ];
}

function cellsOf({ task, nothing, oracle, status }: TaskProof): readonly Piece[] {
  if (status === "skipped") return [{ text: "skipped", tone: "dim" }];
  const isSolvable = task.portable?.solution !== undefined;
  return [
    verdictCell(nothing, "fail"),
    isSolvable ? verdictCell(oracle, "pass") : { text: "no solution", tone: "bad" },
    stateCell([nothing, oracle]),
  ];
}

const verdictWords = {
  pass: "passes",
  fail: "fails",
  error: "error",
  timeout: "timeout",
  skip: "no checks",
} as const;

function verdictCell(trial: ProofTrial | undefined, wanted: "pass" | "fail"): Piece {
  if (trial === undefined) return { text: "not run", tone: "warn" };
  const { verdict, error } = trial.result;
  if (verdict === "skip" && error !== undefined) return { text: "not run", tone: "warn" };
  const tone: Tone =
    verdict === wanted ? "good" : verdict === "error" || verdict === "timeout" ? "warn" : "bad";
  return { text: verdictWords[verdict], tone };
}

function stateCell(trials: readonly (ProofTrial | undefined)[]): Piece {
  const looked = trials.flatMap((trial) =>
    trial?.differences === undefined || wasCutOff(trial) ? [] : [trial.differences.length],
  );
  if (looked.length === 0) return { text: "unknown", tone: "dim" };
  return looked.every((count) => count === 0)
    ? { text: "restored", tone: "good" }
    : { text: "changed", tone: "bad" };
}

function groupLines(title: string, proofs: readonly TaskProof[], status: ProofStatus, page: Page): string[] {
  const group = proofs.filter((proof) => proof.status === status);
  if (group.length === 0) return [];
  const { style } = page;
  const { mark, tone } = marks[status];
  return [
    style.strong(title),
    ...group.flatMap((proof) => [
      "",
      `  ${style[tone](mark)} ${style.strong(clipText(nameOf(proof), 120))}${style.dim(placeOf(proof))}`,
      ...proof.problems.flatMap((problem) => problemLines(problem, proof, page)),
      ...warningsOf(proof).flatMap((warning) => remarkLines(warning, 4, page)),
    ]),
  ];
}

function nameOf({ task, variant }: TaskProof): string {
  return variant === undefined ? task.name : `${task.name} · ${variant}`;
}

function placeOf({ task }: TaskProof): string {
  const file = task.location?.file;
  return file === undefined ? "" : `  ${visibleText(file)}`;
}

const leads = {
  null: "null agent",
  repeating: "prompt repeated",
  oracle: "oracle",
  both: "both agents",
} as const;

function problemLines(problem: ProofProblem, proof: TaskProof, page: Page): string[] {
  const lead = leads[problem.agent];
  const tone: Tone = problem.kind === "broken" || problem.kind === "interrupted" ? "warn" : "bad";
  const text = `${lead}  ${clipText(problem.message, 1000)}`;
  const { differences = [] } = problem;
  const rest = differences.length - shownDifferences;
  return [
    ...paintText({ text, lead: lead.length, leadTone: tone }, 4, page, 2),
    ...differences
      .slice(0, shownDifferences)
      .flatMap((difference) => paintText({ text: `- ${clipText(difference, 300)}` }, 6, page, 2)),
    ...(rest > 0 ? [page.style.dim(`      … and ${countOf(rest, "more difference")}`)] : []),
    ...evidenceLines(problem, proof, page),
  ];
}

/** Why a trial failed or broke, as the report of a run shows it. */
function evidenceLines(
  { kind, agent }: ProofProblem,
  { task, nothing, oracle }: TaskProof,
  page: Page,
): string[] {
  const trial = agent === "null" ? nothing : oracle;
  if (trial === undefined || (kind !== "fails" && kind !== "broken")) return [];
  const { result } = trial;
  const evidence = readEvidence(trial.evidence, result, task);
  return result.error === undefined
    ? explainGrades(result.grades, evidence, 6, page)
    : explainBroken(result.error, evidence, 6, page);
}

function skippedLines(proofs: readonly TaskProof[], page: Page): string[] {
  const skipped = proofs.filter(({ status }) => status === "skipped");
  if (skipped.length === 0) return [];
  const byReason = Map.groupBy(skipped, ({ nothing }) => nothing?.result.error?.message ?? "");
  return [
    page.style.strong("Skipped"),
    "",
    ...[...byReason].flatMap(([reason, group]) => {
      const names = clipText(group.map(nameOf).join(", "), 400);
      return paintText({ text: `- ${names}: ${clipText(reason, 400)}`, tone: "dim" }, 2, page, 2);
    }),
  ];
}

/** Warnings of tasks that have no place above. */
function warningLines(proofs: readonly TaskProof[], page: Page): string[] {
  const lines = proofs
    .filter(({ status }) => status === "proven")
    .flatMap((proof) => warningsOf(proof).map((warning) => `${clipText(nameOf(proof), 120)}: ${warning}`))
    .flatMap((text) => remarkLines(text, 2, page));
  return lines.length === 0 ? [] : [page.style.strong("Warnings"), "", ...lines];
}

/** What deserves a look in the oracle's trial, where all should go well; and in that of a null agent that is not as it should be. */
function warningsOf({ nothing, oracle, problems }: TaskProof): readonly string[] {
  const told = [...(problems.some(({ agent }) => agent === "null") ? [nothing] : []), oracle];
  const trials = told.filter((trial) => trial !== undefined && !wasCutOff(trial));
  const changed = [nothing, oracle].flatMap((trial) => trial?.untouched ?? []).map(untouchedWarning);
  const warnings = trials.flatMap((trial) => trial?.result.warnings ?? []);
  // A problem of its own says so.
  return [...new Set([...warnings, ...changed])].filter((warning) => warning !== nullAgentWarning);
}

/** Also in the JSON of `validate --run`. */
export function untouchedWarning(difference: string): string {
  return `changed during a trial, but not when it was repeated, so perhaps by something else: ${difference}`;
}

function remarkLines(text: string, indent: number, page: Page): string[] {
  return paintText({ text: `- ${clipText(text, 400)}`, tone: "dim" }, indent, page, 2);
}

function summaryLines({ proofs, durationMs, interrupted }: ProofEnd, page: Page): string[] {
  const count = (status: ProofStatus): number => proofs.filter((proof) => proof.status === status).length;
  const words = { proven: "proven", "not-proven": "not proven", open: "open", skipped: "skipped" } as const;
  const counts = (["proven", "not-proven", "open", "skipped"] as const).flatMap((status): Piece[] =>
    count(status) === 0 ? [] : [{ text: `${count(status)} ${words[status]}`, tone: marks[status].tone }],
  );
  const code = proofExitCode(proofs, { interrupted });
  const word = { 0: "PROVEN", 1: "NOT PROVEN", 3: "OPEN", 130: "INTERRUPTED" }[code];
  const tone = { 0: "good", 1: "bad", 3: "warn", 130: "warn" } as const;
  const why =
    code === 3 ? `: ${count("open") > 0 ? "errors left it unproven" : "nothing could be tried"}` : "";
  const size: Piece = {
    text: `${countOf(new Set(proofs.map(({ task }) => task.name)).size, "task")} in ${formatDuration(durationMs)}`,
    tone: "dim",
  };
  const trials = proofs
    .flatMap(({ nothing, oracle }) => [nothing, oracle])
    .flatMap((trial) => trial?.result ?? []);
  const mocked = describeMocks(trials);
  const mocks: readonly Piece[] =
    mocked === "" ? [] : [{ text: `mocks, not servers: ${mocked}`, tone: "dim" }];
  return [
    ...paintFlow([...counts, size, ...mocks], 2, page),
    "",
    ` ${page.style.badge(tone[code], word)}${code === 0 ? "" : `  exit ${code}${why}`}`.trimEnd(),
  ];
}
