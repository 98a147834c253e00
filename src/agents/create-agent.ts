import type { AgentSpec } from "../model/agent.ts";
import type { AgentDriver, AgentOptions } from "./driver.ts";

/** Loads the code of an agent. The function creates its driver for one trial. */
export async function loadAgent(spec: AgentSpec, options: AgentOptions): Promise<() => AgentDriver> {
  switch (spec.type) {
    case "model": {
      const { createModelAgent } = await import("./model.ts");
      return () => createModelAgent(spec, options);
    }
    case "scripted":
    case "oracle":
    case "null": {
      const { createWrittenAgent } = await import("./scripted.ts");
      return () => createWrittenAgent(spec);
    }
    case "acp": {
      const { createAcpAgent } = await import("./acp.ts");
      return () => createAcpAgent(spec, options);
    }
    case "command": {
      const { createCommandAgent } = await import("./command.ts");
      return () => createCommandAgent(spec, options);
    }
  }
}
