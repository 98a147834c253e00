import { idlenessOf, type ProgramText } from "../idle-program.ts";
import { formatKeyPath } from "../key-path.ts";
import { asList, asObject, asText } from "../lenient.ts";
import type { Problem } from "../problem.ts";
import type { TaskFiles } from "./task-options.ts";
import type { PlacedNote } from "./task-notes.ts";
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
  const idle = all.filter((step) => idlenessOfStep(step, files) === "idle");
  if (idle.length > 0) return { problems: idle.map(doesNothing), notes: [] };
  if (verify.length > 0 && !verify.some((step) => canFail(step, files)))
    return { problems: [nothingCanFail], notes: [] };
  const safe = all.filter((step) => idlenessOfStep(step, files) === "cannot-fail");
  return { problems: [], notes: safe.map(cannotFail) };
}

const nothingCanFail: Problem = {
  code: "config/checks-nothing",
  message: "spec.verify checks nothing: none of its steps could fail",
  path: ["spec", "verify"],
  at: "value",
  hint: "Making or removing a file is no check, nor is a command whose last part always succeeds; continueOnError takes the effect of a check away.",
};

function doesNothing({ bodyPath }: StepView): Problem {
  return {
    code: "config/checks-nothing",
    message: `${formatKeyPath(bodyPath)} checks nothing: there is no command in it that does anything`,
    path: bodyPath,
    at: "value",
    hint: "Write the check, or remove the step.",
  };
}

function cannotFail({ bodyPath }: StepView): PlacedNote {
  const message = `${formatKeyPath(bodyPath)} is no check: its last command always succeeds, whatever the others find`;
  return { message, path: bodyPath };
}

/** Every step that may be a check, those inside others included. */
function* inVerify(steps: readonly StepView[]): Generator<StepView> {
  for (const step of steps) {
    yield step;
    yield* inVerify(step.inner.steps);
  }
}

/** Of a step that nothing but an exit code speaks for. */
function idlenessOfStep(step: StepView, files: TaskFiles): ReturnType<typeof idlenessOf> {
  const program = programOf(step, files);
  return program === undefined ? undefined : idlenessOf(program);
}

function programOf({ kind, body }: StepView, files: TaskFiles): ProgramText | undefined {
  const { run, shell, expect, inline, file, protocol } = asObject(body);
  if (kind === "command") {
    const { exitCode = 0, stdout, stderr } = asObject(expect);
    if (exitCode !== 0 || stdout !== undefined || stderr !== undefined) return undefined;
    const named = asText(shell);
    return { text: textOf(run) ?? "?", ...(named === undefined ? {} : { shell: named }) };
  }
  if (kind !== "script" || protocol === "json") return undefined;
  const path = asText(file);
  const text = textOf(inline) ?? (path === undefined ? undefined : files.read(path));
  return text === undefined ? undefined : { text };
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
      return idlenessOfStep(step, files) === undefined;
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
