import { EnvironmentError, type JsonObject, OperationFailed } from "../../../src/extension-sdk/index.ts";
import type { KubeApi } from "./api.ts";
import { isNotFound } from "./api-problem.ts";
import { objectsOf, textOf } from "./json.ts";

/** What the server knows of a kind. */
export interface ResourceType {
  readonly apiVersion: string;
  readonly kind: string;
  /** Path of its API version, such as `/apis/apps/v1`. */
  readonly base: string;
  /** As paths name it, such as `deployments`. */
  readonly plural: string;
  readonly namespaced: boolean;
}

/** The server has no such kind, so nothing of that kind can be there or be made. */
export class UnknownKind extends OperationFailed {
  constructor(message: string) {
    super(message);
    this.name = "UnknownKind";
  }
}

/**
 * Finds kinds by asking the server, which is asked again about a kind that it did not have. The function throws
 * UnknownKind, and what requests throw.
 */
export function createDiscovery(
  api: KubeApi,
): (apiVersion: string, kind: string, signal: AbortSignal) => Promise<ResourceType> {
  const known = new Map<string, readonly ResourceType[]>();
  return async (apiVersion, kind, signal) => {
    const before = known.get(apiVersion)?.find((type) => type.kind === kind);
    if (before !== undefined) return before;
    const types = await typesOf(api, apiVersion, signal);
    known.set(apiVersion, types);
    const type = types.find((candidate) => candidate.kind === kind);
    if (type === undefined) throw new UnknownKind(unknownText(apiVersion, kind, types));
    return type;
  };
}

async function typesOf(api: KubeApi, apiVersion: string, signal: AbortSignal): Promise<ResourceType[]> {
  const base = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  try {
    const list = await api.request({ method: "GET", path: base, signal });
    return objectsOf(list["resources"]).flatMap((entry) => typeOf(entry, apiVersion, base));
  } catch (error) {
    if (!isNotFound(error)) throw error;
    if (apiVersion !== "v1") return [];
    throw new EnvironmentError(`what answers at ${api.server()} is no Kubernetes API: it has no ${base}`, {
      cause: error,
    });
  }
}

/** Names with a slash are parts of a resource, such as `pods/exec`. */
function typeOf(entry: JsonObject, apiVersion: string, base: string): ResourceType[] {
  const plural = textOf(entry["name"]) ?? "";
  const kind = textOf(entry["kind"]) ?? "";
  if (plural === "" || plural.includes("/")) return [];
  return [{ apiVersion, kind, base, plural, namespaced: entry["namespaced"] === true }];
}

function unknownText(apiVersion: string, kind: string, types: readonly ResourceType[]): string {
  if (types.length === 0)
    return `the server has no API ${apiVersion}, so no ${kind}; check apiVersion, or install what brings it`;
  const alike = types.find((type) =>
    [type.kind.toLowerCase(), type.plural].some(
      (name) => name === kind.toLowerCase() || name === `${kind.toLowerCase()}s`,
    ),
  );
  const hint = alike === undefined ? "" : `; did you mean ${alike.kind}?`;
  return `the server has no kind ${kind} in ${apiVersion}${hint}`;
}
