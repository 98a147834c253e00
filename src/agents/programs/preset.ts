import { asObject, type Json, type JsonObject } from "../../base/json.ts";
import type { EventOf, TurnEnd } from "../../model/event.ts";
import type { ModelProxySpec, SkillsPlace } from "../../model/agent.ts";
import type { Usage } from "../../model/grade.ts";
import type { HomeFiles, OptionWays } from "./options.ts";

/** Everything that is known of one agent program: how it is started, configured and read. */
export interface Preset {
  readonly title: string;
  /** How it is started to speak the Agent Client Protocol. */
  readonly acp: AcpForm;
  /** How it is started once for each user turn. */
  readonly headless: HeadlessForm;
  /** The API of its model, if a variable can change the address; absent: only its own config file can. */
  readonly modelApi?: ModelProxySpec;
  /** Variables of the shell with keys and accounts. */
  readonly inheritEnv: readonly string[];
  readonly home: ProgramHome;
  readonly skills: SkillsPlace;
  /** The forms in which it names the tools of servers. */
  readonly toolNames: readonly ToolNameForm[];
  /** The file in a workspace that it reads servers from. */
  readonly clientFile: ClientAdapter;
  /** Creates the reader of what its headless form prints. */
  readonly createReader: () => OutputReader;
}

/** Where a program keeps what belongs to the user. A trial with a home of its own gets nothing of it but the login. */
export interface ProgramHome {
  /** Variables with which users lead it to other folders and settings; only a program in the user's home gets them. */
  readonly variables: readonly string[];
  readonly login: readonly LoginFile[];
  /** Files of each trial's home, by path with slashes: they keep away servers of the user that come with the login. */
  readonly files?: HomeFiles;
  /** Files of homes without such a login, where a variable with a key is set. */
  readonly withKey?: { readonly variable: string; readonly files: HomeFiles };
  /** Caches of its own code that are used where they exist, by variable: the path of the folder in the user's home. */
  readonly caches?: Readonly<Record<string, string>>;
  /** Instructions and settings that it reads in the folders above the one it works in, too. */
  readonly above: readonly string[];
}

/** A JSON file with a login. Paths have slashes. */
export interface LoginFile {
  /** Path of a folder in the home; empty: the home itself. */
  readonly folder: string;
  /** Path in that folder. */
  readonly file: string;
  /** The variable of the user that names another folder. */
  readonly variable: string;
  /** What of it a trial gets; undefined: nothing. Absent: all of it. */
  readonly carry?: (content: JsonObject) => JsonObject | undefined;
}

/** The given members of an object; undefined when it has none of them. */
export function membersOf(content: JsonObject, names: readonly string[]): JsonObject | undefined {
  const found = Object.entries(content).filter(([name]) => names.includes(name));
  return found.length === 0 ? undefined : Object.fromEntries(found);
}

/** A form of a tool's name: `before`, server, `between`, tool, `after`; with `toolFirst` the tool precedes the server. */
export interface ToolNameForm {
  readonly before: string;
  readonly between: string;
  readonly after?: string;
  readonly toolFirst?: true;
}

interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Where a client reads servers from in the folder that it works in, and the form of an entry. */
export interface ClientAdapter {
  /** Path in the folder, with slashes. */
  readonly file: string;
  readonly format: "json" | "toml";
  /** The key of the table of servers. */
  readonly key: string;
  readonly http: (url: string) => JsonObject;
  readonly bridge: (bridge: ServerProgram) => JsonObject;
}

export const typedHttp = (url: string): JsonObject => ({ type: "http", url });
export const program = ({ command, args, env }: ServerProgram): JsonObject => ({ command, args, env });
export const typedProgram = (bridge: ServerProgram): JsonObject => ({ type: "stdio", ...program(bridge) });

/** `mcp__SERVER__TOOL`. */
export const doubleUnderscore: ToolNameForm = { before: "mcp__", between: "__" };

/** Arguments that choose a model. */
export const modelFlag = ["--model", "{model}"];

interface ProgramForm {
  readonly command: string;
  readonly args: readonly string[];
  /** Variables that turn off updates and questions. */
  readonly env: Readonly<Record<string, string>>;
  /** The npm package that has the command. */
  readonly package: string;
  /** What of servers its model does not get, as `npm run test:agents` shows. Absent: nothing is missing. */
  readonly hides?: NonNullable<EventOf<"agent.started">["hides"]>;
}

export interface AcpForm extends ProgramForm {
  /** Reads what it reports about itself in updates of the session, or in a message of its own; absent: it does not. */
  readonly readNotice?: (update: WireObject) => AgentNotice;
  readonly model: ModelChoice;
  /** Its permission requests are answered by mcpvals. */
  readonly options: Omit<OptionWays, "permissions">;
  /** Its own config file leads it to the servers; otherwise the session does. */
  readonly usesClientFile?: true;
  /** The flag that takes the path of a file with the servers. The program waits for these servers, and not for those of the session. */
  readonly serversFlag?: string;
  /** It accepts servers by URL only, and ignores others. */
  readonly httpOnly?: true;
  /** The session mode in which it asks for permission, where another mode may be its default. */
  readonly mode?: string;
  /** `_meta` of the request that begins a session. */
  readonly sessionMeta?: JsonObject;
  /** The tokens that it reports are those of the turn (when absent), of all turns so far, or of a part of the turn. */
  readonly usage?: "turn" | "session" | "part";
  /** How it logs in without a user, when it asks for a login and one of the variables is set. */
  readonly login?: { readonly method: string; readonly variables: readonly string[] };
}

/** Arguments may have the placeholders of a `CommandAgentSpec`. */
export interface HeadlessForm extends ProgramForm {
  /** Arguments of every turn but the first; they resume its session. */
  readonly nextArgs: readonly string[];
  /** Inserted before the other arguments when a model is chosen. */
  readonly modelArgs: readonly string[];
  /** Arguments of options are inserted in the same place. */
  readonly options: OptionWays;
  readonly stdin: boolean;
  /** Whether its own config file leads it to the servers; otherwise an argument does. */
  readonly usesClientFile: boolean;
  /** Its output tells how often it asked its model. */
  readonly tellsRequests?: true;
}

/** How a model is chosen; `{model}` stands for its name. */
export type ModelChoice =
  | { readonly by: "args"; readonly args: readonly string[] }
  | { readonly by: "env"; readonly variable: string; readonly value: string }
  /** One of those that the agent offers in the session. */
  | { readonly by: "session" };

/** What an ACP agent reports about itself, outside its messages to the user. */
export interface AgentNotice {
  /** A notice that is not part of its answer, such as of a retry. */
  readonly note?: string;
  /** Why its model could not be reached; null: it can be reached again. */
  readonly failure?: string | null;
  /** Its key was refused, so retries are useless. */
  readonly isRefused?: true;
  /** The program, with its version. */
  readonly program?: string;
  /** How the turn ends, where the answer to its prompt is an error that does not say so, with its tokens. */
  readonly end?: { readonly reason: TurnEnd; readonly usage: Usage };
}

/** The text of a message chunk; undefined for other updates. */
export function chunkText({ sessionUpdate, content }: WireObject): string | undefined {
  return sessionUpdate === "agent_message_chunk" ? textOf(asObject(content)["text"]) : undefined;
}

export function noteOf(note: string | undefined): AgentNotice {
  return note === undefined ? {} : { note };
}

/** What one line of a program's output means. */
export type OutputEvent =
  | { readonly kind: "session"; readonly id: string }
  | { readonly kind: "message"; readonly text: string }
  | ({ readonly kind: "tool" } & ToolUse)
  | { readonly kind: "usage"; readonly usage: Usage }
  /** How a response of the model ended; the last one is how the turn ended. */
  | { readonly kind: "end"; readonly reason: TurnEnd }
  /** The program with its version, or a model that answered. */
  | { readonly kind: "ran"; readonly program?: string; readonly model?: string }
  /** A notice of the program that is not part of its answer. */
  | { readonly kind: "note"; readonly text: string }
  /** Its key was refused, so retries are useless. */
  | { readonly kind: "refused"; readonly message: string }
  /** The turn is over, unless another event follows. */
  | { readonly kind: "complete" }
  /** The program could not act. */
  | { readonly kind: "failed"; readonly message: string };

export interface ToolUse {
  readonly callId: string;
  readonly name: string;
  readonly status: "started" | "completed" | "failed";
  readonly args?: Json;
  readonly result?: Json;
  readonly parentCallId?: string;
  /** Present when the program reports server and tool separately. */
  readonly origin?: { readonly server: string; readonly tool: string };
}

/** Reads the lines of JSON that one kind of program prints; one reader reads all turns of a conversation. */
export interface OutputReader {
  /** The program's name of the event that ends each turn. */
  readonly lastEvent: string;
  /** The events of a line; none for a line of unknown type. */
  read(line: WireObject): readonly OutputEvent[];
  /** The events that remain at the end of a turn. */
  finish(): readonly OutputEvent[];
}

/** A positive number from the wire, or 0 if it is not one. */
export function countOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
}

/** An object with the key, or an empty one when the value is missing. */
export function optional<K extends string>(key: K, value: unknown): { readonly [key in K]?: Json } {
  const json = jsonOf(value);
  return json === undefined ? {} : ({ [key]: json } as { readonly [key in K]: Json });
}

export type Tokens = Readonly<Record<"input" | "output" | "cacheRead" | "cacheWrite", number>>;

/** Numbers of tokens from the wire, by the names that a program has for them. */
export function tokensOf(
  source: WireObject,
  { input, output, cacheRead, cacheWrite }: Partial<Record<keyof Tokens, string>>,
): Tokens {
  const count = (name = ""): number => countOf(source[name]);
  return {
    input: count(input),
    output: count(output),
    cacheRead: count(cacheRead),
    cacheWrite: count(cacheWrite),
  };
}

/** The tokens of the last turn, of a program that reports those of its whole session. */
export function tokensSince(before: Tokens | undefined, now: Tokens): Tokens {
  if (before === undefined || now.input < before.input || now.output < before.output) return now;
  return {
    input: now.input - before.input,
    output: now.output - before.output,
    cacheRead: now.cacheRead - before.cacheRead,
    cacheWrite: now.cacheWrite - before.cacheWrite,
  };
}

/**
 * A block of a message in the form of Anthropic's API. `parent` is the use of a tool that began the subagent whose message it is;
 * `names` has the names of tools by the id of their use.
 */
export function readBlock(
  block: WireObject,
  parent: string | undefined,
  names: Map<string, string>,
): readonly OutputEvent[] {
  const parentCallId = parent === undefined ? {} : { parentCallId: parent };
  switch (block["type"]) {
    case "text":
      // Messages of subagents are not messages of the agent.
      return parent === undefined ? messageEvent(block["text"]) : [];
    case "tool_use": {
      const callId = textOf(block["id"]) ?? "";
      const name = textOf(block["name"]) ?? "";
      names.set(callId, name);
      const args = optional("args", block["input"]);
      return [{ kind: "tool", callId, name, status: "started", ...args, ...parentCallId }];
    }
    case "tool_result": {
      const callId = textOf(block["tool_use_id"]) ?? "";
      const name = names.get(callId) ?? "";
      const status = block["is_error"] === true ? "failed" : "completed";
      const result = optional("result", block["content"]);
      return [{ kind: "tool", callId, name, status, ...result, ...parentCallId }];
    }
    default:
      return [];
  }
}

/** The session with an id from the wire; nothing without one. */
export function sessionEvent(id: unknown): readonly OutputEvent[] {
  const text = textOf(id);
  return text === undefined ? [] : [{ kind: "session", id: text }];
}

/** A message from the wire; nothing without one. */
export function messageEvent(value: unknown): readonly OutputEvent[] {
  const text = textOf(value);
  return text === undefined ? [] : [{ kind: "message", text }];
}

/**
 * Tokens as in the trace. `input` includes those of the cache; without `requests` their number is unknown. `dollars` is what a program
 * reports of their cost: programs report 0 for models whose prices they do not know.
 */
export function usageOf(
  { input, output, cacheRead, cacheWrite }: Tokens,
  requests?: number,
  dollars?: unknown,
): Usage {
  const amount = countOf(dollars);
  return {
    inputTokens: input,
    outputTokens: output,
    cacheReadTokens: cacheRead,
    ...(cacheWrite === 0 ? {} : { cacheWriteTokens: cacheWrite }),
    ...(requests === undefined ? {} : { requests }),
    ...(amount === 0 ? {} : { cost: { amount, currency: "USD" } }),
  };
}

/** A JSON object from another program; its values may be of any type. */
export type WireObject = Readonly<Record<string, unknown>>;

/** The value if it is a string that is not empty. */
export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A value that was parsed from JSON; null counts as absent. */
export function jsonOf(value: unknown): Json | undefined {
  return value === undefined || value === null ? undefined : (value as Json);
}
