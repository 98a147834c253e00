import picomatch from "picomatch";
import { McpvalsError } from "../core/errors/error.ts";
import type { Task } from "../core/formats/model.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";

/**
 * Makes the filter of `--task`: a task is kept when its name is one of the patterns, or matches one as a glob, where `*`
 * does not reach across the `/` between a suite and its tests and a pattern without `/` also names a whole suite or a
 * test's own title. Throws `usage/no-match` for a pattern that matches no task.
 */
export function taskSelector(patterns: readonly string[], tasks: readonly Task[]): (task: Task) => boolean {
  const matchers = patterns.map((pattern) => {
    const matches = matcher(pattern);
    if (!tasks.some(matches)) throw noMatch(pattern, tasks);
    return matches;
  });
  return (task) => matchers.some((matches) => matches(task));
}

function matcher(pattern: string): (task: Task) => boolean {
  const isMatch = picomatch(pattern, { dot: true, nonegate: true });
  return (task) => namesOf(task).some((name) => name === pattern || isMatch(name));
}

function namesOf({ name, suite }: Task): readonly string[] {
  return suite === undefined ? [name] : [name, suite, name.slice(suite.length + 1)];
}

function noMatch(pattern: string, tasks: readonly Task[]): McpvalsError {
  const names = tasks.map((task) => task.name);
  return new McpvalsError("usage/no-match", `no task matches "${pattern}"`, {
    hint: suggestion(pattern, names, "tasks"),
  });
}
