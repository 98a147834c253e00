import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { expect, it } from "vitest";
import { requestHeaders, responseHeaders } from "./http-proxy.ts";

it("forwards neither credentials of the agent nor headers of its connection", () => {
  const request = new IncomingMessage(new Socket());
  const headers = {
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-session-id": "s",
    "mcp-protocol-version": "2025-11-25",
    "last-event-id": "7",
    "x-own": "1",
    authorization: "Bearer agent",
    cookie: "a=b",
    host: "127.0.0.1:1",
    origin: "http://127.0.0.1:1",
    referer: "http://127.0.0.1:1/secret/mcp",
    connection: "keep-alive",
    "transfer-encoding": "chunked",
    upgrade: "h2c",
    "content-length": "3",
    "accept-encoding": "gzip",
    "proxy-authorization": "Basic x",
    expect: "100-continue",
  };
  request.headersDistinct = Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, [text]]));
  expect(Object.fromEntries(requestHeaders(request))).toEqual({
    accept: "application/json, text/event-stream",
    "accept-encoding": "identity",
    "content-type": "application/json",
    "last-event-id": "7",
    "mcp-protocol-version": "2025-11-25",
    "mcp-session-id": "s",
    "x-own": "1",
  });
});

it("returns no header that leads around the gateway or describes the packed body", () => {
  const response = new Response(null, {
    headers: {
      "content-type": "application/json",
      "mcp-session-id": "s",
      "retry-after": "3",
      "x-own": "1",
      location: "http://elsewhere/mcp",
      "content-location": "http://elsewhere/mcp",
      "alt-svc": 'h3=":443"',
      "www-authenticate": 'Bearer resource_metadata="http://elsewhere/"',
      "set-cookie": "a=b",
      "content-encoding": "gzip",
      "content-length": "3",
      connection: "close",
      "keep-alive": "timeout=5",
      "transfer-encoding": "chunked",
    },
  });
  expect(responseHeaders(response)).toEqual({
    "content-type": "application/json",
    "mcp-session-id": "s",
    "retry-after": "3",
    "x-own": "1",
  });
});
