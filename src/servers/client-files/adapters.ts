import type { JsonObject, McpClient } from "../../core/formats/model.ts";
import type { BridgeCommand } from "../gateway/endpoint.ts";

/** Where a client looks for servers in a folder that it works in, and how it wants to be told of one. */
export interface ClientAdapter {
  /** Path in the folder, with slashes. */
  readonly file: string;
  readonly format: "json" | "toml";
  /** The key under which servers stand by name. */
  readonly key: string;
  readonly http: (url: string) => JsonObject;
  readonly bridge: (bridge: BridgeCommand) => JsonObject;
}

const typedHttp = (url: string): JsonObject => ({ type: "http", url });
const program = ({ command, args, env }: BridgeCommand): JsonObject => ({ command, args, env });
const typedProgram = (bridge: BridgeCommand): JsonObject => ({ type: "stdio", ...program(bridge) });

/**
 * The clients that we write files for. Some read theirs only in a folder that they trust: Codex, Copilot and Gemini ask
 * their user first, or have to be told by an argument or a variable.
 */
export const clientAdapters: Readonly<Record<McpClient, ClientAdapter>> = {
  "claude-code": {
    file: ".mcp.json",
    format: "json",
    key: "mcpServers",
    http: typedHttp,
    bridge: typedProgram,
  },
  codex: {
    file: ".codex/config.toml",
    format: "toml",
    key: "mcp_servers",
    http: (url) => ({ url }),
    bridge: program,
  },
  gemini: {
    file: ".gemini/settings.json",
    format: "json",
    key: "mcpServers",
    http: (url) => ({ httpUrl: url }),
    bridge: program,
  },
  // 1.0.102 reads this one, else `.github/mcp.json`, in a folder that it trusts, but no `.copilot/mcp.json`.
  copilot: {
    file: ".mcp.json",
    format: "json",
    key: "mcpServers",
    http: (url) => ({ ...typedHttp(url), tools: ["*"] }),
    bridge: (bridge) => ({ ...typedProgram(bridge), tools: ["*"] }),
  },
  opencode: {
    file: "opencode.json",
    format: "json",
    key: "mcp",
    http: (url) => ({ type: "remote", url, enabled: true }),
    bridge: ({ command, args, env }) => ({
      type: "local",
      command: [command, ...args],
      environment: env,
      enabled: true,
    }),
  },
  vscode: {
    file: ".vscode/mcp.json",
    format: "json",
    key: "servers",
    http: typedHttp,
    bridge: typedProgram,
  },
  cursor: {
    file: ".cursor/mcp.json",
    format: "json",
    key: "mcpServers",
    http: (url) => ({ url }),
    bridge: program,
  },
};
