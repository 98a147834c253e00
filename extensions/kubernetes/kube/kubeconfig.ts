import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, dirname, isAbsolute, join, resolve } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { parse } from "yaml";
import type { Json, JsonObject } from "../../../src/extensions/sdk/index.ts";
import { memberOf, objectOf, objectsOf, textOf } from "./state.ts";

/** The kubeconfig that everything goes by. */
export interface Kubeconfig {
  /** Absolute paths, the most important first. */
  readonly files: readonly string[];
  /** All files as one document, secrets included; paths in it are absolute. */
  readonly document: JsonObject;
  /** Name of the context that is used; undefined when none is chosen. */
  readonly context: string | undefined;
  readonly client: KubeConfig;
}

export interface KubeconfigChoice {
  /** Path, or several as in KUBECONFIG. */
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
}

const namedLists = ["clusters", "contexts", "users"] as const;

/**
 * Reads the kubeconfig without any contact with the server: the one of the settings, of KUBECONFIG, or `~/.kube/config`.
 * Of several files the first that says something wins, as with kubectl. Throws an Error when there is no file, when it is
 * none, or when it has no such context.
 */
export function loadKubeconfig(choice: KubeconfigChoice, env: NodeJS.ProcessEnv): Kubeconfig {
  const files = filesOf(choice.kubeconfig ?? env["KUBECONFIG"], env);
  const document = merge(files.map(readDocument));
  const names = objectsOf(document["contexts"]).map((entry) => textOf(entry["name"]));
  const context = choice.context ?? textOf(document["current-context"]);
  if (choice.context !== undefined && !names.includes(choice.context)) {
    throw new Error(
      `the kubeconfig ${files.join(", ")} has no context ${JSON.stringify(choice.context)}; it has ${names.join(", ") || "none"}`,
    );
  }
  return {
    files,
    document,
    context: context === "" ? undefined : context,
    client: clientOf(document, context),
  };
}

function filesOf(paths: string | undefined, env: NodeJS.ProcessEnv): readonly string[] {
  const home = env["HOME"] ?? homedir();
  const written = (paths ?? "").split(delimiter).filter((path) => path.trim() !== "");
  const wanted = (written.length === 0 ? [join(home, ".kube", "config")] : written).map((path) =>
    resolve(/^~(?=$|[/\\])/.test(path) ? join(home, path.slice(1)) : path),
  );
  const found = wanted.filter((path) => existsSync(path));
  if (found.length > 0) return found;
  throw new Error(
    `the kubeconfig ${wanted.join(", ")} does not exist; name one as "kubeconfig" in the extension's config, or in KUBECONFIG`,
  );
}

function readDocument(file: string): JsonObject {
  let document: unknown;
  try {
    document = parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw new Error(`the kubeconfig ${file} cannot be read`, { cause });
  }
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    throw new Error(`the kubeconfig ${file} is not a kubeconfig: it is not a YAML object`);
  }
  return withAbsolutePaths(document as JsonObject, dirname(file));
}

function withAbsolutePaths(document: JsonObject, folder: string): JsonObject {
  const absolute = (entry: JsonObject, key: string, paths: readonly string[]): JsonObject => {
    const value = objectOf(entry[key]);
    const changed = paths.flatMap((name): [string, Json][] => {
      const path = value[name];
      return typeof path === "string" && path !== "" && !isAbsolute(path) ? [[name, join(folder, path)]] : [];
    });
    return changed.length === 0 ? entry : { ...entry, [key]: { ...value, ...Object.fromEntries(changed) } };
  };
  const userPaths = ["client-certificate", "client-key", "tokenFile"];
  return {
    ...document,
    clusters: objectsOf(document["clusters"]).map((entry) =>
      absolute(entry, "cluster", ["certificate-authority"]),
    ),
    users: objectsOf(document["users"]).map((entry) => absolute(entry, "user", userPaths)),
  };
}

function merge(documents: readonly JsonObject[]): JsonObject {
  const lists = namedLists.map((list): [string, Json] => {
    const entries = new Map<string, JsonObject>();
    for (const entry of documents.flatMap((document) => objectsOf(document[list]))) {
      const name = textOf(entry["name"]) ?? "";
      if (!entries.has(name)) entries.set(name, entry);
    }
    return [list, [...entries.values()]];
  });
  const current = documents.map((document) => textOf(document["current-context"])).find((name) => name);
  return {
    apiVersion: "v1",
    ...Object.fromEntries(lists.slice(0, 2)),
    "current-context": current ?? "",
    kind: "Config",
    preferences: objectOf(documents[0]?.["preferences"]),
    ...Object.fromEntries(lists.slice(2)),
  };
}

/** The library's own reading, with what it lacks: plain HTTP, files of tokens, contexts without a user. */
function clientOf(document: JsonObject, context: string | undefined): KubeConfig {
  const client = new KubeConfig();
  const users = objectsOf(document["users"]).map((entry) => {
    const tokenFile = memberOf(entry, "user", "tokenFile");
    if (typeof tokenFile !== "string") return entry;
    const provider = { name: "tokenFile", config: { tokenFile } };
    return { ...entry, user: { ...objectOf(entry["user"]), "auth-provider": provider } };
  });
  client.loadFromString(JSON.stringify({ ...document, users }));
  if (context !== undefined) client.setCurrentContext(context);
  client.clusters = client.clusters.map((cluster) =>
    cluster.server.startsWith("http:") ? { ...cluster, skipTLSVerify: true } : cluster,
  );
  const user = client.getContextObject(client.getCurrentContext())?.user;
  if (user !== undefined && client.getCurrentUser() === null) client.addUser({ name: user });
  return client;
}
