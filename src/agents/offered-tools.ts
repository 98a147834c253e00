import { isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import type { CallOptions, CallOutcome, ServerSession, ToolDefinition } from "../servers/client/session.ts";
import { errorCodes } from "../model/error-codes.ts";

/** The outcome of a tool, or why the call could not be made. */
type Called = CallOutcome | { readonly rejected: string };

/** A tool that a model may call, and what calling it does. */
export interface OfferedTool {
  /** Absent: a built-in tool. */
  readonly server?: string;
  readonly definition: ToolDefinition;
  /** Throws as `ServerSession.callTool` does. */
  call(args: JsonObject, options: CallOptions): Promise<Called>;
}

/**
 * The tools of all sessions by the names that the model sees, and with `resources` built-in tools for the
 * servers' resources and prompts. If names collide, the server's tool keeps its name.
 */
export function offeredTools(
  sessions: readonly ServerSession[],
  { resources }: { readonly resources: boolean },
): ReadonlyMap<string, OfferedTool> {
  const refs = sessions.flatMap((session) =>
    session.tools.map((definition) => ({
      server: session.name,
      tool: definition.name,
      definition,
      call: ((args, options) => session.callTool(definition.name, args, options)) as OfferedTool["call"],
    })),
  );
  const offered = new Map<string, OfferedTool>(nameTools(refs));
  for (const tool of resources ? resourceTools(sessions) : []) {
    let { name } = tool.definition;
    for (let number = 2; offered.has(name); number += 1) name = `${tool.definition.name}_${number}`;
    offered.set(name, tool);
  }
  return offered;
}

/**
 * Built-in tools with which a model reads resources and gets prompts, if servers have them; named as agent programs
 * name theirs. The record has their requests to the server.
 */
function resourceTools(sessions: readonly ServerSession[]): readonly OfferedTool[] {
  const readable = sessions.filter(({ abilities }) => abilities.resources);
  const prompting = sessions.filter(({ abilities }) => abilities.prompts);
  const ofResources = [
    listTool(readable, {
      name: "list_mcp_resources",
      description: "Lists the resources, and the templates of resources, that MCP servers offer.",
      kinds: ["resources", "resourceTemplates"],
    }),
    readTool(readable, {
      name: "read_mcp_resource",
      description: "Reads one resource of an MCP server.",
      properties: { uri: { type: "string", description: "URI of the resource, as it is listed." } },
      read: async (session, { uri }, options) => {
        if (typeof uri !== "string") return { rejected: "uri is not a text" };
        return withContent(await session.readResource(uri, options), resourceBlocks);
      },
    }),
  ];
  const ofPrompts = [
    listTool(prompting, {
      name: "list_mcp_prompts",
      description: "Lists the prompts that MCP servers offer, and their arguments.",
      kinds: ["prompts"],
    }),
    readTool(prompting, {
      name: "get_mcp_prompt",
      description: "Gets one prompt of an MCP server: messages that say how to go about something.",
      properties: {
        name: { type: "string", description: "Name of the prompt, as it is listed." },
        arguments: { type: "object", description: "Its arguments, all of them texts." },
      },
      read: async (session, { name, arguments: given = {} }, options) => {
        if (typeof name !== "string") return { rejected: "name is not a text" };
        if (!isJsonObject(given)) return { rejected: "arguments is not an object" };
        return withContent(await session.getPrompt(name, given, options), promptBlocks);
      },
    }),
  ];
  return [...(readable.length === 0 ? [] : ofResources), ...(prompting.length === 0 ? [] : ofPrompts)];
}

interface ReadTool {
  readonly name: string;
  readonly description: string;
  /** Besides the server; the first is required. */
  readonly properties: JsonObject;
  readonly read: (session: ServerSession, args: JsonObject, options: CallOptions) => Promise<Called>;
}

function readTool(
  sessions: readonly ServerSession[],
  { name, description, properties, read }: ReadTool,
): OfferedTool {
  const names = sessions.map((session) => session.name);
  const server = { type: "string", enum: names, description: "Name of the server." };
  const required = ["server", ...Object.keys(properties).slice(0, 1)];
  return {
    definition: {
      name,
      description,
      inputSchema: { type: "object", properties: { server, ...properties }, required },
    },
    async call(args, options) {
      const session = sessions.find((each) => each.name === args["server"]);
      if (session !== undefined) return read(session, args, options);
      const wanted = JSON.stringify(args["server"] ?? null);
      return { rejected: `no such server: ${wanted}; there are: ${names.join(", ")}` };
    },
  };
}

type ListKind = Parameters<ServerSession["list"]>[0];

function listTool(
  sessions: readonly ServerSession[],
  { kinds, ...tool }: Pick<ReadTool, "name" | "description"> & { readonly kinds: readonly ListKind[] },
): OfferedTool {
  const ofOne = readTool(sessions, {
    ...tool,
    properties: {},
    read: (session, _, options) => listAll([session], kinds, options),
  });
  const enumeration = sessions.map(({ name }) => name);
  const server = { type: "string", enum: enumeration, description: "Name of one server; without it, all." };
  return {
    definition: { ...tool, inputSchema: { type: "object", properties: { server }, required: [] } },
    call: (args, options) =>
      (args["server"] ?? null) === null ? listAll(sessions, kinds, options) : ofOne.call(args, options),
  };
}

/** Lists everything of all servers, and reports failures except for templates, which many servers do not support. */
async function listAll(
  sessions: readonly ServerSession[],
  kinds: readonly ListKind[],
  options: CallOptions,
): Promise<CallOutcome> {
  const started = performance.now();
  const listed: Record<string, readonly JsonObject[]> = {};
  const problems: string[] = [];
  for (const kind of kinds) {
    const outcomes = await Promise.all(sessions.map((session) => session.list(kind, options)));
    listed[kind] = sessions.flatMap(({ name: server }, index) => {
      const outcome = outcomes[index];
      if (outcome?.kind === "result")
        return objectsIn(outcome.result[kind]).map((item) => ({ server, ...item }));
      const isUnsupported = outcome?.kind === "error" && outcome.code === errorCodes.methodNotFound;
      if (kind !== "resourceTemplates" || !isUnsupported) problems.push(`${server}: ${outcome?.message}`);
      return [];
    });
  }
  const text = JSON.stringify(problems.length === 0 ? listed : { ...listed, problems });
  const isError = problems.length > 0 && Object.values(listed).every((items) => items.length === 0);
  return {
    kind: "result",
    result: { content: [{ type: "text", text }], ...(isError ? { isError } : {}) },
    latencyMs: performance.now() - started,
  };
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
    const speaker = `${typeof role === "string" ? role : "user"}:`;
    return objectsIn(Array.isArray(content) ? content : [content ?? null]).flatMap((block) =>
      typeof block["text"] === "string"
        ? [{ type: "text", text: `${speaker} ${block["text"]}` }]
        : [{ type: "text", text: speaker }, block],
    );
  });
}

function objectsIn(value: Json | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? (value as readonly Json[]).filter(isJsonObject) : [];
}

export interface ToolRef {
  readonly server: string;
  readonly tool: string;
}

/** What every provider accepts as the name of a function; Gemini also wants a letter or an underscore first. */
const legalName = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;
const maxNameLength = 64;

/**
 * Gives every tool a unique name that all providers accept: its own if it is valid and only one server
 * has it; otherwise `SERVER__TOOL`, with illegal characters replaced and, where that is too long or taken, a hash of
 * both names at its end. The order of the tools does not matter. A tool that is listed twice gets one name.
 */
export function nameTools<T extends ToolRef>(tools: readonly T[]): ReadonlyMap<string, T> {
  const keyOf = ({ server, tool }: ToolRef): string => JSON.stringify([server, tool]);
  const distinct = new Map(tools.toReversed().map((ref) => [keyOf(ref), ref]));
  const refs = [...distinct.values()].toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const sameName = Map.groupBy(refs, ({ tool }) => tool);
  const keepsName = ({ tool }: ToolRef): boolean => sameName.get(tool)?.length === 1 && legalName.test(tool);
  const names = new Map(refs.filter(keepsName).map((ref) => [ref.tool, ref]));
  const others = Map.groupBy(
    refs.filter((ref) => !keepsName(ref)),
    qualifiedName,
  );
  for (const [name, same] of others) {
    for (const ref of same) {
      const isFree = name.length <= maxNameLength && same.length === 1 && !names.has(name);
      let free = name;
      for (let round = 0; round === 0 ? !isFree : names.has(free); round += 1) {
        const suffix = `_${hash(`${round}${keyOf(ref)}`)}`;
        free = `${name.slice(0, maxNameLength - suffix.length)}${suffix}`;
      }
      names.set(free, ref);
    }
  }
  return names;
}

function qualifiedName({ server, tool }: ToolRef): string {
  const name = `${server}__${tool}`.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
  return /^[a-zA-Z_]/.test(name) ? name : `_${name}`;
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
  | {
      readonly type: "content";
      readonly value: ({ readonly type: "text"; readonly text: string } | FilePart)[];
    };

interface FilePart {
  readonly type: "file";
  readonly mediaType: string;
  readonly data: { type: "data"; data: string };
}

/**
 * Converts the outcome of a tool call for the model. The texts of a result are joined, since
 * Gemini wants one response a call; images follow it where the provider's tool results can carry them, and are
 * described where not. Errors of the tool or the protocol and timeouts become errors.
 */
export function toolOutput(outcome: CallOutcome, { images }: { readonly images: boolean }): ToolOutput {
  if (outcome.kind === "timeout") return { type: "error-text", value: outcome.message };
  if (outcome.kind === "error") {
    const code = outcome.code === undefined ? "" : ` ${outcome.code}`;
    return { type: "error-text", value: `MCP error${code}: ${outcome.message}` };
  }
  const { content, structuredContent, isError = false } = outcome.result;
  const texts: string[] = [];
  const files: FilePart[] = [];
  const blocks = objectsIn(content);
  for (const block of blocks) {
    const file = images && isError !== true ? passableImage(block) : undefined;
    if (file === undefined) texts.push(describeBlock(block));
    else files.push(file);
  }
  if (structuredContent !== undefined && blocks.every((block) => textOf(block) === undefined))
    texts.push(JSON.stringify(structuredContent));
  // Providers refuse results without any text, or leave the call unanswered.
  const nothing = ["(empty result)", "(an image)"][files.length] ?? `(${files.length} images)`;
  const text = texts.join("\n") || nothing;
  if (isError === true) return { type: "error-text", value: text };
  return files.length === 0
    ? { type: "text", value: text }
    : { type: "content", value: [{ type: "text", text }, ...files] };
}

function textOf(block: JsonObject): string | undefined {
  const { text, resource } = block;
  if (typeof text === "string") return text;
  return isJsonObject(resource) && typeof resource["text"] === "string" ? resource["text"] : undefined;
}

/** A block of content as text: its text, or a description. */
export function describeBlock(block: JsonObject): string {
  const text = textOf(block);
  if (text !== undefined) return text;
  const { name, uri, mimeType, blob, data } = isJsonObject(block["resource"]) ? block["resource"] : block;
  const kind = typeof block["type"] === "string" ? block["type"].replaceAll("_", " ") : "content";
  const base64 = blob ?? data;
  const size = typeof base64 === "string" ? `${Math.floor((base64.length * 3) / 4)} bytes` : undefined;
  const details = [name, uri, mimeType, size].filter((detail) => typeof detail === "string");
  return `[${[kind, ...details].join(" ")}]`;
}

/** The image types that every provider accepts; another type makes a provider refuse the whole conversation. */
const passableImages = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** An image that every provider takes; undefined for any other block. */
export function passableImage({ type, data, mimeType }: JsonObject): FilePart | undefined {
  if (type !== "image" || typeof mimeType !== "string" || !passableImages.has(mimeType)) return undefined;
  if (typeof data !== "string" || data.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(data))
    return undefined;
  return { type: "file", mediaType: mimeType, data: { type: "data", data } };
}
