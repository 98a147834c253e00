import { serverBuilder } from "./server-builder.ts";
import { resolve } from "node:path";
import { McpvalsError } from "../base/error.ts";
import { hasCredentials } from "../model/fields.ts";
import { buildServers, type ParsedServer, serverSchema } from "../model/server.ts";
import { asObject, mapValues } from "../base/json.ts";
import { assembleEval, type LoadedConfig, noTasks } from "./assemble-eval.ts";
import {
  environment as readEnvironment,
  type EnvironmentVariables,
  type LoadContext,
  lookupIn,
  displayPath,
} from "./environment.ts";
import { load } from "./load.ts";
import { FileProblems } from "./read/document.ts";
import { endingOf, readData } from "./read/read-files.ts";
import {
  loadMcpConfig,
  type McpServers,
  noServers,
  projectOf,
  requireServer,
} from "./convert/client/client-servers.ts";
import { maskSecrets, tokensInPath } from "./secrets.ts";
import { configExtensions, findServersUpwards, pathKind, requireTarget } from "./sources.ts";

/** Which servers a command looks at. */
export interface Target {
  /** A URL, or a file with servers. */
  readonly source?: string | undefined;
  /** A program with its arguments. Without `source` and `command`: the nearest file with servers. */
  readonly command?: readonly string[] | undefined;
  /** The only server of a file that is meant. */
  readonly server?: string | undefined;
  /** HTTP headers for a URL. */
  readonly headers?: EnvironmentVariables | undefined;
  /** Name of the variable with a bearer token for a URL. */
  readonly bearerEnv?: string | undefined;
  /** Folder in which a command starts; default: `cwd`. */
  readonly commandCwd?: string | undefined;
  /** Variables over those of the environment. */
  readonly env?: EnvironmentVariables | undefined;
}

export interface LoadTargetOptions extends Pick<LoadContext, "cwd" | "signal" | "ask"> {
  readonly environment?: EnvironmentVariables;
  /** What the options of a target are called where they are given; default: the flags of the command line. */
  readonly optionNames?: OptionNames;
}

type OptionNames = Readonly<Record<"server" | "headers" | "bearerEnv", string>>;

const flags: OptionNames = { server: "--server", headers: "--header", bearerEnv: "--bearer-env" };

/** Loads the servers of a target; the eval has no tasks. Throws McpvalsError of kind `usage`, and the signal's reason. */
export async function loadTarget(
  target: Target,
  { optionNames = flags, ...options }: LoadTargetOptions,
): Promise<LoadedConfig> {
  const { source, command } = target;
  const loadContext: LoadContext = {
    environment: readEnvironment(),
    overrides: target.env ?? {},
    agents: [],
    lookOnly: true,
    serversOnly: true,
    allowOutside: false,
    timeoutMs: 30_000,
    ...options,
  };
  const isUrl = source !== undefined && isAddress(source);
  refuseMisplaced(target, isUrl, optionNames);
  if (command !== undefined) return commandTarget(command, target, loadContext);
  if (isUrl) return assemble(urlServer(source, target, loadContext, optionNames), loadContext);
  return fileTarget(source, target, loadContext);
}

/**
 * The servers of a target as a config would have them, with `${NAME}` for the variables in them that are set or asked for. Throws as
 * `loadTarget`, and `usage/invalid-option` for a file that is not a client's.
 */
export async function describeTarget(
  target: Target,
  { cwd, signal }: LoadTargetOptions,
): Promise<NamedServers> {
  const environment = readEnvironment();
  const loadContext: LoadContext = {
    environment: asNames(environment),
    overrides: asNames(target.env ?? {}),
    agents: [],
    lookOnly: true,
    allowOutside: false,
    timeoutMs: 30_000,
    cwd,
    signal,
    ask: ({ variable }) => Promise.resolve(`\${${variable}}`),
  };
  const { source, command, commandCwd = ".", server: only } = target;
  if (command !== undefined) return commandServer(command, resolve(cwd, commandCwd));
  if (source !== undefined && isAddress(source)) return urlServer(source, target, loadContext);
  const file = source === undefined ? findServersUpwards({ cwd, environment }) : requireTarget(source, cwd);
  const shown = displayPath(cwd, file);
  if (!(await isClientFile(file, shown)))
    throw invalidOption(`${shown} is a config already`, "Run it: npx mcpvals run");
  const problems = new FileProblems();
  const { table } = await loadMcpConfig(file, { loadContext, problems, only, start: projectOf(file) });
  problems.throwIfAny([]);
  return table.servers;
}

/** Each variable with a reference to itself as its value. */
function asNames(variables: EnvironmentVariables): EnvironmentVariables {
  return mapValues(variables, (_, name) => `\${${name}}`);
}

/** A scheme of one letter is a drive. */
function isAddress(source: string): boolean {
  return /^[a-z][a-z\d+.-]+:\/\//i.test(source);
}

/** Refuses what has no meaning for this kind of target. */
function refuseMisplaced(
  { source, command, server, headers, bearerEnv, commandCwd }: Target,
  isUrl: boolean,
  names: OptionNames,
): void {
  if (command !== undefined && source !== undefined)
    throw invalidOption(`two targets were given: ${source} and a command`, "Leave one of them out.");
  if (command?.[0] === undefined && command !== undefined)
    throw invalidOption("no command was given", "Write it after --: npx mcpvals check -- node server.js");
  if (commandCwd !== undefined && command === undefined)
    throw invalidOption("--cwd is for a command after --", "In a file, write cwd at the server.");
  if ((headers ?? bearerEnv) !== undefined && !isUrl)
    throw invalidOption(
      `${names.headers} and ${names.bearerEnv} are for a URL`,
      "In a file, write headers at the server.",
    );
  if (server !== undefined && (isUrl || command !== undefined))
    throw invalidOption(`${names.server} is for a file with servers`, "Leave it out.");
}

export function invalidOption(message: string, hint: string): McpvalsError {
  return new McpvalsError("usage/invalid-option", message, { hint });
}

function commandTarget(
  [command = "", ...args]: readonly string[],
  { commandCwd = "." }: Target,
  loadContext: LoadContext,
): LoadedConfig {
  const cwd = resolve(loadContext.cwd, commandCwd);
  if (pathKind(cwd) !== "folder")
    throw invalidOption(`--cwd: there is no folder ${cwd}`, "Give an existing folder.");
  return assemble(commandServer([command, ...args], cwd), loadContext);
}

function commandServer([command = "", ...args]: readonly string[], cwd: string): NamedServers {
  const server = serverSchema.parse({ transport: "stdio", command, args, cwd });
  return { [nameOfCommand([command, ...args], cwd)]: server };
}

function urlServer(
  url: string,
  { headers, bearerEnv }: Target,
  loadContext: LoadContext,
  names: OptionNames = flags,
): NamedServers {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw invalidOption(`${maskSecrets(url)} is not a URL of a server`, "Write it as https://HOST/PATH.");
  if (hasCredentials(url))
    throw invalidOption(
      "the URL has a user name or a password, with which no request can be sent",
      `Take them out of the URL, and give ${names.headers} "Authorization: …" or ${names.bearerEnv} NAME.`,
    );
  const bearer =
    bearerEnv === undefined ? {} : { Authorization: `Bearer ${tokenIn(bearerEnv, loadContext, names)}` };
  // As in MCP Inspector.
  const transport = new URL(url).pathname.endsWith("/sse") ? "sse" : "shttp";
  return { [nameOfUrl(url)]: serverSchema.parse({ transport, url, headers: { ...headers, ...bearer } }) };
}

function tokenIn(variable: string, loadContext: LoadContext, { bearerEnv }: OptionNames): string {
  const token = lookupIn(loadContext)(variable);
  if (token !== undefined && token !== "") return token;
  // Who gives the token in place of the name must not find it in a log.
  throw new McpvalsError("config/unset-variable", `${bearerEnv}: no variable of this name is set`, {
    hint: "Give the name of an environment variable, and set that to the token.",
  });
}

/** The servers of a file: one that a client has, or that of a config, an Eval or a task. */
async function fileTarget(
  source: string | undefined,
  { server: only }: Target,
  loadContext: LoadContext,
): Promise<LoadedConfig> {
  const { cwd, overrides: env, ...rest } = loadContext;
  const file = source === undefined ? findServersUpwards(loadContext) : requireTarget(source, cwd);
  const shown = displayPath(cwd, file);
  if (await isClientFile(file, shown)) {
    const problems = new FileProblems();
    const found = await loadMcpConfig(file, { loadContext, problems, only, start: projectOf(file) });
    const notes = source === undefined ? [`the servers are those of ${shown}`] : [];
    const { servers } = found.table;
    return assembleServers(
      { ...found, file, servers, notes: [...notes, ...found.notes], problems },
      loadContext,
    );
  }
  if (pathKind(file) === "file" && !(configExtensions as readonly string[]).includes(endingOf(file)))
    throw new McpvalsError("config/unreadable", `${shown} is not a file with servers`, {
      hint: `To check a program, write its command after --: npx mcpvals check -- COMMAND ${shown}`,
    });
  const loaded = await load({ ...rest, cwd, env, sources: [file] });
  const { servers } = loaded.eval;
  const names = Object.keys(servers);
  if (only !== undefined) requireServer(only, names, shown);
  if (names.length === 0)
    throw new McpvalsError("config/nothing-to-run", `${shown} has no server`, {
      hint: "Name a file with servers, a command after --, or a URL.",
    });
  const chosen = Object.entries(servers).filter(([name]) => only === undefined || name === only);
  // The tasks of a config may name the other servers.
  return { ...loaded, eval: { ...loaded.eval, tasks: [], servers: Object.fromEntries(chosen) } };
}

/** Whether a file is one that a client has: `servers` is a key of configs too, so that there the name decides. */
async function isClientFile(file: string, shown: string): Promise<boolean> {
  if (pathKind(file) !== "file") return false;
  const ending = endingOf(file);
  if (ending === "toml" || /[/\\]\.?mcp\.json$/.test(file)) return true;
  if (ending !== "json") return false;
  try {
    const { value } = await readData(file, shown, { lenient: true });
    return asObject(value)["mcpServers"] !== undefined;
  } catch {
    // What is wrong with it is reported when it is loaded.
    return false;
  }
}

type NamedServers = Readonly<Record<string, ParsedServer>>;

/** An eval with servers and nothing to run. */
function assemble(servers: NamedServers, loadContext: LoadContext): LoadedConfig {
  return assembleServers({ ...noServers, servers, problems: new FileProblems() }, loadContext);
}

interface FoundServers extends Pick<McpServers, "variables" | "notes"> {
  /** Absolute path of the file that has them. */
  readonly file?: string;
  readonly servers: NamedServers;
  readonly problems: FileProblems;
}

function assembleServers(
  { servers, problems, ...found }: FoundServers,
  loadContext: LoadContext,
): LoadedConfig {
  const { cwd: dir } = loadContext;
  const build = serverBuilder({ dir, loadContext });
  const name = Object.keys(servers).join(", ");
  const spec = { name, servers: buildServers(servers, build), agents: [] };
  return assembleEval({ ...found, spec, dir, tasks: noTasks, problems }, loadContext);
}

/** Programs that run the program that is meant. */
const runners =
  /^(?:node|nodejs|npx|npm|pnpm|pnpx|yarn|bun|bunx|deno|tsx|ts-node|jiti|python[\d.]*|py|uv|uvx|pipx|poetry|ruby|php|java|docker|podman|sh|bash|cmd|env|sudo|time)$/;
/** Words after a runner that are no program either. */
const subcommands = /^(?:run|exec|x|dlx|tool|start|java)$/;
/** Files and folders that are named alike in every project. */
const commonName =
  /^(?:index|main|server|cli|app|bin|start|stdio|__main__|dist|build|out|lib|src|target|release|debug)$/i;

/**
 * A name for a server from its command line, which starts in the folder `cwd`: that of its package or file, without a scope,
 * version and ending, else that of the folder; `node packages/weather/dist/index.js` gives `weather`.
 */
export function nameOfCommand([command = "", ...args]: readonly string[], cwd: string): string {
  const program = programName(command);
  if (!runners.test(program)) return nameOfPath(command) ?? nameOfPath(cwd) ?? "server";
  const words = args.filter(
    (arg) => /^[^-][^\s;()"']*$/.test(arg) && !subcommands.test(arg) && !runners.test(programName(arg)),
  );
  // An image comes behind flags with values of their own.
  const isImage = /^(?:docker|podman)$/.test(program);
  const named = isImage ? words.find((word) => /^[\w.-]+\/[\w./-]+(?::[\w.-]+)?$/.test(word)) : words[0];
  return (named === undefined ? undefined : nameOfPath(named)) ?? nameOfPath(cwd) ?? program;
}

/**
 * A name for a server from its URL: its host, and what distinguishes it from others there: the port, and the words of the path that
 * not every server has. Other parts of a path may be a token.
 */
export function nameOfUrl(url: string): string {
  const { host, pathname } = new URL(url);
  const tokens = tokensInPath(url);
  const words = pathname
    .split("/")
    .filter((part) => /^[a-z-]{2,20}$/.test(part) && !/^(?:mcp|sse)$/.test(part) && !tokens.includes(part));
  return [host, ...words].join("/");
}

function nameOfPath(path: string): string | undefined {
  const parts = path.split(/[/\\]/).filter((part) => part !== "" && part !== "." && part !== "..");
  const modules = parts.lastIndexOf("node_modules");
  if (modules !== -1 && parts[modules + 1] !== ".bin") {
    const [scope = "", name] = parts.slice(modules + 1);
    return plain(scope.startsWith("@") ? (name ?? scope) : scope);
  }
  return parts.map(plain).findLast((name) => name !== "" && !commonName.test(name));
}

/** Without version, tag and ending. */
function plain(part: string): string {
  return part
    .replace(/^@/, "")
    .replace(/(?<=.)[@:][^@:]*$/, "")
    .replace(/\.(?:[cm]?[jt]sx?|py|rb|php|jar|exe|sh)$/i, "");
}

function programName(path: string): string {
  return (path.split(/[/\\]/).at(-1) ?? path).replace(/\.(?:exe|cmd)$/i, "");
}
