import * as z from "zod";
import {
  EnvironmentError,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { ApiProblem, isNotFound } from "../kube/api-problem.ts";
import { UnknownKind } from "../kube/discovery.ts";
import { memberOf, textOf } from "../kube/json.ts";
import { nameOf, targetOf } from "../kube/objects.ts";
import { deletionText } from "../kube/state.ts";
import { limitOf, poll } from "../polling.ts";
import { manifestsIn, parseManifests, readTaskFile } from "./manifests.ts";
import { outputsOf } from "./outputs.ts";
import { manifest } from "./target.ts";

/** How long a server is given to serve a kind that was applied just before, in milliseconds. */
const newKindMs = 10_000;
const everyMs = 250;

const params = z.strictObject({
  manifest: manifest.optional(),
  manifests: z.array(manifest).min(1).optional(),
  yaml: z.string().min(1).optional().describe("Manifests as YAML text, any number of documents."),
  file: z.string().min(1).optional().describe("A YAML file of the task's folder, any number of documents."),
  namespace: z.string().min(1).optional().describe("For manifests that name none."),
  force: z.boolean().default(false).describe("True: take fields over that others have set."),
  fieldManager: z.string().min(1).default("mcpvals"),
});

type Args = z.output<typeof params>;

/** `apply`: makes objects be as manifests say, one after the other. */
export const apply = operation({
  description: "Makes objects be as manifests say (server-side apply), one after the other.",
  phases: ["setup", "cleanup"],
  params,
  async run(args, context: OperationRun<Cluster>) {
    const manifests = await manifestsOf(args, context);
    const applied: JsonObject[] = [];
    for (const each of manifests) {
      applied.push(await applyOne(each, { args, mayBeNew: bringsKinds(applied) }, context));
    }
    const names = applied.map((object) => nameOf(targetOf(object)));
    const [only] = applied;
    return {
      message: `applied: ${names.join(", ")}`,
      outputs: {
        ...(only === undefined || applied.length > 1 ? {} : outputsOf(only)),
        count: String(names.length),
        names: names.join("\n"),
      },
    };
  },
});

async function manifestsOf(args: Args, { workdir }: OperationRun<Cluster>): Promise<readonly JsonObject[]> {
  const { manifest, manifests, yaml, file, namespace } = args;
  const given = Object.entries({ manifest, manifests, yaml, file }).filter(
    ([, value]) => value !== undefined,
  );
  if (given.length !== 1) throw new EnvironmentError("apply needs one of manifest, manifests, yaml or file");
  const list = [...(manifest === undefined ? [] : [manifest]), ...(manifests ?? [])] as JsonObject[];
  const texts: [string, string][] = [
    ...(yaml === undefined ? [] : [["yaml", yaml] as [string, string]]),
    ...(file === undefined ? [] : [[file, await readTaskFile(workdir, file)] as [string, string]]),
  ];
  const found = [
    ...list.flatMap((each, index) => manifestsIn(each, `manifest ${index + 1}`)),
    ...texts.flatMap(([source, text]) => parseManifests(text, source)),
  ];
  if (found.length === 0) throw new EnvironmentError(`${file ?? "the YAML text"} has no manifests`);
  return namespace === undefined ? found : found.map((each) => inNamespace(each, namespace));
}

function inNamespace(manifest: JsonObject, namespace: string): JsonObject {
  if (targetOf(manifest).namespace !== undefined) return manifest;
  return { ...manifest, metadata: { ...(manifest["metadata"] as JsonObject), namespace } };
}

/** A kind that was defined a moment ago is served a moment later. */
async function applyOne(
  manifest: JsonObject,
  { args, mayBeNew }: { args: Args; mayBeNew: boolean },
  context: OperationRun<Cluster>,
): Promise<JsonObject> {
  const { resources, signal } = context;
  let problem: OperationFailed | undefined;
  const ms = mayBeNew ? limitOf(newKindMs, context).ms : 0;
  const applied = await poll({ ms, everyMs, signal }, async () => {
    try {
      return stayed(await resources.objects.apply(await resolved(manifest, context), args, signal));
    } catch (error) {
      if (!(error instanceof UnknownKind) && !isNotFound(error)) throw told(error, manifest);
      problem = error;
      return undefined;
    }
  });
  if (applied !== undefined) return applied;
  throw told(problem, manifest);
}

/** What is being deleted can be changed, but will be gone. */
function stayed(object: JsonObject): JsonObject {
  const since = textOf(memberOf(object, "metadata", "deletionTimestamp"));
  if (since !== undefined) throw new OperationFailed(deletionText(object, since));
  return object;
}

/** Only objects of kinds with namespaces may name one. */
async function resolved(manifest: JsonObject, context: OperationRun<Cluster>): Promise<JsonObject> {
  const { namespace } = await context.resources.objects.resolve(targetOf(manifest), context.signal);
  const { namespace: _written, ...metadata } = manifest["metadata"] as JsonObject;
  return { ...manifest, metadata: namespace === undefined ? metadata : { ...metadata, namespace } };
}

function bringsKinds(applied: readonly JsonObject[]): boolean {
  return applied.some((object) => targetOf(object).kind === "CustomResourceDefinition");
}

function told(error: unknown, manifest: JsonObject): unknown {
  if (!(error instanceof OperationFailed)) return error;
  const hint =
    error instanceof ApiProblem && error.reason === "Conflict" && error.message.startsWith("Apply failed")
      ? "; force: true takes these fields over"
      : "";
  return new OperationFailed(`${nameOf(targetOf(manifest))}: ${error.message}${hint}`, { cause: error });
}
