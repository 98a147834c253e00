import type { Migration, StepSite } from "./migration.ts";
import { type AnyMap, insert, mapOf, pair, pairOf } from "./yaml-edit.ts";

/** Gives the steps whose outputs are used an id to be called by, and those of servers the output that they had. */
export function addOutputs({ sites, expressions, document, aliases }: Migration): void {
  const isCall = ({ raw }: StepSite): boolean => aliases.get(raw.type.split(".")[0] ?? "")?.kind === "server";
  for (const site of sites) {
    const { raw, body } = site;
    if (!expressions.used.has(raw.id)) continue;
    if (pairOf(body, "id") === undefined) insert(body, pair(document, "id", raw.id), 0);
    if (!isCall(site)) continue;
    const outputs: AnyMap = mapOf([pair(document, "content", "{result | json $.content}")]);
    insert(body, pair(document, "outputs", outputs));
  }
}
