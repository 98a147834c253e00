import { randomUUID } from "node:crypto";

export type KubeObject = { [key: string]: unknown; metadata: Record<string, unknown> };

interface Answer {
  readonly status: number;
  readonly body: object | string;
}

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string | undefined;
  readonly body: unknown;
}

interface Type {
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

interface Place {
  readonly base: string;
  readonly type: Type;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly part: string | undefined;
}

const verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
const nameRule = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
/** So often a kind that was just defined is not yet served. */
const readsBeforeServed = 2;

/** The objects of an API server, and what it answers about them. */
export class KubeStore {
  readonly #objects = new Map<string, KubeObject>();
  readonly #types = new Map<string, Type[]>([
    [
      "/api/v1",
      [
        { kind: "Namespace", plural: "namespaces", namespaced: false },
        { kind: "ConfigMap", plural: "configmaps", namespaced: true },
        { kind: "Pod", plural: "pods", namespaced: true },
      ],
    ],
    ["/apis/apps/v1", [{ kind: "Deployment", plural: "deployments", namespaced: true }]],
    [
      "/apis/apiextensions.k8s.io/v1",
      [{ kind: "CustomResourceDefinition", plural: "customresourcedefinitions", namespaced: false }],
    ],
  ]);
  readonly #owners = new Map<string, Map<string, string>>();
  readonly #leaving = new Map<string, number>();
  readonly #coming = new Map<string, { type: Type; reads: number }>();
  #version = 100;
  /** What users other than those of the system may do, as `USER VERB RESOURCE`. */
  readonly allowed = new Set<string>();
  /** Objects that were deleted stay for ever. */
  held = false;

  constructor() {
    this.put({ apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } });
  }

  /** Puts an object there as it is. */
  put(object: KubeObject): void {
    const path = this.#pathOf(object);
    this.#objects.set(path, this.#stored(structuredClone(object), this.#objects.get(path)));
  }

  /** The object that is there now. */
  get(kind: string, name: string, namespace?: string): KubeObject | undefined {
    return [...this.#objects.values()].find(
      (object) =>
        object["kind"] === kind &&
        object.metadata["name"] === name &&
        object.metadata["namespace"] === namespace,
    );
  }

  /** What is said of a pod that is not there. */
  podProblem(namespace: string, pod: string): { status: number; body: object } | undefined {
    return this.get("Pod", pod, namespace) === undefined ? notFound("pods", pod) : undefined;
  }

  answer(asked: Asked): Answer {
    const { method, path } = asked;
    if (path === "/api") return ok({ kind: "APIVersions", versions: ["v1"] });
    if (path === "/apis") return ok(this.#groups());
    if (path.startsWith("/apis/authorization.k8s.io/v1/") && method === "POST") return this.#review(asked);
    if (/^\/api\/[^/]+$|^\/apis\/[^/]+\/[^/]+$/.test(path)) return this.#resources(path);
    const place = this.#place(path);
    if (place === undefined) return { status: 404, body: "404 page not found\n" };
    if (place.name === undefined)
      return method === "POST" ? this.#create(place, asked) : this.#list(place, asked);
    return this.#one(place, asked);
  }

  #one(place: Place, asked: Asked): Answer {
    const found = this.#objects.get(asked.path.replace(/\/status$/, ""));
    if (asked.method === "PATCH") return this.#patch(place, asked, found);
    if (found === undefined) return notFound(place.type.plural, place.name ?? "");
    if (asked.method === "DELETE") return this.#delete(place, asked, found);
    const answer = ok(structuredClone(found));
    this.#leave(asked.path);
    return answer;
  }

  #create(place: Place, { path, body }: Asked): Answer {
    const manifest = structuredClone(body) as KubeObject;
    const { plural, kind } = place.type;
    const { name: written, generateName: prefix } = manifest.metadata as Record<string, string | undefined>;
    const name = written ?? `${prefix}${randomUUID().slice(0, 5)}`;
    const problem = this.#placeProblem(place, name) ?? nameProblem(kind, name);
    if (problem !== undefined) return problem;
    if (this.#objects.has(`${path}/${name}`)) {
      return statusAnswer({
        status: 409,
        message: `${plural} "${name}" already exists`,
        reason: "AlreadyExists",
        details: { name, kind: plural },
      });
    }
    const namespace = place.namespace === undefined ? {} : { namespace: place.namespace };
    const made = this.#stored(
      { ...manifest, metadata: { ...manifest.metadata, name, ...namespace } },
      undefined,
    );
    this.#objects.set(`${path}/${name}`, made);
    this.#own(`${path}/${name}`, manifest, "creator");
    return { status: 201, body: structuredClone(made) };
  }

  #placeProblem({ namespace, type }: Place, name: string): Answer | undefined {
    if (namespace === undefined) return undefined;
    const home = this.#objects.get(`/api/v1/namespaces/${namespace}`);
    if (home === undefined) return notFound("namespaces", namespace);
    if (home.metadata["deletionTimestamp"] === undefined) return undefined;
    const cause = {
      reason: "NamespaceTerminating",
      message: `namespace ${namespace} is being terminated`,
      field: "metadata.namespace",
    };
    return statusAnswer({
      status: 403,
      message: `${type.plural} "${name}" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
      reason: "Forbidden",
      details: { name, kind: type.plural, causes: [cause] },
    });
  }

  #patch(place: Place, asked: Asked, found: KubeObject | undefined): Answer {
    const patch = asked.body as KubeObject;
    const path = asked.path.replace(/\/status$/, "");
    if (asked.contentType === "application/merge-patch+json") {
      if (found === undefined) return notFound(place.type.plural, place.name ?? "");
      const merged = this.#stored(merge(found, patch) as KubeObject, found);
      this.#objects.set(path, merged);
      return ok(structuredClone(merged));
    }
    if (asked.contentType !== "application/apply-patch+yaml") {
      return statusAnswer({ status: 415, message: "the body of the request was in an unknown format" });
    }
    const problem = this.#placeProblem(place, place.name ?? "");
    if (problem !== undefined) return problem;
    const manager = asked.query.get("fieldManager") ?? "";
    const conflicts = this.#conflicts(path, patch, found, manager);
    if (conflicts.length > 0 && asked.query.get("force") !== "true") return conflictAnswer(conflicts);
    const applied = this.#stored(merge(found ?? {}, patch) as KubeObject, found);
    this.#objects.set(path, applied);
    this.#own(path, patch, manager);
    this.#define(applied);
    return { status: found === undefined ? 201 : 200, body: structuredClone(applied) };
  }

  #conflicts(path: string, patch: KubeObject, found: KubeObject | undefined, manager: string): string[][] {
    const owners = this.#owners.get(path);
    return leaves(patch).flatMap(([field, value]) => {
      const owner = owners?.get(field);
      const before = new Map(leaves(found ?? {})).get(field);
      const taken = owner !== undefined && owner !== manager && before !== undefined && before !== value;
      return taken ? [[owner, field]] : [];
    });
  }

  #own(path: string, manifest: object, manager: string): void {
    const owners = this.#owners.get(path) ?? new Map<string, string>();
    for (const [field] of leaves(manifest)) owners.set(field, manager);
    this.#owners.set(path, owners);
  }

  #delete({ type }: Place, { path, query }: Asked, found: KubeObject): Answer {
    const isNamespace = type.kind === "Namespace";
    const foreground = query.get("propagationPolicy") === "Foreground";
    if (!isNamespace && !foreground) {
      this.#remove(path);
      const details = { name: found.metadata["name"], kind: type.plural, uid: found.metadata["uid"] };
      return ok({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Success", details });
    }
    found.metadata["deletionTimestamp"] ??= now();
    if (foreground) found.metadata["finalizers"] = ["foregroundDeletion"];
    if (isNamespace) found["status"] = { phase: "Terminating" };
    this.#leaving.set(path, 1);
    return ok(structuredClone(found));
  }

  /** What is being deleted is gone after it was read once more. */
  #leave(path: string): void {
    const left = this.#leaving.get(path);
    if (left === undefined || this.held) return;
    this.#leaving.set(path, left - 1);
    if (left <= 0) this.#remove(path);
  }

  #remove(path: string): void {
    this.#leaving.delete(path);
    const inside = path.replace(/^\/api\/v1/, "");
    for (const other of this.#objects.keys()) {
      if (other === path || other.includes(`${inside}/`)) this.#objects.delete(other);
    }
    this.#owners.delete(path);
  }

  #list({ base, type, namespace }: Place, { query }: Asked): Answer {
    const selector = query.get("labelSelector");
    const requirements = selector === null ? [] : selector.split(",").map((part) => part.split("="));
    if (requirements.some((parts) => parts.length > 2)) {
      const message = "unable to parse requirement: found '=', expected: identifier";
      return statusAnswer({ status: 400, message, reason: "BadRequest" });
    }
    const items = [...this.#objects.entries()]
      .filter(([path]) => {
        const place = this.#place(path);
        const isHere = namespace === undefined || place?.namespace === namespace;
        return place?.base === base && place.type === type && isHere;
      })
      .map(([, object]) => object)
      .filter((object) => {
        const labels = (object.metadata["labels"] ?? {}) as Record<string, string>;
        return requirements.every(([key = "", value]) => labels[key] === value);
      })
      // Members of a list do not say what they are.
      .map(({ apiVersion: _version, kind: _kind, ...rest }) => structuredClone(rest));
    const metadata = { resourceVersion: String(this.#version) };
    return ok({ kind: `${type.kind}List`, apiVersion: versionOf(base), metadata, items });
  }

  #review({ path, body }: Asked): Answer {
    const review = body as { spec: { user?: string; resourceAttributes: Record<string, string> } };
    const { user = "admin", resourceAttributes: attributes } = review.spec;
    const { verb = "", resource = "" } = attributes;
    const rights = `${user} ${verb} ${resource}`;
    const allowed =
      (path.endsWith("/selfsubjectaccessreviews") && user === "admin") || this.allowed.has(rights);
    const status = allowed
      ? { allowed, reason: `RBAC: allowed by ClusterRoleBinding "${user}"` }
      : { allowed };
    return { status: 201, body: { ...review, metadata: {}, status } };
  }

  #groups(): object {
    const groups = [...this.#types.keys()]
      .filter((base) => base.startsWith("/apis/"))
      .map((base) => {
        const groupVersion = versionOf(base);
        const [name = "", version = ""] = groupVersion.split("/");
        return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } };
      });
    return { kind: "APIGroupList", apiVersion: "v1", groups };
  }

  #resources(path: string): Answer {
    const coming = this.#coming.get(path);
    if (coming !== undefined && (coming.reads -= 1) < 0) {
      this.#coming.delete(path);
      this.#types.set(path, [...(this.#types.get(path) ?? []), coming.type]);
    }
    const types = this.#types.get(path);
    if (types === undefined) return { status: 404, body: "404 page not found\n" };
    const resources = types.flatMap(({ kind, plural, namespaced }) => [
      { name: plural, singularName: "", namespaced, kind, verbs },
      { name: `${plural}/status`, singularName: "", namespaced, kind, verbs: ["get", "patch", "update"] },
    ]);
    return ok({ kind: "APIResourceList", groupVersion: versionOf(path), resources });
  }

  /** A definition brings its kind, a moment later. */
  #define(object: KubeObject): void {
    if (object["kind"] !== "CustomResourceDefinition") return;
    const spec = object["spec"] as {
      group: string;
      scope: string;
      names: { kind: string; plural: string };
      versions: { name: string }[];
    };
    const type = { ...spec.names, namespaced: spec.scope === "Namespaced" };
    for (const { name } of spec.versions) {
      this.#coming.set(`/apis/${spec.group}/${name}`, { type, reads: readsBeforeServed });
    }
  }

  #place(path: string): Place | undefined {
    const base = [...this.#types.keys()].find((each) => path.startsWith(`${each}/`));
    if (base === undefined) return undefined;
    const [first, second, third, fourth, fifth] = path.slice(base.length + 1).split("/");
    const inNamespace = first === "namespaces" && third !== undefined && third !== "status";
    const [plural, name, part] = inNamespace ? [third, fourth, fifth] : [first, second, third];
    const type = this.#types.get(base)?.find((each) => each.plural === plural);
    return type === undefined
      ? undefined
      : { base, type, namespace: inNamespace ? second : undefined, name, part };
  }

  #pathOf(object: KubeObject): string {
    const version = String(object["apiVersion"]);
    const base = version.includes("/") ? `/apis/${version}` : `/api/${version}`;
    const type = this.#types.get(base)?.find(({ kind }) => kind === object["kind"]);
    if (type === undefined) throw new Error(`the server knows no ${String(object["kind"])}`);
    const { namespace, name } = object.metadata;
    const folder = type.namespaced ? `${base}/namespaces/${String(namespace)}` : base;
    return `${folder}/${type.plural}/${String(name)}`;
  }

  #stored(object: KubeObject, before: KubeObject | undefined): KubeObject {
    this.#version += 1;
    const isNamespace = object["kind"] === "Namespace" && before === undefined;
    const generation = Number(before?.metadata["generation"] ?? 0);
    const changed = JSON.stringify(before?.["spec"]) !== JSON.stringify(object["spec"]);
    return {
      ...object,
      ...(isNamespace ? { spec: { finalizers: ["kubernetes"] }, status: { phase: "Active" } } : {}),
      metadata: {
        ...object.metadata,
        uid: before?.metadata["uid"] ?? randomUUID(),
        resourceVersion: String(this.#version),
        creationTimestamp: before?.metadata["creationTimestamp"] ?? now(),
        ...(object["spec"] === undefined || isNamespace
          ? {}
          : { generation: generation + (changed ? 1 : 0) }),
      },
    };
  }
}

function ok(body: object): Answer {
  return { status: 200, body };
}

function notFound(plural: string, name: string): { status: number; body: object } {
  const details = { name, kind: plural };
  return statusAnswer({ status: 404, message: `${plural} "${name}" not found`, reason: "NotFound", details });
}

function nameProblem(kind: string, name: string): Answer | undefined {
  if (nameRule.test(name)) return undefined;
  const problem = `Invalid value: "${name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'`;
  return statusAnswer({
    status: 422,
    message: `${kind} "${name}" is invalid: metadata.name: ${problem}`,
    reason: "Invalid",
    details: {
      name,
      kind,
      causes: [{ reason: "FieldValueInvalid", message: problem, field: "metadata.name" }],
    },
  });
}

/** Only of what was not applied the way of writing is told. */
function ownerText(owner = ""): string {
  return `conflict with "${owner}"${owner === "creator" ? " using v1" : ""}`;
}

function conflictAnswer(conflicts: readonly string[][]): Answer {
  const causes = conflicts.map(([owner, field]) => ({
    reason: "FieldManagerConflict",
    message: ownerText(owner),
    field,
  }));
  const told = conflicts.map(([owner, field]) => `${ownerText(owner)}: ${field}`).join(", ");
  const count = `${conflicts.length} ${conflicts.length === 1 ? "conflict" : "conflicts"}`;
  return statusAnswer({
    status: 409,
    message: `Apply failed with ${count}: ${told}`,
    reason: "Conflict",
    details: { causes },
  });
}

function versionOf(base: string): string {
  return base.replace(/^\/apis?\//, "");
}

/** Lists of objects with names are merged by them. */
function merge(before: unknown, patch: unknown): unknown {
  if (Array.isArray(before) && Array.isArray(patch) && patch.every((item) => nameIn(item) !== undefined)) {
    const kept = before.filter((item) => !patch.some((other) => nameIn(other) === nameIn(item)));
    const merged = patch.map((item) =>
      merge(
        before.find((other) => nameIn(other) === nameIn(item)),
        item,
      ),
    );
    return [...kept, ...merged];
  }
  if (!isObject(patch)) return structuredClone(patch);
  const result: Record<string, unknown> = isObject(before) ? structuredClone(before) : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merge(result[key], value);
  }
  return result;
}

function leaves(value: unknown, path = ""): [string, unknown][] {
  if (!isObject(value)) return [[path, JSON.stringify(value)]];
  return Object.entries(value)
    .filter(([key]) => path !== "" || !["apiVersion", "kind", "metadata", "status"].includes(key))
    .flatMap(([key, child]) => leaves(child, `${path}.${key}`));
}

function nameIn(item: unknown): unknown {
  return isObject(item) ? item["name"] : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function now(): string {
  return new Date().toISOString().replace(/\.\d+Z$/, "Z");
}

/** An object that says how a request ended. */
export function statusAnswer({
  status,
  message,
  reason,
  details,
}: {
  status: number;
  message: string;
  reason?: string;
  details?: object;
}): { status: number; body: object } {
  const body = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    ...(reason === undefined ? {} : { reason }),
    ...(details === undefined ? {} : { details }),
    code: status,
  };
  return { status, body };
}
