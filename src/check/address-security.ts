import { asObject } from "../base/json.ts";
import { secretMark } from "../base/secret-marks.ts";
import { legacyVersions } from "../model/mcp-versions.ts";
import type { ProbeName } from "../model/check.ts";
import { type EventOf, eventsOf } from "../model/event.ts";
import { ownEndpoint } from "./attacks.ts";
import type { Exchange } from "../trace/trajectory.ts";
import {
  type CheckView,
  exchangesOf,
  type Found,
  handshakesOf,
  type ProbeView,
  resultOf,
  type RuleTable,
} from "./check-view.ts";
import type { Credentials, ProbeClient, Prober } from "./prober.ts";
import { loopback } from "./requests.ts";

/** Sessions that are opened to compare their ids. */
const comparedSessions = 8;
/** How often two sessions send requests with the same id. */
const crossedRounds = 5;
/** A website that is none of the server's. */
const otherWebsite = "https://mcpvals.invalid";

/** Asks a server at an address what it should refuse. Its sessions stay open until all of it was asked. */
export async function probeAddress(prober: Prober): Promise<void> {
  const reached = await prober.probe("sessions", async () => {
    const server = await prober.start();
    const clients: ProbeClient[] = [];
    while (clients.length < comparedSessions) {
      const client = server.open(String(clients.length));
      prober.hello(await client.connect());
      clients.push(client);
      const { sessionId: session } = client;
      if (session === undefined) break;
      prober.record({ type: "http.session", server: prober.server, session });
    }
    await clients[0]?.request("tools/call", unknownTool);
    return { server, clients };
  });
  if (reached === undefined) return;
  const { server, clients } = reached;
  const [one, another] = clients;
  if (one !== undefined && another !== undefined)
    await prober.probe("crossed-sessions", () => cross([one, another]));
  const stranger = async (credentials: Credentials): Promise<ProbeClient> =>
    (await prober.start({ credentials })).open();
  const list = async (credentials: Credentials): Promise<void> => {
    const headers = { "mcp-protocol-version": legacyVersions[0] };
    await (await stranger(credentials)).request("tools/call", unknownTool, { headers });
    const client = await stranger(credentials);
    prober.hello(await client.connect());
    await prober.list(client, "tools/list");
  };
  const borrow = async (credentials: Credentials): Promise<void> => {
    const headers = {
      "mcp-session-id": one?.sessionId ?? "",
      "mcp-protocol-version": legacyVersions[0],
    };
    const client = await stranger(credentials);
    await client.request("tools/list", undefined, { headers });
    await client.request("tools/call", unknownTool, { headers });
  };
  const hasSessions = one?.sessionId !== undefined;
  if (prober.hasCredentials) await prober.probe("anonymous", () => list("none"));
  if (prober.hasToken) await prober.probe("wrong-token", () => list("wrong"));
  if (prober.hasCredentials && hasSessions) await prober.probe("borrowed-session", () => borrow("none"));
  if (prober.hasToken && hasSessions)
    await prober.probe("borrowed-session-wrong-token", () => borrow("wrong"));
  await prober.probe("preflight", async () => {
    await prober.preflight(otherWebsite);
    const client = await stranger("none");
    await client.connect(legacyVersions[0], { headers: { origin: otherWebsite } });
  });
  for (const [index, { tool: name, args }] of (prober.check.calls ?? []).entries())
    await prober.probe(
      "attack",
      async () => {
        const address = await prober.listen();
        const text = JSON.stringify(args).replaceAll(ownEndpoint, address);
        await one?.request("tools/call", { name, arguments: JSON.parse(text) as typeof args });
      },
      { call: index },
    );
  await server.stop();
}

/** A call that has no effect. Who gets the answer that its user gets is not asked for credentials before. */
const unknownTool = { name: "mcpvals-unknown-tool", arguments: {} };

/** Two clients ask for different things with the same ids, at the same time. What they ask for is not there, and its name is in the answer. */
async function cross(clients: readonly ProbeClient[]): Promise<void> {
  for (let round = 1; round <= crossedRounds; round += 1) {
    const started = await Promise.all(
      clients.map((client, index) =>
        client.start(
          "tools/call",
          { name: toolOf(index), arguments: {} },
          { id: firstCrossedId + round, timeoutMs: crossedMs },
        ),
      ),
    );
    const answers = await Promise.all(started.map(({ answer }) => answer));
    if (answers.some(({ kind }) => kind === "none" || kind === "lost")) return;
  }
}

/** Ids that no other request of a trial has. */
const firstCrossedId = 800_000;
const crossedMs = 5000;

function toolOf(client: number): string {
  return `mcpvals-of-session-${client}`;
}

/** Rules about a server at an address, each with the requests that show it. */
export const addressRules = {
  "security/no-authentication": {
    severity: "error",
    title: "A server takes requests without the credentials that it was declared with",
    why: "Whoever reaches the address has the rights that the credentials were meant to protect.",
    fix: "Answer requests without a valid token with HTTP 401.",
    bad: `→ tools/list without Authorization   ← the tools`,
    good: `→ initialize without Authorization   ← HTTP 401`,
    source: "MCP 2025-11-25, authorization: access token usage",
    weakness: { owasp: "MCP07", cwe: 306 },
    *find({ probes }) {
      const found =
        answeredIn(probes, "anonymous", " without the headers and tokens of its declaration") ??
        answeredIn(probes, "wrong-token", " with a made-up token");
      if (found !== undefined) yield found;
    },
  },
  "security/session-as-login": {
    severity: "error",
    title:
      "The id of a session is enough to use it, without the credentials that the server was declared with",
    why: "Ids of sessions stand in logs and in headers that proxies see; whoever has one acts as its user.",
    fix: "Check the credentials of each request, and that the session belongs to them.",
    bad: `→ tools/list with Mcp-Session-Id and without Authorization   ← the tools`,
    good: `→ tools/list with Mcp-Session-Id and without Authorization   ← HTTP 401`,
    source: "MCP 2025-11-25, security best practices: session hijacking",
    weakness: { owasp: "MCP07", cwe: 384 },
    *find({ probes }) {
      // Who needs no credentials at all needs no session of somebody else.
      if ((answeredIn(probes, "anonymous", "") ?? answeredIn(probes, "wrong-token", "")) !== undefined)
        return;
      const session = " with the session of another client";
      const found =
        answeredIn(
          probes,
          "borrowed-session",
          `${session}, without the headers and tokens of its declaration`,
        ) ?? answeredIn(probes, "borrowed-session-wrong-token", `${session} and a made-up token`);
      if (found !== undefined) yield found;
    },
  },
  "security/guessable-session": {
    severity: "error",
    title: "The ids of sessions can be guessed",
    why: "Whoever guesses the id of a session can read its messages, and where nothing else is asked for act as its user.",
    fix: "Make each id of at least 128 random bits, such as crypto.randomUUID().",
    bad: `← Mcp-Session-Id: 41   ← Mcp-Session-Id: 42   ← Mcp-Session-Id: 43`,
    good: `← Mcp-Session-Id: 1f0c2d8e-6b7a-4c3d-9e5f-0a1b2c3d4e5f`,
    source:
      "MCP 2025-11-25, security best practices: session hijacking: servers must use secure, non-deterministic session IDs; OWASP Session Management Cheat Sheet: 64 bits of entropy",
    weakness: { owasp: "MCP07", cwe: 340 },
    *find({ probes }) {
      const opened = probes.flatMap(({ events }) => eventsOf(events, "http.session"));
      const why = guessableBy(opened.map(({ session }) => session));
      if (why !== undefined) yield { message: why, evidence: opened.map(({ seq }) => seq) };
    },
  },
  "security/shared-session": {
    severity: "error",
    title: "A session gets what another one asked for",
    why: "The data of one user reaches another one. It happens where one object of a server or transport serves several sessions: it keeps requests by their ids, and two clients use the same ones.",
    fix: "Make a server and a transport of its own for each session.",
    bad: `session A → { "id": 1, … "a" }, session B → { "id": 1, … "b" }   A ← { "id": 1, … "b" }`,
    good: `A ← { "id": 1, … "a" }   B ← { "id": 1, … "b" }`,
    source: "CVE-2026-25536",
    weakness: { owasp: "MCP10", cwe: 488 },
    *find({ probes }) {
      for (const { probe, events } of probes) {
        if (probe !== "crossed-sessions") continue;
        for (const event of eventsOf(events, "mcp.message")) {
          if (event.direction !== "server-to-client") continue;
          const said = JSON.stringify(event.message);
          const other = [0, 1].find(
            (client) => String(client) !== event.client && said.includes(toolOf(client)),
          );
          if (other === undefined) continue;
          const asked = eventsOf(events, "mcp.message").find(
            ({ client, direction, message }) =>
              direction === "client-to-server" &&
              client === String(other) &&
              asObject(message)["id"] === asObject(event.message)["id"],
          );
          const message = "a session got the answer to a request of another one, which had the same id";
          return yield { message, evidence: [...(asked === undefined ? [] : [asked.seq]), event.seq] };
        }
      }
    },
  },
  "security/foreign-website": {
    severity: "error",
    title: "Every website can use a server of this machine",
    why: "A page that its user visits can open a session from the browser, call tools and read what they return.",
    fix: "Send Access-Control-Allow-Origin only to websites that you know, and refuse others with HTTP 403; or ask for a token.",
    bad: `→ OPTIONS, Origin: https://example.com   ← Access-Control-Allow-Origin: *`,
    good: `→ OPTIONS, Origin: https://example.com   ← HTTP 403`,
    source: "MCP 2025-11-25, transports: security warning; CVE-2025-49596",
    weakness: { owasp: "MCP07", cwe: 942 },
    *find({ probes, events }) {
      if (!eventsOf(events, "server.started").some(({ target }) => loopback.test(target))) return;
      for (const probe of probes) {
        const allowing = preflightIn(probe);
        const hello = handshakesOf(probe).find((each) => resultOf(each) !== undefined);
        if (allowing === undefined || hello?.answer === undefined) continue;
        yield {
          message: `it allows ${allowedText(allowing)}, and opened a session for another website without credentials`,
          evidence: [allowing.seq, hello.request.seq, hello.answer.seq],
        };
      }
    },
  },
  "security/foreign-credentials": {
    severity: "warning",
    title: "Every website may send requests with the cookies and certificates of the user",
    why: "Where a browser is logged in to the server, a page that its user visits acts as the user. Servers that only take a bearer token are not concerned: browsers do not send these by themselves.",
    fix: "Name the websites that may, or leave Access-Control-Allow-Credentials out.",
    bad: `→ OPTIONS, Origin: https://example.com   ← Access-Control-Allow-Origin: https://example.com, Access-Control-Allow-Credentials: true`,
    good: `→ OPTIONS, Origin: https://example.com   ← Access-Control-Allow-Origin: https://app.mine.com`,
    source: "https://fetch.spec.whatwg.org/#http-cors-protocol",
    weakness: { owasp: "MCP07", cwe: 942 },
    *find({ probes }) {
      for (const probe of probes) {
        const allowing = preflightIn(probe);
        if (allowing?.allowOrigin !== otherWebsite || allowing.allowCredentials !== "true") continue;
        yield {
          message: `it allows ${allowedText(allowing)} together with credentials`,
          evidence: [allowing.seq],
        };
      }
    },
  },
  "security/token-passed-on": {
    severity: "error",
    title: "The token of the user is sent to an address in an argument",
    why: "Whoever steers the agent, such as a page that it reads, names an address of his own and gets the token.",
    fix: "Send the token of the user nowhere; what the server needs elsewhere needs a token of its own.",
    bad: `→ { "url": "http://example.com/" }   (GET http://example.com/ with Authorization: Bearer …)`,
    good: `→ { "url": "http://example.com/" }   (GET http://example.com/ without it)`,
    source: "MCP 2025-11-25, security best practices: token passthrough",
    weakness: { owasp: "MCP01", cwe: 441 },
    *find({ probes }) {
      for (const { call, exchanges, events } of probes) {
        const sent = eventsOf(events, "endpoint.requested").find(({ hasToken }) => hasToken);
        const [asked] = exchangesOf(exchanges, "tools/call");
        if (call?.attack === undefined || sent === undefined || asked === undefined) continue;
        yield {
          place: { tool: call.tool, parameter: call.attack.parameter },
          message: "the request that it sent to the address has the token that the server was declared with",
          evidence: [asked.request.seq, sent.seq],
        } satisfies Found;
      }
    },
  },
} as const satisfies RuleTable;

/** The first request of a probe that was answered as one with credentials is, with `how` it was sent; undefined: none. */
function answeredIn(probes: readonly ProbeView[], name: ProbeName, how: string): Found | undefined {
  const of = (probe: ProbeName, method: string): Exchange | undefined =>
    probes.filter((each) => each.probe === probe).flatMap((each) => exchangesOf(each.exchanges, method))[0];
  const [list, call] = [of(name, "tools/list"), of(name, "tools/call")];
  if (list?.answer !== undefined && resultOf(list) !== undefined)
    return { message: `tools/list got a result${how}`, evidence: [list.request.seq, list.answer.seq] };
  const said = saidBy(call);
  return call?.answer === undefined || said !== saidBy(of("sessions", "tools/call"))
    ? undefined
    : {
        message: `tools/call was answered as usual${how}`,
        evidence: [call.request.seq, call.answer.seq],
      };
}

/** What the answer to a request says. */
function saidBy(exchange: Exchange | undefined): string | undefined {
  const { message } = exchange?.answer ?? {};
  return message && JSON.stringify([message["result"], message["error"]]);
}

type Preflight = EventOf<"http.preflight">;

/** The answer in which a browser finds that a page of another website may send JSON; undefined: there is none. */
function preflightIn({ events }: Pick<CheckView, "events">): Preflight | undefined {
  return eventsOf(events, "http.preflight").find(
    ({ status, origin, allowOrigin, allowHeaders = "" }) =>
      status >= 200 &&
      status < 300 &&
      (allowOrigin === "*" || allowOrigin === origin) &&
      /(?:^|[\s,])(?:\*|content-type)(?:$|[\s,])/i.test(allowHeaders),
  );
}

function allowedText({ allowOrigin }: Preflight): string {
  return allowOrigin === "*" ? "every website (*)" : "any website that asks";
}

/** Least bits that an id has to have which cannot be guessed. */
const leastBits = 64;

/** Why the ids of sessions, in the order in which they were given, can be guessed; undefined: nothing shows that they can. */
export function guessableBy(ids: readonly string[]): string | undefined {
  // In the place of one that looks like a key a record has a mark.
  if (ids.length < comparedSessions || ids.some((id) => secretMark.test(id))) return undefined;
  if (new Set(ids).size < ids.length) return `of ${ids.length} sessions some have the same id`;
  const length = Math.max(...ids.map((id) => id.length));
  const differing = Array.from({ length }, (_, at) => new Set(ids.map((id) => id[at] ?? ""))).filter(
    ({ size }) => size > 1,
  );
  const letters = differing.flatMap((each) => [...each]).join("");
  // More than any way to write an id can have.
  const bits = differing.length * Math.log2(lettersIn(letters));
  if (bits >= leastBits) return undefined;
  const numbers = ids.map((id) => Number(/\d+(?=\D*$)/.exec(id)?.[0] ?? Number.NaN));
  // Other clients may open some meanwhile.
  const isCounter = numbers.every((number, index) => index === 0 || number > (numbers[index - 1] ?? number));
  return isCounter
    ? `the ids of ${ids.length} sessions count up`
    : `what differs in the ids of ${ids.length} sessions has less than ${leastBits} bits`;
}

/** How many letters the alphabet has at least with which something is written. */
function lettersIn(letters: string): number {
  if (/^\d*$/.test(letters)) return 10;
  if (/^(?:[\da-f]*|[\dA-F]*)$/.test(letters)) return 16;
  if (/^(?:[\da-z]*|[\dA-Z]*)$/.test(letters)) return 36;
  return /^[\dA-Za-z]*$/.test(letters) ? 62 : 95;
}
