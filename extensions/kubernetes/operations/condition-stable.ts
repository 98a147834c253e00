import * as z from "zod";
import {
  EnvironmentError,
  type JsonObject,
  operation,
  type OperationRun,
} from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { duration, durationText, milliseconds } from "../duration.ts";
import { memberOf, shown } from "../kube/json.ts";
import { nameOf } from "../kube/objects.ts";
import type { Condition } from "../kube/state.ts";
import { limitOf, pause } from "../polling.ts";
import { condition, conditionFields } from "./condition.ts";
import { conditionFailure, viewCondition, wantedText } from "./conditions.ts";
import { readExisting, targetFields } from "./target.ts";

/** `condition-stable`: a condition of an object has a status now, and keeps it for a while. */
export const conditionStable = operation({
  description:
    "A condition of an object has a status and keeps it for a while. That it flipped between two looks, or that the object was replaced, is noticed.",
  phases: condition.declaration.phases,
  params: z.strictObject({
    ...targetFields,
    ...conditionFields,
    for: duration.describe("How long it must hold."),
    every: duration.default("1s").describe("How often it is looked at."),
  }),
  async run(args, context: OperationRun<Cluster>) {
    const { resources: cluster, signal } = context;
    const forMs = milliseconds(args.for);
    refuseTooShort(forMs, context);
    const started = performance.now();
    let first: Snapshot | undefined;
    for (;;) {
      const after = performance.now() - started;
      const { target, object } = await readExisting(cluster, args, signal);
      const view = viewCondition(object, args);
      const change = view.holds ? changeOf(first, snapshot(object, view.found)) : view.told;
      if (change !== undefined) {
        const what = `${nameOf(target)}: expected ${wantedText(args)} for ${durationText(forMs)}, but after ${durationText(after)} ${change}`;
        throw await conditionFailure(cluster, { target, object, what }, signal);
      }
      first ??= snapshot(object, view.found);
      if (after >= forMs)
        return { message: `${nameOf(target)} kept ${view.told} for ${durationText(forMs)}` };
      await pause(Math.min(milliseconds(args.every), forMs - after), signal);
    }
  },
});

interface Snapshot {
  readonly uid: string;
  readonly since: string | undefined;
}

function snapshot(object: JsonObject, found: Condition | undefined): Snapshot {
  return { uid: shown(memberOf(object, "metadata", "uid")), since: found?.lastTransitionTime };
}

function changeOf(first: Snapshot | undefined, now: Snapshot): string | undefined {
  if (first === undefined) return undefined;
  if (first.uid !== now.uid) return "it is another object of that name";
  if (first.since === now.since) return undefined;
  return `the condition had flipped meanwhile (its last transition was at ${now.since ?? "no time"})`;
}

function refuseTooShort(forMs: number, context: OperationRun<Cluster>): void {
  if (limitOf(forMs, context).ms >= forMs) return;
  throw new EnvironmentError(
    `the step has only ${durationText(context.timeoutMs)}, too little to look on for ${durationText(forMs)}; give the step a longer timeout`,
  );
}
