import type { Check } from "../../core/trace/events.ts";
import type { StepAttempt, StepRun } from "../../core/trace/step-runs.ts";
import { describeInput } from "../../core/report/step-input.ts";
import { checkRows } from "./check-rows.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import { clipLines, clipText } from "./clip.ts";
import { countOf, formatDuration } from "./numbers.ts";
import type { Piece, Row } from "./rows.ts";

const inputCharacters = 300;
const errorCharacters = 600;
const nameCharacters = 200;
const shownLines = 16;
const shownInner = 6;

/** A step that did not pass, or one inside it for whose sake it did not. */
export interface ToldStep {
  readonly rows: readonly Row[];
  /** Its name in the trace. */
  readonly step: string;
  /** Texts that the rows show. */
  readonly texts: readonly string[];
}

export interface StepTelling {
  readonly pathOf: (step: string) => string;
  /** What the reader was told before; the checks that it states are not named again. */
  readonly said: string;
}

/**
 * Tells of a step's last attempt why it did not pass, down to the innermost steps: which step, what it worked with, what
 * it expected and what was there.
 */
export function stepRows(run: StepRun, telling: StepTelling): readonly ToldStep[] {
  const attempt = run.attempts.at(-1);
  if (attempt === undefined) return [];
  const broken = brokenInside(attempt);
  if (broken.length === 0) {
    return [{ step: run.step, rows: leafRows(run, attempt, telling), texts: textsOf(attempt) }];
  }
  const shown = broken.slice(0, shownInner);
  const rest = broken.length - shown.length;
  const more: Row = {
    label: "",
    pieces: [{ text: `… and ${countOf(rest, "more step")} inside it`, tone: "dim" }],
  };
  return [
    { step: run.step, rows: holderRows(run, attempt, telling), texts: [] },
    ...shown.flatMap((child) => stepRows(child, telling)),
    ...(rest > 0 ? [{ step: run.step, rows: [more], texts: [] }] : []),
  ];
}

/** How many checks did not hold, or had no chance to, in the innermost steps. */
export function countFailures(run: StepRun): number {
  const attempt = run.attempts.at(-1);
  if (attempt === undefined) return 0;
  const broken = brokenInside(attempt);
  if (broken.length > 0) return broken.reduce((sum, child) => sum + countFailures(child), 0);
  return Math.max(1, attempt.finished?.checks.filter((check) => !check.passed).length ?? 0);
}

/** The steps inside that did not pass, where that is why the whole did not: `not` fails because they passed. */
function brokenInside({ children, started }: StepAttempt): readonly StepRun[] {
  if (started.stepType === "not") return children.filter((child) => outcomeOf(child) === "broken");
  return children.filter((child) => outcomeOf(child) !== "fine");
}

function outcomeOf({ attempts }: StepRun): "fine" | "failed" | "broken" {
  const { finished } = attempts.at(-1) ?? {};
  if (finished === undefined) return "broken";
  const { outcome, ignored } = finished;
  if (outcome === "passed" || outcome === "skipped" || ignored === true) return "fine";
  return outcome === "failed" ? "failed" : "broken";
}

function leafRows(run: StepRun, attempt: StepAttempt, telling: StepTelling): readonly Row[] {
  const { started, finished } = attempt;
  const { error, checks = [] } = finished ?? {};
  const input = describeInput(started.stepType, started.input);
  const isTold = error === undefined || telling.said.includes(error.message);
  return [
    headRow(run, attempt, telling),
    // A call is shown with its answer.
    ...(input === "" || attempt.messages.length > 0 ? [] : [row("input", clipText(input, inputCharacters))]),
    ...checks
      .filter((check) => !check.passed)
      .flatMap((check) => failedRows(check, { ...telling, judges: judging.has(started.stepType) })),
    ...(isTold ? [] : [row("error", clipText(`${error.code}: ${error.message}`, errorCharacters))]),
  ];
}

/** Steps whose programs judge by themselves: what they found is in their message. */
const judging: ReadonlySet<string> = new Set(["extension", "script"]);

function failedRows(
  check: Check,
  { said, judges }: StepTelling & { readonly judges: boolean },
): readonly Row[] {
  const told = `${check.name}: ${check.message}`;
  const isSaid = said.includes(told);
  const named = isSaid ? [] : [checkRow(told)];
  // That it did not succeed, though it should, is no news.
  if (judges && check.expected === true && check.actual === false) return named;
  return [...named, ...(programRows(check) ?? checkRows(check, told))];
}

function checkRow(told: string): Row {
  const lines = clipLines(told, { lines: shownLines, characters: errorCharacters });
  return { label: "check", pieces: lines.map((text) => ({ text })) };
}

/** What a program wrote that did not end as it should; undefined for other checks. */
function programRows({ name, actual }: Check): readonly Row[] | undefined {
  if (name !== "exit code" || !isJsonObject(actual) || !("exitCode" in actual || "signal" in actual))
    return undefined;
  return ["stderr", "stdout"].flatMap((label) => {
    const text = actual[label];
    if (typeof text !== "string" || text.trim() === "") return [];
    const lines = clipLines(text, { lines: 12, characters: 1200, keep: "tail" });
    return [{ label, pieces: lines.map((line) => ({ text: line })) }];
  });
}

function textsOf({ finished }: StepAttempt): readonly string[] {
  const failed = finished?.checks.filter((check) => !check.passed) ?? [];
  return failed.flatMap(({ actual }) => (typeof actual === "string" ? [actual] : []));
}

/** A step that has steps, where that says more than the names of those. */
function holderRows(run: StepRun, attempt: StepAttempt, telling: StepTelling): readonly Row[] {
  const { stepType, attempt: number } = attempt.started;
  if (stepType !== "anyOf") return number > 1 ? [headRow(run, attempt, telling)] : [];
  const { pieces, ...row } = headRow(run, attempt, telling);
  return [
    { ...row, pieces: pieces.map((piece) => ({ ...piece, text: `${piece.text}: no alternative holds` })) },
  ];
}

function headRow(run: StepRun, attempt: StepAttempt, { pathOf }: StepTelling): Row {
  const { started, finished } = attempt;
  const pieces: Piece[] = [{ text: clipText(pathOf(run.step), nameCharacters), tone: "strong" }];
  const seq = finished?.seq ?? started.seq;
  const note = [`${started.stepType} in ${started.phase}`, ...triedNote(run, attempt), `event ${seq}`].join(
    ", ",
  );
  return { label: "step", pieces, note };
}

/** How often a step was tried, over what time. */
function triedNote({ attempts: [first] }: StepRun, { started, finished }: StepAttempt): readonly string[] {
  if (started.attempt < 2) return [];
  const end = finished?.at ?? started.at;
  return [`${countOf(started.attempt, "attempt")} in ${formatDuration(end - (first?.started.at ?? end))}`];
}

function row(label: string, text: string): Row {
  return { label, pieces: [{ text }] };
}
