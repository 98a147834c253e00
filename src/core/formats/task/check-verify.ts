import { type Idleness, idlenessOf } from "../idle-program.ts";
import { asList, asObject, asText, formatKeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { PlacedNote, TaskFiles } from "./task-options.ts";
import type { StepView } from "./view-steps.ts";

export interface CheckedVerify {
  readonly problems: readonly Problem[];
  readonly notes: readonly PlacedNote[];
}

/**
 * Refuses a verify phase in which nothing could fail, and a step in it that does nothing. Notes which steps cannot fail
 * though they do something.
 */
export function checkVerify(verify: readonly StepView[], files: TaskFiles): CheckedVerify {
  const all = [...inVerify(verify)];
  const problems = all.flatMap((step) =>
    [voidProblem(step, files) ?? [], oppositesProblem(step) ?? []].flat(),
  );
  if (problems.length > 0) return { problems, notes: [] };
  if (verify.length > 0 && !verify.some((step) => canFail(step, files)))
    return { problems: [nothingCanFail], notes: [] };
  const safe = all.filter((step) => !mayFail(programOf(step, files)));
  return { problems: [], notes: safe.map(cannotFail) };
}

const nothingCanFail: Problem = {
  code: "config/checks-nothing",
  message: "spec.verify checks nothing: none of its steps could fail",
  path: ["spec", "verify"],
  at: "value",
  hint: "Making or removing a file is no check, nor is a command whose last part always succeeds; continueOnError takes the effect of a check away.",
};

/** The problem of a step that has the same end whatever an agent did. */
function voidProblem(step: StepView, files: TaskFiles): Problem | undefined {
  const program = programOf(step, files);
  if (program?.idleness !== "idle" && !(program?.isRead === true && program.idleness === "constant"))
    return undefined;
  const { bodyPath: path } = step;
  const why =
    program.idleness === "idle"
      ? "there is no command in it that does anything"
      : "it writes the same, whatever the agent did";
  const message = `${formatKeyPath(path)} checks nothing: ${why}`;
  return {
    code: "config/checks-nothing",
    message,
    path,
    at: "value",
    hint: "Write the check, or remove the step.",
  };
}

/** The problem of alternatives of which one always holds. */
function oppositesProblem({ kind, inner, bodyPath: path }: StepView): Problem | undefined {
  if (kind !== "anyOf") return undefined;
  const pair = inner.steps.find((step) => inner.steps.some((other) => areOpposite(step, other)));
  if (pair === undefined) return undefined;
  const message = `${formatKeyPath(path)} checks nothing: one of two opposites always holds`;
  const hint = "Leave out one of them, or the whole anyOf.";
  return { code: "config/checks-nothing", message, path, at: "value", hint };
}

function areOpposite(step: StepView, other: StepView): boolean {
  const [denied, ...more] = other.kind === "not" ? other.inner.steps : [];
  if (denied !== undefined && more.length === 0) return whatOf(denied) === whatOf(step);
  const exists = asObject(asObject(step.body)["expect"])["exists"];
  if (typeof exists !== "boolean" || step.kind !== "file") return false;
  const { body } = step;
  const turned = { ...asObject(body), expect: { ...asObject(asObject(body)["expect"]), exists: !exists } };
  return whatOf({ ...step, body: turned }) === whatOf(other);
}

/** What a step looks at and expects, whatever it is called. */
function whatOf({ kind, first, rest, body }: StepView): string {
  const { id: _, name: __, outputs: ___, ...what } = asObject(body);
  return JSON.stringify([kind, kind === "call" || kind === "operation" ? [first, rest] : [], what]);
}

function cannotFail({ bodyPath }: StepView): PlacedNote {
  const message = `${formatKeyPath(bodyPath)} is no check: its last command always succeeds or only makes something, whatever the others find`;
  return { message, path: bodyPath };
}

/** Every step that may be a check, those inside others included. */
function* inVerify(steps: readonly StepView[]): Generator<StepView> {
  for (const step of steps) {
    yield step;
    yield* inVerify(step.inner.steps);
  }
}

interface StepProgram {
  readonly idleness: Idleness | undefined;
  /** Whether what it writes is looked at, besides its exit code. */
  readonly isRead: boolean;
}

/** The program of a step that has one that is known, and that has to exit with 0. */
function programOf({ kind, body }: StepView, files: TaskFiles): StepProgram | undefined {
  const { run, shell, expect, inline, file, protocol } = asObject(body);
  if (kind === "command") {
    const { exitCode = 0, stdout, stderr } = asObject(expect);
    const named = asText(shell);
    const program = { text: textOf(run) ?? "?", ...(named === undefined ? {} : { shell: named }) };
    const isRead = stdout !== undefined || stderr !== undefined;
    return exitCode === 0 ? { idleness: idlenessOf(program), isRead } : undefined;
  }
  if (kind !== "script") return undefined;
  const path = asText(file);
  const text = textOf(inline) ?? (path === undefined ? undefined : files.read(path));
  return text === undefined ? undefined : { idleness: idlenessOf({ text }), isRead: protocol === "json" };
}

function mayFail(program: StepProgram | undefined): boolean {
  return program === undefined || program.isRead || program.idleness === undefined;
}

/** Whether a step could fail, and that would count. */
function canFail(step: StepView, files: TaskFiles): boolean {
  const { kind, body, inner } = step;
  const { continueOnError, expect } = asObject(body);
  if (continueOnError === true) return false;
  switch (kind) {
    case "file":
      return expect !== undefined;
    case "anyOf":
      return inner.steps.every((each) => canFail(each, files));
    case "foreach":
    case "allOf":
    case "group":
      return inner.steps.some((each) => canFail(each, files));
    case "not":
      return inner.steps.some((each) => asObject(each.body)["continueOnError"] !== true);
    case "command":
    case "script":
      return mayFail(programOf(step, files));
    case "http":
      return !acceptsAnyAnswer(asObject(expect));
    case "llm":
    case "mcp":
    case "call":
    case "extension":
    case "operation":
      return true;
  }
}

function acceptsAnyAnswer({ status, headers, body }: Readonly<Record<string, unknown>>): boolean {
  const accepted = asList(status);
  const classes = ["2xx", "3xx", "4xx", "5xx"];
  return headers === undefined && body === undefined && classes.every((each) => accepted.includes(each));
}

/** A blank one too. */
function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
