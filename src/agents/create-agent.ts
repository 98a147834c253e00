import type { AgentSpec } from "../core/formats/model.ts";
import type { AgentDriver, AgentOptions } from "./driver.ts";

/** Creates the driver of an agent, whose code is loaded now. */
export async function createAgent(spec: AgentSpec, options: AgentOptions): Promise<AgentDriver> {
  switch (spec.type) {
    case "model":
      return (await import("./model.ts")).createModelAgent(spec, options);
    case "scripted":
    case "oracle":
    case "null":
      return (await import("./scripted.ts")).createWrittenAgent(spec);
    case "acp":
      return (await import("./acp.ts")).createAcpAgent(spec, options);
    case "command":
      return (await import("./command.ts")).createCommandAgent(spec);
  }
}
