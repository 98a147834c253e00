import picomatch from "picomatch";
import { McpvalsError } from "../core/errors/error.ts";
import type { Task } from "../core/formats/model.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";

/** Which tasks are meant. Of each list one entry has to fit; of labels, one for each key. Empty or absent: any. */
export interface TaskFilters {
  /** Names or globs. */
  readonly tasks?: readonly string[] | undefined;
  readonly tags?: readonly string[] | undefined;
  /** `KEY=VALUE`. */
  readonly labels?: readonly string[] | undefined;
  readonly difficulties?: readonly string[] | undefined;
}

type Matches = (task: Task) => boolean;

/**
 * Makes the filter of `--task`, `--tag`, `--label` and `--difficulty`; undefined when nothing is asked for. Throws
 * `usage/no-match` for a value that no task has, and when no task has all that is asked for.
 */
export function taskFilter(filters: TaskFilters, tasks: readonly Task[]): Matches | undefined {
  const { tasks: patterns = [], tags = [], labels = [], difficulties = [] } = filters;
  const all = [
    ...(patterns.length === 0 ? [] : [taskSelector(patterns, tasks)]),
    ...(tags.length === 0 ? [] : [valueSelector("tag", tags, tasks, tagsOf)]),
    ...labelSelectors(labels, tasks),
    ...(difficulties.length === 0 ? [] : [valueSelector("difficulty", difficulties, tasks, difficultyOf)]),
  ];
  if (all.length === 0) return undefined;
  const matches: Matches = (task) => all.every((each) => each(task));
  if (!tasks.some(matches)) {
    throw new McpvalsError("usage/no-match", "no task matches all that is asked for", {
      hint: "Leave out one of --task, --tag, --label and --difficulty; mcpvals list shows what tasks have.",
    });
  }
  return matches;
}

/**
 * Makes the filter of `--task`: a task is kept when its name is one of the patterns, or matches one as a glob, where `*`
 * does not reach across the `/` between a suite and its tests (other slashes in names are letters to it) and a pattern
 * without `/` also names a whole suite or a test's own title. Throws `usage/no-match` for a pattern that matches no task.
 */
export function taskSelector(patterns: readonly string[], tasks: readonly Task[]): Matches {
  const matchers = patterns.map((pattern) => {
    const matches = matcher(pattern);
    if (!tasks.some(matches)) throw noMatch(pattern, tasks);
    return matches;
  });
  return (task) => matchers.some((matches) => matches(task));
}

function matcher(pattern: string): Matches {
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

const tagsOf = (task: Task): readonly string[] => task.portable?.tags ?? [];

const labelsOf = (task: Task): readonly string[] =>
  Object.entries(task.portable?.labels ?? {}).map(([key, value]) => `${key}=${value}`);

function difficultyOf({ portable }: Task): readonly string[] {
  return portable?.difficulty === undefined ? [] : [portable.difficulty];
}

/** Labels of one key are alternatives, those of different keys must all fit. */
function labelSelectors(labels: readonly string[], tasks: readonly Task[]): Matches[] {
  const byKey = Map.groupBy(labels, (label) => label.slice(0, label.indexOf("=")));
  return [...byKey.values()].map((values) => valueSelector("label", values, tasks, labelsOf));
}

function valueSelector(
  what: string,
  wanted: readonly string[],
  tasks: readonly Task[],
  valuesOf: (task: Task) => readonly string[],
): Matches {
  const known = new Set(tasks.flatMap(valuesOf));
  for (const value of wanted) {
    if (known.has(value)) continue;
    const plural = what === "difficulty" ? "difficulties" : `${what}s`;
    throw new McpvalsError("usage/no-match", `no task has the ${what} "${value}"`, {
      hint: suggestion(value, [...known], plural),
    });
  }
  return (task) => valuesOf(task).some((value) => wanted.includes(value));
}
