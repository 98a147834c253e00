import type { GraderSpec } from "../model/model.ts";
import { actionSequence, skillInvocation } from "./action-sequence.ts";
import { behavior } from "./behavior.ts";
import type { Grader, GraderKind } from "./grader.ts";
import { program, script } from "./programs/program.ts";
import { code } from "./programs/code.ts";
import { mcpCompliance } from "./mcp-compliance.ts";
import { metric } from "./metric.ts";
import { jsonSchema } from "./json-schema.ts";
import { prompt } from "./prompt.ts";
import { text } from "./text.ts";
import { toolRouting } from "./tool-routing.ts";
import { trigger } from "./trigger.ts";
import { assertions, toolCalls, toolConstraint } from "./tool-constraint.ts";
import { diff, file } from "./workspace.ts";

/** Every type of grader that files can declare. */
const kinds: readonly GraderKind[] = [
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
];

export const graderKinds: Readonly<Record<string, GraderKind>> = Object.fromEntries(
  kinds.map((kind) => [kind.type, kind]),
);

/** What the graders of a task need to know of its workspace: paths and globs, each once. */
export function workspaceFilesOf(specs: readonly GraderSpec[]): readonly string[] {
  return [...new Set(specs.flatMap(({ type, config }) => graderKinds[type]?.workspaceFiles?.(config) ?? []))];
}

/** The graders that a task declares. Throws for a type that does not exist, as a run of another version may have. */
export function createGraders(specs: readonly GraderSpec[]): readonly Grader[] {
  return specs.map(({ type, name, weight, required, config, dir }): Grader => {
    const kind = graderKinds[type];
    if (kind === undefined) throw new Error(`no grader has the type ${type}`);
    return {
      name,
      weight,
      required,
      grade: async (trajectory, context) => ({
        grader: name,
        ...(await kind.grade(config, trajectory, { ...context, dir })),
      }),
    };
  });
}
