import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { guessableBy } from "../../src/check/address-security.ts";
import { exact } from "../../src/base/json.ts";
import { check } from "../../src/check.ts";
import { httpSpec } from "../servers/support.ts";
import { findingsIn } from "./support.ts";
import { answer, type Exchange, startHttpFixture } from "../fixtures/servers/http-server.ts";

const token = "Bearer secret-of-a-test";

/** What the part about security finds in a server that answers as `misbehave` does, where it gives true; `whole`: a whole check. */
async function found(
  misbehave: (exchange: Exchange) => boolean | Promise<boolean>,
  headers: Readonly<Record<string, string>> = { Authorization: token },
  { whole = false, idOf = () => randomUUID() }: { whole?: boolean; idOf?: (count: number) => string } = {},
): Promise<readonly { readonly code: string; readonly message: string; readonly evidence: number }[]> {
  let count = 0;
  const server = await startHttpFixture(async (exchange) => {
    if (await misbehave(exchange)) return true;
    if (exchange.message.method !== "initialize") return false;
    answer(exchange.response, exchange.message, idOf((count += 1)));
    return true;
  });
  const findings = whole
    ? (await check(server.url, { security: true, headers, output: false })).findings
    : await findingsIn("security", httpSpec(server.url, { headers }));
  await server.close();
  return findings
    .filter(({ code }) => /^security\/|no-session/.test(code) && code !== "security/not-watched")
    .map(({ code, message, evidence }) => ({ code, message, evidence: evidence.length }));
}

async function codes(...given: Parameters<typeof found>): Promise<readonly string[]> {
  return (await found(...given)).map(({ code }) => code);
}

function refuse(response: ServerResponse, status = 401): true {
  response.writeHead(status).end();
  return true;
}

/** Refuses requests without the token. */
function guarded({ request, response }: Exchange): boolean {
  return request.headers.authorization !== token && refuse(response);
}

describe.concurrent("the token of a server at an address", () => {
  it("that every request needs leaves nothing to be found", async () => {
    expect(await found(guarded, undefined, { whole: true })).toEqual([]);
  });

  it("that is not looked at", async () => {
    expect(await codes(() => false)).toEqual(["security/no-authentication"]);
  });

  it("that may be any", async () => {
    const any = ({ request, response }: Exchange): boolean =>
      request.headers.authorization === undefined && refuse(response);
    expect(await found(any)).toEqual([
      {
        code: "security/no-authentication",
        message: "tools/list got a result with a made-up token",
        evidence: 2,
      },
    ]);
  });

  it("of which only the content is looked at", async () => {
    const claims = Buffer.from(JSON.stringify({ sub: "user-1234567890" })).toString("base64url");
    const signed = `Bearer eyJhbGciOiJIUzI1NiJ9.${claims}.c2lnbmF0dXJlLW9mLWEtdGVzdA`;
    const careless = ({ request, response }: Exchange): boolean =>
      request.headers.authorization?.includes(claims) !== true && refuse(response);
    const careful = ({ request, response }: Exchange): boolean =>
      request.headers.authorization !== signed && refuse(response);
    const headers = { Authorization: signed };
    expect(await codes(careless, headers)).toEqual(["security/no-authentication"]);
    expect(await codes(careful, headers)).toEqual([]);
  });

  it("that is any of several cookies", async () => {
    const cookies = { Cookie: "lang=en; session=c2Vzc2lvbi1vZi1hLXRlc3Q==; theme=dark" };
    const careful = ({ request, response }: Exchange): boolean =>
      request.headers.cookie?.includes("session=c2Vzc2lvbi1vZi1hLXRlc3Q==;") !== true && refuse(response);
    const careless = ({ request, response }: Exchange): boolean =>
      request.headers.cookie?.includes("session=") !== true && refuse(response);
    expect(await codes(careful, cookies)).toEqual([]);
    expect(await codes(careless, cookies)).toEqual(["security/no-authentication"]);
    const bare = ({ request, response }: Exchange): boolean =>
      request.headers.cookie !== "c2Vzc2lvbi1vZi1hLXRlc3Q" && refuse(response);
    expect(await codes(bare, { Cookie: "c2Vzc2lvbi1vZi1hLXRlc3Q" })).toEqual([]);
  });

  it("that calls of tools do not need", async () => {
    const open = (exchange: Exchange): boolean =>
      exchange.message.method !== "tools/call" && guarded(exchange);
    expect(await found(open)).toEqual([
      {
        code: "security/no-authentication",
        message: "tools/call was answered as usual without the headers and tokens of its declaration",
        evidence: 2,
      },
    ]);
    const inSession = (exchange: Exchange): boolean => {
      const isOpen =
        exchange.request.headers["mcp-session-id"] !== undefined && exchange.message.method === "tools/call";
      return !isOpen && guarded(exchange);
    };
    expect(await codes(inSession)).toEqual(["security/session-as-login"]);
  });

  it("that only the first request of a session needs", async () => {
    const trusting = (exchange: Exchange): boolean =>
      exchange.request.headers["mcp-session-id"] === undefined && guarded(exchange);
    expect(await codes(trusting)).toEqual(["security/session-as-login"]);
  });

  it("that may be any one in a session", async () => {
    const lax = (exchange: Exchange): boolean => {
      const { headers } = exchange.request;
      if (headers["mcp-session-id"] === undefined) return guarded(exchange);
      return headers.authorization === undefined && refuse(exchange.response);
    };
    expect(await found(lax)).toEqual([
      {
        code: "security/session-as-login",
        message: "tools/list got a result with the session of another client and a made-up token",
        evidence: 2,
      },
    ]);
  });
});

describe.concurrent("ids of sessions", () => {
  it("that count up, have the time or are the same", async () => {
    const [counted, timed, same] = await Promise.all([
      found(guarded, undefined, { idOf: (count) => `session-${count}` }),
      found(guarded, undefined, { idOf: (count) => `session-${Date.now()}-${count % 3}` }),
      found(guarded, undefined, { idOf: () => "0f4d5b1e-0c5a-4f0e-9d4b-4c1c5b7a9e11" }),
    ]);
    expect([counted, timed, same].map(([first]) => [first?.code, first?.message, first?.evidence])).toEqual([
      ["security/guessable-session", "the ids of 8 sessions count up", 8],
      ["security/guessable-session", "what differs in the ids of 8 sessions has less than 64 bits", 8],
      ["security/guessable-session", "of 8 sessions some have the same id", 8],
    ]);
  });

  it("that are random are not, in whatever letters they are written", () => {
    const random = (letters: string, length: number): string =>
      Array.from({ length }, () => letters[Math.floor(Math.random() * letters.length)]).join("");
    const hex = "0123456789abcdef";
    const all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    for (const make of [
      () => randomUUID(),
      () => random(hex, 32),
      () => random(all, 21),
      () => `session-${random(all, 22)}-end`,
      () => random("0123456789", 30),
    ])
      expect(guessableBy(Array.from({ length: 8 }, make))).toBeUndefined();
    // Ids that look like keys are marks in the record.
    expect(guessableBy(Array.from({ length: 8 }, (_, index) => `[secret:key ${index}]`))).toBeUndefined();
    expect(guessableBy(Array.from({ length: 8 }, () => random(hex, 8)))).toContain("less than 64 bits");
  });
});

it("a session that gets the answer to a request of another one is found, and one that does not is not", async () => {
  // One transport for all sessions, which knows requests by their ids only.
  const waiting = new Map<unknown, Exchange>();
  const crossed = (exchange: Exchange): boolean => {
    if (guarded(exchange)) return true;
    const { message } = exchange;
    if (message.params?.name?.startsWith("mcpvals-of-session") !== true) return false;
    const said = (of: Exchange): string =>
      JSON.stringify({
        jsonrpc: "2.0",
        id: message.id,
        error: { code: -32602, message: `no tool ${String(of.message.params?.name)}` },
      });
    const other = waiting.get(message.id);
    waiting.set(message.id, exchange);
    if (other === undefined) return true;
    for (const [to, from] of [
      [other, exchange],
      [exchange, other],
    ] as const)
      to.response.setHeader("content-type", "application/json").end(said(from));
    return true;
  };
  expect(await codes(crossed)).toEqual(["security/shared-session"]);
});

/** Answers a preflight, and then all requests. */
function allowing(headers: Readonly<Record<string, string>>): (exchange: Exchange) => boolean {
  return ({ request, response }) => {
    if (request.method !== "OPTIONS") return false;
    response
      .writeHead(204, { "access-control-allow-headers": "Content-Type, Mcp-Session-Id", ...headers })
      .end();
    return true;
  };
}

describe.concurrent("other websites", () => {
  const any = { "access-control-allow-origin": "*" };
  const reflected = { "access-control-allow-origin": "https://mcpvals.invalid" };

  it("that may use a server of this machine without a token", async () => {
    expect(await found(allowing(any), {})).toEqual([
      {
        code: "security/foreign-website",
        message: "it allows every website (*), and opened a session for another website without credentials",
        evidence: 3,
      },
    ]);
  });

  it("that may not, or may but have no token", async () => {
    const guardedButAny = (exchange: Exchange): boolean => allowing(any)(exchange) || guarded(exchange);
    const own = { "access-control-allow-origin": "http://localhost:3000" };
    const simpleOnly = { ...any, "access-control-allow-headers": "accept" };
    const all = await Promise.all([
      found(guardedButAny),
      found(allowing(own), {}),
      found(allowing(simpleOnly), {}),
    ]);
    expect(all).toEqual([[], [], []]);
  });

  it("that may send what the browser knows of the user", async () => {
    const both = { ...reflected, "access-control-allow-credentials": "true" };
    const cookies = (exchange: Exchange): boolean => allowing(both)(exchange) || guarded(exchange);
    const alone = (exchange: Exchange): boolean => allowing(reflected)(exchange) || guarded(exchange);
    expect([await codes(cookies), await codes(alone)]).toEqual([["security/foreign-credentials"], []]);
  });
});

describe.concurrent("the address in an argument", () => {
  const tool = {
    name: "fetch_page",
    inputSchema: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
  };
  /** Gets the page at the address, as a server that passes its headers on or does not. */
  const fetching =
    (passesOn: boolean, isReadOnly = true) =>
    async (exchange: Exchange): Promise<boolean> => {
      const { message, response, request } = exchange;
      const { authorization, cookie } = request.headers;
      if (cookie === undefined && guarded(exchange)) return true;
      const give = (result: unknown): true => {
        const content = JSON.stringify({ jsonrpc: "2.0", id: message.id, result });
        response.setHeader("content-type", "application/json").end(content);
        return true;
      };
      if (message.method === "tools/list")
        return give({ tools: [{ ...tool, annotations: { readOnlyHint: isReadOnly } }] });
      if (message.method !== "tools/call" || message.params?.name !== tool.name) return false;
      const headers = passesOn ? exact({ authorization, cookie }) : {};
      const page = await fetch(String(message.params.arguments?.["url"]), { headers }).catch(() => undefined);
      return give({ content: [{ type: "text", text: (await page?.text()) ?? "there is no such page" }] });
    };

  it("gets the token of a server that passes it on", async () => {
    const whole = await found(fetching(true), undefined, { whole: true });
    expect(whole).toMatchObject([{ code: "security/token-passed-on", evidence: 2 }]);
  });

  it("gets the cookies of a server that passes them on, and a short value of one is nothing to find", async () => {
    const [passed, kept] = await Promise.all(
      [true, false].map((passesOn) =>
        codes(fetching(passesOn), { Cookie: "session=c2Vzc2lvbg; lang=en" }, { whole: true }),
      ),
    );
    expect(passed).toContain("security/token-passed-on");
    expect(kept).not.toContain("security/token-passed-on");
  });

  it("does not get that of another one, nor is a tool called that is not read-only", async () => {
    const careful = [fetching(false), fetching(true, false)];
    const all = await Promise.all(careful.map((each) => found(each, undefined, { whole: true })));
    expect(all).toEqual([[], []]);
  });
});
