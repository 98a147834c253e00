import { countFindings } from "../lint/finding.ts";
import { createGrader, skip } from "./grader.ts";

/** The findings of a trial of `mcpvals check`. An error fails it; without a message of the server there is nothing to judge. */
export const findingsGrader = createGrader("findings", async ({ task, ...trajectory }, context) => {
  const { check } = task;
  if (check === undefined) return skip("not a check");
  // Most runs check no server, so that the rules are loaded only here.
  const [{ findDefects }, { readCheck }] = await Promise.all([
    import("../lint/catalogue.ts"),
    import("../lint/check-view.ts"),
  ]);
  const view = readCheck({ task, ...trajectory }, check);
  const answered = view.exchanges.flatMap(({ answer }) => answer?.seq ?? []);
  const findings = await findDefects(view, context);
  const failed = findings.some(({ severity }) => severity === "error");
  if (!failed && answered.length === 0) return { ...skip("the server answered nothing"), findings };
  const cited = [...new Set(findings.flatMap(({ evidence }) => evidence))].toSorted((a, b) => a - b);
  return {
    verdict: failed ? "fail" : "pass",
    score: failed ? 0 : 1,
    reason: countFindings(findings),
    evidence: cited.length > 0 ? cited : answered.slice(0, 1),
    findings,
  };
});
