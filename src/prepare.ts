import type { LoadedConfig } from "./config/load-config.ts";
import { taskFilter, type TaskFilters } from "./config/select-tasks.ts";
import { type Diagnostic, McpvalsError } from "./core/errors/error.ts";
import { applyOverrides, type Overrides } from "./core/plan/overrides.ts";

/** What a caller may change about a loaded config; undefined leaves it as it is. */
export interface Selection extends TaskFilters {
  readonly trials?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly timeoutMs?: number | undefined;
}

/**
 * Applies a selection to a loaded config. Throws `usage/no-match` when a filter matches nothing, and `task/extension` for
 * tasks that are left and use extensions.
 */
export function prepare(loaded: LoadedConfig, selection: Selection): LoadedConfig {
  const { trials, concurrency, timeoutMs } = selection;
  const given = { trials, concurrency, timeoutMs, selects: taskFilter(selection, loaded.eval.tasks) };
  const overrides: Overrides = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  );
  const spec = applyOverrides(loaded.eval, overrides);
  refuseTasks(spec.tasks.flatMap(({ name }) => loaded.refused.get(name) ?? []));
  return { ...loaded, eval: spec };
}

function refuseTasks(diagnostics: readonly Diagnostic[]): void {
  const [first] = diagnostics;
  if (first === undefined) return;
  const more = diagnostics.length === 1 ? "" : ` (and ${diagnostics.length - 1} more)`;
  throw new McpvalsError(first.code, `${first.message}${more}`, { diagnostics });
}
