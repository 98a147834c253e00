import { McpvalsError } from "../../core/errors/error.ts";
import type { ConfigDocument } from "./document.ts";

/** Keys beside which `mcpServers` is a misspelt key of a config. */
const configKeys = [
  "server",
  "servers",
  "mcp_servers",
  "mocks",
  "mcp_mocks",
  "variants",
  "workflows",
  "toolHealthSuites",
  "tasks",
];

/** Whether a document is a file of an MCP client: servers, and nothing to run. */
export function isMcpConfig(root: ReadonlyMap<string, unknown>): boolean {
  return root.has("mcpServers") && !configKeys.some((key) => root.has(key));
}

/** The error for such a file in the place of what is to be run; `shown` is the file in messages. */
export function mcpConfigAlone({ locate, source }: ConfigDocument, shown: string): McpvalsError {
  const location = locate({ path: ["mcpServers"], at: "key" }) ?? { file: shown };
  const frame = source?.frame(location);
  const message = `${shown} has the servers of an MCP client, and nothing to run`;
  return new McpvalsError("config/nothing-to-run", message, {
    diagnostics: [
      {
        code: "config/nothing-to-run",
        message,
        location,
        hint: `Pass it along with tasks or an Eval: mcpvals run TASKS --mcp-config ${shown}. In a config its table is mcp_servers.`,
        ...(frame === undefined ? {} : { frame }),
      },
    ],
  });
}
