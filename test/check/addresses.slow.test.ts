import type { ServerResponse } from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";
import type { CheckKind } from "../../src/model/check.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import { type Exchange, startHttpFixture } from "../fixtures/servers/http-server.ts";
import { httpSpec, stdioSpec } from "../servers/support.ts";
import { startAtPort } from "../support/hostile.ts";
import { findingsIn } from "./support.ts";
import { askingServer, conformingServer } from "../support/programs.ts";

const kinds: readonly CheckKind[] = ["handshake", "requests", "definitions", "stability"];

/** Findings about the protocol and stability in every part of a check. */
async function foundIn(spec: ServerSpec): Promise<string[]> {
  const found = await Promise.all(kinds.map((kind) => findingsIn(kind, spec)));
  return found
    .flat()
    .filter(({ code }) => /^(?:protocol|stability)\//.test(code))
    .map(({ code, message }) => `${code}: ${message}`);
}

/** A server whose answers are decided by `misbehave`, where it gives true. */
async function addressOf(misbehave: (exchange: Exchange) => boolean): Promise<ServerSpec> {
  const server = await startHttpFixture(misbehave);
  onTestFinished(() => server.close());
  return httpSpec(server.url);
}

function refuse(response: ServerResponse, status: number): true {
  response.writeHead(status, { "content-type": "text/plain" }).end("no");
  return true;
}

describe("servers of the SDK have no finding", () => {
  const asking = (eras: string): ServerSpec => stdioSpec(process.execPath, [askingServer, eras]);

  it.each(["legacy", "modern", "both"])("stdio, eras: %s", async (eras) => {
    expect(await foundIn(asking(eras))).toEqual([]);
  });

  it("in the modern era they say their name in _meta", async () => {
    const found = await findingsIn("definitions", asking("modern"));
    expect(found.map(({ code }) => code)).not.toContain("definition/no-server-version");
  });
});

it("Streamable HTTP finds an unknown session that is not refused with 404, and an origin that is not checked", async () => {
  const url = await startAtPort({
    transport: "stdio",
    command: process.execPath,
    args: [conformingServer, "http"],
  });
  expect(await foundIn(httpSpec(`${url}/mcp`))).toEqual([
    "protocol/session: it got HTTP 400",
    "protocol/origin: a session was opened for another origin",
  ]);
});

describe("an address at which no server can be reached is an error of the environment", () => {
  it.each([401, 403, 404, 503])("HTTP %i", async (status) => {
    const spec = await addressOf(({ response }) => refuse(response, status));
    await expect(findingsIn("handshake", spec)).rejects.toMatchObject({ code: "server/http-status" });
  });

  it("nobody listens", async () => {
    const server = await startHttpFixture();
    await server.close();
    const { url } = server;
    for (const transport of ["shttp", "sse"] as const)
      await expect(findingsIn("handshake", httpSpec(url, { transport }))).rejects.toMatchObject({
        code: "server/unreachable",
      });
  });
});

it("an HTTP error in answer to initialize is a finding", async () => {
  const spec = await addressOf(({ response }) => refuse(response, 500));
  const [found] = await findingsIn("handshake", spec);
  expect(found).toMatchObject({
    code: "protocol/no-session",
    message: 'initialize got no answer: HTTP 500: "no"',
  });
});

it("an answer in an array is a finding", async () => {
  const spec = await addressOf(({ message: { id, method }, response }) => {
    if (method !== "initialize") return false;
    const serverInfo = { name: "arrays", version: "1.0.0" };
    const result = { protocolVersion: "2025-11-25", capabilities: {}, serverInfo };
    const body = JSON.stringify([{ jsonrpc: "2.0", id, result }]);
    response.writeHead(200, { "content-type": "application/json" }).end(body);
    return true;
  });
  const found = await findingsIn("handshake", spec);
  expect(found.map(({ code, message }) => `${code}: ${message}`)).toEqual([
    "protocol/malformed-message: it is in an array, and the body of an HTTP response is one JSON object",
  ]);
});

it("a page in answer to initialize is an error of the environment, which shows what came", async () => {
  const spec = await addressOf(({ response }) => {
    response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>Shop</title>");
    return true;
  });
  await expect(findingsIn("handshake", spec)).rejects.toMatchObject({
    code: "server/protocol-error",
    message: 'server "s": unexpected content type: text/html: <!doctype html><title>Shop</title>',
  });
});

it("a redirection to another origin names its target, without what may be secret", async () => {
  const spec = await addressOf(({ response }) => {
    response.writeHead(302, { location: "http://login.test/in?token=1" }).end();
    return true;
  });
  const failure: unknown = await findingsIn("handshake", spec).catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: "server/http-status",
    details: { hint: "Give the url that it redirects to: http://login.test/in?…" },
  });
});

it("a server that ends the connection at a request is a finding, and no error", async () => {
  const spec = await addressOf(({ message, request }) => {
    if (message.method !== "tools/list") return false;
    request.socket.destroy();
    return true;
  });
  expect(await findingsIn("definitions", spec)).toMatchObject([
    { code: "protocol/list-failed", message: expect.stringContaining("the connection") as unknown },
  ]);
});

it("a server that does not respond to a notification does not hold up the check", async () => {
  const spec = await addressOf(({ message }) => message.method === "notifications/initialized");
  const found = await findingsIn("definitions", spec, { callMs: 300 });
  expect(found.map(({ code }) => code)).toContain("protocol/list-failed");
});

it("a call that gets an HTTP error is a finding", async () => {
  const spec = await addressOf(
    ({ message, response }) => message.method === "tools/call" && refuse(response, 500),
  );
  const calls = [{ tool: "echo", args: {}, expects: "result", why: "no arguments" }] as const;
  expect(await findingsIn("calls", spec, { calls })).toMatchObject([
    { code: "call/valid-refused", message: "{} (no arguments) got HTTP 500" },
  ]);
});

it("requests go on in a new session after one that the server ended", async () => {
  let isOver = false;
  const methods: unknown[] = [];
  const spec = await addressOf(({ message: { method }, request, response }) => {
    methods.push(method);
    if (method === "initialize") isOver = false;
    if (method === "mcpvals/no-such-method") {
      isOver = true;
      request.socket.destroy();
      return true;
    }
    return isOver && refuse(response, 404);
  });
  const found = await findingsIn("requests", spec);
  expect(found.map(({ message }) => message)).toContain("an unknown method ended the connection");
  const later = methods.slice(methods.indexOf("mcpvals/no-such-method") + 1);
  expect(later[0]).toBe("initialize");
  expect(later).toEqual(expect.arrayContaining(["tools/call", "notifications/cancelled", "ping"]));
});
