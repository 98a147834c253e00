import { expect } from "vitest";
import type { ChannelListener, ServerHost } from "../../src/servers/connections/host.ts";

/** A program that answers nothing; `onSent` is called with each message, and `listeners` gets its clients. */
export function silentHost(onSent: (text: string) => void, listeners: ChannelListener[] = []): ServerHost {
  return {
    name: "s",
    transport: "stdio",
    isProgram: true,
    lost: new AbortController().signal,
    address: undefined,
    watch: () => () => undefined,
    connect: () => expect.unreachable(),
    open: (listener) => {
      listeners.push(listener);
      return { send: async ({ text }) => onSent(text), close: () => Promise.resolve() };
    },
    stop: () => Promise.resolve(),
  };
}
