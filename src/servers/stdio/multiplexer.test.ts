import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { array, assert, constantFrom, nat, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import type { Channel } from "../connections/host.ts";
import { idAt } from "../messages/json-rpc.ts";
import { type ClientOptions, Multiplexer } from "./multiplexer.ts";

interface TestClient {
  readonly heard: string[];
  readonly channel: Channel;
  says(message: object | string): void;
}

interface Bench {
  readonly multiplexer: Multiplexer;
  /** What the server has read. */
  readonly read: string[];
  readonly client: (options?: ClientOptions) => TestClient;
  /** Lets the server say something. */
  readonly serverSays: (message: object | string) => void;
}

function setUp(): Bench {
  const read: string[] = [];
  const multiplexer = new Multiplexer((text) => {
    read.push(text);
    return Promise.resolve();
  });
  return {
    multiplexer,
    read,
    client(options) {
      const heard: string[] = [];
      const listener = {
        onMessage: ({ text }: { text: string }) => heard.push(text),
        onClosed: () => heard.push("closed"),
      };
      const channel = multiplexer.open(listener, options);
      return { heard, channel, says: (message) => void channel.send(wire(message)) };
    },
    serverSays: (message) => multiplexer.receive(wire(message)),
  };
}

function wire(said: object | string): { message: JSONRPCMessage; text: string } {
  const text = typeof said === "string" ? said : JSON.stringify(said);
  return { message: JSON.parse(text) as JSONRPCMessage, text };
}

const request = (id: unknown, method = "tools/call", params: object = {}): object => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});
const notification = (method: string, params: object = {}): object => ({ jsonrpc: "2.0", method, params });
const answer = (id: unknown, result: object = {}): object => ({ jsonrpc: "2.0", id, result });
const text = (message: object): string => JSON.stringify(message);

describe("one client", () => {
  it("is connected byte for byte", () => {
    const { client, read, serverSays } = setUp();
    const only = client();
    const odd = '{ "jsonrpc":"2.0","id":1e0, "method":"x/y","params":{"n":12345678901234567890,"n":1.00} }';
    only.says(odd);
    const said = [
      '{"jsonrpc":"2.0", "id":1,"result":{"n":1.0}}',
      text(answer(99)),
      text(notification("notifications/progress", { progressToken: 5 })),
      text(notification("notifications/cancelled", { requestId: 7 })),
      text(notification("notifications/odd")),
      text(request("s", "roots/list")),
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}',
    ];
    for (const each of said) serverSays(each);
    expect(read).toEqual([odd]);
    expect(only.heard).toEqual(said);
  });
});

describe("ids", () => {
  const step = record({
    client: nat(2),
    id: constantFrom<unknown>(0, 1, 2, "1", "mcpvals:1"),
    answers: nat(3),
  });

  it("never collide: each client gets its own answers, under its own ids", () => {
    assert(
      property(array(step, { maxLength: 40 }), (steps) => {
        const { client, read, serverSays } = setUp();
        const clients = [client(), client(), client()];
        const waiting: { id: unknown; tag: string }[] = [];
        const asked: string[][] = [[], [], []];
        const open = [new Set<unknown>(), new Set<unknown>(), new Set<unknown>()];
        const reply = (): void => {
          const next = waiting.shift();
          if (next === undefined) return;
          const owner = Number(next.tag[0]);
          open[owner]?.delete(JSON.parse(next.tag.slice(2)));
          serverSays(answer(next.id, { tag: next.tag }));
        };
        for (const { client: index, id, answers } of steps) {
          if (open[index]?.has(id) === true) continue;
          open[index]?.add(id);
          const tag = `${index} ${JSON.stringify(id)}`;
          clients[index]?.says(request(id, "tools/call", { tag }));
          asked[index]?.push(text(answer(id, { tag })));
          const sent = JSON.parse(read.at(-1) ?? "") as { id: unknown; params: { tag: string } };
          expect(waiting.map((each) => each.id)).not.toContain(sent.id);
          waiting.push({ id: sent.id, tag: sent.params.tag });
          for (let count = 0; count < answers - 1; count += 1) reply();
        }
        while (waiting.length > 0) reply();
        expect(clients.map(({ heard }) => heard)).toEqual(asked);
      }),
    );
  });

  it("are unchanged unless another client waits for the same id", () => {
    const { client, read, serverSays } = setUp();
    const [a, b] = [client(), client()];
    a.says(request(1));
    serverSays(answer(1));
    b.says(request(1));
    a.says(request(1));
    expect(read.slice(0, 2)).toEqual([text(request(1)), text(request(1))]);
    expect(JSON.parse(read[2] ?? "")).toEqual(request(expect.stringMatching(/^mcpvals:\d+$/)));
  });

  it("are replaced in a cancellation and with a progress token that is in use", () => {
    const { client, read, serverSays } = setUp();
    const [a, b] = [client(), client()];
    const call = request(1, "tools/call", { _meta: { progressToken: 1 } });
    a.says(call);
    b.says(call);
    const sent = JSON.parse(read[1] ?? "") as { id: string };
    b.says(notification("notifications/cancelled", { requestId: 1 }));
    expect(read[2]).toBe(text(notification("notifications/cancelled", { requestId: sent.id })));
    const token = idAt(wire(read[1] ?? "").message, ["params", "_meta", "progressToken"]);
    expect(new Set([1, sent.id, token]).size).toBe(3);
    serverSays(notification("notifications/progress", { progressToken: token, progress: 1 }));
    serverSays(notification("notifications/progress", { progressToken: 1, progress: 2 }));
    expect(a.heard).toEqual([
      text(notification("notifications/progress", { progressToken: 1, progress: 2 })),
    ]);
    expect(b.heard).toEqual([
      text(notification("notifications/progress", { progressToken: 1, progress: 1 })),
    ]);
  });

  it("of a subscription route its notifications", () => {
    const { client, read, serverSays } = setUp();
    const [a, b] = [client(), client()];
    a.says(request(1, "subscriptions/listen"));
    b.says(request(1, "subscriptions/listen"));
    const { id } = JSON.parse(read[1] ?? "") as { id: string };
    const change = (subscription: unknown): object =>
      notification("notifications/tools/list_changed", {
        _meta: { "io.modelcontextprotocol/subscriptionId": subscription },
      });
    serverSays(change(id));
    expect([a.heard, b.heard]).toEqual([[], [text(change(1))]]);
  });
});

describe("messages that the server sends by itself", () => {
  it("go to every client that has begun", () => {
    const { client, serverSays } = setUp();
    const [a, b, silent] = [client(), client(), client()];
    a.says(request(0, "initialize"));
    b.says(request(1));
    serverSays(notification("notifications/message"));
    expect([a.heard.length, b.heard.length, silent.heard.length]).toEqual([1, 1, 0]);
  });

  it("go to a client that yields only while it waits or is alone", () => {
    const { client, serverSays } = setUp();
    const ours = client({ yields: true });
    ours.says(request(0, "initialize"));
    serverSays(answer(0));
    serverSays(notification("notifications/message", { number: 1 }));
    const agents = client();
    agents.says(request(0, "initialize"));
    serverSays(notification("notifications/message", { number: 2 }));
    ours.says(request(1));
    serverSays(notification("notifications/message", { number: 3 }));
    const numbers = (heard: string[]): unknown[] =>
      heard.flatMap((each) => (JSON.parse(each) as { params?: { number: number } }).params?.number ?? []);
    expect([numbers(ours.heard), numbers(agents.heard)]).toEqual([
      [1, 3],
      [2, 3],
    ]);
  });

  it("ask the client with the newest request, else the one that began last; its answer is passed on unchanged", () => {
    const { client, read, serverSays } = setUp();
    const [a, b] = [client(), client()];
    a.says(request(0, "initialize"));
    serverSays(answer(0));
    b.says(request(0, "initialize"));
    serverSays(answer(0));
    const question = (id: unknown): object => request(id, "roots/list");
    serverSays(question(1));
    a.says(request(5));
    serverSays(question(2));
    b.says(request(6));
    b.says(notification("notifications/cancelled", { requestId: 6 }));
    serverSays(question("x"));
    serverSays(notification("notifications/cancelled", { requestId: 1 }));
    expect(a.heard.slice(1)).toEqual([text(question(2)), text(question("x"))]);
    expect(b.heard.slice(1)).toEqual([
      text(question(1)),
      text(notification("notifications/cancelled", { requestId: 1 })),
    ]);
    a.says(answer("x", { roots: [] }));
    expect(read.at(-1)).toBe(text(answer("x", { roots: [] })));
  });
});

describe("a client that leaves", () => {
  it("cancels its requests, refuses those of the server, and receives nothing more", async () => {
    const { client, read, serverSays } = setUp();
    const [a, b] = [client(), client()];
    a.says(request(1));
    a.says(request(2));
    a.says(notification("notifications/cancelled", { requestId: 2 }));
    serverSays(request("q", "roots/list"));
    const before = read.length;
    await a.channel.close();
    await a.channel.close();
    const [cancelled, refused, ...more] = read.slice(before).map((each) => JSON.parse(each) as unknown);
    expect(cancelled).toMatchObject({ method: "notifications/cancelled", params: { requestId: 1 } });
    expect(refused).toMatchObject({ id: "q", error: { code: -32603 } });
    expect(more).toEqual([]);
    b.says(request(1));
    const sent = JSON.parse(read.at(-1) ?? "") as { id: unknown };
    serverSays(answer(1, { late: true }));
    serverSays(answer(sent.id, { late: false }));
    expect([a.heard.length, b.heard]).toEqual([1, [text(answer(1, { late: false }))]]);
    await expect(a.channel.send(wire(request(3)))).rejects.toThrow("has closed");
  });

  it("leaves requests of the server without a client, which are answered with an error", async () => {
    const { client, read, serverSays } = setUp();
    await client().channel.close();
    serverSays(request(1, "roots/list"));
    expect(read.map((each) => JSON.parse(each) as unknown)).toMatchObject([
      { id: 1, error: { code: -32603 } },
    ]);
  });
});

describe("a second handshake", () => {
  const hello = request(0, "initialize", { protocolVersion: "2025-11-25" });
  const welcome = '{"jsonrpc":"2.0","id":0,"result":{"n":1.0}}';
  const refusal = (code: number, message: string): object => ({
    jsonrpc: "2.0",
    id: 0,
    error: { code, message },
  });

  it("is answered by the server", () => {
    const { client, read, serverSays } = setUp();
    const [a, b] = [client(), client()];
    for (const each of [a, b]) {
      each.says(hello);
      serverSays(welcome);
      each.says(notification("notifications/initialized"));
    }
    expect(read).toHaveLength(4);
    expect(b.heard).toEqual([welcome]);
  });

  it("that the server refuses as the second one gets the first answer", () => {
    for (const error of [refusal(-32600, "no"), refusal(-32603, "Server already initialized")]) {
      const { client, read, serverSays } = setUp();
      const [a, b] = [client(), client()];
      a.says(hello);
      serverSays(welcome);
      b.says(request("b", "initialize"));
      serverSays({ ...error, id: "b" });
      b.says(notification("notifications/initialized"));
      expect(b.heard).toEqual([welcome.replace('"id":0', '"id":"b"')]);
      expect(read).toHaveLength(2);
    }
  });

  it("that is refused for another reason gets the refusal, as does a first one", () => {
    const { client, serverSays } = setUp();
    const [a, b] = [client(), client()];
    a.says(hello);
    serverSays(refusal(-32600, "no"));
    a.says(hello);
    serverSays(welcome);
    b.says(hello);
    serverSays(refusal(-32602, "Unsupported protocol version"));
    expect(a.heard).toEqual([text(refusal(-32600, "no")), welcome]);
    expect(b.heard).toEqual([text(refusal(-32602, "Unsupported protocol version"))]);
  });
});

it("reports the end of the server to every client once", async () => {
  const { client, multiplexer } = setUp();
  const [a, b] = [client(), client()];
  await b.channel.close();
  multiplexer.close();
  multiplexer.close();
  expect([a.heard, b.heard]).toEqual([["closed"], []]);
});
