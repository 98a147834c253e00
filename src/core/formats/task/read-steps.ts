import type * as z from "zod";
import type { Json } from "../model.ts";
import type { Problem } from "../problem.ts";
import type { Step } from "../step.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { type InnerList, innerLists, stepForms, type StepSurroundings } from "./step-forms.ts";
import type { StepView } from "./view-steps.ts";

export interface ReadSteps {
  /** Those that are valid, in order. */
  readonly steps: readonly Step[];
  readonly problems: readonly Problem[];
}

export interface ReadStepsContext extends Pick<StepSurroundings, "operationMs"> {
  readonly document: Json;
}

/** Checks the bodies of steps, and of those inside them, and makes the steps of the model. */
export function readSteps(views: readonly StepView[], context: ReadStepsContext): ReadSteps {
  const read = views.map((view) => readStep(view, context));
  return { steps: read.flatMap(({ steps }) => steps), problems: read.flatMap(({ problems }) => problems) };
}

function readStep(view: StepView, context: ReadStepsContext): ReadSteps {
  const inner = innerLists.map((role) => [role, readSteps(view.inner[role], context)] as const);
  const steps = Object.fromEntries(inner.map(([role, read]) => [role, read.steps])) as Record<
    InnerList,
    readonly Step[]
  >;
  const below = inner.flatMap(([, read]) => read.problems);
  const { id, first, rest } = view;
  const result = stepForms[view.kind].read(view.body, {
    id,
    first,
    rest,
    inner: steps,
    operationMs: context.operationMs,
  });
  if (result.ok) return { steps: [result.step], problems: below };
  const issues = result.issues.map((issue) => placed(issue, view));
  return { steps: [], problems: [...problemsOfIssues(issues, context.document), ...below] };
}

/** The issue with its path from the root of the document. */
function placed(issue: z.core.$ZodIssue, { bodyPath, isShort }: StepView): z.core.$ZodIssue {
  return { ...issue, path: [...bodyPath, ...(isShort ? issue.path.slice(1) : issue.path)] };
}
