import { type EventOf, eventsOf } from "../model/event.ts";
import { shortened } from "../base/visible-text.ts";
import type { CheckView, Found, RuleTable } from "./check-view.ts";
import type { ConformanceCheck, Prober } from "./prober.ts";

/** Longest text of the suite that is recorded. */
const maxText = 1000;

/** Runs scenarios of the official conformance suite, each with a server that was just started, through the recording gateway. */
export async function probeConformance(prober: Prober): Promise<void> {
  const { suite, scenarios = [] } = prober.check.conformance ?? {};
  if (suite === undefined) return;
  for (const scenario of scenarios) {
    const isEnded = await prober.probe(`conformance ${scenario}`, async () => {
      const checks = await prober.runScenario(suite, scenario);
      const unfinished: ConformanceCheck = {
        id: scenario,
        description: "",
        status: "unfinished",
        sources: [],
      };
      for (const { id, description, status, message, sources } of checks ?? [unfinished])
        prober.record({
          type: "conformance.checked",
          server: prober.server,
          scenario,
          check: shortened(id, maxText),
          description: shortened(description, maxText),
          status,
          ...(message === undefined ? {} : { message: shortened(message, maxText) }),
          sources,
        });
      return checks !== undefined;
    });
    // The others would wait as long.
    if (isEnded !== true) return;
  }
}

/** Rules about what the official conformance suite says. */
export const conformanceRules = {
  "protocol/conformance": {
    severity: "error",
    title: "A scenario of the official conformance suite fails",
    why: "The suite tests what the specification demands of every server.",
    fix: "Do what the message says. To repeat the scenario: npx @modelcontextprotocol/conformance server --url URL --scenario NAME.",
    bad: `ping: Server responds to ping requests: Failed: MCP error -32601: Method not found`,
    good: `→ ping   ← { "result": {} }`,
    source: "the suite, @modelcontextprotocol/conformance: each message names its scenario",
    *find(view) {
      for (const check of checksIn(view)) if (isFailure(check) && !isOnlyAdvice(check)) yield foundIn(check);
    },
  },
  "protocol/conformance-advice": {
    severity: "warning",
    title: "The official conformance suite recommends something else",
    why: "The suite also tests what the specification recommends, and demands a description of every tool and prompt, which the specification does not.",
    fix: "Do what the message says, or leave the finding out with --disable protocol/conformance-advice.",
    bad: `tools-list: Server lists available tools with valid structure: Tool 0: missing description`,
    good: `{ name: "list_files", description: "Lists the files of a folder.", … }`,
    source:
      "the suite, @modelcontextprotocol/conformance; MCP 2025-11-25, schema: Tool and Prompt (description is optional)",
    *find(view) {
      for (const check of checksIn(view))
        // A warning without a message says that the scenario could not try something.
        if (
          (check.status === "WARNING" && check.message !== undefined) ||
          (isFailure(check) && isOnlyAdvice(check))
        )
          yield foundIn(check);
    },
  },
  "protocol/conformance-skipped": {
    severity: "info",
    title: "Scenarios of the official conformance suite were not run",
    why: "Most of them call tools, prompts and resources that only a server made for the suite has.",
    fix: "Nothing, unless you develop an SDK: then offer what the scenarios need.",
    bad: `tools-call-image (no tool test_image_content)`,
    good: `{ name: "test_image_content", … }`,
    source: "the suite, @modelcontextprotocol/conformance: the requirements that each scenario states",
    *find(view) {
      const { suite, scenarios = [], skipped = [] } = view.spec.conformance ?? {};
      if (suite === undefined || skipped.length === 0) return;
      const reported = new Set(checksIn(view).map(({ scenario }) => scenario));
      const ran = scenarios.filter((scenario) => reported.has(scenario));
      const left = scenarios.filter((scenario) => !reported.has(scenario));
      const list = skipped.map(({ scenario, reason }) => `${scenario} (${reason})`).join(", ");
      const notTried =
        left.length === 0 ? "" : ` without a report, since one took too long: ${left.join(", ")};`;
      const message = `version ${suite.version} of the suite: ${ran.join(", ")} ran;${notTried} ${skipped.length} do not concern this server: ${list}`;
      yield { message, evidence: [] };
    },
  },
} as const satisfies RuleTable;

type Checked = EventOf<"conformance.checked">;

function checksIn({ events }: CheckView): readonly Checked[] {
  return eventsOf(events, "conformance.checked");
}

function isFailure({ status }: Checked): boolean {
  return status === "FAILURE" || status === "unfinished";
}

/**
 * Whether the suite demands more than the specification does. `server-accepts-multiple-post-streams` names the version 2025-03-26 in
 * a session of another one, which a server that does not have it must refuse.
 */
function isOnlyAdvice({ check, message = "" }: Checked): boolean {
  const problems = message.split("; ");
  return (
    check === "server-accepts-multiple-post-streams" ||
    problems.every((problem) => /^(?:Tool|Prompt) \d+: missing description$/.test(problem))
  );
}

function foundIn({ scenario, description, status, message, seq }: Checked): Found {
  const problem = status === "unfinished" ? "the scenario did not end in time" : message;
  const words = [scenario, description, problem].filter((part) => part !== undefined && part !== "");
  return { message: words.join(": "), evidence: [seq] };
}
