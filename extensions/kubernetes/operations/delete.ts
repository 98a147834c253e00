import * as z from "zod";
import { operation, OperationFailed, type OperationRun } from "../../../src/extension-sdk/index.ts";
import type { Cluster } from "../cluster.ts";
import { milliseconds, waitingTime } from "../duration.ts";
import { isNotFound } from "../kube/api-problem.ts";
import { memberOf, textOf } from "../kube/json.ts";
import { nameOf, type Target } from "../kube/objects.ts";
import { stateOf } from "../kube/state.ts";
import { limitOf, poll } from "../polling.ts";
import { manifestTargetFields, targetIn } from "./target.ts";

/** How often it is looked whether something is gone, in milliseconds. */
const everyMs = 250;

/** `delete`: deletes one object. */
export const deleteObject = operation({
  description:
    "Deletes one object in the foreground. Does not wait until it is gone, except with wait: true.",
  params: z.looseObject({
    ...manifestTargetFields,
    ignoreNotFound: z.boolean().default(false).describe("True: that it is not there is a success."),
    wait: z.boolean().default(false).describe("True: wait until it is gone."),
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
