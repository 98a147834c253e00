import type { AgentSpec } from "../core/formats/model.ts";
import type { AgentDriver } from "./driver.ts";
import { createNullAgent, createOracle, createScriptedAgent } from "./scripted.ts";

export interface AgentOptions {
  /** Variables that models may take their keys and base URLs from. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Longest one request to a model may take. */
  readonly modelMs: number;
  /** Version of mcpvals, for agent programs. */
  readonly version: string;
}

/** Creates the driver of an agent. Types that need much code are loaded when they are used. */
export async function createAgent(spec: AgentSpec, options: AgentOptions): Promise<AgentDriver> {
  switch (spec.type) {
    case "model":
      return (await import("./model.ts")).createModelAgent(spec, options);
    case "scripted":
      return createScriptedAgent(spec);
    case "oracle":
      return createOracle(spec);
    case "null":
      return createNullAgent(spec);
    case "acp":
      return (await import("./acp.ts")).createAcpAgent(spec, options);
    case "command":
      return (await import("./command.ts")).createCommandAgent(spec, options);
  }
}
