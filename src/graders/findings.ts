import { exact } from "../base/json.ts";
import { countFindings } from "../model/alike-findings.ts";
import { graderKind, skip } from "./grader.ts";

/** The findings of a trial of `mcpvals check`. An error fails it; without findings and without evidence for its part of the check it is a skip. */
export const findingsGrader = graderKind({
  type: "findings",
  forms: ["check"],
  settingsOf: ({ check }) => check,
  async grade(check, trajectory, context) {
    // Loaded only here, since most runs check no server.
    const [{ findDefects }, { readCheck }, { evidenceIn }, { profileOf }] = await Promise.all([
      import("../check/catalogue.ts"),
      import("../check/check-view.ts"),
      import("../check/evidence.ts"),
      import("../check/capability-profile.ts"),
    ]);
    const view = readCheck(trajectory, check);
    const findings = await findDefects(view, context);
    const failed = findings.some(({ severity }) => severity === "error");
    const { lack, evidence } = evidenceIn(view);
    const profile = exact({ profile: profileOf(view) });
    if (!failed && lack !== undefined) return { ...skip(lack), findings, ...profile };
    const cited = [...new Set(findings.flatMap(({ evidence: each }) => each))].toSorted((a, b) => a - b);
    return {
      verdict: failed ? "fail" : "pass",
      score: failed ? 0 : 1,
      reason: countFindings(findings),
      evidence: cited.length > 0 ? cited : evidence.slice(0, 1),
      findings,
      ...profile,
    };
  },
});
