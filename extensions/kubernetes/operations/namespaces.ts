import { createHash, randomInt } from "node:crypto";
import * as z from "zod";
import {
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extensions/sdk/index.ts";
import type { Cluster } from "../extension.ts";
import { waitingTime } from "../polling.ts";
import { nameOf, type Target, targetOf } from "../kube/objects.ts";
import { removeObject } from "./changes.ts";

/** Marks what a trial has made, so that a fresh process of that trial finds it again. */
const trialLabel = "mcpvals/trial";
const letters = "abcdefghijklmnopqrstuvwxyz0123456789";
const suffixLength = 8;

const prefix = z.string().min(1).describe("A dash and eight random characters are added.");

/** `createNamespace`: a namespace with a name of its own, removed by `deleteGeneratedNamespaces`. */
export const createNamespace = operation({
  description: "Creates a namespace whose name is a prefix and eight random characters.",
  params: z.looseObject({ prefix }),
  run: ({ prefix }, context: OperationRun<Cluster>) => makeGenerated(prefix, {}, context),
});

/** `create-namespace`: a namespace, with a given or a generated name. */
export const createNamespaceWithLabels = operation({
  description: "Creates a namespace, with a given name or one that is a prefix and eight random characters.",
  phases: ["setup", "cleanup"],
  params: z.union([
    z.strictObject({ name: z.string().min(1), labels: z.record(z.string(), z.string()).default({}) }),
    z.strictObject({ prefix, labels: z.record(z.string(), z.string()).default({}) }),
  ]),
  run: (args, context: OperationRun<Cluster>) =>
    "name" in args
      ? makeNamespace(args.name, args.labels, context)
      : makeGenerated(args.prefix, args.labels, context),
});

/** `delete-namespace`: deletes a namespace and waits until it is gone. */
export const deleteNamespace = operation({
  description: "Deletes a namespace with all its objects and waits until it is deleted.",
  phases: ["setup", "cleanup"],
  params: z.strictObject({
    name: z.string().min(1),
    ignoreNotFound: z.boolean().default(false).describe("True: a missing object is not an error."),
    wait: z.boolean().default(true).describe("False: do not wait until it is deleted."),
    timeout: waitingTime,
  }),
  run: ({ name, ...how }, context: OperationRun<Cluster>) => removeObject(namespaceNamed(name), how, context),
});

/** `deleteGeneratedNamespaces`: deletes what `createNamespace`, and `create-namespace` with a prefix, made in this trial. */
export const deleteGeneratedNamespaces = operation({
  description: "Deletes all namespaces with generated names that this trial created. Does not wait.",
  params: z.looseObject({}),
  async run(_args, context: OperationRun<Cluster>) {
    const { resources: cluster, signal } = context;
    const marked = await cluster.objects.list(
      { apiVersion: "v1", kind: "Namespace", labelSelector: `${trialLabel}=${trialOf(context)}` },
      signal,
    );
    const names = [...new Set([...cluster.generated, ...marked.map((object) => targetOf(object).name)])];
    const problems: string[] = [];
    for (const name of names) {
      try {
        await removeObject(namespaceNamed(name), { ignoreNotFound: true, wait: false }, context);
        cluster.generated.delete(name);
      } catch (error) {
        if (!(error instanceof OperationFailed)) throw error;
        problems.push(`${name}: ${error.message}`);
      }
    }
    if (problems.length > 0) throw new OperationFailed(`not deleted: ${problems.join("; ")}`);
    return {
      message:
        names.length === 0 ? "there are no generated namespaces" : `being deleted: ${names.join(", ")}`,
    };
  },
});

async function makeGenerated(
  prefix: string,
  labels: Readonly<Record<string, string>>,
  context: OperationRun<Cluster>,
): Promise<Made> {
  const suffix = Array.from({ length: suffixLength }, () => letters[randomInt(letters.length)]).join("");
  const name = `${prefix}-${suffix}`;
  const made = await makeNamespace(name, { ...labels, [trialLabel]: trialOf(context) }, context);
  context.resources.generated.add(name);
  return made;
}

interface Made {
  readonly message: string;
  readonly outputs: Readonly<Record<string, string>>;
}

async function makeNamespace(
  name: string,
  labels: Readonly<Record<string, string>>,
  { resources, signal }: OperationRun<Cluster>,
): Promise<Made> {
  const manifest: JsonObject = { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } };
  const made = targetOf(await resources.objects.create(manifest, signal));
  return { message: `${nameOf(made)} is created`, outputs: { namespace: made.name, name: made.name } };
}

function namespaceNamed(name: string): Target {
  return { apiVersion: "v1", kind: "Namespace", name };
}

/** The workspace is the trial's own; its path is too long for a label, and nobody else's business. */
function trialOf({ workspace }: OperationRun<Cluster>): string {
  return createHash("sha256").update(workspace).digest("hex").slice(0, 32);
}
