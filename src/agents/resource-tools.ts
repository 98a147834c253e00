import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import type { CallOptions, CallOutcome, ServerAbilities, ServerSession } from "../servers/session.ts";
import type { OfferedTool } from "./offered-tools.ts";

/**
 * Tools of ours with which a model reads resources and gets prompts, where servers have them; named as agent programs
 * name theirs. What they do is on record as requests to the server.
 */
export function resourceTools(sessions: readonly ServerSession[]): readonly OfferedTool[] {
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

/** Asks all servers for all kinds, and tells which did not give them; templates are what many servers do not know. */
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

/** An outcome as that of a tool call, whose content a model is told. */
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
