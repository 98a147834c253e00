import type { RuleTable } from "./rule.ts";

/** Rules about definitions that change from listing to listing, from start to start, or from a committed snapshot. */
export const stabilityRules = {} as const satisfies RuleTable;
