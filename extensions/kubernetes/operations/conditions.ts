import { type JsonObject, OperationFailed } from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { explain } from "../kube/explain.ts";
import { memberOf } from "../kube/json.ts";
import { nameOf, type Target } from "../kube/objects.ts";
import { type Condition, conditionsOf, conditionText } from "../kube/state.ts";

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
export function viewCondition(object: JsonObject, wanted: WantedCondition): ConditionView {
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
export function wantedText({ condition, status, reason }: WantedCondition): string {
  return `${condition}=${status}${reason === undefined ? "" : ` (${reason})`}`;
}

/** The failure of a condition, with everything that the object says of how it is. */
export async function conditionFailure(
  { objects }: Cluster,
  { target, object, what }: { target: Target; object: JsonObject | undefined; what: string },
  signal: AbortSignal,
): Promise<OperationFailed> {
  if (object === undefined) return new OperationFailed(`${what}\n${nameOf(target)} does not exist`);
  return new OperationFailed(`${what}\n${await explain(objects, object, signal)}`);
}
