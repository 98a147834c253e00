import * as z from "zod";
import {
  EnvironmentError,
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extensions/sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { ApiProblem, isNotFound, UnknownKind } from "../kube/api.ts";
import { deletionText, memberOf, stateOf, textOf } from "../kube/state.ts";
import { nameOf, type Target, targetOf } from "../kube/objects.ts";
import { limitOf, milliseconds, poll, waitingTime } from "../polling.ts";
import {
  manifest,
  manifestsIn,
  manifestTargetFields,
  outputsOf,
  parseManifests,
  readTaskFile,
  targetIn,
} from "./target.ts";

/** How long a server is given to serve a kind that was applied just before, in milliseconds. */
const newKindMs = 10_000;
const everyMs = 250;

const params = z.strictObject({
  manifest: manifest.optional(),
  manifests: z.array(manifest).min(1).optional(),
  yaml: z.string().min(1).optional().describe("Manifests as YAML text, any number of documents."),
  file: z
    .string()
    .min(1)
    .optional()
    .describe("A YAML file in the task's folder, with any number of documents."),
  namespace: z.string().min(1).optional().describe("For manifests without a namespace."),
  force: z.boolean().default(false).describe("True: take over fields that others own."),
  fieldManager: z.string().min(1).default("mcpvals"),
});

type Args = z.output<typeof params>;

/** `apply`: makes objects be as manifests say, one after the other. */
export const apply = operation({
  description: "Applies manifests (server-side apply), one after the other.",
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

/** `create`: makes any object. */
export const create = operation({
  description: "Creates an object of any kind; fails if it exists. The arguments are its manifest.",
  params: z.looseObject({
    apiVersion: z.string().min(1).describe("Such as v1 or apps/v1."),
    kind: z.string().min(1).describe("Such as Pod or Deployment."),
    metadata: z.looseObject({ name: z.string().optional(), namespace: z.string().optional() }),
  }),
  async run(manifest, { resources: { objects }, signal }: OperationRun<Cluster>) {
    const made = await objects.create(manifest as JsonObject, signal);
    return { message: `${nameOf(targetOf(made))} is created`, outputs: outputsOf(made) };
  },
});

/** `delete`: deletes one object. */
export const deleteObject = operation({
  description:
    "Deletes one object in the foreground. Does not wait until it is deleted, except with wait: true.",
  params: z.looseObject({
    ...manifestTargetFields,
    ignoreNotFound: z.boolean().default(false).describe("True: a missing object is not an error."),
    wait: z.boolean().default(false).describe("True: wait until it is deleted."),
    timeout: waitingTime,
  }),
  run: (args, context: OperationRun<Cluster>) => removeObject(targetIn(args), args, context),
});

export interface RemoveOptions {
  readonly ignoreNotFound: boolean;
  readonly wait: boolean;
  /** How long to wait; absent: as long as the step may take. */
  readonly timeout?: string | number | undefined;
}

/** Deletes an object and, if asked, waits until it is gone. Throws OperationFailed when it is still there then. */
export async function removeObject(
  wanted: Target,
  { ignoreNotFound, wait, timeout }: RemoveOptions,
  context: OperationRun<Cluster>,
): Promise<{ readonly message: string }> {
  const { resources, signal } = context;
  const target = await resources.objects.resolve(wanted, signal);
  try {
    await resources.objects.remove(target, signal);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    if (!ignoreNotFound) throw new OperationFailed(`${nameOf(target)} does not exist`, { cause: error });
    return { message: `${nameOf(target)} does not exist` };
  }
  if (!wait) return { message: `${nameOf(target)} is being deleted` };
  await waitUntilGone(target, timeout === undefined ? undefined : milliseconds(timeout), context);
  return { message: `${nameOf(target)} is deleted` };
}

/** An object of the same name that was made meanwhile is another one. */
async function waitUntilGone(
  target: Target,
  timeoutMs: number | undefined,
  context: OperationRun<Cluster>,
): Promise<void> {
  const { resources, signal } = context;
  const limit = limitOf(timeoutMs, context);
  let state = "";
  let uid: string | undefined;
  const gone = await poll({ ms: limit.ms, everyMs, signal }, async () => {
    const object = await resources.objects.read(target, signal);
    const found = textOf(memberOf(object, "metadata", "uid"));
    uid ??= found;
    if (object === undefined || found !== uid) return true;
    state = stateOf(object);
    return undefined;
  });
  if (gone === undefined) throw new OperationFailed(`${nameOf(target)} is not gone ${limit.text}\n${state}`);
}
