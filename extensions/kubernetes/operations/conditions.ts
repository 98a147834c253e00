import * as z from "zod";
import {
  EnvironmentError,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extensions/sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { explain } from "../kube/explain.ts";
import { type Condition, conditionsOf, conditionText, memberOf, shown } from "../kube/state.ts";
import { nameOf, type Target } from "../kube/objects.ts";
import { duration, durationText, limitOf, milliseconds, pause, poll, waitingTime } from "../polling.ts";
import { manifestTargetFields, readExisting, targetFields, targetIn } from "./target.ts";

/** A condition that an object should have. */
export interface WantedCondition {
  readonly condition: string;
  readonly status: string;
  readonly reason?: string | undefined;
}

/** What an object's condition is against what was wanted. */
export interface ConditionView {
  readonly holds: boolean;
  readonly found: Condition | undefined;
  /** What is there, for a message. */
  readonly told: string;
}

/**
 * Whether a condition of an object is as wanted. One that its controller wrote before it saw the object's last change says
 * nothing of the object as it is now, and so does not hold.
 */
function viewCondition(object: JsonObject, wanted: WantedCondition): ConditionView {
  const found = conditionsOf(object).find(
    ({ type }) => type.toLowerCase() === wanted.condition.toLowerCase(),
  );
  if (found === undefined) return { holds: false, found, told: `it has no condition ${wanted.condition}` };
  const told = conditionText(found);
  const generation = memberOf(object, "metadata", "generation");
  const seen = found.observedGeneration ?? memberOf(object, "status", "observedGeneration");
  if (typeof generation === "number" && typeof seen === "number" && seen < generation) {
    const old = `${told}, but that is from before the object's last change (generation ${seen} of ${generation})`;
    return { holds: false, found, told: old };
  }
  const asWanted =
    found.status.toLowerCase() === wanted.status.toLowerCase() &&
    (wanted.reason === undefined || found.reason === wanted.reason);
  return { holds: asWanted, found, told };
}

/** How a wanted condition is written in messages. */
function wantedText({ condition, status, reason }: WantedCondition): string {
  return `${condition}=${status}${reason === undefined ? "" : ` (${reason})`}`;
}

/** The failure of a condition, with everything that the object says of how it is. */
async function conditionFailure(
  { objects }: Cluster,
  { target, object, what }: { target: Target; object: JsonObject | undefined; what: string },
  signal: AbortSignal,
): Promise<OperationFailed> {
  if (object === undefined) return new OperationFailed(`${what}\n${nameOf(target)} does not exist`);
  return new OperationFailed(`${what}\n${await explain(objects, object, signal)}`);
}

/** Fields that say which condition is wanted. */
const conditionFields = {
  condition: z.string().min(1).describe("Type of the condition, such as Ready or Available."),
  status: z.string().min(1).default("True"),
  reason: z.string().min(1).optional().describe("Expected reason of the condition."),
};

/** `condition`: a condition of an object has a status now. */
export const condition = operation({
  description: "A condition of an object, such as Ready, has a status now.",
  phases: ["setup", "verify"],
  params: z.strictObject({ ...targetFields, ...conditionFields }),
  async run(args, { resources: cluster, signal }: OperationRun<Cluster>) {
    const { target, object } = await readExisting(cluster, args, signal);
    const view = viewCondition(object, args);
    if (view.holds) return { message: `${nameOf(target)} has ${view.told}` };
    const what = `${nameOf(target)}: expected ${wantedText(args)}, but ${view.told}`;
    throw await conditionFailure(cluster, { target, object, what }, signal);
  },
});

/** `condition-stable`: a condition of an object has a status now, and keeps it for a while. */
export const conditionStable = operation({
  description:
    "A condition of an object has a status and keeps it for a while. That it flipped between two looks, or that the object was replaced, is noticed.",
  phases: condition.declaration.phases,
  params: z.strictObject({
    ...targetFields,
    ...conditionFields,
    for: duration.describe("How long the condition must hold."),
    every: duration.default("1s").describe("Polling interval."),
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

/** How often an object is looked at, in milliseconds. */
const everyMs = 1000;

/** `wait`: waits until a condition of an object has a status. The object may appear meanwhile. */
export const wait = operation({
  description: "Waits until a condition of an object, such as Ready, has a status.",
  params: z.looseObject({
    ...manifestTargetFields,
    condition: z.string().min(1).describe("Type of the condition, such as Ready or Available."),
    status: z.string().min(1).default("True"),
    timeout: waitingTime,
  }),
  async run(args, context: OperationRun<Cluster>) {
    const { resources: cluster, signal } = context;
    const target = await cluster.objects.resolve(targetIn(args), signal);
    const wanted = { condition: args.condition, status: args.status };
    const limit = limitOf(args.timeout === undefined ? undefined : milliseconds(args.timeout), context);
    let last: JsonObject | undefined;
    const held = await poll({ ms: limit.ms, everyMs, signal }, async () => {
      last = await cluster.objects.read(target, signal);
      const view = last === undefined ? undefined : viewCondition(last, wanted);
      return view?.holds === true ? view : undefined;
    });
    if (held !== undefined) return { message: `${nameOf(target)} has ${held.told}` };
    const what = `${nameOf(target)} has not come to ${wantedText(wanted)} ${limit.text}`;
    throw await conditionFailure(cluster, { target, object: last, what }, signal);
  },
});
