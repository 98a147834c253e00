import * as z from "zod";
import {
  EnvironmentError,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { UnknownKind } from "../kube/discovery.ts";
import { memberOf, textOf } from "../kube/json.ts";
import { nameOf, targetOf } from "../kube/objects.ts";
import { deletionText } from "../kube/state.ts";
import { kindFields } from "./target.ts";

/** Most names that a message lists. */
const mostNames = 10;

const count = z.union([
  z.int().nonnegative(),
  z.strictObject({ min: z.int().nonnegative().optional(), max: z.int().nonnegative().optional() }),
]);

const params = z.strictObject({
  ...kindFields,
  name: z.string().min(1).optional().describe("Without it all objects of the kind that the labels select."),
  labelSelector: z
    .union([z.string().min(1), z.record(z.string(), z.string())])
    .optional()
    .describe("As kubectl takes it, or a map of labels."),
  allNamespaces: z.boolean().default(false),
  exists: z.boolean().default(true).describe("False: there must be none."),
  count: count.optional().describe("How many there must be. Default: at least one."),
});

/** `resource-exists`: there are objects, so many, or none. */
export const resourceExists = operation({
  description: "An object exists, or objects with some labels exist, so many of them, or none at all.",
  phases: ["setup", "verify"],
  params,
  async run(args, { resources: cluster, signal }: OperationRun<Cluster>) {
    const wanted = wantedCount(args);
    const found = await find(cluster, args, signal).catch((error: unknown) => {
      throw wanted.max === 0 ? asUnknown(error) : error;
    });
    const what = whatOf(args);
    const names = found.map((object) => nameOf(targetOf(object)));
    const outputs = { count: String(found.length), names: names.join("\n") };
    const told =
      names.length === 0
        ? "there is none"
        : `there ${names.length === 1 ? "is" : "are"} ${names.length}: ${listed(names)}`;
    if (found.length >= wanted.min && found.length <= wanted.max) {
      return { message: `${what}: ${told}`, outputs };
    }
    const leaving = found.flatMap(leavingText).slice(0, mostNames);
    throw new OperationFailed([`${what}: expected ${wanted.text}, but ${told}`, ...leaving].join("\n"), {
      outputs,
    });
  },
});

type Args = z.output<typeof params>;

async function find(cluster: Cluster, args: Args, signal: AbortSignal): Promise<readonly JsonObject[]> {
  const { apiVersion, kind, name, namespace, labelSelector, allNamespaces } = args;
  if (name !== undefined && labelSelector === undefined && !allNamespaces) {
    const object = await cluster.objects.read({ apiVersion, kind, name, namespace }, signal);
    return object === undefined ? [] : [object];
  }
  const selector = selectorText(labelSelector);
  const objects = await cluster.objects.list(
    { apiVersion, kind, namespace, allNamespaces, labelSelector: selector },
    signal,
  );
  // Members of a list do not repeat what the list says of all of them.
  return objects
    .filter((object) => name === undefined || targetOf(object).name === name)
    .map((object) => ({ apiVersion, kind, ...object }));
}

/** That a kind is unknown does not show that objects are gone: it may just be misspelt. */
function asUnknown(error: unknown): unknown {
  if (!(error instanceof UnknownKind)) return error;
  return new EnvironmentError(`it cannot be told whether objects of that kind are gone: ${error.message}`, {
    cause: error,
  });
}

function wantedCount({ exists, count }: Args): { min: number; max: number; text: string } {
  if (!exists) return { min: 0, max: 0, text: "none" };
  if (count === undefined) return { min: 1, max: Infinity, text: "at least one" };
  if (typeof count === "number") return { min: count, max: count, text: String(count) };
  const { min = 0, max = Infinity } = count;
  return { min, max, text: max === Infinity ? `at least ${min}` : `${min} to ${max}` };
}

function selectorText(selector: Args["labelSelector"]): string | undefined {
  if (selector === undefined || typeof selector === "string") return selector;
  return Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

function whatOf({ kind, name, namespace, labelSelector, allNamespaces }: Args): string {
  const selector = selectorText(labelSelector);
  const place = allNamespaces ? " in all namespaces" : namespace === undefined ? "" : ` in ${namespace}`;
  return `${kind}${name === undefined ? "" : ` ${name}`}${place}${selector === undefined ? "" : ` with ${selector}`}`;
}

function listed(names: readonly string[]): string {
  const rest = names.length > mostNames ? ` and ${names.length - mostNames} more` : "";
  return names.slice(0, mostNames).join(", ") + rest;
}

function leavingText(object: JsonObject): readonly string[] {
  const since = textOf(memberOf(object, "metadata", "deletionTimestamp"));
  return since === undefined ? [] : [`${nameOf(targetOf(object))}: ${deletionText(object, since)}`];
}
