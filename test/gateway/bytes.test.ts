import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import type { GatewayEndpoint } from "../../src/servers/gateway/endpoint.ts";
import { openMockHost } from "../../src/servers/mock/mock-host.ts";
import { root } from "../support/cli.ts";
import { addressHost, listenProgram, openGateway, type Opened, programHost } from "./support.ts";

const program = join(root, "test/fixtures/servers/odd-json-server.mjs");
const requests = [
  `{"params":{"z":1.0,"a":1e400,"big":123456789012345678901234567890,"twice":1,"twice":2},"method":"x/y","id":1,"jsonrpc":"2.0"}`,
  `{ "jsonrpc" : "2.0" ,\t"id" : "one", "method":"\\u0061/b", "params" : { "text":"\\u00e9\\/ \\ud83d\\ude00 é 😀" } }`,
  `{"jsonrpc":"2.0","id":9007199254740991,"method":"neg","params":[-0,0.10,1E+2]}`,
];

async function openOverHttp(): Promise<Opened & { readonly url: string }> {
  const url = await listenProgram(program);
  return { ...(await openGateway(await addressHost(url))), url };
}

function post(url: string, body: string): Promise<Response> {
  return fetch(url, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
  });
}

/** The real bridge, line by line. */
function startBridge({ bridge: { command, args, env } }: GatewayEndpoint): {
  readonly child: ChildProcess;
  ask(line: string): Promise<string>;
} {
  const child = spawn(command, args, { env: { ...env }, stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async ask(line) {
      child.stdin.write(`${line}\n`);
      return String((await lines.next()).value);
    },
  };
}

const gotIn = (text: string): unknown => (JSON.parse(text) as { result: { got: unknown } }).result.got;
const rawOf = (opened: Opened): unknown[] =>
  opened.record.of("mcp.message").map(({ raw, message }) => raw ?? JSON.stringify(message));

describe("bytes of messages, both ways,", () => {
  it("are untouched between a bridge and a program", async () => {
    const opened = await openGateway(await programHost([program]));
    const bridge = startBridge(opened.endpoint);
    const answers: string[] = [];
    for (const request of requests) {
      const answer = await bridge.ask(request);
      expect(gotIn(answer)).toBe(request);
      expect(answer).toContain(`"neg":-0,"twice":1,"twice":2,"text":"\\u00e9\\/\\ud83d\\ude00 é 😀"`);
      expect(answer).toContain(`{ "result": {"z":1.0,"a":1e400,"big":123456789012345678901234567890`);
      answers.push(request, answer);
    }
    expect(rawOf(opened)).toEqual(answers);
  });

  it("are untouched between an agent's HTTP and a program, but for line breaks between parts", async () => {
    const opened = await openGateway(await programHost([program]));
    for (const request of requests) {
      const response = await post(opened.endpoint.url, request);
      expect(response.headers.get("content-type")).toBe("application/json");
      const answer = await response.text();
      expect(gotIn(answer)).toBe(request);
      expect(answer).toContain(`{ "result": {"z":1.0,"a":1e400,"big":123456789012345678901234567890`);
    }
    const pretty = await post(
      opened.endpoint.url,
      `\r\n{\r\n\t"jsonrpc": "2.0",\n "id": 5, "method": "m"}\n`,
    );
    expect(gotIn(await pretty.text())).toBe(`{ \t"jsonrpc": "2.0",  "id": 5, "method": "m"}`);
  });

  it("are untouched between an agent's HTTP and a server's", async () => {
    const opened = await openOverHttp();
    for (const body of [...requests, `\n{\r\n "jsonrpc":"2.0", "id":\n4,"method":"m"}\n `]) {
      const [direct, through] = await Promise.all([post(opened.url, body), post(opened.endpoint.url, body)]);
      const text = await through.text();
      expect(text).toBe(await direct.text());
      expect(gotIn(text)).toBe(body);
      expect(through.headers.get("x-own")).toBe("1");
      expect(through.headers.get("content-type")).toBe("application/json; charset=utf-8");
    }
    const batch = `[${requests.join(" , ")}]`;
    expect(await (await post(opened.endpoint.url, batch)).text()).toBe(
      await (await post(opened.url, batch)).text(),
    );
    const sent = opened.record.of("mcp.message").filter(({ direction }) => direction === "client-to-server");
    expect(sent.slice(-3).map(({ raw, message }) => raw ?? JSON.stringify(message))).toEqual(requests);
  });

  it("are untouched in a stream of events, in whatever chunks and lines it comes", async () => {
    const opened = await openOverHttp();
    const body = `{"jsonrpc":"2.0","id":3,"method":"stream"}`;
    const [direct, through] = await Promise.all([post(opened.url, body), post(opened.endpoint.url, body)]);
    const text = await through.text();
    expect(text).toBe(await direct.text());
    expect(text).toContain("id: 7\r\nevent: message\r\n");
    expect(opened.record.of("mcp.message").map(({ message }) => message)).toMatchObject([
      { method: "stream" },
      { method: "a/b" },
      { id: 3 },
    ]);
  });

  it("are untouched between a bridge and a server's HTTP", async () => {
    const opened = await openOverHttp();
    const bridge = startBridge(opened.endpoint);
    for (const request of requests) {
      const answer = await bridge.ask(request);
      expect(gotIn(answer)).toBe(request);
      expect(answer).toContain(`{ "result": \t{"z":1.0,"a":1e400,"big":123456789012345678901234567890`);
    }
    expect(await bridge.ask(`{"jsonrpc":"2.0","id":3,"method":"stream"}`)).toBe(
      `{"method":"a/b", "jsonrpc":"2.0"}`,
    );
  });
});

it("a mock's answer that is not a message is passed on byte for byte, and recorded beside an error", async () => {
  const responses = [{ malformed: "<{id}> is not JSON" }];
  const mock = { tools: { garbled: { inputSchema: {}, responses } }, resources: [], prompts: [], state: {} };
  const spec = { transport: "mock", startupTimeoutMs: 5000, maxMessageBytes: 1000, mock } as const;
  const validateSchema = (): Promise<never> => Promise.reject(new Error("no schema here"));
  const { endpoint, record } = await openGateway(openMockHost("s", spec, { validateSchema }));
  const body = '{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"garbled"}}';
  expect(await (await post(endpoint.url, body)).text()).toContain('<"x"> is not JSON');
  expect(record.of("mcp.message").at(-1)).toMatchObject({
    direction: "server-to-client",
    message: { id: "x", error: { code: -32700 } },
    raw: '<"x"> is not JSON',
  });
});
