import * as z from "zod";
import type { Diagnostic } from "../../errors/error.ts";
import { closedObject, filledText, nameKey, texts } from "../config/config-fields.ts";
import { type ParsedServer, serverSchema } from "../config/server.ts";
import { asObject, withoutUndefined } from "../json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { Locate } from "../problem.ts";

/** One server of an MCP config file. */
export interface McpConfigServer {
  readonly name: string;
  /** As a config has it. */
  readonly server: ParsedServer;
}

export type ParsedMcpConfigFile =
  | { readonly ok: true; readonly servers: readonly McpConfigServer[]; readonly notes: readonly string[] }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

const entrySchema = closedObject({
  type: z.string().optional(),
  command: z.string().optional(),
  args: z.array(z.string()).optional(),
  env: texts.optional(),
  cwd: filledText.optional(),
  url: z.string().optional(),
  /** Gemini's key for Streamable HTTP. */
  httpUrl: z.string().optional(),
  headers: texts.optional(),
  disabled: z.boolean().optional(),
  alwaysAllow: z.array(z.string()).optional(),
  enableAllTools: z.boolean().optional(),
  /** Copilot's key; `*` is all. */
  tools: z.array(z.string()).optional(),
});

const table = z.record(nameKey, entrySchema);
const fileSchema = closedObject({ mcpServers: table });
/** VS Code has another key, and questions to the user besides. */
const vscodeSchema = closedObject({ servers: table, inputs: z.array(z.unknown()).optional() });

type Entry = z.output<typeof entrySchema>;

/**
 * Reads a file with `mcpServers`, as MCP clients have them, or with `servers`, as VS Code has it. Variables in its texts are already replaced. Servers that are
 * `disabled` are left out; programs get the whole environment, as those clients and the older tool give it to them. Unlike
 * in that tool, `type: sse` means the older HTTP+SSE transport.
 */
export function parseMcpConfigFile(
  document: unknown,
  { locate }: { readonly locate: Locate },
): ParsedMcpConfigFile {
  const reader = new LenientReader(locate);
  const { servers: vscode, mcpServers } = asObject(document);
  const isVscode = vscode !== undefined && mcpServers === undefined;
  const key = isVscode ? "servers" : "mcpServers";
  const found = isVscode
    ? reader.read(vscodeSchema, document)?.servers
    : reader.read(fileSchema, document)?.mcpServers;
  const enabled = Object.entries(found ?? {}).filter(([, entry]) => entry.disabled !== true);
  if (enabled.length === 0 && !reader.failed)
    reader.refuse("the file has no server that is enabled", [key], { code: "config/nothing-to-run" });
  const servers = enabled.flatMap(([name, entry]): McpConfigServer[] => {
    const path = [key, name];
    const input = serverInput(entry);
    if (input === undefined) {
      const message = `the server ${JSON.stringify(name)} needs command or url`;
      reader.refuse(message, path, { code: "config/missing-key", at: "key" });
    }
    const server = input && reader.read(serverSchema, input, path);
    const tools = allowedTools(entry);
    return server === undefined
      ? []
      : [{ name, server: tools === undefined ? server : { ...server, tools } }];
  });
  return reader.failed
    ? { ok: false, diagnostics: reader.diagnostics() }
    : { ok: true, servers, notes: reader.notes };
}

/** An unknown type is ignored; then `url` and `command` decide. */
function serverInput(entry: Entry): z.input<typeof serverSchema> | undefined {
  const { url, httpUrl, command, args = [], env = {}, headers = {}, cwd } = entry;
  const type = (entry.type ?? "").toLowerCase();
  if (httpUrl && type !== "stdio") return { transport: "shttp", url: httpUrl, headers };
  if (url && type !== "stdio") return { transport: type === "sse" ? "sse" : "shttp", url, headers };
  return command
    ? withoutUndefined({ transport: "stdio" as const, command, args, env, cwd, inheritEnv: true as const })
    : undefined;
}

/**
 * The tools that agents are given; undefined: all. The tool that this comes from shows agents the others too and denies
 * their use. An empty `alwaysAllow` by itself is what clients write for "always ask"; it does not limit the tools.
 */
function allowedTools({ alwaysAllow = [], enableAllTools, tools }: Entry): string[] | undefined {
  if (tools !== undefined) return tools.includes("*") ? undefined : tools;
  if (enableAllTools === true) return undefined;
  return alwaysAllow.length === 0 && enableAllTools === undefined ? undefined : alwaysAllow;
}
