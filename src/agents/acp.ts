import type { AcpAgentSpec } from "../core/formats/model.ts";
import type { AgentDriver } from "./driver.ts";
import type { ProgramAgentOptions } from "./programs/options.ts";

/** Makes an agent that is a program. */
export function createAcpAgent(spec: AcpAgentSpec, _options: ProgramAgentOptions): AgentDriver {
  return {
    reach: "endpoints",
    prepare: () => Promise.resolve(),
    run: () => Promise.reject(new Error(`${spec.name} is not there yet`)),
  };
}
