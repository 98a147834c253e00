import type { Variant } from "../../core/formats/model.ts";

/** The servers of variants, with those of further tasks; of both, by variant and task. */
export function joinVariants(
  variants: readonly Variant[],
  tasks: Readonly<Record<string, Variant["servers"]>>,
): readonly Variant[] {
  return variants.map(({ name, servers }) => ({ name, servers: { ...servers, ...tasks[name] } }));
}
