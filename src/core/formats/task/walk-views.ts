import { innerLists } from "./step-forms.ts";
import type { StepView } from "./view-steps.ts";

/** Gives every step, those inside others included, in the order of the file. */
export function* walkViews(views: readonly StepView[]): Generator<StepView> {
  for (const view of views) {
    yield view;
    for (const role of innerLists) yield* walkViews(view.inner[role]);
  }
}
