import type * as z from "zod";
import type { Model, StepKind, StepKinds, stepModel, StepType } from "./step-kinds.ts";

export type { JsonExpectation, McpRequest, TextExpectation } from "./step-kinds.ts";

/** One typed action of a task. Strings may have templates in tasks from files of their own, nowhere else. */
export type Step = { [T in StepType]: StepOf<T> }[StepType];

/** What every step has. The id is the author's, else made from the place, such as `verify[2]`. */
export type StepBase = Model<z.ZodObject<typeof stepModel>>;

/** A step of one type: what all have, what its kind has, and the steps inside it. */
type StepOf<T extends StepType> =
  StepKinds[T] extends StepKind<infer S, infer I>
    ? Model<z.ZodObject<typeof stepModel & S>> & { readonly type: T } & {
        readonly [L in I]: readonly Step[];
      }
    : never;

export type CommandStep = StepOf<"command">;
export type HttpStep = StepOf<"http">;
export type FileStep = StepOf<"file">;
export type LlmStep = StepOf<"llm">;
export type ScriptStep = StepOf<"script">;
export type McpStep = StepOf<"mcp">;
export type ExtensionStep = StepOf<"extension">;
export type ForeachStep = StepOf<"foreach"> & {
  /** Only while it runs: no item is from outside. */
  readonly trusted?: boolean;
};
export type AnyOfStep = StepOf<"anyOf">;
export type AllOfStep = StepOf<"allOf">;
export type NotStep = StepOf<"not">;
export type GroupStep = StepOf<"group">;

/** A step that has steps of its own. */
export type ControlStep = Extract<Step, { readonly steps: readonly Step[] }>;
/** A step that acts itself. */
export type ActionStep = Exclude<Step, ControlStep>;

export type HttpExpectation = HttpStep["expect"];
export type FileExpectation = Omit<Extract<FileStep["action"], { kind: "check" }>, "kind">;
export type McpExpectation = McpStep["expect"];

/** Gives every step, those inside others included, in the order of the file. */
export function* walkSteps(steps: readonly Step[]): Generator<Step> {
  for (const step of steps) {
    yield step;
    if (step.type === "group") yield* walkSteps([...step.setup, ...step.steps, ...step.cleanup]);
    else if ("steps" in step) yield* walkSteps(step.steps);
  }
}

/** Whether one of the steps, or of those inside them, asks a judge. */
export function usesJudge(steps: readonly Step[]): boolean {
  return [...walkSteps(steps)].some((step) => step.type === "llm");
}
