import * as z from "zod";
import { type JsonObject, operation, type OperationRun } from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { nameOf, targetOf } from "../kube/objects.ts";
import { outputsOf } from "./outputs.ts";

/** `create`: makes any object. */
export const create = operation({
  description:
    "Creates an object of any kind; fails when it is there already. The arguments are its manifest.",
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
