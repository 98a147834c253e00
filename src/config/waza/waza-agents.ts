import { buildAgent } from "../../core/formats/config/build-agent.ts";
import { inlineAgentName } from "../../core/formats/config/config-view.ts";
import type { AgentSpec } from "../../core/formats/model.ts";
import { programCompleter } from "../program-environment.ts";
import { requestedAgents } from "../requested-agents.ts";
import type { WazaContext } from "./waza-context.ts";

/** The agents that play: those asked for, else those that the eval declares, else the Copilot CLI. */
export function wazaAgents({ file, dir, surroundings, problems }: WazaContext): readonly AgentSpec[] {
  const { environment, overrides, agents: asked } = surroundings;
  const complete = programCompleter({ dir, environment, overrides });
  const { agents } = file;
  switch (agents.kind) {
    case "copilot": {
      const { model } = agents;
      const preset = { type: "acp" as const, preset: "copilot" as const, env: {}, inheritEnv: [] };
      return [buildAgent("copilot", model === undefined ? preset : { ...preset, model }, complete)];
    }
    case "requested":
      return requestedAgents([], asked, { problems, complete });
    case "declared": {
      const inline = inlineAgentName(agents.agent);
      const own = typeof agents.agent === "object" ? [buildAgent(inline ?? "", agents.agent, complete)] : [];
      const others = Object.entries(agents.agents).map(([name, agent]) => buildAgent(name, agent, complete));
      const named = typeof agents.agent === "string" ? agents.agent : inline;
      const wanted = asked.length > 0 || named === undefined ? asked : [named];
      return requestedAgents([...own, ...others], wanted, { problems, complete });
    }
  }
}
