import type { CommandAgentSpec } from "../core/formats/model.ts";
import type { AgentDriver } from "./driver.ts";
import type { ProgramAgentOptions } from "./programs/options.ts";

/** Makes an agent that is a program. */
export function createCommandAgent(spec: CommandAgentSpec, _options: ProgramAgentOptions): AgentDriver {
  return {
    reach: "endpoints",
    prepare: () => Promise.resolve(),
    run: () => Promise.reject(new Error(`${spec.name} is not there yet`)),
  };
}
