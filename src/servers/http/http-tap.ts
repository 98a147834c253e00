import type { FetchLike, JSONRPCMessage } from "@modelcontextprotocol/client";
import { McpvalsError } from "../../core/errors/error.ts";
import type { HttpServerSpec } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { malformationOf } from "../json-rpc.ts";
import { readBytes, wiresOf } from "./body-messages.ts";
import { explainStatus, explainUnreachable, shownUrl } from "./http-errors.ts";
import { cutBody, watchBody } from "./watch-body.ts";

export interface HttpTapOptions {
  readonly server: string;
  readonly spec: HttpServerSpec;
  readonly fetch: FetchLike;
  readonly emit: Emit;
  /** The connection as a whole is gone. */
  readonly onLost: (error: McpvalsError) => void;
  /** A malformed message is about to be passed on. */
  readonly onMalformed: (message: JSONRPCMessage, problem: string) => void;
}

/** Sees every HTTP exchange with one server: records its status, limits its size, and keeps why the last one failed. */
export class HttpTap {
  readonly fetch: FetchLike = (url, init) => this.#fetch(url, init);
  readonly #options: HttpTapOptions;
  #failure: McpvalsError | undefined;
  #broken: McpvalsError | undefined;

  constructor(options: HttpTapOptions) {
    this.#options = options;
  }

  /** How the last exchange failed; undefined when it went well. */
  get failure(): McpvalsError | undefined {
    return this.#failure;
  }

  /** Why the last stream of answers broke off in the middle. */
  get broken(): McpvalsError | undefined {
    return this.#broken;
  }

  async #fetch(url: string | URL, init: RequestInit | undefined): Promise<Response> {
    const { server, emit, fetch } = this.#options;
    const method = (init?.method ?? "GET").toUpperCase();
    let response: Response;
    try {
      response = await fetch(url, init);
    } catch (error) {
      if (init?.signal?.aborted !== true) throw this.#unreachable(error);
      throw error;
    }
    const { status } = response;
    emit({ type: "http.response", server, method, status, requestIds: requestIds(init?.body) });
    const counts = method === "POST" || (method === "GET" && this.#options.spec.transport === "sse");
    if (counts) this.#failure = response.ok ? undefined : explainStatus(server, response, { url, method });
    if (response.body === null) return response;
    return response.ok
      ? this.#watch(response, response.body, { method, init })
      : withBody(response, cutBody(response.body, longestRefusal));
  }

  #unreachable(error: unknown): McpvalsError {
    const { server, spec, onLost } = this.#options;
    this.#failure = error instanceof McpvalsError ? error : explainUnreachable(server, spec.url, error);
    onLost(this.#failure);
    return this.#failure;
  }

  #watch(
    response: Response,
    body: ReadableStream<Uint8Array>,
    { method, init }: { method: string; init: RequestInit | undefined },
  ): Response {
    const { server, spec, onLost, onMalformed } = this.#options;
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const isLifeline = spec.transport === "sse" && method === "GET";
    const watched = watchBody(body, {
      server,
      limit: spec.maxMessageBytes,
      isEventStream: isStream,
      onRefused: onLost,
      onBroken: (cause) => {
        if (init?.signal?.aborted === true) return;
        this.#broken = explainUnreachable(server, spec.url, cause);
        // A stream of answers may be taken up again; without it, or with the only one, the end is final.
        if (isLifeline || (method === "POST" && !isStream)) onLost(this.#broken);
      },
      onText: (bytes, data) => {
        for (const { message } of wiresOf(readBytes(bytes, data))) {
          const problem = malformationOf(message);
          if (problem !== undefined) onMalformed(message, problem);
        }
      },
      onEnd: () => {
        if (isLifeline) onLost(streamEnded(server, spec.url));
      },
    });
    return withBody(response, watched);
  }
}

/** Read of the body of a response whose status is an error, in bytes. */
const longestRefusal = 64 * 1024;

function withBody({ status, statusText, headers }: Response, body: ReadableStream<Uint8Array>): Response {
  return new Response(body, { status, statusText, headers });
}

function streamEnded(server: string, url: string): McpvalsError {
  return new McpvalsError(
    "server/unreachable",
    `server "${server}" ended the event stream ${shownUrl(url)}, over which all its answers come`,
    { hint: "See the server's own log for why." },
  );
}

/** Ids of the JSON-RPC requests in a body that the SDK wrote. */
function requestIds(body: unknown): (string | number)[] {
  if (typeof body !== "string") return [];
  const message: unknown = JSON.parse(body);
  return [message].flat().flatMap((one) => idOf(one) ?? []);
}

function idOf(message: unknown): string | number | undefined {
  if (typeof message !== "object" || message === null || !("method" in message && "id" in message))
    return undefined;
  return typeof message.id === "string" || typeof message.id === "number" ? message.id : undefined;
}
