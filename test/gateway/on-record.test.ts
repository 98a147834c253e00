import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFilters } from "../../src/servers/filters/filters.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { stdioSpec } from "../servers/support.ts";
import { addressHost, connectClient, openGateway, type Opened, transportTo } from "./support.ts";

type Answer = (response: ServerResponse, body: Buffer) => void;

/** A server that takes everything, with what it got; and the gateway to it. */
async function openTo(answer: Answer): Promise<Opened & { readonly got: string[] }> {
  const got: string[] = [];
  const server = createServer((asked: IncomingMessage, response) => {
    const parts: Buffer[] = [];
    asked.on("data", (part: Buffer) => parts.push(part));
    asked.on("end", () => {
      const body = Buffer.concat(parts);
      got.push(`${asked.method} ${body.length}`);
      answer(response, body);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const spec = { ...stdioSpec("none", []), tools: ["add"] };
  const host = await addressHost(`http://127.0.0.1:${port}/mcp`);
  const filters = createFilters(spec, { seed: "" }).of({ server: "s", emit: () => 0 });
  return { ...(await openGateway(host, { filters })), got };
}

const call = (name: string, id: unknown = 1): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {} } });
const result = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  result: { tools: [{ name: "add" }, { name: "del" }] },
});
const listing = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
const json: Answer = (response) =>
  void response.writeHead(200, { "content-type": "application/json" }).end(result);

const typeOf = (rest: string): Record<string, string> => ({ "content-type": `application/json${rest}` });

function post(url: string, body: string | Buffer, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, { method: "POST", body, headers: { "content-type": "application/json", ...headers } });
}

describe("what an agent sends to an address", () => {
  it.each<[string, string | Buffer, Record<string, string>]>([
    ["is not JSON, though some servers read it", call("del").replace("{}", "NaN"), {}],
    ["says no version", call("del").replace('"jsonrpc":"2.0",', ""), {}],
    ["is a list with something else in it", `[${call("del")},1]`, {}],
    ["is packed", gzipSync(call("del")), { "content-encoding": "gzip" }],
    ["seems to be packed", call("add"), { "content-encoding": "x" }],
    ["is in another character set", Buffer.from(call("del"), "utf16le"), typeOf("; charset=utf-16le")],
    ["can be read in two ways", call("+AGQ-el"), typeOf(';CHARSET="utf-7"')],
  ])(
    "is not passed on when it %s, since the server could read it in another way",
    async (_what, body, headers) => {
      const { endpoint, got, record } = await openTo(json);
      const response = await post(endpoint.url, body, headers);
      expect([response.status, got]).toEqual([400, []]);
      expect(await response.json()).toMatchObject({ error: { code: -32700 } });
      expect(record.of("mcp.message")).toEqual([]);
    },
  );

  it("is recorded with a byte order mark and with a character set", async () => {
    const { endpoint, got, record } = await openTo(json);
    await post(endpoint.url, `\uFEFF${call("add")}`, typeOf("; charset=UTF-8"));
    expect(got).toHaveLength(1);
    expect(record.of("mcp.message")).toHaveLength(2);
  });

  it("is not a call in the body of a GET, which is not passed on", async () => {
    const { endpoint, got, record } = await openTo((response) => void response.writeHead(405).end());
    const body = call("add");
    const asking = request(endpoint.url, { method: "GET", headers: { "content-length": body.length } });
    asking.end(body);
    const [response] = (await once(asking, "response")) as [IncomingMessage];
    response.resume();
    expect([response.statusCode, got]).toEqual([405, ["GET 0"]]);
    expect(record.of("mcp.message")).toEqual([]);
  });
});

it.each(["http", "bridge"] as const)(
  "a request that the server refused as too many is sent again, and both are on record, over %s",
  async (way) => {
    let calls = 0;
    const server = await startHttpFixture(({ message, response }) => {
      if (message.method !== "tools/call" || ++calls > 1) return false;
      response.writeHead(429, { "retry-after-ms": "200" }).end("slow down");
      return true;
    });
    onTestFinished(() => server.close());
    const { endpoint, record } = await openGateway(await addressHost(server.url));
    const client = await connectClient(transportTo(endpoint, way));
    const { content } = await client.callTool({ name: "echo", arguments: { message: "hi" } });
    expect(content).toEqual([{ type: "text", text: "hi" }]);
    const [held] = record.of("request.held");
    expect(held).toMatchObject({ server: "s", client: "1" });
    const responses = record
      .of("http.response")
      .filter(({ requestIds }) => requestIds.includes(held?.id ?? ""));
    expect(responses[0]).toMatchObject({ client: "1", method: "POST", status: 429 });
  },
);

it("gives the answers of a filter where the server answers nothing to the rest of a batch", async () => {
  const { endpoint, got, record } = await openTo((response) => void response.writeHead(202).end());
  const note = `{"jsonrpc":"2.0","method":"notifications/x"}`;
  const response = await post(endpoint.url, `[${call("del")},${note}]`);
  expect([response.status, got]).toEqual([200, [`POST ${note.length + 2}`]]);
  expect(await response.json()).toMatchObject([{ id: 1, error: { code: -32602 } }]);
  expect(record.of("mcp.message")).toHaveLength(3);
});

describe("the answer of a server with an address is recorded and filtered", () => {
  const stream = { "content-type": "text/event-stream" };
  it.each<[string, Record<string, string>, string | Buffer]>([
    ["in capitals", { "content-type": "Application/JSON" }, result],
    ["without a type", {}, result],
    ["as text", { "content-type": "text/plain" }, result],
    ["as events in capitals", { "content-type": "Text/Event-Stream" }, `data: ${result}\n\n`],
    ["as an event with an empty name", stream, `event:\ndata: ${result}\n\n`],
    ["as an event after a byte order mark", stream, `\uFEFFdata: ${result}\n\n`],
    ["packed", { "content-type": "application/json", "content-encoding": "gzip" }, gzipSync(result)],
  ])("%s", async (_how, headers, body) => {
    const { endpoint, record } = await openTo((response) => void response.writeHead(200, headers).end(body));
    const text = await (await post(endpoint.url, listing)).text();
    expect(text).toContain("add");
    expect(text).not.toContain("del");
    expect(record.of("mcp.message").map(({ direction }) => direction)).toEqual([
      "client-to-server",
      "server-to-client",
    ]);
  });
});
