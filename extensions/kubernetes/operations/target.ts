import * as z from "zod";
import { type JsonObject, OperationFailed } from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { nameOf, type Target } from "../kube/objects.ts";

const apiVersion = z.string().min(1).describe("Such as v1 or apps/v1.");
const kind = z.string().min(1).describe("Such as Pod or Deployment.");
const namespace = z.string().min(1).optional().describe("Default: the one of the kubeconfig's context.");

/** Fields that name a kind, and where to look for it. */
export const kindFields = { apiVersion: apiVersion.default("v1"), kind, namespace };

/** Fields that name one object. */
export const targetFields = { ...kindFields, name: z.string().min(1) };

/** Fields that name one object as a manifest does. */
export const manifestTargetFields = {
  apiVersion,
  kind,
  metadata: z.looseObject({ name: z.string().min(1), namespace: z.string().optional() }),
};

/** Fields that make anything a manifest of one object with a name; what else it has is kept. */
export const manifest = z.looseObject(manifestTargetFields);

/** Who the fields of a manifest mean. */
export function targetIn(fields: z.output<typeof manifest>): Target {
  const { apiVersion, kind, metadata } = fields;
  const { name, namespace } = metadata;
  return { apiVersion, kind, name, ...(namespace === undefined || namespace === "" ? {} : { namespace }) };
}

/** An object that was read, with who it is. */
export interface Found {
  readonly target: Target;
  readonly object: JsonObject;
}

/** Reads an object that must be there. Throws OperationFailed when it is not, and what reading throws. */
export async function readExisting(cluster: Cluster, wanted: Target, signal: AbortSignal): Promise<Found> {
  const target = await cluster.objects.resolve(wanted, signal);
  const object = await cluster.objects.read(target, signal);
  if (object === undefined) throw new OperationFailed(`${nameOf(target)} does not exist`);
  return { target, object };
}
