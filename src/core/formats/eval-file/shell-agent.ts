import type { CommandAgentSpec, ServerSpec } from "../model.ts";

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
 * Makes a line for the shell of an agent's templates. The prompt is put into it as a variable in quotes, so that nothing in it
 * is read by the shell; in the tool that the format comes from, it is.
 */
export function shellAgent(commands: ShellCommands, { shell, servers }: ShellAgentOptions): ShellAgent {
  try {
    const line = new ShellLine(commands, servers).write();
    // As in that tool, what it writes to stderr belongs to its answer.
    const script = `exec 2>&1\n${line}`
      .replaceAll("{", "{{")
      .replaceAll(urlMark, (_, name: string) => `{servers.${name}.url}`);
    return {
      ok: true,
      command: shell,
      args: ["-c", script],
      env: { [promptVariable]: "{prompt}", [fileVariable]: "{mcpConfig}" },
    };
  } catch (error) {
    if (!(error instanceof CannotKeep)) throw error;
    return { ok: false, key: error.key, reason: error.message };
  }
}

const promptVariable = "MCPVALS_PROMPT";
const fileVariable = "MCPVALS_MCP_CONFIG";
/** Stands for a server's address until braces are escaped. */
const urlMark = /\0url:([^\0]*)\0/g;

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
  readonly #commands: ShellCommands;
  readonly #servers: Readonly<Record<string, ServerSpec>>;

  constructor(commands: ShellCommands, servers: Readonly<Record<string, ServerSpec>>) {
    this.#commands = commands;
    this.#servers = servers;
  }

  write(): string {
    const { runPrompt } = this.#commands;
    const names = Object.keys(this.#servers);
    if (/<<|`|\$\(/.test(runPrompt) && runPrompt.includes("{{"))
      throw new CannotKeep("runPrompt", "it has a here-document or another command inside");
    const whole = fill(runPrompt, (name) => {
      if (name === "McpServerFileArgs") return names.length === 0 ? "" : this.#fileArgs(names);
      if (name === "AllowedToolArgs") return this.#toolArgs();
      if (name === "Prompt") return variable(promptVariable);
      throw new CannotKeep("runPrompt", unknown(name));
    });
    return quoteVariables(whole);
  }

  #fileArgs(names: readonly string[]): string {
    const [only, ...others] = names;
    return fill(this.#commands.argTemplateMcpServer, (name) => {
      if (name === "File") return variable(fileVariable);
      if (name === "URL" && only !== undefined && others.length === 0) return `\0url:${only}\0`;
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

/** Replaces `{{ .NAME }}`, and `{{ printf "%q" .NAME }}`, which has no other meaning here: values are quoted anyway. */
function fill(template: string, value: (name: string) => string): string {
  let written = "";
  let end = 0;
  let trims = false;
  for (const match of template.matchAll(action)) {
    const [text, left, inner = "", right] = match;
    const between = template.slice(end, match.index);
    const before = trims ? between.trimStart() : between;
    const name = /^(?:printf\s+"%[qs]"\s+)?\.(\w+)$/.exec(inner)?.[1] ?? inner;
    written += (left === "-" ? before.trimEnd() : before) + value(name);
    trims = right === "-";
    end = match.index + text.length;
  }
  const rest = template.slice(end);
  return written + (trims ? rest.trimStart() : rest);
}

function unknown(name: string): string {
  return `nothing is known of {{ ${/^\w+$/.test(name) ? `.${name}` : name} }}`;
}

function variable(name: string): string {
  return `\0${name}\0`;
}

/** Writes variables so that each stays one word, whatever the quotes around it are. */
function quoteVariables(line: string): string {
  let quote = "";
  let written = "";
  for (let at = 0; at < line.length; at += 1) {
    const character = line.charAt(at);
    const name = /^\0(MCPVALS_\w+)\0/.exec(line.slice(at, at + 40))?.[1];
    if (name !== undefined) {
      written += quote === "" ? `"\${${name}}"` : quote === '"' ? `\${${name}}` : `'"\${${name}}"'`;
      at += name.length + 1;
    } else if (character === "\\" && quote !== "'") {
      written += line.slice(at, at + 2);
      at += 1;
    } else {
      if (quote === "" && (character === '"' || character === "'")) quote = character;
      else if (character === quote) quote = "";
      written += character;
    }
  }
  return written;
}
