import {
  canHaveSolution,
  proofExitCode,
  type ProofProblem,
  type ProofStatus,
  type ProofTrial,
  type TaskProof,
  wasCutOff,
} from "./proof.ts";
import { nullAgentWarning } from "./result.ts";
import { countOf, visibleText, clipText } from "../base/visible-text.ts";
import { explainTrial } from "./explain.ts";
import {
  cutToWidth,
  displayWidth,
  padToWidth,
  type Page,
  paintFlow,
  paintText,
  type Piece,
  type Tone,
} from "../base/columns.ts";
import { describeMocks } from "./text.ts";
import { formatDuration } from "../base/duration.ts";

const maxNameWidth = 44;
const maxShownDifferences = 8;

const statuses: Readonly<
  Record<ProofStatus, { readonly mark: string; readonly tone: Tone; readonly text: string }>
> = {
  proven: { mark: "✓", tone: "good", text: "proven" },
  "not-proven": { mark: "✗", tone: "bad", text: "not proven" },
  open: { mark: "!", tone: "warn", text: "open" },
  skipped: { mark: "-", tone: "dim", text: "skipped" },
};

export interface ProofEnd {
  readonly proofs: readonly TaskProof[];
  readonly durationMs: number;
  readonly interrupted: boolean;
}

/** The proofs as lines: a table, the reasons for whatever is not right, warnings, and a summary. */
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
  const row = (name: string, cells: readonly Piece[]): string => {
    const painted = cells.map(({ text, tone = "plain" }) => style[tone](padToWidth(text, 11)));
    return `${padToWidth(name, nameWidth)}  ${painted.join("  ")}`.trimEnd();
  };
  const headings = ["null agent", "oracle", "state"].map((text): Piece => ({ text, tone: "dim" }));
  return [
    `    ${row("task", headings)}`,
    ...proofs.map((proof, index) => {
      const { mark, tone } = statuses[proof.status];
      return `  ${style[tone](mark)} ${row(names[index] ?? "", cellsOf(proof))}`;
    }),
  ];
}

function cellsOf({ task, nothing, oracle, status }: TaskProof): readonly Piece[] {
  if (status === "skipped") return [{ text: "skipped", tone: "dim" }];
  const isSolvable = task.portable?.solution !== undefined;
  const compared = [nothing, oracle].flatMap((trial) =>
    trial?.differences === undefined || wasCutOff(trial) ? [] : [trial.differences.length],
  );
  const isRestored = compared.every((count) => count === 0);
  return [
    verdictCell(nothing, "fail"),
    isSolvable
      ? verdictCell(oracle, "pass")
      : canHaveSolution(task)
        ? { text: "no solution", tone: "bad" }
        : { text: "-", tone: "dim" },
    compared.length === 0
      ? { text: "unknown", tone: "dim" }
      : { text: isRestored ? "restored" : "changed", tone: isRestored ? "good" : "bad" },
  ];
}

const verdictTexts = { pass: "passes", fail: "fails", error: "error", timeout: "timeout", skip: "no checks" };

function verdictCell(trial: ProofTrial | undefined, wanted: "pass" | "fail"): Piece {
  const { verdict = "skip", error } = trial?.result ?? {};
  if (trial === undefined || (verdict === "skip" && error !== undefined))
    return { text: "not run", tone: "warn" };
  const isOpposite = verdict === (wanted === "pass" ? "fail" : "pass");
  return { text: verdictTexts[verdict], tone: verdict === wanted ? "good" : isOpposite ? "bad" : "warn" };
}

function groupLines(title: string, proofs: readonly TaskProof[], status: ProofStatus, page: Page): string[] {
  const group = proofs.filter((proof) => proof.status === status);
  if (group.length === 0) return [];
  const { style } = page;
  const { mark, tone } = statuses[status];
  return [
    style.strong(title),
    ...group.flatMap((proof) => {
      const file = proof.task.location?.file;
      const place = file === undefined ? "" : style.dim(`  ${visibleText(file)}`);
      return [
        "",
        `  ${style[tone](mark)} ${style.strong(clipText(nameOf(proof), 120))}${place}`,
        ...proof.problems.flatMap((problem) => problemLines(problem, proof, page)),
        ...warningsOf(proof).flatMap((warning) => remarkLines(warning, 4, page)),
      ];
    }),
  ];
}

function nameOf({ task, variant }: TaskProof): string {
  return variant === undefined ? task.name : `${task.name} · ${variant}`;
}

const leads = { null: "null agent", repeating: "prompt repeated", oracle: "oracle", both: "both agents" };

/** A problem with the differences in the state, or why a trial failed or broke, as the report of a run shows it. */
function problemLines(
  { agent, kind, message, differences = [] }: ProofProblem,
  proof: TaskProof,
  page: Page,
): string[] {
  const lead = leads[agent];
  const leadTone: Tone = kind === "broken" || kind === "interrupted" ? "warn" : "bad";
  const rest = differences.length - maxShownDifferences;
  const trial = agent === "null" ? proof.nothing : proof.oracle;
  const isExplained = trial !== undefined && (kind === "fails" || kind === "broken");
  return [
    ...paintText({ text: `${lead}  ${clipText(message, 1000)}`, lead: lead.length, leadTone }, 4, page, 2),
    ...differences
      .slice(0, maxShownDifferences)
      .flatMap((difference) => paintText({ text: `- ${clipText(difference, 300)}` }, 6, page, 2)),
    ...(rest > 0 ? [page.style.dim(`      … and ${countOf(rest, "more difference")}`)] : []),
    ...(isExplained ? explainTrial(trial.result, trial.evidence, { indent: 6, page }) : []),
  ];
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

/** Warnings of proven tasks; those of others are shown with their problems. */
function warningLines(proofs: readonly TaskProof[], page: Page): string[] {
  const lines = proofs
    .filter(({ status }) => status === "proven")
    .flatMap((proof) => warningsOf(proof).map((warning) => `${clipText(nameOf(proof), 120)}: ${warning}`))
    .flatMap((text) => remarkLines(text, 2, page));
  return lines.length === 0 ? [] : [page.style.strong("Warnings"), "", ...lines];
}

/** Warnings of the oracle's trial, and of a null agent's that has a problem. */
function warningsOf({ nothing, oracle, problems }: TaskProof): readonly string[] {
  const reported = [...(problems.some(({ agent }) => agent === "null") ? [nothing] : []), oracle];
  const warnings = reported.flatMap((trial) =>
    trial === undefined || wasCutOff(trial) ? [] : (trial.result.warnings ?? []),
  );
  const changed = [nothing, oracle].flatMap((trial) => trial?.untouched ?? []).map(untouchedWarning);
  // A null agent that passes is a problem of its own.
  return [...new Set([...warnings, ...changed])].filter((warning) => warning !== nullAgentWarning);
}

/** Also in the JSON of `validate --run`. */
export function untouchedWarning(difference: string): string {
  return `changed during a trial, but not when it was repeated, so perhaps by something else: ${difference}`;
}

function remarkLines(text: string, indent: number, page: Page): string[] {
  return paintText({ text: `- ${clipText(text, 400)}`, tone: "dim" }, indent, page, 2);
}

const outcomes: Readonly<Record<0 | 1 | 3 | 130, readonly [string, Tone]>> = {
  0: ["PROVEN", "good"],
  1: ["NOT PROVEN", "bad"],
  3: ["OPEN", "warn"],
  130: ["INTERRUPTED", "warn"],
};

function summaryLines({ proofs, durationMs, interrupted }: ProofEnd, page: Page): string[] {
  const byStatus = Map.groupBy(proofs, ({ status }) => status);
  const counts = Object.entries(statuses).flatMap(([status, { text, tone }]): Piece[] => {
    const count = byStatus.get(status as ProofStatus)?.length ?? 0;
    return count === 0 ? [] : [{ text: `${count} ${text}`, tone }];
  });
  const code = proofExitCode(proofs, { interrupted });
  const [word, tone] = outcomes[code];
  const why = byStatus.has("open") ? "errors left it unproven" : "nothing could be tried";
  const exit = code === 0 ? "" : `  exit ${code}${code === 3 ? `: ${why}` : ""}`;
  const tasks = new Set(proofs.map(({ task }) => task.name)).size;
  const mocked = describeMocks(
    proofs.flatMap(({ nothing, oracle }) => [nothing, oracle]).flatMap((trial) => trial?.result ?? []),
  );
  const size: Piece = { text: `${countOf(tasks, "task")} in ${formatDuration(durationMs)}`, tone: "dim" };
  const mocks: readonly Piece[] =
    mocked === "" ? [] : [{ text: `mocks, not servers: ${mocked}`, tone: "dim" }];
  return [
    ...paintFlow([...counts, size, ...mocks], 2, page),
    "",
    ` ${page.style.badge(tone, word)}${exit}`.trimEnd(),
  ];
}
