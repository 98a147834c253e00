import { innerLists } from "./step-forms.ts";
import type { StepView } from "./view-steps.ts";
import { type StepPhase, stepPhases, type TaskView } from "./view-task.ts";

/** Gives every step, those inside others included, in the order of the file. */
export function* walkViews(views: readonly StepView[]): Generator<StepView> {
  for (const view of views) {
    yield view;
    for (const role of innerLists) yield* walkViews(view.inner[role]);
  }
}

/** A step and the phase that it counts to. */
export interface PhasedView {
  readonly view: StepView;
  readonly phase: StepPhase;
}

/** Every step of a task. Setup and cleanup of a group are those phases, wherever the group stands. */
export function phasedViews({ steps }: Pick<TaskView, "steps">): readonly PhasedView[] {
  return stepPhases.flatMap((phase) => [...walkPhases(steps[phase], phase)]);
}

function* walkPhases(views: readonly StepView[], phase: StepPhase): Generator<PhasedView> {
  for (const view of views) {
    yield { view, phase };
    for (const role of innerLists) yield* walkPhases(view.inner[role], role === "steps" ? phase : role);
  }
}
