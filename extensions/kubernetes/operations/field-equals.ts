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
} from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { shown } from "../kube/json.ts";
import { nameOf } from "../kube/objects.ts";
import { isFound } from "../patterns.ts";
import { readExisting, targetFields } from "./target.ts";

const json: z.ZodType<Json> = z.json();

const params = z.strictObject({
  ...targetFields,
  path: z
    .string()
    .min(1)
    .describe("A JSON path (RFC 9535) as $.spec.replicas, also written .spec.replicas or spec.replicas."),
  value: json.optional().describe("What it must be."),
  oneOf: z.array(json).min(1).optional().describe("It must be one of these."),
  matches: z.string().min(1).optional().describe("A regular expression (RE2) that must be found in it."),
  exists: z.boolean().optional().describe("Whether there must be such a field."),
});

type Args = z.output<typeof params>;

/** `field-equals`: a field of a live object is a value. */
export const fieldEquals = operation({
  description:
    "A field of a live object is a value, one of several, or fits a pattern. Of a path that leads to several fields all must be so.",
  phases: ["setup", "verify"],
  params,
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
function refuseEmpty({ value, oneOf, matches, exists }: Args): void {
  if ([value, oneOf, matches, exists].some((expectation) => expectation !== undefined)) return;
  throw new EnvironmentError("field-equals needs one of value, oneOf, matches or exists");
}

function follow(path: string, object: JsonObject): readonly Json[] {
  const bare = path.trim().replace(/^\{(.*)\}$/s, "$1");
  const query = bare.startsWith("$") ? bare : `$${/^[.[]/.test(bare) ? "" : "."}${bare}`;
  try {
    return jsonpath.query(query, object as Parameters<typeof jsonpath.query>[1]).values() as Json[];
  } catch (cause) {
    throw new EnvironmentError(`${JSON.stringify(path)} is no JSON path`, { cause });
  }
}

function problemsOf(args: Args, values: readonly Json[]): readonly string[] {
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

function expectedText({ value, oneOf, matches }: Args): string {
  if (value !== undefined) return shown(value);
  if (oneOf !== undefined) return `one of ${shown(oneOf)}`;
  return matches === undefined ? "to be there" : `to match ${JSON.stringify(matches)}`;
}
