import type { ValidateSchema } from "../expect/tool-result.ts";
import type { Json } from "../base/json.ts";
import { suggestion } from "../base/did-you-mean.ts";
import type { AcceptedFinding, CheckKind } from "../model/check.ts";
import { callRules, endRules, probeCalls } from "./calls.ts";
import { type CheckView, OutOfTime, type RuleContext, type RuleTable } from "./check-view.ts";
import { clientRules } from "./clients.ts";
import { conformanceRules, probeConformance } from "./conformance.ts";
import { definitionRules } from "./definitions.ts";
import { bySeverity, type Finding } from "../model/finding.ts";
import { handshakeRules, probeHandshake } from "./handshake.ts";
import { listRules, probeDefinitions } from "./lists.ts";
import type { Prober } from "./prober.ts";
import { probeReads, readEndRules, readRules } from "./reads.ts";
import { probeRequests, requestRules } from "./requests.ts";
import { schemaRules, uncheckedRules } from "./schemas.ts";
import { serverMessageRules } from "./server-messages.ts";
import { probeSecurity, securityRules } from "./security.ts";
import { probeShutdown, shutdownRules } from "./shutdown.ts";
import { probeStability, stabilityRules } from "./stability.ts";

/** The rules that look at every trial but those of the conformance suite. */
const protocolRules: RuleTable = {
  ...handshakeRules,
  ...serverMessageRules,
  ...listRules,
  ...requestRules,
  ...shutdownRules,
};

interface Part {
  readonly probe: (prober: Prober) => Promise<void>;
  /** The rules that look at its trial. */
  readonly rules: readonly RuleTable[];
}

/** The parts of a check. */
const parts: Readonly<Record<CheckKind, Part>> = {
  handshake: { probe: probeHandshake, rules: [protocolRules] },
  requests: { probe: probeRequests, rules: [protocolRules] },
  shutdown: { probe: probeShutdown, rules: [protocolRules] },
  conformance: { probe: probeConformance, rules: [conformanceRules] },
  definitions: {
    probe: probeDefinitions,
    rules: [
      protocolRules,
      definitionRules,
      schemaRules,
      clientRules,
      callRules,
      readRules,
      uncheckedRules,
      conformanceRules,
    ],
  },
  calls: { probe: probeCalls, rules: [protocolRules, callRules, uncheckedRules] },
  reads: { probe: probeReads, rules: [protocolRules, readRules] },
  security: { probe: probeSecurity, rules: [protocolRules, endRules, readEndRules, securityRules] },
  stability: { probe: probeStability, rules: [protocolRules, stabilityRules] },
};

/** Runs the probes of a part of a check. */
export function runProbes(kind: CheckKind, prober: Prober): Promise<void> {
  return parts[kind].probe(prober);
}

export const findingRules: RuleTable = Object.assign(
  {},
  ...Object.values(parts).flatMap(({ rules }) => rules),
) as RuleTable;

/** The codes of rules that look only when they are enabled. */
export const codesOnRequest: readonly string[] = Object.entries(findingRules).flatMap(
  ([code, { onRequest }]) => (onRequest === true ? code : []),
);

/** Whether a part of a check looks for findings with a code. */
export function looksFor(kind: CheckKind, code: string): boolean {
  return parts[kind].rules.some((table) => Object.hasOwn(table, code));
}

/** What is wrong with a code that no finding has; undefined: one has it. */
export function unknownCode(code: string): { readonly message: string; readonly hint: string } | undefined {
  if (Object.hasOwn(findingRules, code)) return undefined;
  const hint = suggestion(code, Object.keys(findingRules), "codes");
  return { message: `no finding has the code ${JSON.stringify(code)}`, hint };
}

/** Findings of one rule in one trial that are listed. */
const maxFindingsOfRule = 200;

/** What the rules find in a trial of a check, without those that are disabled; errors first. */
export async function findDefects(view: CheckView, context: RuleContext): Promise<readonly Finding[]> {
  const { spec, server } = view;
  const findings: Finding[] = [];
  const outOfTime: string[] = [];
  const notValidated = new Map<Json, string>();
  const validateSchema: ValidateSchema = async (schema, value) => {
    const check = await context.validateSchema(schema, value);
    if (check.status === "unusable" && check.isLimit === true) notValidated.set(schema, check.reason);
    return check;
  };
  for (const table of parts[spec.kind].rules) {
    for (const [code, rule] of Object.entries(table)) {
      if (spec.disable.includes(code)) continue;
      const { severity, title } = rule;
      let count = 0;
      try {
        for await (const { place = {}, fix = rule.fix, ...rest } of rule.find(view, {
          validateSchema,
          outOfTime,
          notValidated,
        })) {
          count += 1;
          if (count <= maxFindingsOfRule)
            findings.push({ code, title, severity, server, place, fix, ...rest });
        }
      } catch (error) {
        if (!(error instanceof OutOfTime)) throw error;
        outOfTime.push(code);
      }
      if (count <= maxFindingsOfRule) continue;
      const message = `${count - maxFindingsOfRule} more of these are left out`;
      findings.push({ code, title, severity, server, place: {}, fix: rule.fix, message, evidence: [] });
    }
  }
  return bySeverity(findings.map((finding) => asAccepted(finding, spec.accepted ?? [])));
}

/** Whether an entry of `accepted` is about a finding. */
export function isAccepted(
  { code, server, place }: Pick<Finding, "code" | "server" | "place">,
  entry: AcceptedFinding,
): boolean {
  return (
    entry.code === code &&
    (entry.server ?? server) === server &&
    (["tool", "prompt", "resource", "parameter"] as const).every(
      (key) => entry[key] === undefined || entry[key] === place[key],
    )
  );
}

/** A finding as info, with its reason, where it is accepted. */
function asAccepted(finding: Finding, accepted: readonly AcceptedFinding[]): Finding {
  const known = accepted.find((each) => isAccepted(finding, each));
  if (known === undefined) return finding;
  const { reason, date } = known;
  return {
    ...finding,
    severity: "info",
    message: `${finding.message} (accepted on ${date}: ${reason})`,
    accepted: { reason, date },
  };
}
