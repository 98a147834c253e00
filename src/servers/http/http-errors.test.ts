import { expect, it } from "vitest";
import { McpvalsError } from "../../base/error.ts";
import { explainUnreachable, displayUrl } from "./http-errors.ts";

const place = { server: "s", url: new URL("http://h/mcp?k=1") };
const coded = (code: string): Error => Object.assign(new Error("low"), { code });
const failed = (cause: unknown): Error => new TypeError("fetch failed", { cause });

it.each([
  ["https://user:pass@host.example:8443/a/b?key=secret#part", "https://host.example:8443/a/b?…"],
  ["http://localhost/mcp", "http://localhost/mcp"],
  ["no url", "no url"],
])("shows of %s no possible secrets", (url, shown) => expect(displayUrl(url)).toBe(shown));

it.each([
  [failed(coded("ECONNREFUSED")), "connection refused"],
  [failed(new AggregateError([coded("ECONNREFUSED"), coded("ENETUNREACH")])), "connection refused"],
  [Object.assign(failed(coded("ENEW")), { code: "ECONNREFUSED" }), "connection refused"],
  [failed(coded("ENEW")), "the connection failed (ENEW): low"],
  [new Error("something else"), "the connection failed: something else"],
  ["text", "the connection failed: text"],
])("says why a server is unreachable: %o", (cause, why) => {
  const error = explainUnreachable(place, cause);
  expect(error).toMatchObject({
    code: "server/unreachable",
    message: `server "s" at http://h/mcp?…: ${why}`,
  });
  expect(error.cause).toBe(cause);
});

it("keeps an error that is explained already", () => {
  const error = new McpvalsError("server/unauthorized", "no token");
  expect(explainUnreachable(place, error)).toBe(error);
});
