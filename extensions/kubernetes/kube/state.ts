import type { Json, JsonObject } from "../../../src/extensions/sdk/index.ts";

/** Whether a value is an object, not a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value when it is an object, else an empty one. */
export function objectOf(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

/** The objects of a list; nothing of what is not a list. */
export function objectsOf(value: Json | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter((item: Json) => isObject(item)) : [];
}

/** The value when it is a text. */
export function textOf(value: Json | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** What stands at the end of the keys; undefined when one of them leads nowhere. */
export function memberOf(value: Json | undefined, ...keys: readonly string[]): Json | undefined {
  let found = value;
  for (const key of keys) found = objectOf(found)[key];
  return found;
}

/** JSON of a value for a message, cut when it is long. */
export function shown(value: Json | undefined, longest = 300): string {
  const text = value === undefined ? "nothing" : JSON.stringify(value);
  return text.length > longest ? `${text.slice(0, longest)}… (${text.length} characters)` : text;
}

/** One of an object's `status.conditions`. */
export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string | undefined;
  readonly message: string | undefined;
  readonly lastTransitionTime: string | undefined;
  readonly observedGeneration: Json | undefined;
}

/** The conditions of an object, in its own order. */
export function conditionsOf(object: JsonObject): readonly Condition[] {
  return objectsOf(memberOf(object, "status", "conditions")).map((condition) => ({
    type: textOf(condition["type"]) ?? "",
    status: textOf(condition["status"]) ?? "",
    reason: textOf(condition["reason"]),
    message: textOf(condition["message"]),
    lastTransitionTime: textOf(condition["lastTransitionTime"]),
    observedGeneration: condition["observedGeneration"],
  }));
}

/** What an object says of how it is, for the message of a check that failed: sentences, one a line. */
export function stateOf(object: JsonObject): string {
  const conditions = conditionsOf(object);
  const phase = textOf(memberOf(object, "status", "phase"));
  const deleted = textOf(memberOf(object, "metadata", "deletionTimestamp"));
  const lines = [
    ...(phase === undefined ? [] : [`phase: ${phase}`]),
    ...(deleted === undefined ? [] : [deletionText(object, deleted)]),
    conditions.length === 0
      ? "it has no conditions"
      : `conditions: ${conditions.map(conditionText).join("; ")}`,
    ...replicasOf(object),
    ...containersOf(object),
  ];
  return lines.join("\n");
}

/** How it is written: `Ready=False (ContainersNotReady: containers with unready status: [web])`. */
export function conditionText({ type, status, reason, message }: Condition): string {
  const why = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  return `${type}=${status}${why === "" ? "" : ` (${why})`}`;
}

/** The states of a pod's containers, one line each; nothing for what is not a pod. */
export function containersOf(pod: JsonObject): readonly string[] {
  const kinds = ["initContainerStatuses", "containerStatuses"];
  return kinds.flatMap((key) => objectsOf(memberOf(pod, "status", key)).map(containerText));
}

/** Why an object that was deleted may still be there. */
export function deletionText(object: JsonObject, since: string): string {
  const finalizers = [memberOf(object, "metadata", "finalizers"), memberOf(object, "spec", "finalizers")]
    .flatMap((list) => (Array.isArray(list) ? list : []))
    .map(String);
  const rest = finalizers.length === 0 ? "" : `; its finalizers: ${finalizers.join(", ")}`;
  return `it is being deleted since ${since}${rest}`;
}

function containerText(container: JsonObject): string {
  const state = objectOf(container["state"]);
  const restarts = typeof container["restartCount"] === "number" ? container["restartCount"] : 0;
  const [name = "unknown", detail] = Object.entries(state)[0] ?? [];
  const about = objectOf(detail);
  const exit = typeof about["exitCode"] === "number" ? `exit code ${about["exitCode"]}` : undefined;
  const why = [textOf(about["reason"]), exit, textOf(about["message"])].filter((text) => text !== undefined);
  const last = textOf(memberOf(container, "lastState", "terminated", "reason"));
  const parts = [
    `${name}${why.length === 0 ? "" : ` (${why.join(": ")})`}`,
    container["ready"] === true ? "ready" : "not ready",
    ...(restarts === 0 ? [] : [`${restarts} restarts`]),
    ...(last === undefined ? [] : [`ended before with ${last}`]),
  ];
  return `container ${textOf(container["name"]) ?? "?"}: ${parts.join(", ")}`;
}

function replicasOf(object: JsonObject): readonly string[] {
  const wanted = memberOf(object, "spec", "replicas");
  if (typeof wanted !== "number") return [];
  const count = (key: string): string => shown(memberOf(object, "status", key) ?? 0);
  return [
    `replicas: ${wanted} wanted, ${count("replicas")} there, ${count("readyReplicas")} ready, ${count("availableReplicas")} available`,
  ];
}
