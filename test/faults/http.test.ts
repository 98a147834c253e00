import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type Exchange,
  type HttpFixture,
  startEvents,
  startHttpFixture,
} from "../fixtures/servers/http-server.ts";
import type { Ended } from "../support/faults.ts";
import { expectExit, expectVerdict, type Fault, type Faults, runAll } from "./support.ts";
import { closedAddress } from "../e2e/support.ts";

type HttpFault = Omit<Fault, "server" | "test"> & {
  /** Limits of a fault that waits for one, in milliseconds. */
  readonly limits?: { readonly startupTimeout?: number; readonly timeout?: number };
  /** Answers an exchange itself, and then gives true. */
  readonly misbehave?: (exchange: Exchange) => boolean;
};

/** Misbehaves on one method only. */
function on(method: string, misbehave: (exchange: Exchange) => void): (exchange: Exchange) => boolean {
  return (exchange) => {
    if (exchange.message.method !== method) return false;
    misbehave(exchange);
    return true;
  };
}

/** Answers everything with a status. */
function status(code: number, body: string): (exchange: Exchange) => boolean {
  return ({ response }) => {
    response.writeHead(code, { "content-type": "text/plain" }).end(body);
    return true;
  };
}

const loginPage = "<!doctype html><title>Sign in</title>";

const faults: Readonly<Record<string, HttpFault>> = {
  "nothing wrong": { verdict: "pass" },
  "401": {
    misbehave: status(401, "token expired"),
    verdict: "error",
    code: "server/http-status",
    says: ["answered POST", "with HTTP 401 Unauthorized", "token expired", "Check the header Authorization"],
  },
  "404": {
    misbehave: status(404, "no such page"),
    verdict: "error",
    code: "server/http-status",
    says: ["with HTTP 404 Not Found", "Check the path of the url and the transport"],
  },
  "500": {
    misbehave: status(500, "database is down"),
    verdict: "error",
    code: "server/http-status",
    says: ["with HTTP 500 Internal Server Error", "database is down", "See the server's own log"],
  },
  "500 in a call": {
    misbehave: on("tools/call", ({ response }) => response.writeHead(500).end("out of disk")),
    verdict: "fail",
    says: ["echo answered HTTP 500"],
  },
  "a connection cut before the answer": {
    misbehave: on("tools/call", ({ response }) => response.destroy()),
    verdict: "fail",
    says: ["the connection was closed by the server"],
    hints: ["may have crashed"],
  },
  "a connection cut in the middle of an answer": {
    misbehave: on("tools/call", ({ response }) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write('{"jsonrpc":', () => response.destroy());
    }),
    verdict: "fail",
    says: ["the connection was closed by the server"],
  },
  "no headers at the start": {
    misbehave: on("initialize", () => undefined),
    limits: { startupTimeout: 1000 },
    verdict: "error",
    code: "server/handshake-timeout",
    says: ["did not answer initialize within 1000 ms", "See the server's own log"],
  },
  "no headers in a call": {
    misbehave: on("tools/call", () => undefined),
    limits: { timeout: 1000 },
    verdict: "fail",
    says: ["echo gave no result: not answered within"],
  },
  "JSON that is called text": {
    misbehave: on("initialize", ({ response }) => {
      response.writeHead(200, { "content-type": "text/plain" }).end('{"jsonrpc":"2.0"}');
    }),
    verdict: "error",
    code: "server/protocol-error",
    says: ["answered initialize with something unusable", "text/plain"],
  },
  "a login page": {
    misbehave: ({ response }) => {
      response.writeHead(200, { "content-type": "text/html" }).end(loginPage);
      return true;
    },
    verdict: "error",
    code: "server/protocol-error",
    says: ["answered initialize with something unusable", "text/html", "Check the url"],
  },
  "a login page in a call": {
    misbehave: on("tools/call", ({ response }) => {
      response.writeHead(200, { "content-type": "text/html" }).end(loginPage);
    }),
    verdict: "fail",
    says: ["echo gave no result"],
  },
  "a stream that ends without the answer": {
    misbehave: on("tools/call", ({ response }) => {
      startEvents(response);
      response.end();
    }),
    verdict: "fail",
    says: ["echo gave no result"],
  },
  "an answer of 100 MB": {
    misbehave: on("tools/call", ({ response, message }) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.write(`{"jsonrpc":"2.0","id":${message.id},"result":{"content":[{"type":"text","text":"`);
      response.end(`${"x".repeat(100_000_000)}"}]}}`);
    }),
    verdict: "fail",
    says: ["sent a message of more than 10485760 bytes"],
  },
  "an answer nested 100,000 levels deep": {
    misbehave: on("tools/call", ({ response, message }) => {
      const nested = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
      response.writeHead(200, { "content-type": "application/json" });
      response.end(
        `{"jsonrpc":"2.0","id":${message.id},"result":{"content":[],"structuredContent":{"a":${nested}}}}`,
      );
    }),
    verdict: "fail",
    says: ["sent a message nested more than 400 levels deep"],
  },
  "two answers": {
    misbehave: on("tools/call", ({ response, message }) => {
      startEvents(response);
      const result = { content: [{ type: "text", text: "hi" }] };
      const event = `data: ${JSON.stringify({ jsonrpc: "2.0", id: message.id, result })}\n\n`;
      response.end(event + event);
    }),
    verdict: "pass",
    warns: ["gave an answer that no request was waiting for"],
  },
};

describe("a server over HTTP that goes wrong", () => {
  let fixture: HttpFixture;
  let ended: Ended;
  let all: Faults;

  beforeAll(async () => {
    fixture = await startHttpFixture((exchange) => {
      const name = decodeURIComponent((exchange.request.url ?? "").slice(1));
      return faults[name]?.misbehave?.(exchange) ?? false;
    });
    const test = { name: "echo", args: { message: "hi" }, expectedResult: "hi" };
    const entries = Object.entries(faults).map(([name, { limits = {}, ...fault }]) => {
      const url = new URL(encodeURIComponent(name), fixture.url).href;
      const { startupTimeout = 30_000, timeout = 30_000 } = limits;
      const server: Fault["server"] = { transport: "shttp", url, startupTimeout };
      return [name, { ...fault, server, test: { ...test, timeout } }] as const;
    });
    const refused: Fault = {
      server: { transport: "shttp", url: await closedAddress() },
      test,
      verdict: "error",
      code: "server/unreachable",
      says: ["connection refused", "Start the server, and check host and port of the url."],
    };
    all = { ...Object.fromEntries(entries), "a closed port": refused };
    ended = await runAll(all);
  });
  afterAll(() => fixture.close());

  it.each([...Object.keys(faults), "a closed port"])("by %s gets the verdict that it deserves", (name) => {
    const fault = all[name];
    if (fault === undefined) throw new Error(`no fault ${name}`);
    expectVerdict(ended, name, fault);
  });

  it("fails the run, exit 1, in bounded memory", () => {
    expectExit(ended, "fail");
    expect(ended.peak).toBeLessThan(400);
  });
});
