import { isDeepStrictEqual } from "node:util";
import { jsonpath } from "json-p3";
import * as z from "zod";
import {
  EnvironmentError,
  type Json,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extensions/sdk/index.ts";
import { isFound, missingFrom } from "../compare.ts";
import type { Cluster } from "../extension.ts";
import { UnknownKind } from "../kube/api.ts";
import { deletionText, memberOf, shown, textOf } from "../kube/state.ts";
import { nameOf, targetOf } from "../kube/objects.ts";
import { kindFields, manifest, readExisting, targetFields, targetIn } from "./target.ts";

/** Most names that a message lists. */
const maxNames = 10;

const count = z.union([
  z.int().nonnegative(),
  z.strictObject({ min: z.int().nonnegative().optional(), max: z.int().nonnegative().optional() }),
]);

const params = z.strictObject({
  ...kindFields,
  name: z.string().min(1).optional().describe("Default: all objects of the kind that the labels select."),
  labelSelector: z
    .union([z.string().min(1), z.record(z.string(), z.string())])
    .optional()
    .describe("In kubectl syntax, or a map of labels."),
  allNamespaces: z.boolean().default(false),
  exists: z.boolean().default(true).describe("False: there must be none."),
  count: count.optional().describe("How many there must be. Default: at least one."),
});

/** `resource-exists`: there are objects, so many, or none. */
export const resourceExists = operation({
  description: "An object exists, or a number of objects with some labels exists, or none.",
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
    const leaving = found.flatMap(leavingText).slice(0, maxNames);
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
  const rest = names.length > maxNames ? ` and ${names.length - maxNames} more` : "";
  return names.slice(0, maxNames).join(", ") + rest;
}

function leavingText(object: JsonObject): readonly string[] {
  const since = textOf(memberOf(object, "metadata", "deletionTimestamp"));
  return since === undefined ? [] : [`${nameOf(targetOf(object))}: ${deletionText(object, since)}`];
}

/** Most differences that a message lists. */
const maxDifferences = 10;

/** `resource-matches`: a live object contains a partial manifest. */
export const resourceMatches = operation({
  description: "An object has all fields of a partial manifest; it may have more.",
  phases: ["setup", "verify"],
  params: z.strictObject({ manifest }),
  async run({ manifest }, { resources: cluster, signal }: OperationRun<Cluster>) {
    const { target, object } = await readExisting(cluster, targetIn(manifest), signal);
    const differences = missingFrom(object, manifest as JsonObject);
    if (differences.length === 0) return { message: `${nameOf(target)} is as the manifest says` };
    const more = differences.length - maxDifferences;
    throw new OperationFailed(
      [
        `${nameOf(target)} is not as the manifest says:`,
        ...differences.slice(0, maxDifferences),
        ...(more > 0 ? [`and ${more} more differences`] : []),
      ].join("\n"),
    );
  },
});

const json: z.ZodType<Json> = z.json();

const fieldEqualsParams = z.strictObject({
  ...targetFields,
  path: z
    .string()
    .min(1)
    .describe(
      "A JSON path (RFC 9535) such as $.spec.replicas, also written .spec.replicas or spec.replicas.",
    ),
  value: json.optional().describe("Expected value."),
  oneOf: z.array(json).min(1).optional().describe("Allowed values."),
  matches: z.string().min(1).optional().describe("A regular expression (RE2) that must match in the value."),
  exists: z.boolean().optional().describe("Whether the field must exist."),
});

type FieldEqualsArgs = z.output<typeof fieldEqualsParams>;

/** `field-equals`: a field of a live object is a value. */
export const fieldEquals = operation({
  description:
    "A field of a live object is a value, one of several, or fits a pattern. Of a path that leads to several fields all must be so.",
  phases: ["setup", "verify"],
  params: fieldEqualsParams,
  async run(args, { resources: cluster, signal }: OperationRun<Cluster>) {
    refuseEmpty(args);
    const { target, object } = await readExisting(cluster, args, signal);
    const values = follow(args.path, object);
    const problems = problemsOf(args, values);
    if (problems.length > 0) {
      throw new OperationFailed(`${nameOf(target)}: ${args.path} ${problems.join("; ")}`);
    }
    const [first] = values;
    const value = values.length === 1 ? first : values;
    const outputs = { value: typeof value === "string" ? value : JSON.stringify(value) };
    return {
      message: `${nameOf(target)}: ${args.path} is ${values.length === 0 ? "not there" : shown(value)}`,
      outputs: values.length === 0 ? {} : outputs,
    };
  },
});

/** Without an expectation nothing would be checked. */
function refuseEmpty({ value, oneOf, matches, exists }: FieldEqualsArgs): void {
  if ([value, oneOf, matches, exists].some((expectation) => expectation !== undefined)) return;
  throw new EnvironmentError("field-equals needs one of value, oneOf, matches or exists");
}

function follow(path: string, object: JsonObject): readonly Json[] {
  const bare = path.trim().replace(/^\{(.*)\}$/s, "$1");
  const query = bare.startsWith("$") ? bare : `$${/^[.[]/.test(bare) ? "" : "."}${bare}`;
  try {
    return jsonpath.query(query, object as Parameters<typeof jsonpath.query>[1]).values() as Json[];
  } catch (cause) {
    throw new EnvironmentError(`${JSON.stringify(path)} is not a JSON path`, { cause });
  }
}

function problemsOf(args: FieldEqualsArgs, values: readonly Json[]): readonly string[] {
  const { value, oneOf, matches, exists } = args;
  if (exists === false)
    return values.length === 0 ? [] : [`is ${shown(values[0])}, expected not to be there`];
  if (values.length === 0) return [`is not there, expected ${expectedText(args)}`];
  return values.flatMap((found) => [
    ...(value === undefined || isDeepStrictEqual(found, value)
      ? []
      : [`is ${shown(found)}, expected ${shown(value)}`]),
    ...(oneOf === undefined || oneOf.some((each) => isDeepStrictEqual(found, each))
      ? []
      : [`is ${shown(found)}, expected one of ${shown(oneOf)}`]),
    ...(matches === undefined || isFound(matches, typeof found === "string" ? found : JSON.stringify(found))
      ? []
      : [`is ${shown(found)}, expected to match ${JSON.stringify(matches)}`]),
  ]);
}

function expectedText({ value, oneOf, matches }: FieldEqualsArgs): string {
  if (value !== undefined) return shown(value);
  if (oneOf !== undefined) return `one of ${shown(oneOf)}`;
  return matches === undefined ? "to be there" : `to match ${JSON.stringify(matches)}`;
}
