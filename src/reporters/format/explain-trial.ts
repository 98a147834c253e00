import { errorCatalogue, type ErrorCode } from "../../core/errors/catalogue.ts";
import type { SerializedError } from "../../core/errors/error.ts";
import type { Grade } from "../../core/grade/grader.ts";
import { quoteBar } from "../../core/text/visible-text.ts";
import { clipLines, clipText } from "./clip.ts";
import { brokenStepRows, type Evidence, evidenceRows, headlineOf } from "./evidence-rows.ts";
import { formatScore } from "./numbers.ts";
import { type Page, paintRows, paintText } from "./rows.ts";

const reasonCharacters = 1000;
const shownReason = { lines: 12, characters: reasonCharacters } as const;

/** Why a trial did not pass, as lines: every grade that is not a pass with its reason and evidence, then who passed. */
export function explainGrades(
  grades: readonly Grade[],
  evidence: Evidence,
  indent: number,
  page: Page,
): string[] {
  const told = grades.filter(({ verdict }) => verdict === "fail" || verdict === "error");
  const passed = grades.filter(({ verdict }) => verdict === "pass").map(({ grader }) => clipText(grader, 80));
  const tail = told.length === 0 || passed.length === 0 ? [] : [`passed: ${passed.join(", ")}`];
  return [
    ...told.flatMap((grade) => explainGrade(grade, evidence, indent, page)),
    ...tail.flatMap((text) => paintText({ text, tone: "dim" }, indent, page, 2)),
  ];
}

/** Why a trial could not be judged, as lines: its error, and the steps that did not do what they should. */
export function explainBroken(
  error: SerializedError,
  evidence: Evidence,
  indent: number,
  page: Page,
): string[] {
  return [
    ...explainError(error, indent, page),
    ...paintRows(brokenStepRows(error, evidence), indent + 2, page),
  ];
}

/** An error as lines: code and message, what to do, and supporting text such as stderr. */
function explainError(error: SerializedError, indent: number, page: Page): string[] {
  const [first = "", ...others] = clipLines(error.message, { lines: 12, characters: 2000 });
  const label = labelOf(error.code);
  const detail = clipLines(error.detail ?? "", { lines: 12, characters: 4000, keep: "tail" });
  const hint = error.hint ?? errorCatalogue[error.code].help;
  return [
    ...paintText(
      { text: `${error.code}  ${first}`, lead: error.code.length, leadTone: "warn" },
      indent,
      page,
      2,
    ),
    ...quoted(others, indent, page),
    ...paintText({ text: clipText(hint, reasonCharacters) }, indent, page, 2),
    ...(error.detail === undefined
      ? []
      : paintRows([{ label, pieces: detail.map((text) => ({ text })) }], indent + 2, page)),
  ];
}

/** Further lines of a text, which stand at the beginning of a line of the report. */
function quoted(lines: readonly string[], indent: number, page: Page): string[] {
  return lines.flatMap((line) => paintText({ text: `${quoteBar}${line}` }, indent + 2, page, 2));
}

/** What a server's error is supported by: the body of an HTTP answer, or the end of what the process wrote. */
function labelOf(code: ErrorCode): string {
  if (code === "server/http-status") return "answer";
  return code.startsWith("server/") ? "stderr" : "detail";
}

function explainGrade(grade: Grade, evidence: Evidence, indent: number, page: Page): string[] {
  const leadTone = grade.verdict === "error" ? "warn" : "bad";
  const score = grade.score === null ? "" : ` ${formatScore(grade.score)}`;
  const verdict = grade.verdict === "error" ? " gave no verdict" : score;
  const [reason = "", ...others] = clipLines(headlineOf(grade, evidence), shownReason);
  const head = `${clipText(grade.grader, 80)}${verdict}`;
  return [
    ...paintText({ text: `${head}  ${reason}`, lead: head.length, leadTone }, indent, page, 2),
    ...quoted(others, indent, page),
    ...(grade.error === undefined ? [] : explainError(grade.error, indent + 2, page)),
    ...paintRows(evidenceRows(grade, evidence), indent + 2, page),
  ];
}
