import { type Idleness, idlenessOf } from "../idle-program.ts";
import { asObject, formatKeyPath } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { PlacedStep } from "./read-task.ts";
import type { Findings, TaskFiles } from "./task-options.ts";

/**
 * Refuses a verify phase in which nothing could fail, and a step in it that does nothing. Notes which steps cannot fail
 * though they do something.
 */
export function checkVerify(verify: readonly PlacedStep[], files: TaskFiles): Findings {
  const all = [...inVerify(verify)];
  const problems = all.flatMap((placed) => [...idleProblem(placed, files), ...oppositesProblem(placed)]);
  if (problems.length > 0) return { problems, notes: [] };
  if (!verify.some((placed) => canFail(placed, files))) return { problems: [nothingCanFail], notes: [] };
  const notes = all
    .filter((placed) => !programMayFail(placed, files))
    .map(({ bodyPath: path }) => ({
      message: `${formatKeyPath(path)} cannot fail: its last command always succeeds or only creates something, whatever the commands before it found`,
      path,
    }));
  return { problems: [], notes };
}

const nothingCanFail: Problem = {
  code: "config/checks-nothing",
  message: "spec.verify checks nothing: none of its steps could fail",
  path: ["spec", "verify"],
  at: "value",
  hint: "Creating or removing a file checks nothing, nor does a command whose last part always succeeds; with continueOnError a failure does not count.",
};

/** Every step that may be a check, those inside others included. */
function* inVerify(steps: readonly PlacedStep[]): Generator<PlacedStep> {
  for (const placed of steps) {
    yield placed;
    yield* inVerify(placed.inner.steps);
  }
}

interface KnownProgram {
  readonly idleness: Idleness | undefined;
  /** Whether what it writes is checked, besides its exit code. */
  readonly isRead: boolean;
}

/** The program of a step that has one that is known, and that has to exit with 0. */
function programOf({ step, kind }: PlacedStep, files: TaskFiles): KnownProgram | undefined {
  const program = kind.program?.(step, (file) => files.read(file));
  if (program?.text === undefined) return undefined;
  return { idleness: idlenessOf(program.text), isRead: program.isRead };
}

function programMayFail(placed: PlacedStep, files: TaskFiles): boolean {
  const program = programOf(placed, files);
  return program === undefined || program.isRead || program.idleness === undefined;
}

/** Whether a step could fail, and that would count. */
function canFail(placed: PlacedStep, files: TaskFiles): boolean {
  const { step, kind, inner } = placed;
  if (step.continueOnError === true) return false;
  const outcomes = inner.steps.map((each) => ({
    canFail: canFail(each, files),
    counts: each.step.continueOnError !== true,
  }));
  return programMayFail(placed, files) && kind.canFail?.(step, outcomes) !== false;
}

/** Refuses a step that has the same end whatever an agent did. */
function idleProblem(placed: PlacedStep, files: TaskFiles): Problem[] {
  const { bodyPath: path } = placed;
  const { idleness, isRead = false } = programOf(placed, files) ?? {};
  if (idleness !== "idle" && !(isRead && idleness === "constant")) return [];
  const why =
    idleness === "idle"
      ? "there is no command in it that does anything"
      : "it writes the same, whatever the agent did";
  const message = `${formatKeyPath(path)} checks nothing: ${why}`;
  const hint = "Write the check, or remove the step.";
  return [{ code: "config/checks-nothing", message, path, at: "value", hint }];
}

/** Refuses alternatives of which one always holds. */
function oppositesProblem({ step, inner, bodyPath: path }: PlacedStep): Problem[] {
  if (step.type !== "anyOf") return [];
  if (!inner.steps.some((one) => inner.steps.some((other) => areOpposite(one, other)))) return [];
  const message = `${formatKeyPath(path)} checks nothing: one of two opposites always holds`;
  const hint = "Leave out one of them, or the whole anyOf.";
  return [{ code: "config/checks-nothing", message, path, at: "value", hint }];
}

function areOpposite(one: PlacedStep, other: PlacedStep): boolean {
  const [denied, ...more] = other.step.type === "not" ? other.inner.steps : [];
  if (denied !== undefined && more.length === 0) return whatOf(denied) === whatOf(one);
  const expect = asObject(one.body["expect"]);
  if (one.step.type !== "file" || typeof expect["exists"] !== "boolean") return false;
  const opposite = { ...one.body, expect: { ...expect, exists: !expect["exists"] } };
  return whatOf({ ...one, body: opposite }) === whatOf(other);
}

/** What a step looks at and expects, whatever it is called. */
function whatOf({ bodyPath, body }: PlacedStep): string {
  const { id: _, name: __, outputs: ___, ...what } = body;
  return JSON.stringify([bodyPath.at(-1), what]);
}
