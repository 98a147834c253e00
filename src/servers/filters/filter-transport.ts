import type {
  JSONRPCMessage,
  MessageExtraInfo,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import { RelayTransport } from "../relay-transport.ts";
import type { WireMessage } from "../wire.ts";
import type { Filter } from "./filter.ts";
import { type FilterRun, runFilters } from "./run-filters.ts";

/**
 * Puts filters between a client in this process and a server. A record of what the client sent and got stands on the
 * client's side of it. A filter that cuts the connection closes the transport, so that whatever the client waits for fails.
 */
export class FilterTransport extends RelayTransport {
  readonly #filters: FilterRun;

  /** @param filters From the client to the server. */
  constructor(inner: Transport, filters: readonly Filter[]) {
    super(inner);
    this.#filters = runFilters(filters);
    const onclose = (): void => {
      this.#filters.close();
      this.onclose?.();
    };
    Object.assign(inner, { onclose } satisfies Partial<Transport>);
  }

  /** Settles when the server has been sent the message, or never will be. */
  override send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    return this.#filters.fromClient(lazyWire(message), (passage) => {
      switch (passage.kind) {
        case "pass":
          return super.send(passage.wire.message, options);
        case "answer":
          return super.receive(passage.wire.message);
        case "disconnect":
          return this.close();
        case "drop":
          return undefined;
      }
    });
  }

  override close(): Promise<void> {
    this.#filters.close();
    return super.close();
  }

  protected override receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    const passing = this.#filters.fromServer(lazyWire(message), (passage) => {
      switch (passage.kind) {
        case "pass":
        case "answer":
          return super.receive(passage.wire.message, extra);
        case "disconnect":
          return this.close();
        case "drop":
          return undefined;
      }
    });
    passing.catch((error: unknown) =>
      this.onerror?.(error instanceof Error ? error : new Error(String(error))),
    );
  }
}

/** In this process the message is passed on, and its text is hardly ever asked for. */
function lazyWire(message: JSONRPCMessage): WireMessage {
  return {
    message,
    get text() {
      return JSON.stringify(message);
    },
  };
}
