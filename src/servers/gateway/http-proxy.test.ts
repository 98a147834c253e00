import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { expect, it } from "vitest";
import { requestHeaders, responseHeaders } from "./http-proxy.ts";

const ofConnection = ["connection", "transfer-encoding", "content-length"];
const valuesOf = (names: string): Record<string, string> =>
  Object.fromEntries(names.split(" ").map((name) => [name, `${name} value`]));

it("forwards neither credentials of the agent nor headers of its connection", () => {
  const kept = valuesOf("accept content-type mcp-session-id mcp-protocol-version last-event-id x-own");
  const left = valuesOf(
    `authorization cookie host origin referer upgrade accept-encoding proxy-authorization expect ${ofConnection.join(" ")}`,
  );
  const request = new IncomingMessage(new Socket());
  const headers = Object.entries({ ...kept, ...left });
  request.headersDistinct = Object.fromEntries(headers.map(([name, text]) => [name, [text]]));
  expect(requestHeaders(request)).toEqual({ ...kept, "accept-encoding": "identity" });
});

it("returns no header that leads around the gateway or describes the packed body", () => {
  const kept = valuesOf("content-type mcp-session-id retry-after x-own");
  const left = valuesOf(
    `location content-location alt-svc www-authenticate set-cookie content-encoding keep-alive ${ofConnection.join(" ")}`,
  );
  expect(responseHeaders({ headers: { ...kept, ...left } })).toEqual(kept);
});
