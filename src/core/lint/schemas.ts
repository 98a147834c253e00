import type { RuleTable } from "./rule.ts";

/** Rules about input and output schemas. */
export const schemaRules = {} as const satisfies RuleTable;
