import { expect, it } from "vitest";
import type { HttpServerSpec } from "../model/server.ts";
import { expandServer } from "./provisioning.ts";

const server: HttpServerSpec = {
  transport: "shttp",
  url: "http://{host}/mcp",
  headers: { A: "{a}" },
  startupTimeoutMs: 1,
  maxMessageBytes: 1,
};

it("replaces templates in how a server with an address is reached, and in how a token is got", () => {
  const text = (template: string): string => template.replaceAll(/\{(\w+)\}/g, "<$1>");
  const auth = {
    kind: "client-credentials",
    clientId: "{id}",
    clientSecret: "{secret}",
    scope: "{scope}",
  } as const;
  expect(expandServer({ ...server, auth }, text, {})).toEqual({
    ...server,
    url: "http://<host>/mcp",
    headers: { A: "<a>" },
    auth: { kind: "client-credentials", clientId: "<id>", clientSecret: "<secret>", scope: "<scope>" },
  });
  expect(expandServer(server, text, {})).not.toHaveProperty("auth");
});
