import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { anthropicWire } from "./fake-provider/anthropic.ts";
import { googleWire } from "./fake-provider/google.ts";
import { openaiChatWire } from "./fake-provider/openai-chat.ts";
import { openaiResponsesWire } from "./fake-provider/openai-responses.ts";
import type {
  FakeAnswer,
  FakeCall,
  FakeUsage,
  FakeWire,
  RawRequest,
  RequestView,
} from "./fake-provider/wire.ts";

/**
 * What the fake does with one request:
 * - `{ text }`: the model says something; `finish` makes it cut off or a refusal
 * - `{ tool, args }`: it calls a tool, after saying `text` if there is any; `{ tools: [...] }`: several at once
 * - `{ status, headers?, body?, message? }`: an HTTP answer; without `body`, the provider's own shape of an error
 * - `{ raw, status? }`: this text as the body, whatever it is
 * - `{ hang: true }`: never an answer; `{ drop: true }`: the connection is cut before the answer,
 *   `{ drop: "body" }`: in the middle of it
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

/** A request that the fake got: its raw parts, and what it says whatever its wire format. */
interface FakeRequest extends RequestView {
  readonly wire: FakeWire["name"];
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
}

/** Replies in order, or a function of the request; its `index` counts replies from 0. Refused requests use up none. */
export type FakeScript =
  | readonly FakeReply[]
  | ((request: FakeRequest, index: number) => FakeReply | Promise<FakeReply>);

export interface FakeProviderOptions {
  /** The key that requests must carry; any key is good when absent. */
  readonly key?: string;
}

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
 * Completions, the latter also that of local servers) and Google (generateContent), told apart by path. A request that
 * the real API would refuse is refused with 400 and what is wrong with it, and so is one beyond the script's end.
 *
 * `await using provider = await startFakeProvider([{ tool: "echo", args: { message: "hi" } }, { text: "done" }])`
 */
export async function startFakeProvider(
  script: FakeScript,
  options: FakeProviderOptions = {},
): Promise<FakeProvider> {
  const state = new ProviderState(script, options);
  const server = createServer((request, response) => {
    state.handle(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(400, { "content-type": "text/plain" });
      response.end(
        `fake provider: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
      );
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  const key = options.key ?? "fake-key";
  return {
    url,
    requests: state.requests,
    env: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: key,
      OPENAI_BASE_URL: url,
      OPENAI_API_KEY: key,
      GOOGLE_GEMINI_BASE_URL: url,
      GEMINI_API_KEY: key,
    },
    received: (number) => state.received(number),
    close,
    [Symbol.asyncDispose]: close,
  };
}

const wires = [anthropicWire, openaiResponsesWire, openaiChatWire, googleWire];

class ProviderState {
  readonly requests: FakeRequest[] = [];
  readonly #script: FakeScript;
  readonly #options: FakeProviderOptions;
  #replies = 0;
  readonly #waiting = new Map<number, PromiseWithResolvers<FakeRequest>>();

  constructor(script: FakeScript, options: FakeProviderOptions) {
    this.#script = script;
    this.#options = options;
  }

  received(number: number): Promise<FakeRequest> {
    const request = this.requests[number - 1];
    if (request !== undefined) return Promise.resolve(request);
    const waiting = this.#waiting.get(number) ?? Promise.withResolvers<FakeRequest>();
    this.#waiting.set(number, waiting);
    return waiting.promise;
  }

  async handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (incoming.url ?? "").replace(/\?.*$/, "");
    const wire = wires.find((candidate) => candidate.matches(path));
    const written = await readBody(incoming);
    if (wire === undefined || incoming.method !== "POST") {
      sendJson(response, 404, { error: { message: `nothing at ${incoming.method} ${path}` } });
      return;
    }
    const raw: RawRequest = {
      path,
      headers: incoming.headers,
      body: JSON.parse(written) as unknown,
      key: this.#options.key,
    };
    const { path: _path, key: _key, ...parts } = raw;
    const request: FakeRequest = { wire: wire.name, path, ...parts, ...wire.read(raw) };
    const number = this.requests.push(request);
    this.#waiting.get(number)?.resolve(request);
    send({ response, wire, raw, number }, await this.#replyTo(request));
  }

  async #replyTo(request: FakeRequest): Promise<FakeReply> {
    if (request.problems.length > 0) {
      const unauthorized = request.problems.some((problem) =>
        /is missing or wrong|header is wrong/.test(problem),
      );
      return { status: unauthorized ? 401 : 400, message: `fake provider: ${request.problems.join("; ")}` };
    }
    const index = this.#replies;
    this.#replies += 1;
    if (typeof this.#script === "function") return this.#script(request, index);
    return (
      this.#script[index] ?? { status: 400, message: `fake provider: the script has no reply ${index + 1}` }
    );
  }
}

interface Exchange {
  readonly response: ServerResponse;
  readonly wire: FakeWire;
  readonly raw: RawRequest;
  readonly number: number;
}

function send({ response, wire, raw, number }: Exchange, reply: FakeReply): void {
  if ("hang" in reply) return;
  if ("drop" in reply) {
    drop(response, reply.drop);
    return;
  }
  if ("raw" in reply) {
    response.writeHead(reply.status ?? 200, { "content-type": "application/json", ...reply.headers });
    response.end(reply.raw);
    return;
  }
  if ("status" in reply) {
    const message = reply.message ?? `fake provider: HTTP ${reply.status}`;
    sendJson(response, reply.status, reply.body ?? wire.error(reply.status, message), reply.headers);
    return;
  }
  sendJson(response, 200, wire.answer(answerOf(reply), raw, number));
}

function answerOf(reply: Extract<FakeReply, { text: string } | FakeCall | { tools: unknown }>): FakeAnswer {
  if ("tools" in reply) {
    const { tools: calls, ...rest } = reply;
    return { ...rest, calls };
  }
  return { ...reply, calls: "tool" in reply ? [reply] : [] };
}

function drop(response: ServerResponse, where: true | "body"): void {
  if (where === true) {
    response.socket?.destroy();
    return;
  }
  response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
  response.write('{"id":', () => response.socket?.destroy());
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers?: Readonly<Record<string, string>>,
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

async function readBody(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
