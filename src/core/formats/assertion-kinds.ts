import type { AssertionSet, CallPattern, Task } from "./model.ts";

/** One kind of assertion. */
export type AssertionKind = Exclude<keyof AssertionSet, "grader">;

/** The kinds of assertion that a set makes; an empty list, `false`, and at least no call at all assert nothing. */
export function assertionKinds(set: AssertionSet): readonly AssertionKind[] {
  return allKinds.filter((kind) => {
    const value = set[kind];
    if (kind === "minToolCalls" && value === 0) return false;
    return Array.isArray(value) ? value.length > 0 : value !== undefined && value !== false;
  });
}

/** Every server that a set names. */
export function assertedServers(set: AssertionSet): readonly string[] {
  const patterns: readonly Pick<CallPattern, "server">[] = allKinds.flatMap((kind) => {
    const value = set[kind];
    return typeof value === "object" ? value : [];
  });
  return [...new Set(patterns.flatMap(({ server }) => server ?? []))];
}

const allKinds = [
  "toolsUsed",
  "requireAny",
  "toolsNotUsed",
  "minToolCalls",
  "maxToolCalls",
  "resourcesRead",
  "resourcesNotRead",
  "promptsUsed",
  "promptsNotUsed",
  "callOrder",
  "noDuplicateCalls",
  "skillsLoaded",
  "skillsNotLoaded",
] as const satisfies readonly AssertionKind[];

/** Whether a task from a file of its own has nothing that could fail: no verify step, and no assertion that says anything. */
export function taskChecksNothing(task: Task): boolean {
  if (task.form !== "task" || task.verify.length > 0) return false;
  return (task.portable?.assertions ?? []).every((set) => assertionKinds(set).length === 0);
}
