import type { Json } from "../core/formats/model.ts";
import type { ForeachStep } from "../core/formats/step.ts";
import { loopItems } from "../core/templates/expand.ts";
import { withLocals } from "../core/templates/scope.ts";
import type { Check } from "../core/trace/events.ts";
import { innerContext } from "./running/run-inner.ts";
import { joinedChecks, runSequence } from "./running/run-sequence.ts";
import type { StepRunner } from "./step-runner.ts";

/** Runs its steps for every item, one after the other; all must pass. Setup ends with the first item that fails. */
export const foreachStep: StepRunner<ForeachStep> = {
  type: "foreach",
  expand: (step, { json, trusts }) => ({
    ...step,
    trusted: trusts(step.in),
    in: typeof step.in === "string" ? loopItems(json(step.in), step.in) : step.in.map((item) => json(item)),
  }),
  input: (step) => ({ var: step.variable, in: step.in }),
  async run(step, context, run) {
    const items = typeof step.in === "string" ? loopItems(step.in, step.in) : step.in;
    if (items.length === 0) return { kind: "checked", checks: [emptyCheck] };
    const kind = context.phase === "setup" ? "setup" : "verify";
    const { parent = "" } = innerContext(step, context);
    const checks: Check[] = [];
    let healthy = true;
    for (const [index, item] of items.entries()) {
      const inner = {
        ...context,
        parent: `${parent}[${index}]`,
        scope: context.scope && withLocals(context.scope, { [step.variable]: item }, step),
      };
      const { ran, passed, error } = await runSequence(step.steps, inner, { kind, run });
      for (const check of joinedChecks(ran, `${step.variable}=${label(item)} `)) checks.push(check);
      if (error !== undefined) return { kind: "error", error, checks };
      healthy &&= passed;
      if (!passed && kind === "setup") break;
    }
    return { kind: "checked", checks, healthy };
  },
};

/** A row over nothing proves nothing. */
const emptyCheck: Check = {
  name: "items",
  passed: false,
  expected: "at least one item",
  actual: 0,
  message: "there is nothing to go through: the list is empty",
  untried: true,
};

function label(item: Json): string {
  const text = typeof item === "string" ? item : JSON.stringify(item);
  return text.length <= 40 ? text : `${text.slice(0, 40)}…`;
}
