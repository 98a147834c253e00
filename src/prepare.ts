import type { LoadedConfig } from "./config/load-config.ts";
import { taskSelector } from "./config/select-tasks.ts";
import { applyOverrides, type Overrides } from "./core/plan/overrides.ts";

/** What a caller may change about a loaded config; undefined leaves it as it is. */
export interface Selection {
  /** Names or globs of tasks to keep. */
  readonly tasks?: readonly string[] | undefined;
  readonly trials?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Applies a selection to a loaded config. Throws `usage/no-match` when a pattern matches nothing. */
export function prepare(loaded: LoadedConfig, selection: Selection): LoadedConfig {
  const { tasks, ...rest } = selection;
  const overrides: Overrides = {
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
    ...(tasks === undefined || tasks.length === 0 ? {} : { selects: taskSelector(tasks, loaded.eval.tasks) }),
  };
  return { ...loaded, eval: applyOverrides(loaded.eval, overrides) };
}
