import type { AgentSpec } from "../core/formats/model.ts";
import type { AgentDriver } from "./driver.ts";
import { createAcpAgent } from "./acp.ts";
import { createCommandAgent } from "./command.ts";
import { createModelAgent } from "./model.ts";
import { createNullAgent } from "./null.ts";
import { createOracle } from "./oracle.ts";
import { createScriptedAgent } from "./scripted.ts";

export interface AgentOptions {
  /** Variables that models may take their keys and base URLs from. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Longest one request to a model may take. */
  readonly modelMs: number;
  /** Version of mcpvals, as agents that are programs are told. */
  readonly version: string;
}

/** Makes the driver of an agent: every kind of agent, one line each. */
export function createAgent(spec: AgentSpec, options: AgentOptions): AgentDriver {
  switch (spec.type) {
    case "model":
      return createModelAgent(spec, options);
    case "scripted":
      return createScriptedAgent(spec);
    case "oracle":
      return createOracle(spec);
    case "null":
      return createNullAgent(spec);
    case "acp":
      return createAcpAgent(spec, options);
    case "command":
      return createCommandAgent(spec, options);
  }
}
