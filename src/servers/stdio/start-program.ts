import { homedir } from "node:os";
import type { ServerSpec, StdioServerSpec } from "../../core/formats/model.ts";
import { type ManagedProcess, spawnProcess } from "../../process/spawn.ts";
import { listedPath } from "../../sandbox/mounts.ts";

/** A server's program; `brokenLimit` says why its sandbox ended it. */
export type ServerProgram = ManagedProcess & { readonly brokenLimit?: string | undefined };

/**
 * Starts a server's program, in its sandbox where it has one: there it reads its folder and what is listed, and writes what is
 * listed. Without a sandbox the process exists when this function returns. Throws McpvalsError `server/spawn-failed` and
 * `sandbox/unavailable`.
 */
export async function startProgram(spec: StdioServerSpec): Promise<ServerProgram> {
  const { command, args, env, cwd, sandbox } = spec;
  if (sandbox === undefined) return spawnProcess(spec);
  const home = env["HOME"] ?? homedir();
  const listed = (paths: readonly string[]): readonly string[] =>
    paths.map((path) => listedPath(path, cwd, home));
  const kind = await sandboxOf(sandbox.kind);
  return kind.start({
    process: { command, args, env, cwd },
    read: [cwd, ...listed(sandbox.read)],
    write: listed(sandbox.write),
    spec: sandbox,
  });
}

/** Tries each sandbox that servers ask for. Throws McpvalsError `sandbox/unavailable`, and the signal's reason. */
export async function checkSandboxes(servers: readonly ServerSpec[], signal: AbortSignal): Promise<void> {
  for (const server of servers) {
    const sandbox = server.transport === "stdio" ? server.sandbox : undefined;
    if (sandbox !== undefined) await (await sandboxOf(sandbox.kind)).check(sandbox, signal);
  }
}

/** Only who confines something needs it. */
async function sandboxOf(kind: "none" | "process" | "docker") {
  const sandboxes = await import("../../sandbox/sandboxes.ts");
  return sandboxes.sandboxOf(kind);
}
