import type { RuleTable } from "./rule.ts";

/** Rules about names and schemas that known clients refuse or change. */
export const clientRules = {} as const satisfies RuleTable;
