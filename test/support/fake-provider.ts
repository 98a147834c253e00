import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** Tokens that an answer claims. Default: 10 in, 5 out, nothing cached. */
interface FakeUsage {
  readonly input?: number;
  readonly output?: number;
  readonly cacheRead?: number;
}

/** One tool call of an answer. `args` is sent as JSON; `rawArgs` is sent as it is, where the wire sends a text. */
interface FakeCall {
  readonly tool: string;
  readonly args?: unknown;
  readonly rawArgs?: string;
}

/** What a model says: text, tool calls, or text and then tool calls. */
interface FakeAnswer {
  readonly text?: string;
  readonly calls: readonly FakeCall[];
  /** `length`: cut off by the output limit; `refusal`: the text is the model's refusal. */
  readonly finish?: "length" | "refusal";
  readonly usage?: FakeUsage;
}

/**
 * What the fake does with one request:
 * - `{ text }`: the model says something; `finish` makes it cut off or a refusal
 * - `{ tool, args }`: it calls a tool, after saying `text` if there is any; `{ tools: [...] }`: several at once
 * - `{ status, headers?, body?, message? }`: an HTTP answer; without `body`, the provider's own shape of an error
 * - `{ raw, status? }`: this text as the body, whatever it is
 * - `{ hang: true }`: never an answer; `{ drop: true }`: the connection is cut before the answer,
 *   `{ drop: "body" }`: in the middle of it
 *
 * A request for a stream is answered with one, `raw` as it is.
 */
export type FakeReply =
  | { readonly text: string; readonly finish?: "length" | "refusal"; readonly usage?: FakeUsage }
  | (FakeCall & { readonly text?: string; readonly finish?: "length"; readonly usage?: FakeUsage })
  | { readonly tools: readonly FakeCall[]; readonly text?: string; readonly usage?: FakeUsage }
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
      readonly message?: string;
    }
  | { readonly raw: string; readonly status?: number; readonly headers?: Readonly<Record<string, string>> }
  | { readonly hang: true }
  | { readonly drop: true | "body" };

/** A tool result as a request carried it back to the model. */
interface FakeToolResult {
  readonly tool: string;
  readonly text: string;
  readonly isError: boolean;
  readonly images: number;
}

/** A request that the fake got: its raw parts, and what it says whatever its wire format, in order. */
interface FakeRequest {
  readonly wire: keyof typeof wires;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  readonly model: string;
  readonly system: string;
  readonly users: string[];
  readonly assistants: string[];
  /** Names of the tools on offer. */
  readonly tools: readonly string[];
  readonly toolResults: FakeToolResult[];
  /** The tool results that came after the model's last words. */
  readonly newResults: readonly FakeToolResult[];
  /** What the real API would refuse about the request. */
  readonly problems: string[];
}

/** Replies in order, or a function of the request; its `index` counts replies from 0. Refused requests use up none. */
export type FakeScript =
  | readonly FakeReply[]
  | ((request: FakeRequest, index: number) => FakeReply | Promise<FakeReply>);

export interface FakeProvider extends AsyncDisposable {
  /** `http://127.0.0.1:PORT`, without a path: what goes into ANTHROPIC_BASE_URL or OPENAI_BASE_URL. */
  readonly url: string;
  /** Every request so far, in order. */
  readonly requests: readonly FakeRequest[];
  /** The environment variables that send every provider's SDK here, keys included. */
  readonly env: Readonly<Record<string, string>>;
  /** Resolves with the request of the given number, counting from 1, as soon as it has come in. */
  received(number: number): Promise<FakeRequest>;
  close(): Promise<void>;
}

/**
 * Starts a model provider on loopback that speaks the wire formats of Anthropic (Messages), OpenAI (Responses and Chat
 * Completions, the latter also that of local servers), Google (generateContent) and Amazon Bedrock (Converse), told apart by path; also as
 * Azure and Google Vertex speak the wire formats of OpenAI and Google. A request that
 * the real API would refuse is refused with 400 and what is wrong with it, and so is one beyond the script's end.
 *
 * `await using provider = await startFakeProvider([{ tool: "echo", args: { message: "hi" } }, { text: "done" }])`
 */
export async function startFakeProvider(
  script: FakeScript,
  {
    key,
  }: { /** The key that requests must carry; any key is good when absent. */ readonly key?: string } = {},
): Promise<FakeProvider> {
  const requests: FakeRequest[] = [];
  const waiting = new Map<number, PromiseWithResolvers<FakeRequest>>();
  let replies = 0;

  async function replyTo(request: FakeRequest): Promise<FakeReply> {
    if (request.problems.length > 0) {
      const isKey = request.problems.includes(wrongKey);
      return { status: isKey ? 401 : 400, message: `fake provider: ${request.problems.join("; ")}` };
    }
    const index = replies++;
    if (typeof script === "function") return script(request, index);
    return script[index] ?? { status: 400, message: `fake provider: the script has no reply ${index + 1}` };
  }

  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = "", headers } = incoming;
    const path = url.replace(/\?.*$/, "");
    const name = (Object.keys(wires) as (keyof typeof wires)[]).find((each) => wires[each].path.test(path));
    if (name === undefined || method !== "POST")
      return sendJson(response, 404, { error: { message: `nothing at ${method} ${path}` } });
    const request = readRequest(name, { path, headers, body: await json(incoming) }, key);
    const number = requests.push(request);
    waiting.get(number)?.resolve(request);
    send(response, await replyTo(request), request, number);
  }

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(400, { "content-type": "text/plain" });
      response.end(`fake provider: ${error instanceof Error ? error.stack : String(error)}`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  const env = Object.entries({ ANTHROPIC: "ANTHROPIC", OPENAI: "OPENAI", GEMINI: "GOOGLE_GEMINI" }).flatMap(
    ([name, address]) => [
      [`${address}_BASE_URL`, url],
      [`${name}_API_KEY`, key ?? "fake-key"],
    ],
  );
  return {
    url,
    requests,
    env: Object.fromEntries(env) as Record<string, string>,
    async received(number) {
      const request = requests[number - 1];
      if (request !== undefined) return request;
      const next = waiting.get(number) ?? Promise.withResolvers<FakeRequest>();
      waiting.set(number, next);
      return next.promise;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function send(response: ServerResponse, reply: FakeReply, request: FakeRequest, number: number): void {
  const wire: Wire = wires[request.wire];
  if ("hang" in reply) return;
  if ("drop" in reply) {
    if (reply.drop === true) return void response.socket?.destroy();
    const isStream = wantsStream(request);
    const type = isStream ? "text/event-stream" : "application/json";
    response.writeHead(200, { "content-type": type, ...(isStream ? {} : { "content-length": "1000" }) });
    response.write(isStream ? "data: {" : '{"id":', () => response.socket?.destroy());
  } else if ("raw" in reply) {
    response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers });
    response.end(reply.raw);
  } else if ("status" in reply) {
    const message = reply.message ?? `fake provider: HTTP ${reply.status}`;
    sendJson(response, reply.status, reply.body ?? wire.error(reply.status, message), reply.headers);
  } else {
    const calls = "tools" in reply ? reply.tools : "tool" in reply ? [reply] : [];
    const answer = wire.answer({ ...reply, calls }, request, number);
    if (!wantsStream(request)) return sendJson(response, 200, answer);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(wire.events(answer, fields(request.body)).map(eventText).join("") + (wire.end ?? ""));
  }
}

function wantsStream({ body, path }: FakeRequest): boolean {
  return fields(body)["stream"] === true || path.endsWith(":streamGenerateContent");
}

/** An event of a stream; its type is repeated as its name. */
export function eventText(data: Fields): string {
  const name = data["type"] === undefined ? "" : `event: ${text(data["type"])}\n`;
  return `${name}data: ${JSON.stringify(data)}\n\n`;
}

/** A text in two pieces. */
function halves(words: string): readonly string[] {
  const middle = Math.ceil(words.length / 2);
  return [words.slice(0, middle), words.slice(middle)];
}

function sendJson(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

/** What a request says, in order. */
type Item =
  | { readonly system: string }
  | { readonly user: string }
  | { readonly assistant: string }
  | { readonly call: string; readonly tool: string }
  /** Of the call with this id, or else of the first open call of the tool. */
  | {
      readonly result: string;
      readonly tool?: string;
      readonly isError?: boolean;
      readonly images?: number;
      readonly of?: string;
    }
  | { readonly problem: string };

type Fields = Readonly<Record<string, unknown>>;

function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}
const list = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.map(fields) : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");
/** The text of a content, which is a text or a list of parts. */
const said = (content: unknown, separator = ""): string =>
  typeof content === "string"
    ? content
    : list(content)
        .map((part) => text(part["text"]))
        .join(separator);
const unless = (holds: boolean, problem: string): Item[] => (holds ? [] : [{ problem }]);

const wrongKey = "the key is missing or wrong";
const bearer = ({ authorization }: IncomingHttpHeaders): string =>
  authorization?.replace(/^Bearer /, "") ?? "";
/** Azure has a header of its own. */
const openaiKey = (headers: IncomingHttpHeaders): string => text(headers["api-key"] ?? bearer(headers));

function readRequest(
  wire: keyof typeof wires,
  raw: Pick<FakeRequest, "path" | "headers" | "body">,
  key: string | undefined,
): FakeRequest {
  const body = fields(raw.body);
  const format: Wire = wires[wire];
  const model = body["model"] === undefined ? (format.path.exec(raw.path)?.[1] ?? "") : text(body["model"]);
  const system: string[] = [];
  const request = { users: [] as string[], assistants: [] as string[], toolResults: [] as FakeToolResult[] };
  const problems: string[] = [];
  const demand = (holds: boolean, problem: string): void => void (holds || problems.push(problem));
  const open = new Map<string, string>();
  let newFrom = 0;
  const sent = format.keyOf(raw.headers);
  demand(key === undefined ? !format.needsKey || sent !== "" : sent === key, wrongKey);
  demand(model !== "", "the request names no model");

  for (const item of format.items(body, raw.headers)) {
    if ("problem" in item) problems.push(item.problem);
    else if ("system" in item) {
      demand(request.users.length === 0, "a system message after the user's");
      system.push(item.system);
    } else if ("call" in item) {
      demand(item.call !== "" && !open.has(item.call), `the call of ${item.tool} has no id of its own`);
      open.set(item.call, item.tool);
      newFrom = request.toolResults.length;
    } else if ("result" in item) {
      const id = item.of ?? [...open].find(([, name]) => name === item.tool)?.[0] ?? "";
      const tool = open.get(id);
      demand(tool !== undefined, `a tool result refers to the call ${id}, which is not open`);
      open.delete(id);
      const { isError = false, images = 0 } = item;
      request.toolResults.push({ tool: tool ?? "", text: item.result, isError, images });
    } else {
      demand(open.size === 0, `somebody speaks while the calls ${[...open.keys()].join()} are unanswered`);
      if ("user" in item) request.users.push(item.user);
      else {
        if (item.assistant !== "") request.assistants.push(item.assistant);
        newFrom = request.toolResults.length;
      }
    }
  }
  demand(open.size === 0, `the calls ${[...open.keys()].join()} are unanswered`);
  demand(request.users.length > 0, "nothing was said by the user");

  const declared = format.tools(body);
  const names = declared.map(({ name }) => text(name));
  demand(new Set(names).size === names.length, `tool names are not unique: ${names.join()}`);
  for (const { name, schema } of declared) {
    demand(format.toolName.test(text(name)), `illegal tool name ${JSON.stringify(name)}`);
    const { type, properties } = fields(schema);
    demand(type === "object" && properties !== undefined, `the schema of ${text(name)} is not an object's`);
  }
  const newResults = request.toolResults.slice(newFrom);
  return { wire, ...raw, model, system: system.join("\n"), ...request, newResults, tools: names, problems };
}

interface Wire {
  /** With the model's name as its group where that is in the path. */
  readonly path: RegExp;
  keyOf(headers: IncomingHttpHeaders): string;
  readonly needsKey: boolean;
  items(body: Fields, headers: IncomingHttpHeaders): readonly Item[];
  tools(body: Fields): readonly { readonly name?: unknown; readonly schema: unknown }[];
  readonly toolName: RegExp;
  /** The body of an answer; `number` counts answers from 1 and makes ids. */
  answer(answer: FakeAnswer, request: FakeRequest, number: number): Fields;
  /** The same answer as the events of a stream. */
  events(answer: Fields, body: Fields): readonly Fields[];
  /** What ends a stream. */
  readonly end?: string;
  error(status: number, message: string): unknown;
}

const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"];

function anthropicItem(role: unknown, block: Fields): readonly Item[] {
  const { type } = block;
  if (type === "text") {
    const words = text(block["text"]);
    const item = role === "user" ? { user: words } : { assistant: words };
    return [...unless(words.trim() !== "", "text content blocks must be non-empty"), item];
  }
  if (type === "tool_use" && role === "assistant")
    return [{ call: text(block["id"]), tool: text(block["name"]) }];
  const parts = type === "image" ? [block] : list(block["content"]);
  const images = parts.filter((part) => part["type"] === "image");
  const types = images.map(({ source }) => text(fields(source)["media_type"]));
  const legal = unless(
    types.every((each) => imageTypes.includes(each)),
    `image type ${types.join()} is not supported`,
  );
  if (type === "image") return legal;
  if (type !== "tool_result" || role !== "user")
    return [{ problem: `a ${text(type)} block of ${text(role)}` }];
  const result = said(block["content"], "\n").trim();
  const isError = block["is_error"] === true;
  return [...legal, { of: text(block["tool_use_id"]), result, isError, images: images.length }];
}

function responsesItem(item: Fields): readonly Item[] {
  const { type = "message", role } = item;
  const words = said(item["content"]);
  if (type === "reasoning") return [];
  if (type === "function_call") {
    JSON.parse(text(item["arguments"]));
    return [{ call: text(item["call_id"]), tool: text(item["name"]) }];
  }
  if (type === "function_call_output") {
    const images = list(item["output"]).filter((part) => part["type"] === "input_image").length;
    return [{ of: text(item["call_id"]), result: said(item["output"], "\n").trim(), images }];
  }
  if (role === "user") return [{ user: words }];
  if (role === "assistant") return [{ assistant: words }];
  if (role === "system" || role === "developer") return [{ system: words }];
  return [{ problem: `an input item of type ${text(type)} and role ${text(role)}` }];
}

function chatItem(message: Fields): readonly Item[] {
  const { role } = message;
  const words = said(message["content"]);
  if (role === "system" || role === "developer") return [{ system: words }];
  if (role === "user") return [{ user: words }];
  if (role === "tool") return [{ of: text(message["tool_call_id"]), result: words }];
  if (role !== "assistant") return [{ problem: `a message of role ${text(role)}` }];
  const calls = list(message["tool_calls"]).map((call) => {
    return { call: text(call["id"]), tool: text(fields(call["function"])["name"]) };
  });
  return [{ assistant: words }, ...calls];
}

/** Gemini requires exactly one functionResponse for each functionCall, in the content right after it. */
function googleItem({ role, parts: written }: Fields, index: number): readonly Item[] {
  const parts = list(written);
  const calls = parts.flatMap(({ functionCall }, position) =>
    functionCall === undefined
      ? []
      : [{ call: `${index}.${position}`, tool: text(fields(functionCall)["name"]) }],
  );
  if (role === "model") return [{ assistant: said(parts) }, ...calls];
  const responses = parts.flatMap((part) => {
    return part["functionResponse"] === undefined ? [] : [fields(part["functionResponse"])];
  });
  if (responses.length === 0) return [{ user: said(parts) }];
  const inline = parts.filter((part) => part["inlineData"] !== undefined).length;
  return responses.map(({ name, response, parts: nested }) => {
    const { content } = fields(response);
    const result = typeof content === "string" ? content : JSON.stringify(response);
    return { tool: text(name), result, images: inline + list(nested).length };
  });
}

function bedrockItem(role: unknown, block: Fields): readonly Item[] {
  const { toolUse, toolResult } = block;
  if (toolUse !== undefined && role === "assistant") {
    const { toolUseId, name } = fields(toolUse);
    return [{ call: text(toolUseId), tool: text(name) }];
  }
  if (toolResult !== undefined && role === "user") {
    const { toolUseId, content, status } = fields(toolResult);
    const images = list(content).filter((part) => part["image"] !== undefined).length;
    const result = said(content, "\n").trim();
    return [{ of: text(toolUseId), result, isError: status === "error", images }];
  }
  const words = text(block["text"]);
  const item = role === "user" ? { user: words } : { assistant: words };
  return [...unless(words.trim() !== "", "the text field in a content block is blank"), item];
}

function openaiError(status: number, message: string): unknown {
  const type = status === 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error";
  return { error: { message, type, param: null, code: status === 401 ? "invalid_api_key" : null } };
}

const argsText = ({ args = {}, rawArgs = JSON.stringify(args) }: FakeCall): string => rawArgs;
const openaiToolName = /^[a-zA-Z0-9_-]{1,64}$/;

const wires = {
  /** Anthropic's Messages API. */
  anthropic: {
    path: /^\/v1\/messages$/,
    keyOf: (headers) => text(headers["x-api-key"]),
    needsKey: true,
    toolName: /^[a-zA-Z0-9_-]{1,128}$/,
    tools: (body) =>
      list(body["tools"]).map((tool) => ({ name: tool["name"], schema: tool["input_schema"] })),
    items(body, headers) {
      const messages = list(body["messages"]);
      const roles = messages.map(({ role }) => role);
      return [
        ...unless(text(headers["anthropic-version"]) !== "", "anthropic-version is missing"),
        ...unless(Number(body["max_tokens"]) > 0, "max_tokens is required"),
        ...unless(
          roles.every((role, index) => role === (index % 2 === 0 ? "user" : "assistant")),
          `the roles do not alternate: ${roles.join()}`,
        ),
        { system: said(body["system"], "\n") },
        ...messages.flatMap(({ role, content }) => {
          const blocks = typeof content === "string" ? [{ type: "text", text: content }] : list(content);
          return blocks.flatMap((block) => anthropicItem(role, block));
        }),
      ];
    },
    answer(reply, { body, model }, number) {
      // A verdict is asked for as the arguments of a tool where the model has no other way to JSON.
      const { type, name } = fields(fields(body)["tool_choice"]);
      const asTool = type === "tool" && reply.text !== undefined && reply.calls.length === 0;
      const calls = asTool ? [{ tool: text(name), args: JSON.parse(reply.text) as unknown }] : reply.calls;
      const uses = calls.map(({ tool, args: input = {} }, index) => ({
        type: "tool_use",
        id: `toolu_${number}_${index}`,
        name: tool,
        input,
      }));
      const words = asTool || reply.text === undefined ? [] : [{ type: "text", text: reply.text }];
      const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
      const ends = {
        length: "max_tokens",
        refusal: "refusal",
        none: uses.length > 0 ? "tool_use" : "end_turn",
      };
      return {
        id: `msg_${number}`,
        type: "message",
        role: "assistant",
        model,
        content: [...words, ...uses],
        stop_reason: ends[reply.finish ?? "none"],
        stop_sequence: null,
        usage: {
          input_tokens: input - cacheRead,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: cacheRead,
          output_tokens: output,
        },
      };
    },
    events(answer) {
      const { content, stop_reason, stop_sequence, usage } = answer;
      const blocks = list(content).flatMap((block, index) => {
        const isText = block["type"] === "text";
        const pieces = halves(isText ? text(block["text"]) : JSON.stringify(block["input"]));
        return [
          {
            type: "content_block_start",
            index,
            content_block: isText ? { ...block, text: "" } : { ...block, input: {} },
          },
          ...pieces.map((piece) => ({
            type: "content_block_delta",
            index,
            delta: isText
              ? { type: "text_delta", text: piece }
              : { type: "input_json_delta", partial_json: piece },
          })),
          { type: "content_block_stop", index },
        ];
      });
      const { output_tokens } = fields(usage);
      return [
        {
          type: "message_start",
          message: {
            ...answer,
            content: [],
            stop_reason: null,
            usage: { ...fields(usage), output_tokens: 1 },
          },
        },
        { type: "ping" },
        ...blocks,
        { type: "message_delta", delta: { stop_reason, stop_sequence }, usage: { output_tokens } },
        { type: "message_stop" },
      ];
    },
    error(status, message) {
      const types: Readonly<Record<number, string>> = {
        400: "invalid_request_error",
        401: "authentication_error",
        429: "rate_limit_error",
        529: "overloaded_error",
      };
      return { type: "error", error: { type: types[status] ?? "api_error", message }, request_id: "req_1" };
    },
  },
  /** OpenAI's Responses API, without anything stored. */
  "openai-responses": {
    path: /^(?:\/openai)?\/v1\/responses$/,
    keyOf: openaiKey,
    needsKey: true,
    toolName: openaiToolName,
    tools: (body) => list(body["tools"]).map((tool) => ({ name: tool["name"], schema: tool["parameters"] })),
    items: (body) => list(body["input"]).flatMap(responsesItem),
    answer(reply, { model }, number) {
      const content =
        reply.finish === "refusal"
          ? { type: "refusal", refusal: reply.text }
          : { type: "output_text", text: reply.text, annotations: [] };
      const message = { type: "message", id: `msg_${number}`, status: "completed", role: "assistant" };
      const calls = reply.calls.map((call, index) => ({
        type: "function_call",
        id: `fc_${number}_${index}`,
        call_id: `call_${number}_${index}`,
        name: call.tool,
        arguments: argsText(call),
        status: "completed",
      }));
      const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
      return {
        id: `resp_${number}`,
        object: "response",
        created_at: 1_700_000_000,
        status: reply.finish === "length" ? "incomplete" : "completed",
        error: null,
        incomplete_details: reply.finish === "length" ? { reason: "max_output_tokens" } : null,
        model,
        output: [...(reply.text === undefined ? [] : [{ ...message, content: [content] }]), ...calls],
        usage: {
          input_tokens: input,
          input_tokens_details: { cached_tokens: cacheRead },
          output_tokens: output,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: input + output,
        },
      };
    },
    events(response) {
      const { output, status } = response;
      const items = list(output).flatMap((item, output_index) => {
        const place = { item_id: item["id"], output_index };
        const [part = {}] = list(item["content"]);
        const isRefusal = part["type"] === "refusal";
        const isCall = item["type"] === "function_call";
        const whole = isCall ? item["arguments"] : (part["refusal"] ?? part["text"]);
        const type = isCall ? "function_call_arguments" : isRefusal ? "refusal" : "output_text";
        const begun = isCall ? { ...item, arguments: "" } : { ...item, content: [] };
        return [
          { type: "response.output_item.added", output_index, item: { ...begun, status: "in_progress" } },
          ...halves(text(whole)).map((delta) => ({
            type: `response.${type}.delta`,
            ...place,
            ...(isCall ? {} : { content_index: 0 }),
            delta,
          })),
          { type: "response.output_item.done", output_index, item },
        ];
      });
      const events = [
        {
          type: "response.created",
          response: { ...response, status: "in_progress", output: [], usage: null },
        },
        ...items,
        { type: `response.${text(status)}`, response },
      ];
      return events.map((event, sequence_number) => ({ ...event, sequence_number }));
    },
    error: openaiError,
  },
  /** OpenAI's Chat Completions API; local servers speak it too, and need no key. */
  "openai-chat": {
    path: /^(?:\/openai)?\/v1\/chat\/completions$/,
    keyOf: openaiKey,
    needsKey: false,
    toolName: openaiToolName,
    tools: (body) =>
      list(body["tools"]).map((tool) => {
        const { name, parameters } = fields(tool["function"]);
        return { name, schema: parameters };
      }),
    items: (body) => list(body["messages"]).flatMap(chatItem),
    answer(reply, { model }, number) {
      const calls = reply.calls.map((call, index) => ({
        id: `call_${number}_${index}`,
        type: "function",
        function: { name: call.tool, arguments: argsText(call) },
      }));
      const isRefusal = reply.finish === "refusal";
      const message = {
        role: "assistant",
        content: isRefusal ? null : (reply.text ?? null),
        refusal: isRefusal ? reply.text : null,
        ...(calls.length === 0 ? {} : { tool_calls: calls }),
      };
      const finish = reply.finish === "length" ? "length" : calls.length > 0 ? "tool_calls" : "stop";
      const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
      return {
        id: `chatcmpl-${number}`,
        object: "chat.completion",
        created: 1_700_000_000,
        model,
        choices: [{ index: 0, message, logprobs: null, finish_reason: finish }],
        usage: {
          prompt_tokens: input,
          completion_tokens: output,
          total_tokens: input + output,
          prompt_tokens_details: { cached_tokens: cacheRead },
        },
      };
    },
    events({ choices, usage, ...rest }, body) {
      const base = { ...rest, object: "chat.completion.chunk" };
      const chunk = (delta: Fields, finish_reason: unknown = null): Fields => ({
        ...base,
        choices: [{ index: 0, delta, finish_reason }],
      });
      const [{ message, finish_reason } = {}] = list(choices);
      const { content, refusal, tool_calls } = fields(message);
      const calls = list(tool_calls).flatMap((call, index) => {
        const { name, arguments: whole } = fields(call["function"]);
        return [
          { index, ...call, function: { name, arguments: "" } },
          ...halves(text(whole)).map((piece) => ({ index, function: { arguments: piece } })),
        ];
      });
      const wantsUsage = fields(body["stream_options"])["include_usage"] === true;
      return [
        chunk({ role: "assistant", content: "" }),
        ...halves(text(content)).map((piece) => chunk({ content: piece })),
        ...(typeof refusal === "string" ? [chunk({ refusal })] : []),
        ...calls.map((call) => chunk({ tool_calls: [call] })),
        chunk({}, finish_reason),
        ...(wantsUsage ? [{ ...base, choices: [], usage }] : []),
      ];
    },
    end: "data: [DONE]\n\n",
    error: openaiError,
  },
  /** Google's Gemini API, and that of Vertex. */
  google: {
    path: /^\/(?:v1beta|v1(?:beta1)?(?:\/projects\/p\/locations\/l)?\/publishers\/google)\/models\/([^/:]+):(?:generateContent|streamGenerateContent)$/,
    keyOf: (headers) => text(headers["x-goog-api-key"] ?? bearer(headers)),
    needsKey: true,
    toolName: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/,
    tools: (body) =>
      list(body["tools"])
        .flatMap((tool) => list(tool["functionDeclarations"]))
        .map((tool) => ({ name: tool["name"], schema: tool["parametersJsonSchema"] ?? tool["parameters"] })),
    items: (body) => [
      { system: said(fields(body["systemInstruction"])["parts"]) },
      ...list(body["contents"]).flatMap(googleItem),
    ],
    answer(reply, { model }, number) {
      const words = reply.text === undefined ? [] : [{ text: reply.text }];
      const calls = reply.calls.map(({ tool: name, args = {} }) => ({ functionCall: { name, args } }));
      const content = { role: "model", parts: [...words, ...calls] };
      const finishReason = { length: "MAX_TOKENS", refusal: "SAFETY", none: "STOP" }[reply.finish ?? "none"];
      const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
      return {
        candidates: [{ content, finishReason, index: 0 }],
        usageMetadata: {
          promptTokenCount: input,
          candidatesTokenCount: output,
          totalTokenCount: input + output,
          cachedContentTokenCount: cacheRead,
        },
        modelVersion: model,
        responseId: `response-${number}`,
      };
    },
    events({ candidates, usageMetadata, ...rest }) {
      const [{ content, finishReason } = {}] = list(candidates);
      const pieces = list(fields(content)["parts"]).flatMap((part) =>
        part["text"] === undefined ? [part] : halves(text(part["text"])).map((piece) => ({ text: piece })),
      );
      const chunk = (parts: readonly Fields[], more = {}): Fields => ({
        candidates: [{ content: { role: "model", parts }, index: 0, ...more }],
        ...rest,
      });
      return [
        ...pieces.map((part) => chunk([part])),
        { ...chunk([{ text: "" }], { finishReason }), usageMetadata },
      ];
    },
    error(code, message) {
      const names: Readonly<Record<number, string>> = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
      };
      return { error: { code, message, status: names[code] ?? "INTERNAL" } };
    },
  },
  /** Amazon Bedrock's Converse API. */
  bedrock: {
    path: /^\/model\/([^/]+)\/converse$/,
    keyOf: bearer,
    needsKey: true,
    toolName: /^[a-zA-Z0-9_-]{1,64}$/,
    tools: (body) =>
      list(fields(body["toolConfig"])["tools"]).map(({ toolSpec }) => {
        const { name, inputSchema } = fields(toolSpec);
        return { name, schema: fields(inputSchema)["json"] };
      }),
    items(body) {
      const messages = list(body["messages"]);
      const roles = messages.map(({ role }) => role);
      return [
        ...unless(
          roles.every((role, index) => role === (index % 2 === 0 ? "user" : "assistant")),
          `the roles do not alternate: ${roles.join()}`,
        ),
        { system: said(body["system"], "\n") },
        ...messages.flatMap(({ role, content }) =>
          list(content).flatMap((block) => bedrockItem(role, block)),
        ),
      ];
    },
    answer(reply, { body, tools }, number) {
      // A verdict is asked for as the arguments of a tool where the model has no other way to JSON.
      const { any } = fields(fields(fields(body)["toolConfig"])["toolChoice"]);
      const asTool = any !== undefined && reply.text !== undefined && reply.calls.length === 0;
      const calls = asTool
        ? [{ tool: tools[0] ?? "", args: JSON.parse(reply.text) as unknown }]
        : reply.calls;
      const words = asTool || reply.text === undefined ? [] : [{ text: reply.text }];
      const uses = calls.map(({ tool: name, args: input = {} }, index) => ({
        toolUse: { toolUseId: `tooluse_${number}_${index}`, name, input },
      }));
      const ends = {
        length: "max_tokens",
        refusal: "content_filtered",
        none: uses.length > 0 ? "tool_use" : "end_turn",
      };
      const { input = 10, output = 5, cacheRead = 0 } = reply.usage ?? {};
      return {
        output: { message: { role: "assistant", content: [...words, ...uses] } },
        stopReason: ends[reply.finish ?? "none"],
        usage: {
          inputTokens: input - cacheRead,
          outputTokens: output,
          totalTokens: input + output,
          cacheReadInputTokens: cacheRead,
        },
        metrics: { latencyMs: 1 },
      };
    },
    events: () => [],
    error: (_status, message) => ({ message }),
  },
} satisfies Readonly<Record<string, Wire>>;
