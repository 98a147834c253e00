import type { ServerSpec } from "../core/formats/model.ts";
import { type StartOptions, startServer } from "./provision.ts";
import type { TrialServer } from "./trial-server.ts";

/** Starts or takes a server for one trial. Throws as `startServer` does. */
export async function serveTrial(
  name: string,
  spec: ServerSpec,
  options: StartOptions,
): Promise<TrialServer> {
  const session = await startServer(name, spec, options);
  return {
    name,
    session,
    lost: session.lost,
    agentSession: () => Promise.resolve(session),
    endpoint: () => Promise.reject(new Error("the gateway is not there yet")),
    closeAgentSide: () => Promise.resolve(),
    stop: () => session.stop(),
  };
}
