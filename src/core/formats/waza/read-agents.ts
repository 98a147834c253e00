import type { LenientReader } from "../lenient-reader.ts";
import { withoutUndefined } from "../without-undefined.ts";
import type { WazaAgents } from "./waza-eval.ts";
import type { ParsedWazaEval } from "./waza-schema.ts";

/** Who plays: those asked for, else `agent` or `agents`, which that tool does not have, else what `executor` means. */
export function readWazaAgents(
  { agent, agents, config }: ParsedWazaEval,
  requested: readonly string[],
  reader: LenientReader,
): WazaAgents {
  const { executor, model } = config;
  const isDeclared = agent !== undefined || Object.keys(agents).length > 0;
  if (isDeclared || requested.length > 0) {
    const winner = requested.length > 0 ? "--agent" : agent === undefined ? "agents" : "agent";
    if (executor !== undefined) reader.note(`executor has no effect: ${winner} wins`, ["config", "executor"]);
    if (model !== undefined) reader.note(`model has no effect: ${winner} wins`, ["config", "model"]);
    return isDeclared ? { kind: "declared", agent, agents } : { kind: "requested" };
  }
  if (executor === "copilot-sdk") return withoutUndefined({ kind: "copilot" as const, model });
  const hint =
    "Add agents: {NAME: {type: scripted, plan: …}} for a run without a model, or choose an agent with --agent.";
  if (executor === "mock") {
    reader.refuse(
      "the executor mock calls no tools, so its trials say nothing of a server",
      ["config", "executor"],
      { hint },
    );
    return { kind: "requested" };
  }
  reader.problem({
    code: "config/missing-key",
    message: 'missing key "executor" in config: nobody plays the tasks',
    path: ["config"],
    at: "key",
    hint: `Write executor: copilot-sdk. ${hint}`,
  });
  return { kind: "requested" };
}
