import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { allowListFilter } from "../../src/servers/filters/allow-list.ts";
import { createGateway } from "../../src/servers/gateway/gateway.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import type { Filter, FilterContext } from "../../src/servers/filters/filter-chain.ts";
import type { ServerHost } from "../../src/servers/connections/host.ts";
import { addressHost } from "../gateway/support.ts";
import { createRecord, type Record } from "../servers/support.ts";

// Claim: the server never hears of a call that the allow-list refuses, however it is written. docs/servers.md, "Allowed
// tools and rate limits"; docs/security.md, "Gateway filters cannot be bypassed".

interface Opened {
  readonly endpoint: GatewayEndpoint;
  readonly record: Record;
  /** What the server has got, as it came. */
  readonly got: Buffer[];
}

const onlyAdd = (context: FilterContext): Filter[] => [allowListFilter(["add", "*_read"], context)];

/** Opens a server to an agent that may call `add` only. */
async function open(
  kind: "program" | "address",
  filters: (context: FilterContext) => readonly Filter[] = onlyAdd,
): Promise<Opened> {
  const got: Buffer[] = [];
  const host = kind === "program" ? listeningProgram(got) : await listeningAddress(got);
  const gateway = createGateway();
  onTestFinished(() => gateway.close());
  const record = createRecord();
  const endpoint = await gateway.open({ host, emit: record.emit, filters });
  return { endpoint, record, got };
}

/** A program that answers nothing and keeps what it is told. */
function listeningProgram(got: Buffer[]): ServerHost {
  return {
    name: "s",
    transport: "stdio",
    lost: new AbortController().signal,
    address: undefined,
    watch: () => () => undefined,
    connect: () => expect.unreachable(),
    open: () => ({
      send: async ({ text }) => void got.push(Buffer.from(text)),
      close: () => Promise.resolve(),
    }),
    stop: () => Promise.resolve(),
  };
}

async function listeningAddress(got: Buffer[]): Promise<ServerHost> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      got.push(Buffer.concat(chunks));
      response.writeHead(202).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return addressHost(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
}

type Say = (
  body: string | Buffer,
  headers?: { readonly [name: string]: string | string[] },
) => Promise<unknown>;

/** Says something to the gateway, and gives what it answers. */
function over(way: "http" | "bridge", { endpoint }: Opened): Say {
  return way === "http"
    ? async (body, headers = {}) => {
        const all = new Headers({ "content-type": "application/json", accept: "application/json" });
        for (const [name, values] of Object.entries(headers))
          for (const value of [values].flat()) all.append(name, value);
        for (const [name, values] of Object.entries(headers))
          if (typeof values === "string") all.set(name, values);
        const response = await fetch(endpoint.url, {
          method: "POST",
          body: typeof body === "string" ? body : new Uint8Array(body),
          headers: all,
        });
        const text = await response.text();
        return text === "" ? response.status : (JSON.parse(text) as unknown);
      }
    : (body) => throughBridge(endpoint, body);
}

/** One line, and then a harmless one whose answer shows that the first was dealt with. */
async function throughBridge(endpoint: GatewayEndpoint, body: string | Buffer): Promise<unknown> {
  const url = new URL(endpoint.bridge.env["MCPVALS_BRIDGE_URL"] ?? "");
  const socket = connect(Number(url.port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.write(
    `GET ${url.pathname} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: mcpvals-bridge\r\n\r\n`,
  );
  const after = `{"jsonrpc":"2.0","id":"after","method":"tools/call","params":{"name":"none"}}`;
  socket.write(Buffer.concat([Buffer.from(body), Buffer.from(`\n${after}\n`)]));
  let text = "";
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString("utf8");
    if (text.includes('"after"')) break;
  }
  const [line = ""] = text.slice(text.indexOf("\r\n\r\n") + 4).split("\n");
  return line.includes('"after"') ? undefined : (JSON.parse(line) as unknown);
}

const call = (params: string, rest = ""): string =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}${rest}}`;
const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`;

/** Calls of `delete` that a reader of some kind takes for one, each answered with an error. */
const attacks: { readonly [how: string]: string } = {
  plainly: call(`{"name":"delete"}`),
  "with escapes": call(String.raw`{"n\u0061me":"\u0064elete"}`),
  "with a name twice, last": call(`{"name":"delete","name":"add"}`),
  "with a name twice, first": call(`{"name":"add","name":"delete"}`),
  "with a name twice, once escaped": call(String.raw`{"name":"delete","n\u0061me":"add"}`),
  "with two params": call(`{"name":"delete"},"params":{"name":"add"}`),
  "with two methods": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete"},"method":"ping"}`,
  "with a key twice in the arguments": call(`{"name":"add","arguments":{"a":1,"a":2}}`),
  "with a twin of name": call(`{"name":"add","Name":"delete"}`),
  "with a twin of name in full width": call(`{"name":"add","ｎame":"delete"}`),
  "with a twin of params": call(`{"name":"add"},"Params":{"name":"delete"}`),
  "with a twin with a long s": call(`{"name":"add"},"paramſ":{"name":"delete"}`),
  "with a twin of method": `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"delete"}}`,
  "with a twin alone": call(`{"Name":"delete"}`),
  "with a list of names": call(`{"name":["delete"]}`),
  "with an object for a name": call(`{"name":{"toString":"delete"}}`),
  "with a number for a name": call(`{"name":1}`),
  "with null for a name": call(`{"name":null}`),
  "without a name": call(`{}`),
  "with positional params": call(`["delete"]`),
  "with params that are a text": call(`"delete"`),
  "with a name that ends early": call(String.raw`{"name":"delete\u0000_read"}`),
  "with half a character": call(String.raw`{"name":"delete\ud800_read"}`),
  "with a method in capitals": `{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"delete"}}`,
  "with a method and a space": `{"jsonrpc":"2.0","id":1,"method":"tools/call ","params":{"name":"delete"}}`,
  "in a prototype": call(`{"__proto__":{"name":"delete"}}`),
};

/** Calls without an id that can be answered: dropped. */
const unanswerable: { readonly [how: string]: string } = {
  "without an id": `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"delete"}}`,
  "with an id that is none": `{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"delete"}}`,
  "of an allowed tool, uncounted": `{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"add"}}`,
  "as what looks like an answer": `{"jsonrpc":"2.0","id":1,"result":{},"Method":"tools/call","params":{"name":"delete"}}`,
  "with more behind": `${ping}{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"delete"}}`,
};

describe.each([
  ["http", "program"],
  ["bridge", "program"],
  ["http", "address"],
  ["bridge", "address"],
] as const)("an allow-list between %s and a server with %s", (way, kind) => {
  it.each(Object.entries(attacks))("refuses a call written %s", async (_how, body) => {
    const opened = await open(kind);
    expect(await over(way, opened)(body)).toMatchObject({ jsonrpc: "2.0", id: 1, error: {} });
    expect(opened.got.map(String)).toEqual([]);
    const [recorded] = opened.record.of("mcp.message");
    expect(recorded?.direction).toBe("client-to-server");
    expect(recorded?.raw ?? JSON.stringify(recorded?.message)).toBe(body);
  });

  it.each(Object.entries(unanswerable))("forwards no call %s", async (_how, body) => {
    const opened = await open(kind);
    await over(way, opened)(body);
    expect(opened.got.map(String)).toEqual([]);
  });

  it("forwards what is allowed, as it is written", async () => {
    const opened = await open(kind);
    const body = call(`{ "arguments":{"Name":1,"name":2,"a":1.0}, "name":"a\\u0064d" }`, `,"x":1`);
    if (way === "bridge") await over(way, opened)(body);
    else void over(way, opened)(body).catch(() => undefined);
    await expect.poll(() => opened.got.map(String), { timeout: 20_000 }).toEqual([body]);
  });
});

describe("a batch", () => {
  it.each(["program", "address"] as const)("is looked at message by message (%s)", async (kind) => {
    const opened = await open(kind);
    const note = `{"jsonrpc":"2.0","method":"notifications/x"}`;
    const answer = await over("http", opened)(`[${note},${attacks["with a name twice, last"]}]`);
    expect(JSON.stringify(answer)).toContain("is there twice");
    expect(opened.got.map(String).join("")).not.toContain("delete");
  });

  it("of one text of 9 MB is read", async () => {
    const opened = await open("program");
    const long = call(`{"name":"delete","arguments":{"a":"${"x".repeat(9_000_000)}"}}`);
    expect(JSON.stringify(await over("http", opened)(`[${long}]`))).toContain("Unknown tool: delete");
  });
});

describe("a request to a server with an address", () => {
  const body = call(`{"name":"add"}`);

  it.each<[string, string | Buffer, { readonly [name: string]: string | string[] }]>([
    ["whose mcp-method says something else", body, { "mcp-method": "ping" }],
    ["whose mcp-name says something else", body, { "mcp-name": "delete" }],
    ["whose mcp-name says something else, in Base64", body, { "mcp-name": "=?base64?ZGVsZXRl?=" }],
    ["whose mcp-name is there twice", body, { "mcp-name": ["add", "delete"] }],
    ["of another type", body, { "content-type": "application/x-www-form-urlencoded" }],
    ["of another charset", body, { "content-type": "application/json; charset=utf-7" }],
    ["that is packed", body, { "content-encoding": "gzip" }],
    [
      "that is not UTF-8",
      Buffer.concat([
        Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`),
        Buffer.from([0xc1, 0xa4]),
        Buffer.from(`_read"}}`),
      ]),
      {},
    ],
    ["with a line break in a text", call(`{"name":"delete\n_read"}`), {}],
    ["with a space that is none in JSON", `\u00a0${body}`, {}],
  ])("is refused %s", async (_how, sent, headers) => {
    const opened = await open("address");
    expect(await over("http", opened)(sent, headers)).toMatchObject({ error: {} });
    expect(opened.got).toEqual([]);
  });

  it("is passed on with headers that say the same", async () => {
    const opened = await open("address");
    const headers = { "mcp-method": "tools/call", "mcp-name": "=?base64?YWRk?=" };
    await over("http", opened)(body, headers);
    expect(opened.got.map(String)).toEqual([body]);
  });
});

describe("without anything that filters", () => {
  it.each([...Object.entries(attacks), ...Object.entries(unanswerable).slice(0, 4)])(
    "a message written %s passes as it is",
    async (_how, body) => {
      const opened = await open("address", () => []);
      await over("http", opened)(body);
      expect(opened.got.map(String)).toEqual([body]);
    },
  );
});
