import { connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { allowListFilter } from "../../src/servers/filters/filters.ts";
import type { Filter, FilterContext } from "../../src/servers/filters/filter-chain.ts";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { createGateway } from "../../src/servers/gateway/gateway.ts";
import { addressHost } from "../gateway/support.ts";
import { createRecord, type Record } from "../servers/support.ts";
import { silentHost } from "./gateway-host.ts";
import { startHttp } from "../support/http.ts";

// docs/servers.md, "Allowed tools and rate limits".

interface Opened {
  readonly endpoint: GatewayEndpoint;
  readonly record: Record;
  /** What the server has got, as it came. */
  readonly got: string[];
}

const onlyAdd = (context: FilterContext): Filter[] => [allowListFilter(["add", "*_read"], context)];

/** Opens a server to an agent that may call `add` only. */
async function open(kind: "program" | "address", filters = onlyAdd): Promise<Opened> {
  const got: string[] = [];
  const host = kind === "program" ? silentHost((text) => got.push(text)) : await listeningAddress(got);
  const gateway = createGateway();
  onTestFinished(() => gateway.close());
  const record = createRecord();
  return { endpoint: await gateway.open({ host, emit: record.emit, filters }), record, got };
}

async function listeningAddress(got: string[]): ReturnType<typeof addressHost> {
  const url = await startHttp((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      got.push(Buffer.concat(chunks).toString());
      response.writeHead(202).end();
    });
  });
  return addressHost(`${url}/mcp`);
}

type Headers = readonly (readonly [name: string, value: string])[];

/** Posts a message to the gateway, and returns its answer, or the status if there is none. */
async function post({ endpoint }: Opened, body: string | Buffer, headers: Headers = []): Promise<unknown> {
  const all = new Headers({ "content-type": "application/json", accept: "application/json" });
  for (const [name] of headers) all.delete(name);
  for (const [name, value] of headers) all.append(name, value);
  const sent = typeof body === "string" ? body : new Uint8Array(body);
  const response = await fetch(endpoint.url, { method: "POST", body: sent, headers: all });
  const text = await response.text();
  return text === "" ? response.status : JSON.parse(text);
}

/** Sends one line, and then a harmless one whose answer shows that the first was handled. */
async function sendThroughBridge({ endpoint }: Opened, body: string): Promise<unknown> {
  const url = new URL(endpoint.bridge.env["MCPVALS_BRIDGE_URL"] ?? "");
  const socket = connect(Number(url.port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  const head = ["host: 127.0.0.1", "connection: Upgrade", "upgrade: mcpvals-bridge"].join("\r\n");
  socket.write(`GET ${url.pathname} HTTP/1.1\r\n${head}\r\n\r\n`);
  const after = `{"jsonrpc":"2.0","id":"after","method":"tools/call","params":{"name":"none"}}`;
  socket.write(`${body}\n${after}\n`);
  let text = "";
  for await (const chunk of socket) {
    text += (chunk as Buffer).toString("utf8");
    if (text.includes('"after"')) break;
  }
  const [line = ""] = text.slice(text.indexOf("\r\n\r\n") + 4).split("\n");
  return line.includes('"after"') ? undefined : JSON.parse(line);
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`;
const call = (params: string, rest = ""): string =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}${rest}}`;
const method = (name: string, rest = ""): string =>
  `{"jsonrpc":"2.0","id":1,"method":"${name}"${rest},"params":{"name":"delete"}}`;
const calling = (id: string, name = "delete"): string =>
  `{"jsonrpc":"2.0"${id},"method":"tools/call","params":{"name":"${name}"}}`;

const twiceLast = call(`{"name":"delete","name":"add"}`);
/** Calls of `delete` that some reader takes for one, each answered with an error. */
const attacks: readonly string[] = [
  call(`{"name":"delete"}`),
  call(String.raw`{"n\u0061me":"\u0064elete"}`),
  twiceLast,
  call(String.raw`{"name":"delete","n\u0061me":"add"}`),
  call(`{"name":"delete"},"params":{"name":"add"}`),
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete"},"method":"ping"}`,
  call(`{"name":"add","arguments":{"a":1,"a":2}}`),
  // Keys that some readers take for name, params or method.
  call(`{"name":"add","Name":"delete"}`),
  call(`{"name":"add","ｎame":"delete"}`),
  call(`{"name":"add"},"Params":{"name":"delete"}`),
  call(`{"name":"add"},"paramſ":{"name":"delete"}`),
  method("ping", `,"Method":"tools/call"`),
  // Names and params of other types.
  ...[`["delete"]`, `{"toString":"delete"}`, "1", "null"].map((name) => call(`{"name":${name}}`)),
  ...[`{}`, `["delete"]`, `"delete"`].map((params) => call(params)),
  // A name that ends early for some readers, and half a character.
  call(String.raw`{"name":"delete\u0000_read"}`),
  call(String.raw`{"name":"delete\ud800_read"}`),
  method("Tools/Call"),
  call(`{"__proto__":{"name":"delete"}}`),
];

/** Calls without an id that can be answered: not forwarded. */
const unanswerable: readonly string[] = [
  calling(""),
  calling(`,"id":true`),
  calling(`,"id":{}`, "add"),
  method("x").replace(`"method":"x"`, `"result":{},"Method":"tools/call"`),
];

describe.each([
  ["http", "program"],
  ["bridge", "address"],
] as const)("an allow-list between %s and a server with %s", (way, kind) => {
  const send = way === "http" ? post : sendThroughBridge;

  it.each(attacks)("refuses %s", async (body) => {
    const opened = await open(kind);
    expect(await send(opened, body)).toMatchObject({ jsonrpc: "2.0", id: 1, error: {} });
    expect(opened.got).toEqual([]);
    const [recorded] = opened.record.of("mcp.message");
    expect(recorded?.direction).toBe("client-to-server");
    expect(recorded?.raw ?? JSON.stringify(recorded?.message)).toBe(body);
  });

  it.each([...unanswerable, `${ping}${calling(`,"id":2`)}`])("does not forward %s", async (body) => {
    const opened = await open(kind);
    await send(opened, body);
    expect(opened.got).toEqual([]);
  });

  it("forwards what is allowed, as it is written", async () => {
    const opened = await open(kind);
    const body = call(`{ "arguments":{"Name":1,"name":2,"a":1.0}, "name":"a\\u0064d" }`, `,"x":1`);
    if (way === "bridge") await send(opened, body);
    else void send(opened, body).catch(() => undefined);
    await expect.poll(() => opened.got, { timeout: 100_000 }).toEqual([body]);
  });
});

it.each(["program", "address"] as const)("a batch is checked message by message (%s)", async (kind) => {
  const opened = await open(kind);
  const answer = await post(opened, `[{"jsonrpc":"2.0","method":"notifications/x"},${twiceLast}]`);
  expect(JSON.stringify(answer)).toContain("duplicate key");
  expect(opened.got.join("")).not.toContain("delete");
});

it("a batch of one text of 9 MB is read", async () => {
  const long = call(`{"name":"delete","arguments":{"a":"${"x".repeat(9_000_000)}"}}`);
  const answer = await post(await open("program"), `[${long}]`);
  expect(JSON.stringify(answer)).toContain("Unknown tool: delete");
});

describe("a request to a server with an address", () => {
  const body = call(`{"name":"add"}`);
  const latin1 = Buffer.from(call(`{"name":"\u00c1\u00a4_read"}`), "latin1");

  it.each<[string | Buffer, Headers]>([
    [body, [["mcp-method", "ping"]]],
    [body, [["mcp-name", "delete"]]],
    [body, [["mcp-name", "=?base64?ZGVsZXRl?="]]],
    [
      body,
      [
        ["mcp-name", "add"],
        ["mcp-name", "delete"],
      ],
    ],
    [body, [["content-type", "application/x-www-form-urlencoded"]]],
    [body, [["content-type", "application/json; charset=utf-7"]]],
    [body, [["content-encoding", "gzip"]]],
    [latin1, []],
    [call(`{"name":"delete\n_read"}`), []],
    [`\u00a0${body}`, []],
  ])("is refused: %s %j", async (sent, headers) => {
    const opened = await open("address");
    expect(await post(opened, sent, headers)).toMatchObject({ error: {} });
    expect(opened.got).toEqual([]);
  });

  it("is passed on with headers that say the same", async () => {
    const opened = await open("address");
    await post(opened, body, [
      ["mcp-method", "tools/call"],
      ["mcp-name", "=?base64?YWRk?="],
    ]);
    expect(opened.got).toEqual([body]);
  });
});

it.each([...attacks, ...unanswerable])("without filters a message passes as it is: %s", async (body) => {
  const opened = await open("address", () => []);
  await post(opened, body);
  expect(opened.got).toEqual([body]);
});
