import { environment } from "../../load/environment.ts";
import { runBridge } from "./run-bridge.ts";

/** `mcpvals bridge` with its arguments; gives the exit code. */
export function bridge(args: readonly string[]): Promise<number> {
  return runBridge(args, environment()["MCPVALS_BRIDGE_URL"]);
}
