import type { RunStart } from "../../core/report/reporter.ts";
import { agentsIn, describeAgent } from "../format/agents.ts";
import { countOf } from "../format/numbers.ts";
import { paintFlow, type Page, type Piece } from "../format/rows.ts";
import { visibleText } from "../../core/text/visible-text.ts";

/** What is about to run, and who acts in it. */
export function headerLines({ plan, environment }: RunStart, page: Page): string[] {
  const version = `mcpvals ${visibleText(environment.mcpvals)}`;
  const facts = [sizeOf(plan), ...actorsOf(plan)].map((text): Piece => ({ text, tone: "dim" }));
  return [`${page.style.strong(version)}  ${visibleText(plan.name)}`, ...paintFlow(facts, 0, page)];
}

function sizeOf({ tasks, trials }: RunStart["plan"]): string {
  const size = countOf(tasks.length, "task");
  return trials.length === tasks.length ? size : `${size}, ${countOf(trials.length, "trial")}`;
}

function actorsOf({ tasks, trials, agents }: RunStart["plan"]): string[] {
  if (trials.length === 0) return [];
  const acting = agentsIn(trials, agents);
  const isTested = tasks.some((task) => task.form === "tool-test");
  if (acting.length === 0) return [isTested ? "tools called directly, no agent" : "no agent takes part"];
  return acting.map((agent) => `agent ${describeAgent(agent)}`);
}
