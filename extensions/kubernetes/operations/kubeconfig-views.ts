import { stringify } from "yaml";
import * as z from "zod";
import {
  type Json,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extensions/sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { isObject, memberOf, objectOf, objectsOf, textOf } from "../kube/state.ts";

const nothing = z.looseObject({});

/** `listContexts`: what the kubeconfig has. The server is not asked. */
export const listContexts = operation({
  description: "Lists the contexts of the kubeconfig.",
  params: nothing,
  run(_args, { resources: { kubeconfig } }: OperationRun<Cluster>) {
    const names = objectsOf(kubeconfig.document["contexts"]).map((entry) => textOf(entry["name"]) ?? "");
    const current = kubeconfig.context ?? "";
    const list = names.map((name) => (name === current ? `* ${name}` : `  ${name}`)).join("\n");
    return {
      message: names.length === 0 ? "the kubeconfig has no contexts" : list,
      outputs: { current, count: String(names.length), contexts: names.join("\n") },
    };
  },
});

/** `getCurrentContext`: the context that all operations use. */
export const getCurrentContext = operation({
  description: "Returns the context of the kubeconfig that is used.",
  params: nothing,
  run(_args, { resources: { kubeconfig } }: OperationRun<Cluster>) {
    if (kubeconfig.context === undefined) throw new OperationFailed("the kubeconfig has no current context");
    return { message: kubeconfig.context, outputs: { context: kubeconfig.context } };
  },
});

/** `viewConfig`: the kubeconfig without its secrets. */
export const viewConfig = operation({
  description: "Returns the kubeconfig as YAML, without secrets.",
  params: z.looseObject({
    minify: z.boolean().default(false).describe("True: only the parts that the current context uses."),
  }),
  run({ minify }, { resources: { kubeconfig } }: OperationRun<Cluster>) {
    const { document, context } = kubeconfig;
    const chosen = minify ? minified(document, context) : document;
    const config = stringify(withoutSecrets({ ...chosen, "current-context": context ?? "" }));
    return { message: config, outputs: { config } };
  },
});

function minified(document: JsonObject, context: string | undefined): JsonObject {
  const contexts = objectsOf(document["contexts"]).filter((entry) => entry["name"] === context);
  const [entry] = contexts;
  if (entry === undefined) throw new OperationFailed("the kubeconfig has no current context to show");
  const named = (list: string, key: string): readonly JsonObject[] =>
    objectsOf(document[list]).filter((each) => each["name"] === memberOf(entry, "context", key));
  return { ...document, contexts, clusters: named("clusters", "cluster"), users: named("users", "user") };
}

/** As kubectl does, and what plugins are given too. */
function withoutSecrets(document: JsonObject): JsonObject {
  return {
    ...document,
    clusters: objectsOf(document["clusters"]).map((entry) => ({
      ...entry,
      cluster: omitted(objectOf(entry["cluster"]), ["certificate-authority-data"]),
    })),
    users: objectsOf(document["users"]).map((entry) => ({
      ...entry,
      user: safeUser(objectOf(entry["user"])),
    })),
  };
}

function safeUser(user: JsonObject): JsonObject {
  const changed = omitted(user, ["client-certificate-data", "client-key-data"]);
  const secret = Object.keys(user).filter((key) => ["token", "password"].includes(key));
  const provider = user["auth-provider"];
  const exec = user["exec"];
  return {
    ...changed,
    ...Object.fromEntries(secret.map((key) => [key, "REDACTED"])),
    ...(isObject(provider)
      ? { "auth-provider": { ...provider, config: redacted(objectOf(provider["config"])) } }
      : {}),
    ...(isObject(exec) && Array.isArray(exec["env"])
      ? { exec: { ...exec, env: objectsOf(exec["env"]).map((each) => ({ ...each, value: "REDACTED" })) } }
      : {}),
  };
}

function omitted(object: JsonObject, keys: readonly string[]): JsonObject {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]): [string, Json] =>
      keys.includes(key) && value !== "" ? [key, "DATA+OMITTED"] : [key, value],
    ),
  );
}

function redacted(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.keys(object).map((key) => [key, "REDACTED"]));
}
