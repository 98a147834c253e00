import { describe, expect, it, onTestFinished } from "vitest";
import type { ServerSession } from "../../src/servers/client/session.ts";
import { type Exchange, startHttpFixture } from "../fixtures/servers/http-server.ts";
import { callOptions, httpSpec, startSession } from "./support.ts";

type Page = { readonly resources?: unknown; readonly nextCursor?: string };

/** A server whose pages of `resources/list` are these, by cursor; a page that is missing is never given. */
async function startWith(
  pages: Readonly<Record<string, Page>>,
): Promise<{ readonly session: ServerSession; readonly asked: unknown[] }> {
  const asked: unknown[] = [];
  const server = await startHttpFixture(({ response, message }: Exchange) => {
    if (message.method !== "resources/list") return false;
    const { cursor = "first" } = (message.params ?? {}) as { cursor?: string };
    asked.push(message.params);
    const page = pages[cursor];
    if (page !== undefined) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, result: page }));
    }
    return true;
  });
  onTestFinished(() => server.close());
  const { session } = await startSession(httpSpec(server.url));
  return { session, asked };
}

const [a, b] = [{ uri: "a:1", name: "a", unknown: 1 }, { uri: "b:1" }];

describe("a list", () => {
  it("is asked for page by page, and joined", async () => {
    const { session, asked } = await startWith({
      first: { resources: [a], nextCursor: "two" },
      two: { resources: [], nextCursor: "three" },
      three: { resources: [b] },
    });
    expect(await session.list("resources", callOptions())).toEqual({
      kind: "result",
      result: { resources: [a, b] },
      latencyMs: expect.any(Number) as number,
    });
    expect(asked).toEqual([undefined, { cursor: "two" }, { cursor: "three" }]);
  });

  it("that does not end is refused", async () => {
    const { session, asked } = await startWith({
      first: { resources: [a], nextCursor: "two" },
      two: { resources: [b], nextCursor: "two" },
    });
    expect(await session.list("resources", callOptions())).toMatchObject({
      kind: "error",
      message: 'resources/list does not end: the cursor "two" is repeated',
      unusable: true,
    });
    expect(asked).toHaveLength(2);
  });

  it("has one time limit for all its pages", async () => {
    const { session } = await startWith({ first: { resources: [a], nextCursor: "never" } });
    const outcome = await session.list("resources", callOptions({ timeoutMs: 100 }));
    expect(outcome).toMatchObject({
      kind: "timeout",
      message: "resources/list did not answer within 100 ms",
    });
  });
});

it("a list of tools that could not be read is asked for again", async () => {
  let lists = 0;
  const server = await startHttpFixture(({ response, message }: Exchange) => {
    if (message.method !== "tools/list" || ++lists !== 2) return false;
    response.writeHead(500).end();
    return true;
  });
  onTestFinished(() => server.close());
  const { session } = await startSession(httpSpec(server.url));
  session.expireTools();
  const echo = (): Promise<unknown> => session.toolsNamed("echo", callOptions());
  await expect(echo()).rejects.toMatchObject({ code: "server/protocol-error" });
  expect(await echo()).toMatchObject([{ name: "echo" }]);
  expect(await echo()).toMatchObject([{ name: "echo" }]);
  expect(lists).toBe(3);
});
