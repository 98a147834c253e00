import type { Json, JsonObject } from "../../../src/extension-sdk/index.ts";
import { createDiscovery, isNotFound, type KubeApi, type ResourceType } from "./api.ts";

/** Who is meant. Without `namespace` that of the context, for kinds that have one. */
export interface Target {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
}

/** Which objects of a kind are meant. */
export interface Selection {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly allNamespaces?: boolean | undefined;
  readonly labelSelector?: string | undefined;
}

/** The objects of a cluster, of any kind that its server knows. All throw UnknownKind, ApiProblem, EnvironmentError. */
export interface KubeObjects {
  /** The target with the namespace that is used for it; without one when its kind has none. */
  resolve(target: Target, signal: AbortSignal): Promise<Target>;
  /** Undefined when it is not there. */
  read(target: Target, signal: AbortSignal): Promise<JsonObject | undefined>;
  list(selection: Selection, signal: AbortSignal): Promise<readonly JsonObject[]>;
  create(manifest: JsonObject, signal: AbortSignal): Promise<JsonObject>;
  /** Server-side apply. */
  apply(manifest: JsonObject, how: ApplyOptions, signal: AbortSignal): Promise<JsonObject>;
  /** In the foreground; does not wait. */
  remove(target: Target, signal: AbortSignal): Promise<void>;
}

export interface ApplyOptions {
  readonly force: boolean;
  readonly fieldManager: string;
}

export function createObjects(api: KubeApi): KubeObjects {
  const find = createDiscovery(api);
  const pathOf = async (target: Target, signal: AbortSignal): Promise<string> => {
    const type = await find(target.apiVersion, target.kind, signal);
    return `${folderOf(type, target.namespace ?? api.namespace)}/${encodeURIComponent(target.name)}`;
  };
  return {
    async resolve({ namespace = api.namespace, ...target }, signal) {
      const type = await find(target.apiVersion, target.kind, signal);
      return type.namespaced ? { ...target, namespace } : target;
    },
    async read(target, signal) {
      const path = await pathOf(target, signal);
      try {
        return await api.request({ method: "GET", path, signal });
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },
    async list(selection, signal) {
      const { apiVersion, kind, namespace = api.namespace, allNamespaces, labelSelector } = selection;
      const type = await find(apiVersion, kind, signal);
      const path = allNamespaces === true ? `${type.base}/${type.plural}` : folderOf(type, namespace);
      const query = labelSelector === undefined ? {} : { labelSelector };
      const list = await api.request({ method: "GET", path, query, signal });
      return objectsOf(list["items"]);
    },
    async create(manifest, signal) {
      const target = targetOf(manifest);
      const type = await find(target.apiVersion, target.kind, signal);
      const path = folderOf(type, target.namespace ?? api.namespace);
      return api.request({ method: "POST", path, body: manifest, signal });
    },
    async apply(manifest, { force, fieldManager }, signal) {
      const path = await pathOf(targetOf(manifest), signal);
      const query = { fieldManager, ...(force ? { force: "true" } : {}) };
      const contentType = "application/apply-patch+yaml";
      return api.request({ method: "PATCH", path, query, contentType, body: manifest, signal });
    },
    async remove(target, signal) {
      const path = await pathOf(target, signal);
      await api.request({ method: "DELETE", path, query: { propagationPolicy: "Foreground" }, signal });
    },
  };
}

/** How messages name it: `Deployment shop/web`. */
export function nameOf({ kind, name, namespace }: Target): string {
  return `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;
}

/** Who a manifest or an object is; texts that it lacks are empty. */
export function targetOf(manifest: JsonObject): Target {
  const namespace = textOf(memberOf(manifest, "metadata", "namespace"));
  return {
    apiVersion: textOf(manifest["apiVersion"]) ?? "",
    kind: textOf(manifest["kind"]) ?? "",
    name: textOf(memberOf(manifest, "metadata", "name")) ?? "",
    ...(namespace === undefined ? {} : { namespace }),
  };
}

function folderOf({ base, plural, namespaced }: ResourceType, namespace: string): string {
  return namespaced ? `${base}/namespaces/${encodeURIComponent(namespace)}/${plural}` : `${base}/${plural}`;
}

/** Whether a value is an object, not a list. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value when it is an object, else an empty one. */
export function objectOf(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

/** The objects of a list; nothing of what is no list. */
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

/** The states of a pod's containers, one line each; nothing for what is no pod. */
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
