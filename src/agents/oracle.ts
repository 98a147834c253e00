import type { OracleAgentSpec } from "../core/formats/model.ts";
import type { AgentDriver } from "./driver.ts";

/** Makes the agent that plays each task's own solution. */
export function createOracle(_spec: OracleAgentSpec): AgentDriver {
  return { prepare: () => Promise.resolve(), run: () => Promise.reject(new Error("to be written")) };
}
