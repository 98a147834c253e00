import type { JsonObject } from "../../../src/extension-sdk/index.ts";
import { memberOf, textOf } from "../kube/json.ts";
import { targetOf } from "../kube/objects.ts";

/** What later steps may use of an object; all texts. */
export function outputsOf(object: JsonObject): Readonly<Record<string, string>> {
  const { name, namespace = "" } = targetOf(object);
  const text = (key: string): string => textOf(memberOf(object, "metadata", key)) ?? "";
  return { name, namespace, uid: text("uid"), resourceVersion: text("resourceVersion") };
}
