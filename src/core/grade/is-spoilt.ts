import type { ToolCall } from "../trace/trajectory.ts";

/** Whether a fault was injected that takes the answer away, as all but a delay do, so that nothing is known of the call. */
export function isSpoilt({ fault }: Pick<ToolCall, "fault">): boolean {
  return fault !== undefined && fault !== "delay";
}
