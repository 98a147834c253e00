import { EnvironmentError, type JsonObject } from "../../../src/extensions/sdk/index.ts";
import { memberOf, objectOf, textOf } from "./state.ts";
import { type KubeObjects, targetOf } from "./objects.ts";
import { containersOf, stateOf } from "./state.ts";

/** Most pods of a workload that a message shows. */
const maxPods = 3;

/**
 * How an object is, for the message of a check that failed; for what runs pods, such as a Deployment, with the states of
 * their containers.
 */
export async function explain(
  objects: KubeObjects,
  object: JsonObject,
  signal: AbortSignal,
): Promise<string> {
  return [stateOf(object), ...(await podsOf(objects, object, signal))].join("\n");
}

async function podsOf(
  objects: KubeObjects,
  object: JsonObject,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const labels = Object.entries(objectOf(memberOf(object, "spec", "selector", "matchLabels")));
  const { namespace } = targetOf(object);
  if (labels.length === 0 || namespace === undefined) return [];
  const labelSelector = labels.map(([key, value]) => `${key}=${textOf(value) ?? ""}`).join(",");
  try {
    const pods = await objects.list({ apiVersion: "v1", kind: "Pod", namespace, labelSelector }, signal);
    const more = pods.length > maxPods ? [`and ${pods.length - maxPods} more pods`] : [];
    if (pods.length === 0) return ["it has no pods"];
    return [...pods.slice(0, maxPods).map(podText), ...more];
  } catch (error) {
    // The check has its answer already; that this much of it cannot be shown is told with it.
    if (error instanceof EnvironmentError) return [`its pods cannot be shown: ${error.message}`];
    throw error;
  }
}

function podText(pod: JsonObject): string {
  const phase = textOf(memberOf(pod, "status", "phase")) ?? "unknown";
  return [`pod ${targetOf(pod).name}: ${phase}`, ...containersOf(pod).map((line) => `  ${line}`)].join("\n");
}
