import { objectOf, textOf, type WireObject } from "./acp-values.ts";

/**
 * The name by which an agent means a tool. The protocol had only titles for long, so agents tell the name in places of
 * their own; the title is the last resort.
 */
export function acpToolName(call: WireObject): string | undefined {
  const meta = objectOf(call["_meta"]);
  return textOf(call["name"]) ?? textOf(objectOf(meta["claudeCode"])["toolName"]) ?? textOf(call["title"]);
}
