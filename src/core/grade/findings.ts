import { countFindings } from "../lint/finding.ts";
import { createGrader, skip } from "./grader.ts";

/** The findings of a trial of `mcpvals check`. An error fails it; without a message of the server there is nothing to judge. */
export const findingsGrader = createGrader("findings", async ({ task, ...trajectory }, context) => {
  const { check } = task;
  if (check === undefined) return skip("not a check");
  // Most runs check no server, so that the rules are loaded only here.
  const [{ findDefects }, { exchangesOf, readCheck }] = await Promise.all([
    import("../lint/catalogue.ts"),
    import("../lint/check-view.ts"),
  ]);
  const view = readCheck({ task, ...trajectory }, check);
  // Calls are judged by what came of calls, not of the handshake.
  const asked = check.kind === "calls" ? exchangesOf(view.exchanges, "tools/call") : view.exchanges;
  const answered = asked.flatMap(({ answer }) => answer?.seq ?? []);
  const findings = await findDefects(view, context);
  const failed = findings.some(({ severity }) => severity === "error");
  if (!failed && answered.length === 0) {
    const reason =
      check.kind === "calls"
        ? "the server answered no call in time; --call-timeout gives calls more time"
        : "the server answered nothing";
    return { ...skip(reason), findings };
  }
  const cited = [...new Set(findings.flatMap(({ evidence }) => evidence))].toSorted((a, b) => a - b);
  return {
    verdict: failed ? "fail" : "pass",
    score: failed ? 0 : 1,
    reason: countFindings(findings),
    evidence: cited.length > 0 ? cited : answered.slice(0, 1),
    findings,
  };
});
