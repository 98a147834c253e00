import { isAbsolute, relative } from "node:path";
import type { Task } from "../../core/formats/model.ts";

/** A confined extension may read the task's folder; one that is the home folder, or above it, leaves nothing closed. */
export function openHomeNotes(tasks: readonly Task[], home: string): string[] {
  const inside = (dir: string): boolean =>
    !/^\.\.(?:[/\\]|$)/.test(relative(dir, home)) && !isAbsolute(relative(dir, home));
  return tasks.flatMap(({ name, portable }) => {
    const confined = Object.values(portable?.extensions ?? {}).some(({ sandbox }) => sandbox.kind !== "none");
    if (portable === undefined || !confined || !inside(portable.dir)) return [];
    return [
      `the folder of the task ${JSON.stringify(name)} holds your home folder, all of which its confined extensions can read: move the task into a folder of its own`,
    ];
  });
}
