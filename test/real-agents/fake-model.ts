import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import type { NoteAnswer } from "../support/note-reader.ts";

/** A JSON body of unknown shape. */
type Body = { readonly [key: string]: unknown };

/** A request to the model, whatever its wire format. */
interface Asked {
  /** The tools on offer; Codex puts the tools of a server into a namespace. */
  readonly tools: readonly { readonly name: string; readonly namespace?: string }[];
  /** Number of tool results since the last message of the user. */
  readonly results: number;
  readonly model: string;
}

/** A request with its number, of which ids are made: some agents drop what has an id again. */
interface Numbered extends Asked {
  readonly number: number;
}

/** What the model answers: a text, or a call of a tool. */
type Reply =
  | { readonly text: string }
  | { readonly text?: never; readonly tool: Asked["tools"][number]; readonly args: object };

/** A call that the model makes. */
export interface FakeCall {
  /** How the name of the tool ends. */
  readonly tool: string;
  readonly args: object;
}

/** One provider's wire format: JSON, and the same answer as server-sent events. */
interface Wire {
  readonly path: RegExp;
  read(body: Body): Asked;
  json(reply: Reply, asked: Numbered): Body;
  /** The data of each event; a `type` is repeated as the name of its event. */
  events(reply: Reply, asked: Numbered): readonly Body[];
  /** Written after the events. */
  readonly end?: string;
}

/** Tokens that every answer claims. */
export const tokens = { input: 100, cached: 10, output: 20 };

const objects = (value: unknown): readonly Body[] =>
  Array.isArray(value) ? value.filter((item): item is Body => typeof item === "object" && item !== null) : [];
const text = (value: unknown): string => (typeof value === "string" ? value : "");
const sinceUser = (items: readonly Body[], isUser: (item: Body) => boolean): readonly Body[] =>
  items.slice(items.findLastIndex(isUser) + 1);
const hasUserRole = (item: Body): boolean => item["role"] === "user";

/** Anthropic Messages, as Claude Code speaks it. */
const anthropic: Wire = {
  path: /\/messages$/,
  read(body) {
    const isResult = (block: Body): boolean => block["type"] === "tool_result";
    // A message of the user that has only results of tools is not the user's own.
    const isUser = (item: Body): boolean =>
      hasUserRole(item) && (typeof item["content"] === "string" || !objects(item["content"]).some(isResult));
    const results = sinceUser(objects(body["messages"]), isUser).flatMap((item) => objects(item["content"]));
    return {
      tools: objects(body["tools"]).map((tool) => ({ name: text(tool["name"]) })),
      results: results.filter(isResult).length,
      model: text(body["model"]),
    };
  },
  json(reply, { number, model }) {
    const isText = reply.text !== undefined;
    const block = isText
      ? { type: "text", text: reply.text }
      : { type: "tool_use", id: `toolu_${number}`, name: reply.tool.name, input: reply.args };
    return {
      id: `msg_${number}`,
      type: "message",
      role: "assistant",
      model,
      content: [block],
      stop_reason: isText ? "end_turn" : "tool_use",
      stop_sequence: null,
      usage: {
        input_tokens: tokens.input - tokens.cached,
        cache_read_input_tokens: tokens.cached,
        cache_creation_input_tokens: 0,
        output_tokens: tokens.output,
      },
    };
  },
  events(reply, asked) {
    const message = anthropic.json(reply, asked);
    const { stop_reason, stop_sequence, usage } = message;
    const [block] = objects(message["content"]);
    const isText = reply.text !== undefined;
    const delta = isText
      ? { type: "text_delta", text: reply.text }
      : { type: "input_json_delta", partial_json: JSON.stringify(reply.args) };
    const empty = isText ? { ...block, text: "" } : { ...block, input: {} };
    return [
      { type: "message_start", message: { ...message, content: [], stop_reason: null } },
      { type: "content_block_start", index: 0, content_block: empty },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason, stop_sequence }, usage },
      { type: "message_stop" },
    ];
  },
};

/** OpenAI Chat Completions, as Copilot and opencode speak it. */
const chat: Wire = {
  path: /\/chat\/completions$/,
  end: "data: [DONE]\n\n",
  read: (body) => ({
    tools: objects(body["tools"]).map((tool) => ({
      name: text((tool["function"] as Body | undefined)?.["name"]),
    })),
    results: sinceUser(objects(body["messages"]), hasUserRole).filter((item) => item["role"] === "tool")
      .length,
    model: text(body["model"]),
  }),
  json(reply, { number, model }) {
    const call = (tool: string, args: object): object => ({
      index: 0,
      id: `call_${number}`,
      type: "function",
      function: { name: tool, arguments: JSON.stringify(args) },
    });
    const isText = reply.text !== undefined;
    const said = isText
      ? { content: reply.text }
      : { content: null, tool_calls: [call(reply.tool.name, reply.args)] };
    const message = { role: "assistant", ...said };
    return {
      id: "chat_1",
      created: 1,
      model,
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: isText ? "stop" : "tool_calls" }],
      usage: {
        prompt_tokens: tokens.input,
        completion_tokens: tokens.output,
        total_tokens: tokens.input + tokens.output,
        prompt_tokens_details: { cached_tokens: tokens.cached },
      },
    };
  },
  events(reply, asked) {
    const { usage, ...whole } = chat.json(reply, asked);
    const base = { ...whole, object: "chat.completion.chunk" };
    const [{ message, finish_reason } = {}] = objects(whole["choices"]);
    return [
      { ...base, choices: [{ index: 0, delta: message, finish_reason: null }] },
      { ...base, choices: [{ index: 0, delta: {}, finish_reason }] },
      { ...base, choices: [], usage },
    ];
  },
};

/** What Gemini CLI wants when it asks which model to take, or who speaks next. */
const routing = {
  reasoning: "x",
  next_speaker: "user",
  model_choice: "flash",
  complexity_reasoning: "",
  complexity_score: 1,
};

/** Gemini's generateContent, as Gemini CLI speaks it. */
const gemini: Wire = {
  path: /:(?:stream)?generateContent$/i,
  read(body) {
    const partsWith = (item: Body, key: string): readonly Body[] =>
      objects(item["parts"]).filter((part) => part[key] !== undefined);
    const isUser = (item: Body): boolean => hasUserRole(item) && partsWith(item, "text").length > 0;
    const config = body["generationConfig"] as Body | undefined;
    const wantsJson =
      config?.["responseMimeType"] === "application/json" || config?.["responseJsonSchema"] !== undefined;
    return {
      tools: objects(body["tools"]).flatMap((tool) =>
        objects(tool["functionDeclarations"]).map((each) => ({ name: text(each["name"]) })),
      ),
      results: sinceUser(objects(body["contents"]), isUser).flatMap((item) =>
        partsWith(item, "functionResponse"),
      ).length,
      model: wantsJson ? "router" : "model",
    };
  },
  json(reply, { model }) {
    const said = model === "router" ? JSON.stringify(routing) : reply.text;
    const part =
      said === undefined && reply.text === undefined
        ? { functionCall: { name: reply.tool.name, args: reply.args } }
        : { text: said };
    return {
      candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
      usageMetadata: {
        promptTokenCount: tokens.input,
        candidatesTokenCount: tokens.output,
        totalTokenCount: tokens.input + tokens.output,
        cachedContentTokenCount: tokens.cached,
      },
    };
  },
  events: (reply, asked) => [gemini.json(reply, asked)],
};

/** OpenAI Responses, as Codex speaks it. */
const responses: Wire = {
  path: /\/responses$/,
  read: (body) => ({
    tools: objects(body["tools"]).flatMap((tool) => {
      const namespace = text(tool["name"]);
      if (tool["type"] !== "namespace") return [{ name: namespace }];
      return objects(tool["tools"]).map((inner) => ({ name: text(inner["name"]), namespace }));
    }),
    results: sinceUser(objects(body["input"]), hasUserRole).filter((item) =>
      text(item["type"]).endsWith("_output"),
    ).length,
    model: text(body["model"]),
  }),
  json(reply, { number }) {
    const item =
      reply.text === undefined
        ? {
            type: "function_call",
            id: `fc_${number}`,
            call_id: `call_${number}`,
            status: "completed",
            ...reply.tool,
            arguments: JSON.stringify(reply.args),
          }
        : {
            type: "message",
            id: "msg_1",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: reply.text, annotations: [] }],
          };
    const usage = {
      input_tokens: tokens.input,
      input_tokens_details: { cached_tokens: tokens.cached },
      output_tokens: tokens.output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: tokens.input + tokens.output,
    };
    return { id: "resp_1", object: "response", status: "completed", output: [item], usage };
  },
  events(reply, asked) {
    const response = responses.json(reply, asked);
    const [item] = objects(response["output"]);
    const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
    const events: Body[] = [
      { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
      { type: "response.output_item.added", output_index: 0, item },
      ...(reply.text === undefined
        ? []
        : [{ type: "response.output_text.delta", ...place, delta: reply.text }]),
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response },
    ];
    return events.map((data, index) => ({ ...data, sequence_number: index }));
  },
};

const wires = [responses, chat, gemini, anthropic];

export interface FakeModelOptions {
  readonly tool: string;
  readonly args: object;
  /** What it calls after that. */
  readonly further?: readonly FakeCall[];
  readonly words: string;
  /** What it answers to the body of a request, in place of all that. */
  readonly answer?: (body: unknown) => NoteAnswer;
  readonly refuses?: number;
  /** It answers with a page in place of an answer, as proxies do. */
  readonly isPage?: true;
  /** Called with the first request, of which none is answered. */
  readonly onHang?: () => void;
}

/**
 * A model on loopback that streams as the providers do: after each message of the user it calls the first tool whose name ends in `tool`,
 * once, and says `words` then; a call of a tool that it is not offered is left out. With `refuses` it answers everything with that HTTP status. `url` is
 * `http://127.0.0.1:PORT`, without a path; `requests` has the headers and the body of each request to the model.
 */
export async function startFakeModel(
  options: FakeModelOptions,
): Promise<AsyncDisposable & { readonly url: string; readonly requests: readonly string[] }> {
  const requests: string[] = [];
  const replyTo = ({ tools, results }: Asked, body: Body): Reply => {
    const given = options.answer?.(body);
    if (given !== undefined) {
      if (given.tool === undefined) return given;
      const { tool: name, namespace, args } = given;
      return { tool: { name, ...(namespace === undefined ? {} : { namespace }) }, args };
    }
    // Some agents have no dashes in names of tools.
    const plain = (name: string): string => name.replaceAll("-", "_");
    const replies = [options, ...(options.further ?? [])].flatMap(
      ({ tool: wanted, args }): readonly Reply[] => {
        const tool = tools.find(({ name }) => plain(name).endsWith(plain(wanted)));
        return tool === undefined ? [] : [{ tool, args }];
      },
    );
    return replies[results] ?? { text: options.words };
  };
  const server = createServer((request, response) => {
    const send = (status: number, body: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    };
    void (async () => {
      const { pathname } = new URL(request.url ?? "/", "http://localhost");
      const wire = wires.find(({ path }) => path.test(pathname));
      if (request.method !== "POST" || wire === undefined)
        return send(200, { object: "list", data: [{ id: "fake", object: "model" }], models: [] });
      const body = (await json(request)) as Body;
      const number = requests.push(JSON.stringify([request.rawHeaders, body]));
      if (options.onHang !== undefined) return options.onHang();
      const error = { type: "authentication_error", code: "invalid_api_key", message: "bad key" };
      if (options.refuses !== undefined) return send(options.refuses, { type: "error", error });
      if (options.isPage === true)
        return response.writeHead(200, { "content-type": "text/html" }).end("<html>Sign in</html>");
      const asked = { ...wire.read(body), number };
      const reply = replyTo(asked, body);
      if (body["stream"] !== true && !pathname.includes("stream")) return send(200, wire.json(reply, asked));
      const events = wire.events(reply, asked).map((data) => {
        const name = "type" in data ? `event: ${text(data["type"])}\n` : "";
        return `${name}data: ${JSON.stringify(data)}\n\n`;
      });
      response
        .writeHead(200, { "content-type": "text/event-stream" })
        .end(events.join("") + (wire.end ?? ""));
    })().catch((error: unknown) => response.writeHead(500).end(String(error)));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}
