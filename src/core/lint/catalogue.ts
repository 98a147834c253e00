import type { CheckKind } from "../formats/model.ts";
import { callRules } from "./calls.ts";
import type { CheckView } from "./check-view.ts";
import { clientRules } from "./clients.ts";
import { definitionRules } from "./definitions.ts";
import { bySeverity, type Finding } from "./finding.ts";
import { protocolRules } from "./protocol.ts";
import type { RuleTable } from "./rule.ts";
import { schemaRules } from "./schemas.ts";
import { stabilityRules } from "./stability.ts";

/** Every rule, by code. */
export const findingRules: RuleTable = {
  ...protocolRules,
  ...definitionRules,
  ...schemaRules,
  ...clientRules,
  ...callRules,
  ...stabilityRules,
};

/** The rules that look at a trial of each kind. */
const rulesOf: Readonly<Record<CheckKind, readonly RuleTable[]>> = {
  handshake: [protocolRules],
  requests: [protocolRules],
  shutdown: [protocolRules],
  definitions: [definitionRules, schemaRules, clientRules, callRules],
  calls: [callRules],
  stability: [stabilityRules],
};

/** What the rules find in a trial of a check, without those that are disabled; errors first. */
export function findDefects(view: CheckView): readonly Finding[] {
  const found = rulesOf[view.spec.kind].flatMap((table) =>
    Object.entries(table).flatMap(([code, rule]) =>
      view.spec.disable.includes(code)
        ? []
        : [...rule.find(view)].map(({ place = {}, fix = rule.fix, ...rest }): Finding => {
            return { code, severity: rule.severity, server: view.server, place, fix, ...rest };
          }),
    ),
  );
  return bySeverity(found);
}
