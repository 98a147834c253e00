import type { JsonObject } from "../../../src/extensions/sdk/index.ts";
import type { KubeApi } from "./api.ts";
import { isNotFound } from "./api.ts";
import { createDiscovery, type ResourceType } from "./api.ts";
import { memberOf, objectsOf, textOf } from "./state.ts";

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
