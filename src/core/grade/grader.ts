import type { ValidateSchema } from "../checks/tool-result.ts";
import { didYouMean } from "../formats/did-you-mean.ts";
import type { Grade } from "../trace/events.ts";
import type { ToolCall, ToolDeclaration, Trajectory } from "../trace/trajectory.ts";

/** The outside world as graders see it. */
export interface GradeContext {
  readonly validateSchema: ValidateSchema;
}

/** Reads a finished trial and gives a verdict; it never touches a server. */
export interface Grader {
  readonly name: string;
  /** Whether it has anything to say of a trial; absent: always. */
  applies?(trajectory: Trajectory): boolean;
  grade(trajectory: Trajectory, context: GradeContext): Grade | Promise<Grade>;
}

/** A grade without the name of its grader. */
export type Finding = Omit<Grade, "grader">;

export function createGrader(
  name: string,
  find: (trajectory: Trajectory, context: GradeContext) => Finding | Promise<Finding>,
): Grader {
  return { name, grade: async (...about) => ({ grader: name, ...(await find(...about)) }) };
}

/** A finding of a grader that has nothing to judge. */
export function skip(reason: string, evidence: readonly number[] = []): Finding {
  return { verdict: "skip", score: null, reason, evidence };
}

/** A finding that passes if all of its parts do. */
export function passOrFail(
  passed: number,
  total: number,
  rest: Pick<Finding, "reason" | "evidence">,
): Finding {
  return { verdict: passed === total ? "pass" : "fail", score: passed / total, ...rest };
}

/** The question for the tool that `name`, or SERVER.NAME, is most likely a misspelling of; undefined when none is near. */
export function nearestTool(name: string, tools: readonly ToolDeclaration[]): string | undefined {
  const near = didYouMean(name, [...tools.map((tool) => tool.name), ...tools.map(qualified)]);
  return near === undefined ? undefined : `did you mean "${near}"?`;
}

/** The names of the tools, with their servers when there are several. */
export function offeredTools(tools: readonly ToolDeclaration[]): string {
  const several = new Set(tools.map((tool) => tool.server)).size > 1;
  const names = [...new Set(tools.map((tool) => (several ? qualified(tool) : tool.name)))];
  return `offered: ${listed(names, 10)}`;
}

/** The first so many names, and how many more there are. */
export function listed(names: readonly string[], most: number): string {
  const more = names.length > most ? ` and ${names.length - most} more` : "";
  return `${names.slice(0, most).join(", ")}${more}`;
}

/** A tool's name with that of its server. */
export function qualified({ server, name }: { readonly server: string; readonly name: string }): string {
  return `${server}.${name}`;
}

/** Whether a fault was injected that takes the answer away, as all but a delay do, so that nothing is known of the call. */
export function lostToFault({ fault }: Pick<ToolCall, "fault">): boolean {
  return fault !== undefined && fault !== "delay";
}
