import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { guardUndo, undo, type UndoStep } from "../../process/watchdog.ts";
import { makeTemporaryFolder } from "../../process/temporary-folder.ts";
import type { GatewayEndpoint } from "../gateway/endpoint.ts";
import { clientAdapters } from "./adapters.ts";
import { clientConfigError, reasonOf } from "./journal.ts";
import { serverEntries } from "./merge-servers.ts";

/** A file with `mcpServers` in a folder of its own. */
export interface McpConfigFile {
  /** Absolute path. */
  readonly path: string;
  /** Removes it. Calling it again does nothing. */
  remove(): void;
}

/** The form of Claude Code, which Copilot and others read too. */
const adapter = clientAdapters["claude-code"];

/** The text of a file with `mcpServers` that leads to our gateway. */
export function mcpConfigText(
  endpoints: readonly GatewayEndpoint[],
  connect: "http" | "bridge" = "http",
): string {
  const mcpServers = serverEntries(endpoints, adapter, connect);
  return `${JSON.stringify({ mcpServers }, undefined, 2)}\n`;
}

/**
 * Writes {@link mcpConfigText} outside of every folder that an agent works in, for programs that take the path of such a
 * file. Throws McpvalsError `agent/client-config`.
 */
export async function writeMcpConfigFile(
  endpoints: readonly GatewayEndpoint[],
  connect?: "http" | "bridge",
): Promise<McpConfigFile> {
  try {
    const folder = await makeTemporaryFolder("client");
    const path = join(folder, "mcp.json");
    const steps: readonly UndoStep[] = [
      { kind: "remove-file", path },
      { kind: "remove-folder", path: folder },
    ];
    const guard = guardUndo(steps);
    await writeFile(path, mcpConfigText(endpoints, connect), { flag: "wx", mode: 0o600 });
    return {
      path,
      remove() {
        undo(steps);
        guard.release();
      },
    };
  } catch (error) {
    throw clientConfigError(`cannot write a file for {mcpConfig}: ${reasonOf(error)}`, { cause: error });
  }
}
