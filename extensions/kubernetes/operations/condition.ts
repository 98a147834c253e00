import * as z from "zod";
import { operation, type OperationRun } from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { nameOf } from "../kube/objects.ts";
import { conditionFailure, viewCondition, wantedText } from "./conditions.ts";
import { readExisting, targetFields } from "./target.ts";

/** Fields that say which condition is wanted. */
export const conditionFields = {
  condition: z.string().min(1).describe("Type of the condition, such as Ready or Available."),
  status: z.string().min(1).default("True"),
  reason: z.string().min(1).optional().describe("The condition must have this reason too."),
};

/** `condition`: a condition of an object has a status now. */
export const condition = operation({
  description: "A condition of an object, such as Ready, has a status now.",
  phases: ["setup", "verify"],
  params: z.strictObject({ ...targetFields, ...conditionFields }),
  async run(args, { resources: cluster, signal }: OperationRun<Cluster>) {
    const { target, object } = await readExisting(cluster, args, signal);
    const view = viewCondition(object, args);
    if (view.holds) return { message: `${nameOf(target)} has ${view.told}` };
    const what = `${nameOf(target)}: expected ${wantedText(args)}, but ${view.told}`;
    throw await conditionFailure(cluster, { target, object, what }, signal);
  },
});
