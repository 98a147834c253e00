import type { CommandAgentSpec, ServerSpec } from "../model.ts";
import { placeVariables, shellMark, ShellTextError } from "../../templates/shell-text.ts";

/** An agent that is a line for the shell, with the templates of Go, as its file has it. */
export interface ShellCommands {
  readonly runPrompt: string;
  /** Written for the file with the servers. */
  readonly argTemplateMcpServer: string;
  /** Written for each tool that is allowed. */
  readonly argTemplateAllowedTools: string;
  readonly allowedToolsJoinSeparator: string;
}

export interface ShellAgentOptions {
  readonly shell: string;
  readonly servers: Readonly<Record<string, ServerSpec>>;
}

/** What is run, or the key that cannot be kept and why. */
export type ShellAgent =
  | ({ readonly ok: true } & Pick<CommandAgentSpec, "command" | "args"> & {
        /** Variables that the line reads. */
        readonly env: Readonly<Record<string, string>>;
      })
  | { readonly ok: false; readonly key: keyof ShellCommands; readonly reason: string };

/**
 * Makes a line for the shell of an agent's templates. The prompt is put into it as a variable, so that nothing in it
 * is read by the shell; in the tool that the format comes from, it is.
 */
export function shellAgent(commands: ShellCommands, { shell, servers }: ShellAgentOptions): ShellAgent {
  try {
    const writer = new ShellLine(commands, servers);
    const line = writer.write();
    // As in that tool, what it writes to stderr belongs to its answer.
    const script = `exec 2>&1\n${line}`.replaceAll("{", "{{");
    const [only] = Object.keys(servers);
    const values = {
      [promptVariable]: "{prompt}",
      [quotedVariable]: "{promptJson}",
      [fileVariable]: "{mcpConfig}",
      [urlVariable]: `{servers.${only}.url}`,
    };
    const isUsed = ([name]: readonly [string, string]): boolean =>
      name === promptVariable || writer.used.has(name);
    return {
      ok: true,
      command: shell,
      args: ["-c", script],
      env: Object.fromEntries(Object.entries(values).filter(isUsed)),
    };
  } catch (error) {
    if (!(error instanceof CannotKeep)) throw error;
    return { ok: false, key: error.key, reason: error.message };
  }
}

const promptVariable = "MCPVALS_PROMPT";
/** The prompt as a text in double quotes. */
const quotedVariable = "MCPVALS_PROMPT_JSON";
const fileVariable = "MCPVALS_MCP_CONFIG";
/** Address of the only server. */
const urlVariable = "MCPVALS_SERVER_URL";

class CannotKeep extends Error {
  readonly key: keyof ShellCommands;

  constructor(key: keyof ShellCommands, reason: string) {
    super(reason);
    this.key = key;
  }
}

const action = /\{\{(-?)\s*(.*?)\s*(-?)\}\}/gs;

/** Writes one line; lives while it is written. */
class ShellLine {
  /** Variables that the line reads. */
  readonly used = new Set<string>();
  readonly #commands: ShellCommands;
  readonly #servers: Readonly<Record<string, ServerSpec>>;

  constructor(commands: ShellCommands, servers: Readonly<Record<string, ServerSpec>>) {
    this.#commands = commands;
    this.#servers = servers;
  }

  write(): string {
    const names = Object.keys(this.#servers);
    const whole = fill(withoutEscapes(this.#commands.runPrompt), (name, isQuoted) => {
      if (name === "McpServerFileArgs") return names.length === 0 ? "" : this.#fileArgs(names);
      if (name === "AllowedToolArgs") return this.#toolArgs();
      if (name === "Prompt") return shellMark(isQuoted ? quotedVariable : promptVariable);
      throw new CannotKeep("runPrompt", unknown(name));
    });
    try {
      // In code the quotes that the template writes are those of the shell; in a text they belong to it.
      return placeVariables(whole, {
        variableFor: (name, { kind }) => {
          const variable = name === quotedVariable && kind === "code" ? promptVariable : name;
          this.used.add(variable);
          return variable;
        },
      });
    } catch (error) {
      if (error instanceof ShellTextError) throw new CannotKeep("runPrompt", error.message);
      throw error;
    }
  }

  #fileArgs(names: readonly string[]): string {
    const [, ...others] = names;
    return fill(this.#commands.argTemplateMcpServer, (name) => {
      if (name === "File") return shellMark(fileVariable);
      if (name === "URL" && others.length === 0) return shellMark(urlVariable);
      const reason = name === "URL" ? "there is more than one server" : unknown(name);
      throw new CannotKeep("argTemplateMcpServer", reason);
    });
  }

  #toolArgs(): string {
    const { allowedToolsJoinSeparator: separator } = this.#commands;
    const args = Object.entries(this.#servers).flatMap(([server, { tools }]) =>
      tools === undefined ? [this.#allTools(server)] : tools.map((tool) => this.#toolArg(server, tool)),
    );
    return args.join(separator);
  }

  #toolArg(server: string, tool: string): string {
    return fill(this.#commands.argTemplateAllowedTools, (name) => {
      const value = name === "ServerName" ? server : name === "ToolName" ? tool : undefined;
      if (value !== undefined && /^[\w.*-]+$/.test(value)) return value;
      const reason = value === undefined ? unknown(name) : "a name would be read by the shell";
      throw new CannotKeep("argTemplateAllowedTools", reason);
    });
  }

  /** Which tools there are is not known before the server runs; but Claude Code has a word for all of a server's. */
  #allTools(server: string): string {
    const template = this.#commands.argTemplateAllowedTools;
    const isClaude = /^mcp__\{\{\s*\.ServerName\s*\}\}__\{\{\s*\.ToolName\s*\}\}$/.test(template.trim());
    if (template.trim() === "") return "";
    if (isClaude && /^[\w.-]+$/.test(server)) return `mcp__${server}`;
    const reason = `the tools of ${server} are not known: list them in alwaysAllow of the MCP config file`;
    throw new CannotKeep("argTemplateAllowedTools", reason);
  }
}

/** Escapes that a template writes and `printf %b` takes back: together they are nothing, and here there are none. */
function withoutEscapes(template: string): string {
  return template.replaceAll(/(\bprintf[ \t]+['"]?)%b(?=['"]?[ \t]+\{\{-?\s*printf\s+"%q"\s)/g, "$1%s");
}

/** Replaces `{{ .NAME }}`, `{{ printf "%s" .NAME }}`, and `{{ printf "%q" .NAME }}`, which is quoted. */
function fill(template: string, value: (name: string, isQuoted: boolean) => string): string {
  let written = "";
  let end = 0;
  let trims = false;
  for (const match of template.matchAll(action)) {
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
