import { describe, expect, it, onTestFinished } from "vitest";
import type { McpvalsError } from "../../src/core/errors/error.ts";
import { createGateway } from "../../src/servers/gateway/gateway.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import type { ServerHost, ChannelListener } from "../../src/servers/connections/host.ts";
import { wireMessage } from "../../src/servers/messages/json-rpc.ts";

// Claim: the gateway's memory is bounded, whatever agents and servers send. docs/agents.md, "The gateway";
// docs/security.md.

interface Opened {
  readonly endpoint: GatewayEndpoint;
  readonly losses: McpvalsError[];
  /** Lets the server say something to each client. */
  readonly say: (text: string) => void;
  /** What the server has been told. */
  readonly told: string[];
}

/** Opens a server that never answers. */
async function open(): Promise<Opened> {
  const listeners: ChannelListener[] = [];
  const told: string[] = [];
  const host: ServerHost = {
    name: "s",
    transport: "stdio",
    lost: new AbortController().signal,
    address: undefined,
    watch: () => () => undefined,
    connect: () => expect.unreachable(),
    open: (listener) => {
      listeners.push(listener);
      return { send: async ({ text }) => void told.push(text), close: () => Promise.resolve() };
    },
    stop: () => Promise.resolve(),
  };
  const gateway = createGateway();
  onTestFinished(() => gateway.close());
  const losses: McpvalsError[] = [];
  const endpoint = await gateway.open({
    host,
    emit: () => 1,
    filters: () => [],
    onLost: (error) => losses.push(error),
  });
  const say = (text: string): void => {
    const params = { level: "info", data: text };
    for (const listener of listeners)
      listener.onMessage(wireMessage({ jsonrpc: "2.0", method: "notifications/message", params }));
  };
  return { endpoint, losses, say, told };
}

const note = (rest: string): string => `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":${rest}}}`;
const request = (id: number, rest: string): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"x","params":{"a":${rest}}}`;
const text = (length: number): string => `"${"x".repeat(length)}"`;
const mebibyte = 1024 * 1024;

function post({ url }: GatewayEndpoint, body: string, signal?: AbortSignal): Promise<Response> {
  return fetch(url, { method: "POST", body, ...(signal === undefined ? {} : { signal }) });
}

describe("an agent", () => {
  it("may send 10 MiB in a message, and no more", async () => {
    const { endpoint, told } = await open();
    expect((await post(endpoint, note(text(10 * mebibyte - 100)))).status).toBe(202);
    expect((await post(endpoint, note(text(10 * mebibyte)))).status).toBe(413);
    expect(told).toHaveLength(1);
  });

  it("may have 64 MiB in requests that are not answered", async () => {
    const { endpoint, told } = await open();
    const leaving = new AbortController();
    const asked = Array.from({ length: 7 }, (_none, id) =>
      post(endpoint, request(id, text(9 * mebibyte)), leaving.signal).catch(() => undefined),
    );
    await expect.poll(() => told.length, { timeout: 20_000 }).toBe(7);
    const refused = await post(endpoint, note(text(9 * mebibyte)));
    expect([refused.status, await refused.text()]).toEqual([
      413,
      expect.stringContaining("more than 67108864 bytes in all open requests"),
    ]);
    leaving.abort();
    await Promise.all(asked);
    await expect
      .poll(async () => (await post(endpoint, note(text(9 * mebibyte)))).status, { timeout: 20_000 })
      .toBe(202);
  });

  it.each([
    ["deep", "[".repeat(4 * mebibyte) + "]".repeat(4 * mebibyte)],
    ["heavy", `[${"{},".repeat(3 * mebibyte)}0]`],
  ])("is refused a message that is too %s to be parsed", async (excess, value) => {
    const { endpoint, told } = await open();
    const response = await post(endpoint, note(value));
    expect([response.status, await response.text()]).toEqual([
      413,
      expect.stringContaining(`the message is too ${excess} to be read`),
    ]);
    expect(told).toEqual([]);
  });
});

describe("a server", () => {
  it("is lost when it sends more than 32 MiB that no client receives", async () => {
    const { endpoint, losses, say } = await open();
    // A client without a stream, and with no request that waits.
    expect((await post(endpoint, note("1"))).status).toBe(202);
    const piece = "x".repeat(mebibyte);
    for (let said = 0; said < 31; said += 1) say(piece);
    expect(losses).toEqual([]);
    for (let said = 0; said < 1000; said += 1) say(piece);
    expect(losses.map(({ code, message }) => `${code} ${message}`)).toEqual([
      'server/protocol-error server "s" sent more than 32 MiB that no client received',
    ]);
  });
});
