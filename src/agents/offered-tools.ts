import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import type {
  CallOptions,
  CallOutcome,
  ServerAbilities,
  ServerSession,
  ToolDefinition,
} from "../servers/client/session.ts";

/** A tool that a model may call, and what calling it does. */
export interface OfferedTool {
  readonly definition: ToolDefinition;
  /** Returns `rejected` with the reason when a call cannot be made. Throws as `ServerSession.callTool` does. */
  call(args: JsonObject, options: CallOptions): Promise<CallOutcome | { readonly rejected: string }>;
}

/**
 * The tools of all sessions by the names that the model sees, and with `resources` built-in tools for the
 * servers' resources and prompts. If names collide, the server's tool keeps its name.
 */
export function offeredTools(
  sessions: readonly ServerSession[],
  { resources }: { readonly resources: boolean },
): ReadonlyMap<string, OfferedTool> {
  const refs = sessions.flatMap(({ name, tools }) =>
    tools.map((tool) => ({ server: name, tool: tool.name })),
  );
  const offered = new Map<string, OfferedTool>();
  for (const [name, ref] of nameTools(refs)) {
    const session = sessions.find((candidate) => candidate.name === ref.server);
    const definition = session?.tools.find((tool) => tool.name === ref.tool);
    if (session !== undefined && definition !== undefined) offered.set(name, serverTool(session, definition));
  }
  for (const tool of resources ? resourceTools(sessions) : [])
    offered.set(freeName(tool.definition.name, offered), tool);
  return offered;
}

function serverTool(session: ServerSession, definition: ToolDefinition): OfferedTool {
  return {
    definition,
    call: (args, options) => session.callTool(definition.name, args, options),
  };
}

function freeName(name: string, taken: ReadonlyMap<string, unknown>): string {
  let free = name;
  for (let number = 2; taken.has(free); number += 1) free = `${name}_${number}`;
  return free;
}

/**
 * Built-in tools with which a model reads resources and gets prompts, if servers have them; named as agent programs
 * name theirs. What they do is on record as requests to the server.
 */
function resourceTools(sessions: readonly ServerSession[]): readonly OfferedTool[] {
  const having = (ability: keyof ServerAbilities): readonly ServerSession[] =>
    sessions.filter(({ abilities }) => abilities[ability]);
  const [readable, prompting] = [having("resources"), having("prompts")];
  return [
    ...(readable.length === 0 ? [] : [listResources(readable), readResource(readable)]),
    ...(prompting.length === 0 ? [] : [listPrompts(prompting), getPrompt(prompting)]),
  ];
}

function listResources(sessions: readonly ServerSession[]): OfferedTool {
  return listTool(sessions, {
    name: "list_mcp_resources",
    description: "Lists the resources, and the templates of resources, that MCP servers offer.",
    kinds: ["resources", "resourceTemplates"],
  });
}

function listPrompts(sessions: readonly ServerSession[]): OfferedTool {
  return listTool(sessions, {
    name: "list_mcp_prompts",
    description: "Lists the prompts that MCP servers offer, and their arguments.",
    kinds: ["prompts"],
  });
}

function readResource(sessions: readonly ServerSession[]): OfferedTool {
  return {
    definition: {
      name: "read_mcp_resource",
      description: "Reads one resource of an MCP server.",
      inputSchema: schemaOf(sessions, {
        required: ["server", "uri"],
        properties: { uri: { type: "string", description: "URI of the resource, as it is listed." } },
      }),
    },
    call: (args, options) =>
      withServer(sessions, args, async (session) => {
        const { uri } = args;
        if (typeof uri !== "string") return { rejected: "uri is not a text" };
        return withContent(await session.readResource(uri, options), resourceBlocks);
      }),
  };
}

function getPrompt(sessions: readonly ServerSession[]): OfferedTool {
  return {
    definition: {
      name: "get_mcp_prompt",
      description: "Gets one prompt of an MCP server: messages that say how to go about something.",
      inputSchema: schemaOf(sessions, {
        required: ["server", "name"],
        properties: {
          name: { type: "string", description: "Name of the prompt, as it is listed." },
          arguments: { type: "object", description: "Its arguments, all of them texts." },
        },
      }),
    },
    call: (args, options) =>
      withServer(sessions, args, async (session) => {
        const { name, arguments: given = {} } = args;
        if (typeof name !== "string") return { rejected: "name is not a text" };
        if (!isJsonObject(given)) return { rejected: "arguments is not an object" };
        return withContent(await session.getPrompt(name, given, options), promptBlocks);
      }),
  };
}

type ListKind = Parameters<ServerSession["list"]>[0];

interface ListToolOptions {
  readonly name: string;
  readonly description: string;
  readonly kinds: readonly ListKind[];
}

function listTool(sessions: readonly ServerSession[], options: ListToolOptions): OfferedTool {
  const { name, description, kinds } = options;
  return {
    definition: { name, description, inputSchema: schemaOf(sessions, { required: [], properties: {} }) },
    call: (args, callOptions) =>
      args["server"] === undefined || args["server"] === null
        ? listAll(sessions, kinds, callOptions)
        : withServer(sessions, args, (session) => listAll([session], kinds, callOptions)),
  };
}

/** Lists everything of all servers, and reports failures except for templates, which many servers do not support. */
async function listAll(
  sessions: readonly ServerSession[],
  kinds: readonly ListKind[],
  options: CallOptions,
): Promise<CallOutcome> {
  const started = performance.now();
  const listed: Record<string, Json> = {};
  const problems: string[] = [];
  for (const kind of kinds) {
    const outcomes = await Promise.all(
      sessions.map(async (session) => ({ server: session.name, outcome: await session.list(kind, options) })),
    );
    listed[kind] = outcomes.flatMap(({ server, outcome }) => itemsOf(kind, server, outcome));
    problems.push(...outcomes.flatMap(({ server, outcome }) => problemOf(kind, server, outcome)));
  }
  const text = JSON.stringify(problems.length === 0 ? listed : { ...listed, problems });
  const isError = problems.length > 0 && kinds.every((kind) => isEmpty(listed[kind]));
  return {
    kind: "result",
    result: { content: [{ type: "text", text }], ...(isError ? { isError } : {}) },
    latencyMs: performance.now() - started,
  };
}

function itemsOf(kind: ListKind, server: string, outcome: CallOutcome): JsonObject[] {
  const items = outcome.kind === "result" ? outcome.result[kind] : [];
  return (Array.isArray(items) ? items : []).filter(isJsonObject).map((item) => ({ server, ...item }));
}

/** JSON-RPC's code for a method that the server does not have. */
const methodNotFound = -32_601;

function problemOf(kind: ListKind, server: string, outcome: CallOutcome): string[] {
  if (outcome.kind === "result") return [];
  const isOptional =
    kind === "resourceTemplates" && outcome.kind === "error" && outcome.code === methodNotFound;
  return isOptional ? [] : [`${server}: ${outcome.message}`];
}

function isEmpty(value: Json | undefined): boolean {
  return Array.isArray(value) && value.length === 0;
}

function schemaOf(
  sessions: readonly ServerSession[],
  { required, properties }: { readonly required: readonly string[]; readonly properties: JsonObject },
): JsonObject {
  const names = sessions.map(({ name }) => name);
  const description = required.includes("server")
    ? "Name of the server."
    : "Name of one server; without it, all.";
  return {
    type: "object",
    properties: { server: { type: "string", enum: names, description }, ...properties },
    required,
  };
}

async function withServer<T>(
  sessions: readonly ServerSession[],
  { server }: JsonObject,
  work: (session: ServerSession) => Promise<T>,
): Promise<T | { readonly rejected: string }> {
  const session = sessions.find(({ name }) => name === server);
  if (session !== undefined) return work(session);
  const names = sessions.map(({ name }) => name).join(", ");
  return { rejected: `no such server: ${JSON.stringify(server ?? null)}; there are: ${names}` };
}

/** An outcome in the form of a tool call's. */
function withContent(
  outcome: CallOutcome,
  blocks: (result: JsonObject) => readonly JsonObject[],
): CallOutcome {
  return outcome.kind === "result" ? { ...outcome, result: { content: blocks(outcome.result) } } : outcome;
}

function resourceBlocks({ contents }: JsonObject): readonly JsonObject[] {
  return objectsIn(contents).map((resource) => {
    const { blob, mimeType } = resource;
    return typeof blob === "string" && typeof mimeType === "string" && mimeType.startsWith("image/")
      ? { type: "image", data: blob, mimeType }
      : { type: "resource", resource };
  });
}

function promptBlocks({ messages }: JsonObject): readonly JsonObject[] {
  return objectsIn(messages).flatMap(({ role, content }) => {
    const said = `${typeof role === "string" ? role : "user"}:`;
    const blocks = Array.isArray(content) ? objectsIn(content) : objectsIn([content ?? null]);
    return blocks.flatMap((block) =>
      typeof block["text"] === "string"
        ? [{ type: "text", text: `${said} ${block["text"]}` }]
        : [{ type: "text", text: said }, block],
    );
  });
}

function objectsIn(value: Json | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? (value as readonly Json[]).filter(isJsonObject) : [];
}

/** A tool of a server. */
export interface ToolRef {
  readonly server: string;
  readonly tool: string;
}

/** What every provider accepts as the name of a function; Gemini also wants a letter or an underscore first. */
const legalName = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
const longestName = 64;

/**
 * Gives every tool a unique name that all providers accept: its own if it is valid and only one server
 * has it; otherwise `SERVER__TOOL`, with illegal characters replaced and, where that is too long or taken, a hash of
 * both names at its end. The order of the tools does not matter. A tool that is listed twice gets one name.
 */
export function nameTools(tools: readonly ToolRef[]): ReadonlyMap<string, ToolRef> {
  const distinct = new Map(tools.map((ref) => [keyOf(ref), ref]));
  const refs = [...distinct.values()].toSorted(byKey);
  const owners = countBy(refs.map((ref) => ref.tool));
  const keepsName = (ref: ToolRef): boolean => owners.get(ref.tool) === 1 && legalName.test(ref.tool);
  const names = new Map(refs.filter(keepsName).map((ref) => [ref.tool, ref]));
  const others = refs.filter((ref) => !keepsName(ref));
  const wanted = countBy(others.map(qualifiedName));
  for (const ref of others) {
    const name = qualifiedName(ref);
    const free = name.length <= longestName && wanted.get(name) === 1 && !names.has(name);
    names.set(free ? name : hashedName(name, ref, names), ref);
  }
  return names;
}

function keyOf({ server, tool }: ToolRef): string {
  return JSON.stringify([server, tool]);
}

function byKey(a: ToolRef, b: ToolRef): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}

function countBy(values: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

function qualifiedName({ server, tool }: ToolRef): string {
  const name = `${server}__${tool}`.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
  return /^[a-zA-Z_]/.test(name) ? name : `_${name}`;
}

function hashedName(name: string, ref: ToolRef, taken: ReadonlyMap<string, ToolRef>): string {
  for (let round = 0; ; round += 1) {
    const suffix = `_${hash(`${round}${keyOf(ref)}`)}`;
    const candidate = `${name.slice(0, longestName - suffix.length)}${suffix}`;
    if (!taken.has(candidate)) return candidate;
  }
}

/** FNV-1a with 32 bits, over UTF-16 code units; seven characters of base 36. */
function hash(text: string): string {
  let value = 0x81_1c_9d_c5;
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01_00_01_93);
  }
  return (value >>> 0).toString(36).padStart(7, "0");
}

/** The result of a tool call for the model, in the form of the AI SDK. */
export type ToolOutput =
  | { readonly type: "text" | "error-text"; readonly value: string }
  | { readonly type: "content"; readonly value: OutputPart[] };

interface FilePart {
  readonly type: "file";
  readonly mediaType: string;
  readonly data: { type: "data"; data: string };
}

type OutputPart = { readonly type: "text"; readonly text: string } | FilePart;

/**
 * Converts the outcome of a tool call for the model. The texts of a result are joined, since
 * Gemini wants one response a call; images follow it where the provider's tool results can carry them, and are
 * described where not. Errors of the tool or the protocol and timeouts become errors.
 */
export function toolOutput(outcome: CallOutcome, options: { readonly images: boolean }): ToolOutput {
  switch (outcome.kind) {
    case "result":
      return resultOutput(outcome.result, options.images);
    case "error": {
      const code = outcome.code === undefined ? "" : ` ${outcome.code}`;
      return { type: "error-text", value: `MCP error${code}: ${outcome.message}` };
    }
    case "timeout":
      return { type: "error-text", value: outcome.message };
  }
}

function resultOutput(result: JsonObject, passImages: boolean): ToolOutput {
  const content = result["content"];
  const blocks = Array.isArray(content) ? content.filter(isJsonObject) : [];
  const isError = result["isError"] === true;
  const passed = new Map<JsonObject, OutputPart>();
  for (const block of passImages && !isError ? blocks : []) {
    const image = passableImage(block);
    if (image !== undefined) passed.set(block, image);
  }
  const texts = blocks.filter((block) => !passed.has(block)).map(describeBlock);
  const structured = result["structuredContent"];
  if (structured !== undefined && !blocks.some((block) => textOf(block) !== undefined)) {
    texts.push(JSON.stringify(structured));
  }
  const text = texts.join("\n") || emptyText(passed.size);
  if (isError) return { type: "error-text", value: text };
  if (passed.size === 0) return { type: "text", value: text };
  return { type: "content", value: [{ type: "text", text }, ...passed.values()] };
}

/** Providers refuse results without any text, or leave the call unanswered. */
function emptyText(images: number): string {
  if (images === 0) return "(empty result)";
  return images === 1 ? "(an image)" : `(${images} images)`;
}

function textOf(block: JsonObject): string | undefined {
  if (typeof block["text"] === "string") return block["text"];
  const resource = block["resource"];
  return isJsonObject(resource) && typeof resource["text"] === "string" ? resource["text"] : undefined;
}

/** A block of content as text: its text, or a description. */
export function describeBlock(block: JsonObject): string {
  const text = textOf(block);
  if (text !== undefined) return text;
  const resource = isJsonObject(block["resource"]) ? block["resource"] : block;
  const kind = typeof block["type"] === "string" ? block["type"].replaceAll("_", " ") : "content";
  const details = [
    resource["name"],
    resource["uri"],
    resource["mimeType"],
    sizeOf(resource["blob"] ?? resource["data"]),
  ].filter((detail) => typeof detail === "string");
  return `[${[kind, ...details].join(" ")}]`;
}

function sizeOf(base64: Json | undefined): string | undefined {
  return typeof base64 === "string" ? `${Math.floor((base64.length * 3) / 4)} bytes` : undefined;
}

/** The image types that every provider accepts; another type makes a provider refuse the whole conversation. */
const passableImages = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** An image that every provider takes; undefined for any other block. */
export function passableImage(block: JsonObject): FilePart | undefined {
  const { type, data, mimeType } = block;
  if (type !== "image" || typeof mimeType !== "string" || !passableImages.has(mimeType)) return undefined;
  if (typeof data !== "string" || data.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(data))
    return undefined;
  return { type: "file", mediaType: mimeType, data: { type: "data", data } };
}
