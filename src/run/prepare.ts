import type { LoadedConfig } from "../load/assemble-eval.ts";
import { taskFilter, type TaskFilters } from "../load/select-tasks.ts";
import { McpvalsError } from "../core/errors/error.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";
import type { Eval } from "../core/formats/model.ts";
import { applyOverrides, type Overrides } from "../core/plan/plan.ts";

/** Selects tasks and variants. Empty or absent: all. */
export interface Filters extends TaskFilters {
  /** Names. */
  readonly variants?: readonly string[] | undefined;
}

/** What a caller may change about a loaded config; undefined leaves it as it is. */
export interface Selection extends Filters {
  readonly trials?: number | undefined;
  readonly concurrency?: number | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Applies a selection to a loaded config. Throws `usage/no-match` when a filter matches nothing. */
export function prepare(loaded: LoadedConfig, selection: Selection): LoadedConfig {
  const { trials, concurrency, timeoutMs } = selection;
  const variants = variantFilter(selection.variants, loaded.eval.variants);
  const selects = taskFilter(selection, loaded.eval.tasks);
  const given = { trials, concurrency, timeoutMs, selects, variants };
  const overrides: Overrides = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  );
  return { ...loaded, eval: applyOverrides(loaded.eval, overrides) };
}

/** Undefined when no name was given. Throws `usage/no-match` for an unknown name. */
function variantFilter(
  wanted: Filters["variants"] = [],
  variants: Eval["variants"] = [],
): readonly string[] | undefined {
  const known = variants.map(({ name }) => name);
  const unknown = wanted.find((name) => !known.includes(name));
  if (unknown === undefined) return wanted.length === 0 ? undefined : wanted;
  throw new McpvalsError("usage/no-match", `no variant is named "${unknown}"`, {
    hint: suggestion(unknown, known, "variants"),
  });
}
