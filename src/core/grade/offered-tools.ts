import { didYouMean } from "../formats/did-you-mean.ts";
import type { ToolCall, ToolDeclaration } from "../trace/trajectory.ts";

const shownTools = 10;

/** The question for the tool that `name`, or SERVER.NAME, is most likely a misspelling of; undefined when none is near. */
export function nearestTool(name: string, tools: readonly ToolDeclaration[]): string | undefined {
  const names = tools.map((tool) => tool.name);
  const near = didYouMean(name, [...names, ...tools.map(qualified)]);
  return near === undefined ? undefined : `did you mean "${near}"?`;
}

/** The names of the tools, with their servers when there are several. */
export function offeredTools(tools: readonly ToolDeclaration[]): string {
  const several = new Set(tools.map((tool) => tool.server)).size > 1;
  const names = [...new Set(tools.map((tool) => (several ? qualified(tool) : tool.name)))];
  const more = names.length > shownTools ? ` and ${names.length - shownTools} more` : "";
  return `offered: ${names.slice(0, shownTools).join(", ")}${more}`;
}

function qualified({ server, name }: ToolDeclaration): string {
  return `${server}.${name}`;
}

/** Whether a fault was injected that takes the answer away, as all but a delay do, so that nothing is known of the call. */
export function lostToFault({ fault }: Pick<ToolCall, "fault">): boolean {
  return fault !== undefined && fault !== "delay";
}
