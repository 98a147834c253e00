import * as z from "zod";
import { type JsonObject, operation, type OperationRun } from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { milliseconds, waitingTime } from "../duration.ts";
import { nameOf } from "../kube/objects.ts";
import { limitOf, poll } from "../polling.ts";
import { conditionFailure, viewCondition, wantedText } from "./conditions.ts";
import { manifestTargetFields, targetIn } from "./target.ts";

/** How often an object is looked at, in milliseconds. */
const everyMs = 1000;

/** `wait`: waits until a condition of an object has a status. The object may appear meanwhile. */
export const wait = operation({
  description: "Waits until a condition of an object, such as Ready, has a status.",
  params: z.looseObject({
    ...manifestTargetFields,
    condition: z.string().min(1).describe("Type of the condition, such as Ready or Available."),
    status: z.string().min(1).default("True"),
    timeout: waitingTime,
  }),
  async run(args, context: OperationRun<Cluster>) {
    const { resources: cluster, signal } = context;
    const target = await cluster.objects.resolve(targetIn(args), signal);
    const wanted = { condition: args.condition, status: args.status };
    const limit = limitOf(args.timeout === undefined ? undefined : milliseconds(args.timeout), context);
    let last: JsonObject | undefined;
    const held = await poll({ ms: limit.ms, everyMs, signal }, async () => {
      last = await cluster.objects.read(target, signal);
      const view = last === undefined ? undefined : viewCondition(last, wanted);
      return view?.holds === true ? view : undefined;
    });
    if (held !== undefined) return { message: `${nameOf(target)} has ${held.told}` };
    const what = `${nameOf(target)} has not come to ${wantedText(wanted)} ${limit.text}`;
    throw await conditionFailure(cluster, { target, object: last, what }, signal);
  },
});
