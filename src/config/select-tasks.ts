import picomatch from "picomatch";
import { McpvalsError } from "../core/errors/error.ts";
import type { Task } from "../core/formats/model.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";

/**
 * Makes the filter of `--task`: a task is kept when its name is one of the patterns, or matches one as a glob, where `*`
 * does not reach across the `/` between a suite and its tests (other slashes in names are letters to it) and a pattern
 * without `/` also names a whole suite or a test's own title. Throws `usage/no-match` for a pattern that matches no task.
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
  // The same on every system: a backslash is never a separator.
  const isMatch =
    pattern === "" ? () => false : picomatch(pattern, { dot: true, nonegate: true, windows: false });
  return (task) => namesOf(task).some((name) => name === pattern || isMatch(name));
}

function namesOf({ name, suite }: Task): readonly string[] {
  if (suite === undefined) return [name, withoutSlashes(name)];
  const title = name.slice(suite.length + 1);
  const plain = [withoutSlashes(suite), withoutSlashes(title)];
  return [name, suite, title, ...plain, plain.join("/")];
}

/** A name that a glob reads as one part of a path. */
function withoutSlashes(name: string): string {
  return name.replaceAll("/", "\u2215");
}

function noMatch(pattern: string, tasks: readonly Task[]): McpvalsError {
  const names = tasks.map((task) => task.name);
  return new McpvalsError("usage/no-match", `no task matches "${pattern}"`, {
    hint: suggestion(pattern, names, "tasks"),
  });
}
