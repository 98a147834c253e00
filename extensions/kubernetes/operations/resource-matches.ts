import * as z from "zod";
import {
  type JsonObject,
  operation,
  OperationFailed,
  type OperationRun,
} from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { missingFrom } from "../compare.ts";
import { nameOf } from "../kube/objects.ts";
import { manifest, readExisting, targetIn } from "./target.ts";

/** Most differences that a message lists. */
const mostDifferences = 10;

/** `resource-matches`: a live object contains a partial manifest. */
export const resourceMatches = operation({
  description: "A live object has everything that a partial manifest says; it may have more.",
  phases: ["setup", "verify"],
  params: z.strictObject({ manifest }),
  async run({ manifest }, { resources: cluster, signal }: OperationRun<Cluster>) {
    const { target, object } = await readExisting(cluster, targetIn(manifest), signal);
    const differences = missingFrom(object, manifest as JsonObject);
    if (differences.length === 0) return { message: `${nameOf(target)} is as the manifest says` };
    const more = differences.length - mostDifferences;
    throw new OperationFailed(
      [
        `${nameOf(target)} is not as the manifest says:`,
        ...differences.slice(0, mostDifferences),
        ...(more > 0 ? [`and ${more} more differences`] : []),
      ].join("\n"),
    );
  },
});
