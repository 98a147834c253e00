import * as z from "zod";
import { placeVariables, shellMark, ShellTextError } from "../../../templates/shell.ts";
import { type AgentSkills, modelId, type CommandAgentSpec } from "../../../model/agent.ts";
import { closedObject } from "../../../model/fields.ts";
import { LenientReader } from "../lenient-reader.ts";
import { memberOf, withoutUndefined } from "../../../base/json.ts";
import type { ServerSpec } from "../../../model/server.ts";
import type { Locate, ParseResult } from "../../../base/problem.ts";

/** A `kind: Agent` file. */
export interface AgentFile {
  readonly name?: string;
  readonly agent: FileAgent;
  /** What it is, in words, for the case that it cannot be run. */
  readonly description: string;
  /** Where the program looks for skills; absent: the file does not say. */
  readonly skills?: Omit<AgentSkills, "folders">;
}

/** What an agent's file describes. */
export type FileAgent =
  | {
      readonly kind: "llm-agent";
      /** `PROVIDER/MODEL`. */
      readonly model: string;
      readonly baseURL?: string;
      /** Name of a variable that may hold the base URL, when `baseURL` is absent. */
      readonly baseURLVariable?: string;
      /** Name of a variable that may hold the key; else the usual one of the provider does. */
      readonly apiKeyVariable?: string;
    }
  | { readonly kind: "claude-code" }
  | { readonly kind: "acp"; readonly command: string; readonly args: readonly string[] }
  | { readonly kind: "shell"; readonly commands: ShellCommands };

export type ParsedAgentFile = ParseResult<{ readonly file: AgentFile; readonly notes: readonly string[] }>;

const text = z.string().optional();

const agentSchema = closedObject({
  apiVersion: text,
  kind: text,
  metadata: closedObject({ name: text, version: text }).optional(),
  builtin: closedObject({
    type: z.enum(["claude-code", "llm-agent", "openai-agent", "openai-acp"]),
    model: text,
    baseUrl: text,
    apiKey: text,
  }).optional(),
  acp: closedObject({ cmd: z.string(), args: z.array(z.string()).optional() }).optional(),
  commands: closedObject({
    argTemplateMcpServer: text,
    argTemplateAllowedTools: text,
    allowedToolsJoinSeparator: text,
    runPrompt: text,
    useVirtualHome: z.boolean().optional(),
    getVersion: text,
  }).optional(),
  skills: closedObject({ mountPath: text, toolName: text }).optional(),
});

type Document = z.output<typeof agentSchema>;

/**
 * Reads a `kind: Agent` file, leniently. As in the tool that the format comes from, `builtin` wins over `acp`, and `acp` over
 * `commands`; unlike there, what is left out because of that is noted.
 */
export function parseAgentFile(document: unknown, { locate }: { readonly locate: Locate }): ParsedAgentFile {
  const reader = new LenientReader(locate);
  const [kindKey, kind] = memberOf(document, "kind");
  if (kind !== "Agent") reader.refuse('kind must be "Agent"', [kindKey]);
  const parsed = reader.read(agentSchema, document);
  const agent = parsed === undefined ? undefined : readAgent(parsed, reader);
  const skills = parsed === undefined ? undefined : readSkills(parsed, reader);
  if (agent === undefined || reader.failed) return { ok: false, diagnostics: reader.diagnostics() };
  const name = parsed?.metadata?.name?.trim() || undefined;
  return {
    ok: true,
    file: withoutUndefined({ name, agent, description: describe(agent), skills }),
    notes: reader.notes,
  };
}

function readAgent(document: Document, reader: LenientReader): FileAgent | undefined {
  const { builtin, acp, commands } = document;
  if (builtin !== undefined) {
    if (acp !== undefined) reader.note("acp has no effect: builtin wins", ["acp"]);
    return readBuiltin(builtin, reader);
  }
  if (acp !== undefined) return { kind: "acp", command: acp.cmd, args: acp.args ?? [] };
  if (commands?.runPrompt) return { kind: "shell", commands: readCommands(commands, reader) };
  reader.refuse("the agent needs builtin, acp, or commands with runPrompt", [], {
    code: "config/missing-key",
  });
  return undefined;
}

function readSkills({ builtin, skills }: Document, reader: LenientReader): AgentFile["skills"] {
  if (skills === undefined) return undefined;
  if (builtin !== undefined) {
    reader.note("skills has no effect: builtin wins", ["skills"]);
    return undefined;
  }
  const { mountPath = "", toolName = "" } = skills;
  if (mountPath === "" || toolName === "") {
    const key = mountPath === "" ? "mountPath" : "toolName";
    reader.refuse(`skills needs ${key}`, ["skills"], { code: "config/missing-key" });
    return undefined;
  }
  const names = mountPath.split(/[/\\]/).filter((name) => name !== "" && name !== ".");
  if (/^(?:[/\\]|[A-Za-z]:)/.test(mountPath) || names.includes("..") || names.length === 0)
    reader.refuse("mountPath must be a folder inside the workspace", ["skills", "mountPath"]);
  return { mountPath: names.join("/"), tool: toolName };
}

function readCommands(commands: NonNullable<Document["commands"]>, reader: LenientReader): ShellCommands {
  for (const key of ["useVirtualHome", "getVersion"] as const) {
    const isSet = commands[key] !== undefined && commands[key] !== false && commands[key] !== "";
    if (isSet) reader.note(`${key} has no effect`, ["commands", key]);
  }
  const { runPrompt = "" } = commands;
  if (!/\{\{[^}]*\.Prompt\b/.test(runPrompt)) {
    reader.note("the agent is never given the prompt: runPrompt has no {{ .Prompt }}", [
      "commands",
      "runPrompt",
    ]);
  }
  const { argTemplateMcpServer = "" } = commands;
  if (/\{\{[^}]*\.URL\b/.test(argTemplateMcpServer)) {
    const what = "{{ .URL }} shows a secret address to every user of this machine (ps): use {{ .File }}";
    reader.note(what, ["commands", "argTemplateMcpServer"]);
  }
  return {
    runPrompt,
    argTemplateMcpServer,
    argTemplateAllowedTools: commands.argTemplateAllowedTools ?? "",
    allowedToolsJoinSeparator: commands.allowedToolsJoinSeparator ?? " ",
  };
}

function readBuiltin(
  builtin: NonNullable<Document["builtin"]>,
  reader: LenientReader,
): FileAgent | undefined {
  const { type, model = "", baseUrl, apiKey } = builtin;
  if (type === "claude-code") return { kind: "claude-code" };
  const isOld = type !== "llm-agent";
  if (isOld) reader.note(`${type} is the old name of llm-agent`, ["builtin", "type"]);
  const id = modelId(model, isOld ? "openai" : undefined);
  if (id === undefined) {
    const example = "anthropic:claude-sonnet-4-5";
    reader.refuse(`model must be PROVIDER:MODEL, such as ${example}`, ["builtin", "model"]);
    return undefined;
  }
  return withoutUndefined({
    kind: "llm-agent" as const,
    model: id,
    baseURL: baseUrl || undefined,
    baseURLVariable: isOld && !baseUrl ? "MODEL_BASE_URL" : undefined,
    apiKeyVariable: apiKey || (isOld ? "MODEL_KEY" : undefined),
  });
}

function describe(agent: FileAgent): string {
  switch (agent.kind) {
    case "llm-agent":
      return `the built-in model loop with ${agent.model}`;
    case "claude-code":
      return "Claude Code, over the Agent Client Protocol";
    case "acp":
      return `a program that speaks the Agent Client Protocol, ${JSON.stringify(agent.command)}`;
    case "shell":
      return "a program that is started with a shell command";
  }
}

/** An agent that is a line for the shell, with the templates of Go, as its file has it. */
export interface ShellCommands {
  readonly runPrompt: string;
  /** Written for the file with the servers. */
  readonly argTemplateMcpServer: string;
  /** Written for each tool that is allowed. */
  readonly argTemplateAllowedTools: string;
  readonly allowedToolsJoinSeparator: string;
}

/** What is run, or the key that cannot be kept and why. */
export type ShellAgent = ParseResult<
  Pick<CommandAgentSpec, "command" | "args" | "env">,
  { readonly key: keyof ShellCommands; readonly reason: string }
>;

class CannotKeep extends Error {
  readonly key: keyof ShellCommands;

  constructor(key: keyof ShellCommands, reason: string) {
    super(reason);
    this.key = key;
  }
}

/** Variables that the line reads, with their values: templates of a command agent. `URL` is that of the only server. */
const variable = {
  prompt: "MCPVALS_PROMPT",
  /** The prompt as a text in double quotes. */
  quoted: "MCPVALS_PROMPT_JSON",
  file: "MCPVALS_MCP_CONFIG",
  url: "MCPVALS_SERVER_URL",
};

/**
 * Makes a line for the shell of an agent's templates. The prompt is put into it as a variable, so that nothing in it
 * is read by the shell; in the tool that the format comes from, it is.
 */
export function shellAgent(
  commands: ShellCommands,
  { shell, servers }: { readonly shell: string; readonly servers: Readonly<Record<string, ServerSpec>> },
): ShellAgent {
  try {
    const used = new Set([variable.prompt]);
    const names = Object.keys(servers);
    const whole = fill(withoutEscapes(commands.runPrompt), (name, isQuoted) => {
      if (name === "McpServerFileArgs") return names.length === 0 ? "" : fileArgs(commands, names);
      if (name === "AllowedToolArgs") return toolArgs(commands, servers);
      if (name === "Prompt") return shellMark(isQuoted ? variable.quoted : variable.prompt);
      throw new CannotKeep("runPrompt", unknown(name));
    });
    // In code the quotes that the template writes are those of the shell; in a text they belong to it.
    const line = placeVariables(whole, (name, { isInSingleQuotes }) => {
      const placed = name === variable.quoted && !isInSingleQuotes ? variable.prompt : name;
      used.add(placed);
      return placed;
    });
    const values = Object.entries({
      [variable.prompt]: "{prompt}",
      [variable.quoted]: "{promptJson}",
      [variable.file]: "{mcpConfig}",
      [variable.url]: `{servers.${names[0]}.url}`,
    });
    return {
      ok: true,
      command: shell,
      // As in that tool, what it writes to stderr belongs to its answer.
      args: ["-c", `exec 2>&1\n${line}`.replaceAll("{", "{{")],
      env: Object.fromEntries(values.filter(([name]) => used.has(name))),
    };
  } catch (error) {
    if (error instanceof CannotKeep) return { ok: false, key: error.key, reason: error.message };
    if (error instanceof ShellTextError) return { ok: false, key: "runPrompt", reason: error.message };
    throw error;
  }
}

function fileArgs({ argTemplateMcpServer }: ShellCommands, servers: readonly string[]): string {
  return fill(argTemplateMcpServer, (name) => {
    if (name === "File") return shellMark(variable.file);
    if (name === "URL" && servers.length === 1) return shellMark(variable.url);
    const reason = name === "URL" ? "there is more than one server" : unknown(name);
    throw new CannotKeep("argTemplateMcpServer", reason);
  });
}

function toolArgs(
  { argTemplateAllowedTools: template, allowedToolsJoinSeparator }: ShellCommands,
  servers: Readonly<Record<string, ServerSpec>>,
): string {
  const key = "argTemplateAllowedTools";
  const args = Object.entries(servers).flatMap(([server, { tools }]) => {
    if (tools !== undefined)
      return tools.map((tool) =>
        fill(template, (name) => {
          const value = name === "ServerName" ? server : name === "ToolName" ? tool : undefined;
          if (value !== undefined && /^[\w.*-]+$/.test(value)) return value;
          const reason = value === undefined ? unknown(name) : "a name would be read by the shell";
          throw new CannotKeep(key, reason);
        }),
      );
    // Which tools there are is not known before the server runs; but Claude Code has a word for all of a server's.
    const isClaude = /^mcp__\{\{\s*\.ServerName\s*\}\}__\{\{\s*\.ToolName\s*\}\}$/.test(template.trim());
    if (template.trim() === "") return "";
    if (isClaude && /^[\w.-]+$/.test(server)) return `mcp__${server}`;
    const reason = `the tools of ${server} are not known: list them in alwaysAllow of the MCP config file`;
    throw new CannotKeep(key, reason);
  });
  return args.join(allowedToolsJoinSeparator);
}

/** `printf %b` undoes the escapes of `printf "%q"`; the prompt has none here, so `%s` prints it. */
function withoutEscapes(template: string): string {
  return template.replaceAll(/(\bprintf[ \t]+['"]?)%b(?=['"]?[ \t]+\{\{-?\s*printf\s+"%q"\s)/g, "$1%s");
}

/** Replaces `{{ .NAME }}`, `{{ printf "%s" .NAME }}`, and `{{ printf "%q" .NAME }}`, which is quoted. */
function fill(template: string, value: (name: string, isQuoted: boolean) => string): string {
  let written = "";
  let end = 0;
  let trims = false;
  for (const match of template.matchAll(/\{\{(-?)\s*(.*?)\s*(-?)\}\}/gs)) {
    const [text, left, inner = "", right] = match;
    const between = template.slice(end, match.index);
    const before = trims ? between.trimStart() : between;
    const [, verb, name = inner] = /^(?:printf\s+"%([qs])"\s+)?\.(\w+)$/.exec(inner) ?? [];
    written += (left === "-" ? before.trimEnd() : before) + value(name, verb === "q");
    trims = right === "-";
    end = match.index + text.length;
  }
  const rest = template.slice(end);
  return written + (trims ? rest.trimStart() : rest);
}

function unknown(name: string): string {
  return `nothing is known of {{ ${/^\w+$/.test(name) ? `.${name}` : name} }}`;
}
