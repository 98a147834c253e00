import { errorCodes } from "../model/error-codes.ts";
import type { ProbeName, Probes } from "../model/check.ts";
import { eventsOf } from "../model/event.ts";
import { legacyVersions } from "../model/mcp-versions.ts";
import type { Exchange } from "../trace/trajectory.ts";
import {
  about,
  answerText,
  breakIn,
  type CheckView,
  declaredCapabilities,
  endText,
  errorOf,
  exchangesOf,
  fixOfLoss,
  handshakesOf,
  isModern,
  listKeys,
  listMethods,
  methodOf,
  type ProbeView,
  resultOf,
  type RuleTable,
  statusOf,
} from "./check-view.ts";
import { isAnswer, type ProbeClient, type Prober } from "./prober.ts";

/** Lists that a server may or may not declare. */
const lists = ["tools/list", "resources/list", "prompts/list"];
/** Requests that are sent before the first of them is answered. */
const concurrentRequests = 10;

type RequestName = Exclude<Probes["requests"], "handshake">;

interface RequestProbe {
  /** The capability that the server has to declare; absent: none. */
  readonly capability?: string;
  /** Whether it is tried only at an address, with a client of its own. */
  readonly isOfAddress?: true;
  readonly send: (client: ProbeClient) => Promise<unknown>;
}

/** What is tried, in this order; after each a ping shows whether the server goes on. */
const requestProbes: Readonly<Record<RequestName, RequestProbe>> = {
  ping: { send: (client) => client.request("ping") },
  lists: {
    async send(client) {
      for (const method of lists) await client.request(method);
    },
  },
  "unknown-method": { send: (client) => client.request("mcpvals/no-such-method") },
  "unknown-tool": {
    send: (client) => client.request("tools/call", { name: "mcpvals-no-such-tool", arguments: {} }),
  },
  "missing-params": { send: (client) => client.request("tools/call", {}) },
  "unknown-notification": {
    send: (client) => client.notify("notifications/mcpvals-no-such-notification"),
  },
  cancellation: {
    send: (client) =>
      client.notify("notifications/cancelled", { requestId: 987_654, reason: "no such request" }),
  },
  concurrent: {
    async send(client) {
      const started = await Promise.all(
        Array.from({ length: concurrentRequests }, () => client.start("ping")),
      );
      await Promise.all(started.map(({ answer }) => answer));
    },
  },
  "malformed-json": { send: (client) => client.sendText('{"jsonrpc":"2.0","id":1,"method":') },
  "not-json-rpc": { send: (client) => client.sendText('{"hello":"world"}') },
  logging: {
    capability: "logging",
    send: (client) => client.request("logging/setLevel", { level: "error" }),
  },
  completions: {
    capability: "completions",
    send: (client) =>
      client.request("completion/complete", {
        ref: { type: "ref/prompt", name: "mcpvals-no-such-prompt" },
        argument: { name: "any", value: "" },
      }),
  },
  "unknown-session": {
    isOfAddress: true,
    send(client) {
      const headers = {
        "mcp-session-id": "mcpvals-no-such-session",
        "mcp-protocol-version": legacyVersions[0],
      };
      return client.request("tools/list", undefined, { headers });
    },
  },
  "foreign-origin": {
    isOfAddress: true,
    send: (client) => client.connect(legacyVersions[0], { headers: { origin: "http://mcpvals.invalid" } }),
  },
};

/** Sends requests that every server has to withstand; after a loss the server is started again. */
export async function probeRequests(prober: Prober): Promise<void> {
  let session = await prober.probe("handshake", () => prober.connect());
  for (const [name, { capability, isOfAddress, send }] of Object.entries(requestProbes) as [
    RequestName,
    RequestProbe,
  ][]) {
    if (session === undefined) return;
    const { client, server, capabilities } = session;
    if (isOfAddress === true) {
      if (server.transport === "shttp") await prober.probe(name, () => send(server.open()));
      continue;
    }
    if (capability !== undefined && capabilities[capability] === undefined) continue;
    const survived = await prober.probe(name, async () => {
      await send(client);
      return name === "ping" || isAnswer(await client.request("ping"));
    });
    if (survived === true && !client.isLost) continue;
    // A server that ends by itself would do so in all of them.
    if (name === "ping" && client.isLost) return;
    await server.stop();
    session = await prober.probe("handshake", () => prober.connect());
  }
}

/** Rules about requests that every server has to withstand. */
export const requestRules = {
  "protocol/unserved-capability": {
    severity: "warning",
    title: "A declared capability is not served",
    why: "Clients rely on it: VS Code and the MCP Inspector set the level of logging when a session begins, and show an error.",
    fix: "Answer the request, or do not declare the capability.",
    bad: `capabilities: { logging: {} }   → logging/setLevel   ← { "error": { "code": -32601, … } }`,
    good: `capabilities: { logging: {} }   → logging/setLevel   ← { "result": {} }`,
    source:
      "MCP 2025-11-25, lifecycle: capability negotiation; modelcontextprotocol/inspector#706, open-metadata/OpenMetadata#26152",
    *find({ probes }) {
      // Since 2026-07-28 there is no logging/setLevel.
      if (isModern(probes)) return;
      for (const probe of probes) {
        const [exchange] = probe.exchanges;
        if ((probe.probe !== "logging" && probe.probe !== "completions") || exchange === undefined) continue;
        if (errorOf(exchange)?.["code"] !== errorCodes.methodNotFound) continue;
        yield about(exchange, probe, `${methodOf(exchange)} got ${answerText(exchange, probe)}`);
      }
    },
  },
  "protocol/undeclared-list": {
    severity: "warning",
    title: "A list is served that no capability declares",
    why: "Clients do not ask for it, so nobody sees what it has.",
    fix: "Declare the capability.",
    bad: `capabilities: {}   → prompts/list   ← { "prompts": [{ "name": "summary" }] }`,
    good: `capabilities: { prompts: {} }`,
    source: "MCP 2025-11-25, lifecycle: capability negotiation",
    *find({ probes }) {
      for (const probe of probes)
        for (const exchange of probe.probe === "lists" ? exchangesOf(probe.exchanges, ...listMethods) : []) {
          const method = methodOf(exchange);
          const items = resultOf(exchange)?.[listKeys[method] ?? ""];
          if (isDeclaredList(exchange, probes)) continue;
          if (!Array.isArray(items) || items.length === 0) continue;
          const message = `${method} gives ${items.length} ${items.length === 1 ? "item" : "items"}, and capabilities lacks ${method.split("/")[0]}`;
          yield about(exchange, probe, message);
        }
    },
  },
  "protocol/ping": {
    severity: "error",
    title: "A ping is not answered",
    why: "Clients ping to find out whether the server still runs, and end the connection otherwise.",
    fix: "Answer ping with an empty result.",
    bad: `→ ping   ← { "error": { "code": -32601, … } }`,
    good: `→ ping   ← { "result": {} }`,
    source: "MCP 2025-11-25, ping",
    *find({ probes }) {
      for (const probe of probes) {
        const [exchange] = exchangesOf(probe.exchanges, "ping");
        if (probe.probe !== "ping" || exchange === undefined || resultOf(exchange) !== undefined) continue;
        // Since 2026-07-28 there is no ping.
        if (isModern(probes) && errorOf(exchange) !== undefined) continue;
        yield { ...about(exchange, probe, `ping got ${answerText(exchange, probe)}`), ...fixOfLoss(probe) };
      }
    },
  },
  "protocol/unknown-method": {
    severity: "error",
    title: "An unknown method is not answered with an error",
    why: "Clients try optional methods, and take anything but an error as an answer.",
    fix: "Answer requests of unknown methods with the JSON-RPC error -32601 (method not found).",
    bad: `→ { "id": 1, "method": "no/such" }   ← { "id": 1, "result": {} }`,
    good: `→ { "id": 1, "method": "no/such" }   ← { "id": 1, "error": { "code": -32601, "message": "Method not found" } }`,
    source: "JSON-RPC 2.0, 5.1",
    *find({ probes }) {
      for (const probe of probes) {
        const [exchange] = probe.exchanges;
        if (probe.probe !== "unknown-method" || exchange === undefined || lostIn(probe)) continue;
        if (
          errorOf(exchange)?.["code"] === errorCodes.methodNotFound ||
          statusOf(exchange, probe.events) !== undefined
        )
          continue;
        const method = JSON.stringify(exchange.request.message["method"]);
        yield about(exchange, probe, `${method} got ${answerText(exchange, probe)}`);
      }
    },
  },
  "protocol/unknown-tool": {
    severity: "error",
    title: "A call of an unknown tool is not answered with an error",
    why: "An agent that misspells a name takes the answer for that of a tool.",
    fix: "Answer with the JSON-RPC error -32602, or with a result with isError: true.",
    bad: `→ tools/call { "name": "no-such" }   ← { "result": { "content": [] } }`,
    good: `→ tools/call { "name": "no-such" }   ← { "error": { "code": -32602, "message": "Unknown tool: no-such" } }`,
    source: "MCP 2025-11-25, tools: error handling",
    *find({ probes }) {
      for (const probe of probes) {
        const [exchange] = exchangesOf(probe.exchanges, "tools/call");
        if (probe.probe !== "unknown-tool" && probe.probe !== "missing-params") continue;
        if (exchange === undefined || lostIn(probe)) continue;
        if (isRefused(exchange, probe) || resultOf(exchange)?.["isError"] === true) continue;
        const what = probe.probe === "unknown-tool" ? "a call of an unknown tool" : "a call without a name";
        yield about(exchange, probe, `${what} got ${answerText(exchange, probe)}`);
      }
    },
  },
  "protocol/not-robust": {
    severity: "error",
    title: "A message ends or blocks the server",
    why: "One faulty message of a client takes the server away from everyone who uses it.",
    fix: "Answer what cannot be read or is not known with an error (-32700, -32600, -32601), ignore unknown notifications, and go on.",
    bad: `→ {"jsonrpc":"2.0","id":   (the process exits with code 1)`,
    good: `→ {"jsonrpc":"2.0","id":   ← { "id": null, "error": { "code": -32700, "message": "Parse error" } }`,
    source: "JSON-RPC 2.0, 5.1",
    *find({ probes }) {
      for (const probe of probes) {
        const tried = triedText[probe.probe];
        if (tried === undefined || breakIn(probe) !== undefined) continue;
        const ping = exchangesOf(probe.exchanges, "ping").at(-1);
        const isLost = lostIn(probe);
        // A declared list that is not given is reported by protocol/list-failed.
        if (probe.probe === "lists" && lacksDeclaredList(probe, probes)) continue;
        if (!isLost && (ping === undefined || ping.answer !== undefined || isRefused(ping, probe))) continue;
        const how = isLost ? lossText(probe) : "left the server without answers";
        yield { message: `${tried} ${how}`, evidence: [probe.started, probe.finished] };
      }
    },
  },
  "protocol/concurrent": {
    severity: "error",
    title: "Requests at the same time are not all answered",
    why: "Clients call several tools at once, and wait for each answer.",
    fix: "Answer each request with its own id, whatever came before or after it.",
    bad: `→ ping 1, ping 2   ← 1`,
    good: `→ ping 1, ping 2   ← 1, 2`,
    source: "JSON-RPC 2.0, 5",
    *find({ probes }) {
      for (const probe of probes) {
        const method = concurrentMethod[probe.probe];
        if (method === undefined || lostIn(probe)) continue;
        // The last ping is sent when the others are answered or given up.
        const requests = exchangesOf(probe.exchanges, method).slice(0, method === "ping" ? -1 : undefined);
        const unanswered = requests.filter((each) => each.answer === undefined && !isRefused(each, probe));
        if (unanswered.length === 0) continue;
        const message = `${unanswered.length} of ${requests.length} requests got no answer (${method})`;
        yield { message, evidence: unanswered.map(({ request }) => request.seq) };
      }
    },
  },
  "protocol/session": {
    severity: "warning",
    title: "An unknown session is not answered with HTTP 404",
    why: "404 tells clients to begin a new session; after any other answer they go on with the dead one until a person reconnects.",
    fix: "Answer requests with an Mcp-Session-Id that does not exist (any more) with HTTP 404.",
    bad: `→ Mcp-Session-Id: gone   ← HTTP 400`,
    good: `→ Mcp-Session-Id: gone   ← HTTP 404`,
    source: "MCP 2025-11-25, transports: session management; DAWNCR0W/affine-mcp-server#301",
    *find({ probes }) {
      for (const probe of probes) {
        const [exchange] = probe.exchanges;
        if (probe.probe !== "unknown-session" || exchange === undefined) continue;
        const status = statusOf(exchange, probe.events);
        // Servers without sessions ignore the header.
        if (status === undefined || status === 404) continue;
        yield about(exchange, probe, `it got HTTP ${status}`);
      }
    },
  },
  "protocol/origin": {
    severity: "warning",
    title: "A request from a foreign website is accepted",
    why: "Any website that the user visits can reach a server on the user's machine (DNS rebinding) and use its tools.",
    fix: "Answer with HTTP 403 when the Origin header is there and is not one that you expect.",
    bad: `→ Origin: http://example.com   ← HTTP 200`,
    good: `→ Origin: http://example.com   ← HTTP 403`,
    source: "MCP 2025-11-25, transports: security warning; modelcontextprotocol/typescript-sdk#1205",
    *find({ probes, events }) {
      if (!eventsOf(events, "server.started").some(({ target }) => loopback.test(target))) return;
      for (const probe of probes) {
        const exchange = handshakesOf(probe).at(-1);
        if (probe.probe !== "foreign-origin" || exchange === undefined || resultOf(exchange) === undefined)
          continue;
        yield about(exchange, probe, "a session was opened for another origin");
      }
    },
  },
} as const satisfies RuleTable;

/** Addresses of this machine. */
export const loopback: RegExp = /^https?:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::|\/|$)/;

/** What the probes of several requests at the same time send. */
const concurrentMethod: Readonly<Partial<Record<ProbeName, string>>> = {
  concurrent: "ping",
  "concurrent-calls": "tools/call",
};

/** What each probe of requests sends, as the subject of a sentence. */
const triedText: Readonly<Partial<Record<ProbeName, string>>> = {
  lists: "a request for a list",
  logging: "logging/setLevel",
  completions: "completion/complete",
  "unknown-method": "an unknown method",
  "unknown-tool": "a call of an unknown tool",
  "missing-params": "a call without a name",
  "unknown-notification": "an unknown notification",
  cancellation: "the cancellation of an unknown request",
  concurrent: "requests at the same time",
  "malformed-json": "text that is not JSON",
  "not-json-rpc": "JSON that is not JSON-RPC message",
  "cancelled-call": "the cancellation of a call",
  "concurrent-calls": "calls at the same time",
};

/** Whether the server was gone when the probe ended. */
function lostIn({ events }: ProbeView): boolean {
  return eventsOf(events, "probe.finished").some(({ outcome }) => outcome === "lost");
}

function lossText({ events }: ProbeView): string {
  const [exited] = eventsOf(events, "server.exited");
  if (exited === undefined) return "ended the connection";
  return `ended the server (${endText(exited)})`;
}

/** Whether a request got a JSON-RPC error or an HTTP error. */
function isRefused(exchange: Exchange, { events }: ProbeView): boolean {
  return errorOf(exchange) !== undefined || statusOf(exchange, events) !== undefined;
}

/** Whether a list is declared, or nothing is known of what is. */
function isDeclaredList(list: Exchange, probes: CheckView["probes"]): boolean {
  const declared = declaredCapabilities(probes);
  return declared === undefined || declared[methodOf(list).split("/")[0] ?? ""] !== undefined;
}

/** Whether the first list without an answer is declared. */
function lacksDeclaredList({ exchanges }: ProbeView, probes: CheckView["probes"]): boolean {
  const list = exchangesOf(exchanges, ...listMethods).find(({ answer }) => answer === undefined);
  return list !== undefined && isDeclaredList(list, probes);
}
