import * as z from "zod";
import { closedObject, filledText, nameKey, texts } from "../../../model/fields.ts";
import { type ParsedServer, serverSchema } from "../../../model/server.ts";
import { didYouMean } from "../../../base/did-you-mean.ts";
import { asList, asObject, asText, withoutUndefined } from "../../../base/json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { Locate, ParseResult } from "../../../base/problem.ts";
import type { LookupVariable } from "../../../base/read-json.ts";

export interface McpConfigServer {
  readonly name: string;
  /** As a config has it. */
  readonly server: ParsedServer;
  /** File with variables for a program, relative to the project's folder; those of `env` win. */
  readonly envFile?: string;
}

export type ParsedMcpConfigFile = ParseResult<{
  readonly servers: readonly McpConfigServer[];
  readonly notes: readonly string[];
}>;

const entrySchema = closedObject({
  type: z.string().optional(),
  command: z.string().optional(),
  args: z.array(z.string()).optional(),
  env: texts.optional(),
  cwd: filledText.optional(),
  /** VS Code's and Cursor's key. */
  envFile: filledText.optional(),
  url: z.string().optional(),
  /** Gemini's key for Streamable HTTP. */
  httpUrl: z.string().optional(),
  headers: texts.optional(),
  http_headers: texts.optional(),
  /** Codex' keys for headers whose values are in variables. */
  env_http_headers: texts.optional(),
  bearer_token_env_var: filledText.optional(),
  disabled: z.boolean().optional(),
  /** Codex' opposite of `disabled`. */
  enabled: z.boolean().optional(),
  alwaysAllow: z.array(z.string()).optional(),
  enableAllTools: z.boolean().optional(),
  /** Copilot's key; `*` is all. */
  tools: z.array(z.string()).optional(),
  /** Codex' key of `tools`. */
  enabled_tools: z.array(z.string()).optional(),
  startup_timeout_sec: z.number().positive().optional(),
});

const table = z.record(nameKey, entrySchema);
/** The keys of the servers: of most clients, of VS Code, and of Codex. */
const tableKeys = ["mcpServers", "servers", "mcp_servers"] as const;

type Entry = z.output<typeof entrySchema>;

/** The key under which a client's file has its servers. */
export function clientTableKey(document: unknown): (typeof tableKeys)[number] {
  const root = asObject(document);
  return tableKeys.find((key) => root[key] !== undefined) ?? "mcpServers";
}

/** A value that VS Code asks its user for: `${input:ID}`. */
export interface ClientInput {
  /** The variable that gives the value. */
  readonly variable: string;
  readonly description: string;
  readonly isPassword: boolean;
  readonly default?: string;
}

/** The part of a client's file that is about servers; what else is in it is the client's own business. */
export interface ClientTable {
  /** The servers with the keys of the file. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly inputs: readonly ClientInput[];
  /** Writes the variables in a text as `${NAME}` or `${NAME:-default}`. */
  readonly spell: (text: string) => string;
}

/** Takes the servers of a client's file; `only` is the one that is meant, or else all are. */
export function readClientTable(document: unknown, only?: string): ClientTable {
  const key = clientTableKey(document);
  const { [key]: found, inputs } = asObject(document);
  const chosen = only === undefined ? found : { [only]: asObject(found)[only] };
  const questions = asList(inputs).flatMap(inputOf);
  const byId = new Map(questions.map(({ id, input }) => [id, input]));
  const spellInput = (id: string): string => {
    const { default: value } = byId.get(id) ?? {};
    const usable = value === undefined || /[{}]/.test(value) ? "" : `:-${value}`;
    return `\${${inputVariable(id)}${usable}}`;
  };
  return {
    // Without one of the keys, its spelling is looked at when it is parsed.
    document: found === undefined ? asObject(document) : { [key]: chosen },
    inputs: questions.map(({ input }) => input),
    spell: (text) =>
      // Codex replaces nothing (openai/codex#2680); it has keys that name variables.
      key === "mcp_servers"
        ? text.replaceAll("${", () => "$${")
        : text
            .replaceAll(/\$\{env:([A-Za-z_]\w*)\}/g, "${$1}")
            .replaceAll("${/}", "${pathSeparator}")
            .replaceAll(/\$\{input:([^{}]+)\}/g, (_, id: string) => spellInput(id)),
  };
}

/** The variable that stands for an input of VS Code. */
function inputVariable(id: string): string {
  return `INPUT_${id.toUpperCase().replaceAll(/\W/g, "_")}`;
}

function inputOf(value: unknown): { readonly id: string; readonly input: ClientInput }[] {
  const { id, description, password, default: preset } = asObject(value);
  if (typeof id !== "string") return [];
  const input = {
    variable: inputVariable(id),
    description: asText(description) ?? id,
    isPassword: password === true,
    default: asText(preset),
  };
  return [{ id, input: withoutUndefined(input) }];
}

/**
 * Reads the servers of a client's file, as `readClientTable` takes them. Variables in its texts are already replaced. Servers that are
 * disabled are left out; programs get the whole environment, as those clients and the older tool give it to them. Unlike
 * in that tool, `type: sse` means the older HTTP+SSE transport.
 */
export function parseMcpConfigFile(
  document: unknown,
  { locate, lookup }: { readonly locate: Locate; readonly lookup: LookupVariable },
): ParsedMcpConfigFile {
  const reader = new LenientReader(locate);
  const key = clientTableKey(document);
  const found = reader.read(closedObject({ [key]: table }), document)?.[key];
  // The reader does not keep this key.
  if (Object.hasOwn(asObject(asObject(document)[key]), "__proto__"))
    reader.refuse("no server can be named __proto__", [key, "__proto__"], {
      at: "key",
      hint: "Choose another name.",
    });
  const enabled = Object.entries(found ?? {}).filter(
    ([, { disabled, enabled: on }]) => disabled !== true && on !== false,
  );
  if (enabled.length === 0 && !reader.failed)
    reader.refuse("the file has no server that is enabled", [key], { code: "config/nothing-to-run" });
  const servers = enabled.flatMap(([name, entry]): McpConfigServer[] => {
    const path = [key, name];
    const input = serverInput(entry, (variable, where) => {
      const value = lookup(variable);
      if (value === undefined)
        reader.refuse(`the variable ${variable} is not set`, [...path, ...where], {
          code: "config/unset-variable",
          hint: `Set ${variable}, or pass --env ${variable}=VALUE.`,
        });
      return value ?? "";
    });
    if (input === undefined) {
      const message = `the server ${JSON.stringify(name)} needs command or url`;
      reader.refuse(message, path, { code: "config/missing-key", at: "key", hint: misspelt(document, path) });
    }
    const server = input && reader.read(serverSchema, input, path);
    if (server === undefined) return [];
    const tools = allowedTools(entry);
    const { envFile } = entry;
    return [withoutUndefined({ name, server: tools === undefined ? server : { ...server, tools }, envFile })];
  });
  return reader.failed
    ? { ok: false, diagnostics: reader.diagnostics() }
    : { ok: true, servers, notes: reader.notes };
}

/** What a server without its main key may have in place of it. */
function misspelt(document: unknown, path: readonly string[]): string | undefined {
  const entry = path.reduce<Readonly<Record<string, unknown>>>(
    (value, key) => asObject(value[key]),
    asObject(document),
  );
  const near = Object.keys(entry).flatMap((key) => {
    const meant = Object.hasOwn(entrySchema.shape, key) ? undefined : didYouMean(key, ["command", "url"]);
    return meant === undefined ? [] : `It has ${JSON.stringify(key.slice(0, 80))}: did you mean "${meant}"?`;
  });
  return near[0];
}

/** An unknown type is ignored; then `url` and `command` decide. */
function serverInput(
  entry: Entry,
  valueOf: (variable: string, path: readonly string[]) => string,
): z.input<typeof serverSchema> | undefined {
  const { url, httpUrl, command, args = [], env = {}, cwd, startup_timeout_sec: seconds } = entry;
  const startupTimeout = seconds === undefined ? undefined : seconds * 1000;
  const type = (entry.type ?? "").toLowerCase();
  if ((httpUrl || url) && type !== "stdio") {
    const {
      headers,
      http_headers: written,
      env_http_headers: named = {},
      bearer_token_env_var: bearer,
    } = entry;
    const ofVariables = Object.entries(named).map(
      ([header, variable]) => [header, valueOf(variable, ["env_http_headers", header])] as const,
    );
    const all = { ...headers, ...written, ...Object.fromEntries(ofVariables) };
    if (bearer !== undefined) all["Authorization"] = `Bearer ${valueOf(bearer, ["bearer_token_env_var"])}`;
    const transport = httpUrl || type !== "sse" ? "shttp" : "sse";
    return withoutUndefined({ transport, url: httpUrl || url || "", headers: all, startupTimeout });
  }
  if (!command) return undefined;
  const program = { transport: "stdio" as const, command, args, env, cwd, inheritEnv: true as const };
  return withoutUndefined({ ...program, startupTimeout });
}

/**
 * The tools that agents are given; undefined: all. The tool that this comes from shows agents the others too and denies
 * their use. An empty `alwaysAllow` by itself is what clients write for "always ask"; it does not limit the tools.
 */
function allowedTools(entry: Entry): string[] | undefined {
  const { alwaysAllow = [], enableAllTools, enabled_tools: enabled, tools = enabled } = entry;
  if (tools !== undefined) return tools.includes("*") ? undefined : tools;
  if (enableAllTools === true) return undefined;
  return alwaysAllow.length === 0 && enableAllTools === undefined ? undefined : alwaysAllow;
}
