import { McpvalsError } from "../../core/errors/error.ts";
import { untilAborted } from "../../process/deadline.ts";
import {
  type HttpAddress,
  type Channel,
  type ChannelListener,
  HttpNoAnswer,
  type SendOptions,
} from "../connections/host.ts";
import { type WireMessage, requestOf, readBytes, wiresOf } from "../messages/json-rpc.ts";
import { asLoss, explainStatus, noAnswerIn, reportNoAnswer, shownUrl } from "./http-errors.ts";
import { messageHeaders } from "../messages/mcp-headers.ts";
import { chunksOf, eventsOf, refusalText } from "./event-stream.ts";

/** A client of the older HTTP+SSE transport: all messages of the server come over one stream of events. */
export class SseChannel implements Channel {
  readonly #server: string;
  readonly #address: HttpAddress;
  readonly #listener: ChannelListener;
  readonly #closing = new AbortController();
  readonly #endpoint: Promise<URL>;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(server: string, address: HttpAddress, listener: ChannelListener) {
    this.#server = server;
    this.#address = address;
    this.#listener = listener;
    const found = Promise.withResolvers<URL>();
    this.#endpoint = untilAborted(found.promise, this.#closing.signal);
    // `send` reports it.
    this.#endpoint.catch(() => undefined);
    void this.#listen(found.resolve);
  }

  send(wire: WireMessage, { headers }: SendOptions = {}): Promise<void> {
    const sent = this.#turn.then(() => this.#post(wire, headers));
    this.#turn = sent.catch(() => undefined);
    return sent;
  }

  close(): Promise<void> {
    this.#closing.abort(new Error("the channel was closed"));
    return Promise.resolve();
  }

  async #listen(onEndpoint: (url: URL) => void): Promise<void> {
    const { url, maxMessageBytes: limit } = this.#address;
    const { signal } = this.#closing;
    try {
      const response = await this.#address.fetch(url, { headers: { accept: "text/event-stream" }, signal });
      this.#listener.onResponse?.({ method: "GET", status: response.status, requestIds: [] });
      if (!response.ok) throw explainStatus(this.#server, response, { url, method: "GET" });
      const reading = { server: this.#server, limit };
      for await (const { event = "message", data = "", bytes } of eventsOf(chunksOf(response), reading)) {
        if (event === "endpoint") onEndpoint(this.#checked(new URL(data, url)));
        else if (event === "message") this.#receive(bytes, data);
      }
      this.#lose(
        new McpvalsError(
          "server/unreachable",
          `server "${this.#server}" ended the event stream ${shownUrl(url)}, over which all its answers come`,
          { hint: "See the server's own log for why." },
        ),
      );
    } catch (error) {
      this.#lose(this.#asLoss(error));
    }
  }

  /** The configured headers, which may hold secrets, are only for the origin of the url. */
  #checked(endpoint: URL): URL {
    if (endpoint.origin === this.#address.url.origin) return endpoint;
    throw new McpvalsError(
      "server/protocol-error",
      `server "${this.#server}" names an endpoint at another origin: ${shownUrl(endpoint)}`,
      { hint: "The endpoint has to have the scheme, host and port of the url." },
    );
  }

  #receive(bytes: Buffer, data: string): void {
    for (const wire of wiresOf(readBytes(bytes, data)))
      if (!this.#closing.signal.aborted) this.#listener.onMessage(wire);
  }

  async #post(wire: WireMessage, more: SendOptions["headers"]): Promise<void> {
    const { signal } = this.#closing;
    const id = requestOf(wire.message)?.id;
    try {
      const url = await this.#endpoint;
      const headers = { ...more, "content-type": "application/json", ...messageHeaders(wire.message) };
      const response = await this.#address.fetch(url, { method: "POST", headers, body: wire.text, signal });
      const requestIds = id === undefined ? [] : [id];
      this.#listener.onResponse?.({ method: "POST", status: response.status, requestIds });
      const text = await refusalText(response);
      if (response.ok) return;
      const failure = noAnswerIn(response, text, { server: this.#server, url });
      if (id !== undefined) reportNoAnswer(this.#listener, wire, failure);
      else if (this.#listener.onNoAnswer !== undefined) throw failure;
    } catch (error) {
      if (error instanceof HttpNoAnswer) throw error;
      const loss = this.#asLoss(error);
      this.#lose(loss);
      throw loss;
    }
  }

  #asLoss(error: unknown): McpvalsError {
    return asLoss(error, { server: this.#server, url: this.#address.url });
  }

  #lose(error: McpvalsError): void {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(error);
    this.#listener.onClosed(error);
  }
}
