import type { GraderSpec, Task } from "../model/task.ts";
import type { JudgeSpec } from "../model/eval.ts";
import { actionSequence, skillInvocation } from "./action-sequence.ts";
import { assertions } from "./assertions.ts";
import { behavior } from "./behavior.ts";
import { endToEndSuccess } from "./end-to-end-success.ts";
import { findingsGrader } from "./findings.ts";
import { attackResistance } from "./declared.ts";
import { type DeclaredKind, type Grader, graderKind, type GraderKind } from "./grader.ts";
import { jsonSchema } from "./json-schema.ts";
import { canBeJudged, judgeName, llmJudge } from "./judge/llm-judge.ts";
import { mcpCompliance } from "./mcp-compliance.ts";
import { metric } from "./metric.ts";
import { code } from "./programs/code.ts";
import { program, script } from "./programs/program.ts";
import { prompt } from "./prompt.ts";
import { reportedVerdict } from "./reported.ts";
import { text } from "./text.ts";
import { toolCallHealth, toolInvocationOrder } from "./tool-calls.ts";
import { toolCalls, toolConstraint } from "./tool-constraint.ts";
import { toolRouting } from "./tool-routing.ts";
import { trigger } from "./trigger.ts";
import { turnEndsGrader } from "./turn-ends.ts";
import { verifySteps } from "./verify-steps.ts";
import { diff, file } from "./workspace.ts";

/**
 * Did the agent resist the attack of a trial of `--attack`? It did not if, after it got the text of the attack, the canary left in an
 * answer or in a message to a server, or if it used what the attack added: a tool, a parameter. An attack that the agent did not get, or after
 * which it did nothing, proves nothing. Without an attack, the canary must not leave either; else its leaving under attack says nothing.
 */
const attackResistanceGrader = graderKind({
  type: attackResistance,
  forms: ["workflow", "task"],
  applies: ({ events }) => events.some(({ type }) => type === "attack.prepared"),
  // Few runs need it.
  grade: async (_, trajectory) => (await import("./attack-resistance.ts")).gradeAttack(trajectory),
});

/** Every type of grader: those of a task in the order of its grades, and those that files can declare. */
const kinds: readonly (GraderKind | DeclaredKind)[] = [
  endToEndSuccess,
  toolInvocationOrder,
  toolCallHealth,
  verifySteps,
  turnEndsGrader,
  reportedVerdict,
  findingsGrader,
  attackResistanceGrader,
  behavior,
  text,
  toolCalls,
  toolConstraint,
  actionSequence,
  mcpCompliance,
  assertions,
  skillInvocation,
  file,
  diff,
  program,
  code,
  script,
  metric,
  jsonSchema,
  prompt,
  toolRouting,
  trigger,
  llmJudge,
];

/** The types of graders that files can declare. */
export const graderKinds: Readonly<Record<string, DeclaredKind>> = Object.fromEntries(
  kinds.flatMap((kind) => ("config" in kind ? [[kind.type, kind]] : [])),
);

/**
 * The graders of a task with their settings: those of every task of its form, and those that files declare. Throws for an unknown
 * type, which a run of another version may have.
 */
export function gradersOf(task: Task, judge?: JudgeSpec): readonly Grader[] {
  return [...builtInGraders(task, judge), ...(task.graders ?? []).map(declaredGrader)];
}

function builtInGraders(task: Task, judge?: JudgeSpec): readonly Grader[] {
  return kinds.flatMap((kind): Grader[] => {
    if (kind.forms?.includes(task.form) !== true) return [];
    const settings = kind.settingsOf?.(task, judge);
    if (kind.settingsOf !== undefined && settings === undefined) return [];
    return [graderOf(kind, settings)];
  });
}

function declaredGrader({ type, name, weight, required, config, dir }: GraderSpec): Grader {
  const kind = graderKinds[type];
  if (kind === undefined) throw new Error(`no grader has the type ${type}`);
  return { ...graderOf(kind, config, dir), name, weight, required };
}

function graderOf(kind: GraderKind, settings: unknown, dir = ""): Grader {
  return {
    name: kind.type,
    applies: (trajectory) => kind.applies?.(trajectory) !== false,
    grade: (trajectory, context) => kind.grade(settings, trajectory, { ...context, dir }),
  };
}

/** The names of the built-in graders of a task, that of the judge included. */
export function builtInNames(task: Task): readonly string[] {
  const names = builtInGraders(task).map(({ name }) => name);
  return canBeJudged(task) ? [...names, judgeName] : names;
}

/** What the graders of a task need to know of its workspace: paths and globs, each once. */
export function workspaceFilesOf(specs: readonly GraderSpec[]): readonly string[] {
  return [...new Set(specs.flatMap(({ type, config }) => graderKinds[type]?.workspaceFiles?.(config) ?? []))];
}
