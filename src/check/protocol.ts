import { listNames } from "../base/did-you-mean.ts";
import { isJsonObject, type JsonObject } from "../base/json.ts";
import { shortened } from "../base/visible-text.ts";
import type { ProbeName } from "../model/check.ts";
import { type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import type { Exchange } from "../trace/trajectory.ts";
import {
  breakIn,
  type CheckView,
  errorOf,
  errorText,
  exchangesOf,
  exitText,
  type Found,
  givesList,
  handshakesOf,
  itemsOf,
  listKeys,
  listMethods,
  methodOf,
  type ProbeView,
  resultOf,
  type RuleTable,
  statusOf,
} from "./check-view.ts";
import { problemsIn } from "./schema-walk.ts";

const ofHandshake: readonly unknown[] = ["initialize", "server/discover", "notifications/initialized"];

/** The events without those from each start of the server to the first message that is not a part of the handshake. */
function afterStart(events: readonly TraceEvent[]): readonly TraceEvent[] {
  let isStarting = false;
  return events.filter((event) => {
    if (event.type === "server.started") isStarting = true;
    if (event.type === "mcp.message" && event.direction === "client-to-server")
      isStarting &&= isJsonObject(event.message) && ofHandshake.includes(event.message["method"]);
    return !isStarting;
  });
}

/** Rules about the protocol: handshake, requests, lists, shutdown. */
export const protocolRules = {
  "protocol/no-session": {
    severity: "error",
    title: "No session can be opened",
    why: "No client can use the server.",
    fix: "Answer initialize with protocolVersion, capabilities and serverInfo, and go on running.",
    bad: `→ initialize   (the process exits with code 1)`,
    good: `→ initialize   ← { "result": { "protocolVersion": "2025-11-25", "capabilities": { … }, "serverInfo": { … } } }`,
    source: "MCP 2025-11-25, lifecycle: initialization",
    *find({ probes }) {
      for (const probe of probes) {
        const exchange = handshakesOf(probe).at(-1);
        if (exchange === undefined || resultOf(exchange) !== undefined) continue;
        // These are reported by other rules.
        if (probe.probe === "foreign-origin" || probe.probe === "second-start") continue;
        if (breakIn(probe) !== undefined) continue;
        // A refusal may be right: it depends on the version that was asked for.
        if (probe.probe === "initialize" && (errorOf(exchange) !== undefined || hasSession(probes))) continue;
        // What ended a server that is not started again is reported by another rule.
        const [finished] = eventsOf(probe.events, "probe.finished");
        if (probe !== probes[0] && finished?.error?.code === "server/unreachable") continue;
        const method = methodOf(exchange);
        yield {
          ...about(exchange, probe, `${method} got ${answerText(exchange, probe)}`),
          ...(isSilent(exchange, probe)
            ? {
                fix: "Answer initialize. A program that serves several transports may need an argument for stdio, such as --stdio; one that serves over HTTP is checked by its URL.",
              }
            : fixOfLoss(probe)),
        };
      }
    },
  },
  "protocol/version": {
    severity: "error",
    title: "The handshake ends with a version of MCP that does not exist",
    why: "Clients close the connection when they do not know the version.",
    fix: "Answer with the version that was asked for when the server supports it, else with the newest that it supports.",
    bad: `→ initialize { "protocolVersion": "1999-01-01" }   ← { "protocolVersion": "1999-01-01" }`,
    good: `→ initialize { "protocolVersion": "1999-01-01" }   ← { "protocolVersion": "2025-11-25" }`,
    source: "MCP 2025-11-25, lifecycle: version negotiation",
    *find({ probes }) {
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, "initialize")) {
          const result = resultOf(exchange);
          const asked = exchange.params["protocolVersion"];
          if (result === undefined || probe.probe !== "initialize") continue;
          const given = result["protocolVersion"];
          if (typeof given === "string" && knownVersions.includes(given)) continue;
          const message = `asked for ${JSON.stringify(asked)}, it chose ${shortened(JSON.stringify(given ?? null), 60)}, which does not exist`;
          yield about(exchange, probe, message);
        }
    },
  },
  "protocol/invalid-initialize": {
    severity: "error",
    title: "The answer to initialize is not valid",
    why: "Clients that check it, as those of the official SDKs do, end the connection: to their users the server does not work.",
    fix: "Give the member that the message names, of the type that it says.",
    bad: `← { "protocolVersion": "2025-11-25", "capabilities": [], "serverInfo": "notes" }`,
    good: `← { "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "notes", "version": "1.2.0" } }`,
    source: "MCP 2025-11-25, schema: InitializeResult",
    async *find({ probes, spec }, { validateSchema }) {
      if (spec.kind !== "handshake") return;
      const seen = new Set<string>();
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, "initialize")) {
          const result = resultOf(exchange);
          const check = result && (await validateSchema(initializeResult, result));
          for (const problem of check?.status === "invalid" ? problemsIn(check.errors) : []) {
            const { pointer, message } = problem;
            // It is asked for several versions.
            if (seen.has(`${pointer} ${message}`)) continue;
            seen.add(`${pointer} ${message}`);
            yield { ...about(exchange, probe, message), place: { pointer } };
          }
        }
    },
  },
  "protocol/refused-version": {
    severity: "warning",
    title: "A version is refused instead of negotiated",
    why: "Older and newer clients cannot connect, though both may know a common version.",
    fix: "Answer initialize with the newest version that the server supports, in place of an error.",
    bad: `→ initialize { "protocolVersion": "2024-11-05" }   ← { "error": { "code": -32602, … } }`,
    good: `→ initialize { "protocolVersion": "2024-11-05" }   ← { "protocolVersion": "2025-11-25", … }`,
    source: "MCP 2025-11-25, lifecycle: version negotiation",
    *find({ probes }) {
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, "initialize")) {
          const error = errorOf(exchange);
          if (error === undefined || probe.probe !== "initialize") continue;
          // Since 2026-07-28 a server may have no initialize at all.
          if (error["code"] === -32_022 || isModern(probes)) continue;
          const asked = JSON.stringify(exchange.params["protocolVersion"]);
          yield about(exchange, probe, `${asked} got the error ${errorText(exchange)}`);
        }
    },
  },
  "protocol/slow-start": {
    severity: "warning",
    title: "The server takes long until it is ready",
    why: "Clients start servers whenever a session begins, and give up after 10 to 30 seconds.",
    fix: "Answer initialize first, and do slow work afterwards.",
    bad: `initialize is answered after 12 s`,
    good: `initialize is answered after 200 ms`,
    source: "openai/codex#11851, benborla/mcp-server-mysql#108",
    *find({ probes }) {
      for (const probe of probes) {
        const [exchange] = handshakesOf(probe);
        const [started] = probe.events;
        if (exchange?.answer === undefined || started === undefined) continue;
        const seconds = (exchange.answer.at - started.at) / 1000;
        if (seconds > maxSecondsToStart) yield about(exchange, probe, `ready after ${seconds.toFixed(1)} s`);
        return;
      }
    },
  },
  "protocol/stdout": {
    severity: "error",
    title: "stdout has something else than MCP messages",
    why: "Claude Desktop reports an error for each such line, and other clients end the connection.",
    fix: "Write logs to stderr.",
    bad: `print("server started")`,
    good: `print("server started", file=sys.stderr)`,
    source: "MCP 2025-11-25, transports: stdio; hustcc/mcp-mermaid#25, leonardsellem/n8n-mcp-server#65",
    *find({ events, spec }) {
      // What a server writes while it starts is a finding of one part.
      const judged = spec.kind === "handshake" ? events : afterStart(events);
      const [first] = eventsOf(judged, "server.invalid_output");
      if (first === undefined) return;
      yield { message: `a line is ${JSON.stringify(shortened(first.text, 80))}`, evidence: [first.seq] };
    },
  },
  "protocol/malformed-message": {
    severity: "error",
    title: "A message of the server is malformed, or answers nothing",
    why: "Clients drop it or end the connection, and whoever waits for the answer waits for ever.",
    fix: "Answer each request once, with its id, and with either result or error.",
    bad: `→ { "id": 1, … }   ← { "jsonrpc": "2.0", "id": 7, "result": {} }`,
    good: `→ { "id": 1, … }   ← { "jsonrpc": "2.0", "id": 1, "result": {} }`,
    source: "JSON-RPC 2.0, 5",
    *find({ events, exchanges }) {
      const answers = new Set(exchanges.flatMap(({ answer }) => answer?.seq ?? []));
      const numbers = new Set(exchanges.map(({ request }) => request.message["id"]).filter(Number.isFinite));
      const found: { readonly problem: string; readonly seq: number }[] = [];
      for (const event of eventsOf(events, "mcp.message")) {
        if (event.direction !== "server-to-client" || !isJsonObject(event.message)) continue;
        const { id, method, result, error } = event.message;
        const problem =
          event.malformed ??
          (method !== undefined
            ? undefined
            : result !== undefined && error !== undefined
              ? "it has both a result and an error"
              : // An answer to text that was not a message has the id null (JSON-RPC 2.0, 5.1).
                answers.has(event.seq) || id === null || id === undefined
                ? undefined
                : typeof id === "string" && numbers.has(Number(id))
                  ? "an answer has its request's id as a text, and not as the number that was sent"
                  : "an answer has an id that no request waits for");
        if (problem !== undefined) found.push({ problem, seq: event.seq });
      }
      // One faulty line of a program shows in many messages. Ids and counts, which no two sessions share, are in the evidence.
      for (const [message, same] of Map.groupBy(found, ({ problem }) => problem))
        yield { message, evidence: same.slice(0, maxEvidence).map(({ seq }) => seq) };
    },
  },
  "protocol/list-failed": {
    severity: "error",
    title: "A declared list is not given",
    why: "Clients call the list when a session begins, and leave the server out when it fails.",
    fix: "Serve the list, or do not declare the capability.",
    bad: `capabilities: { prompts: {} }   → prompts/list   ← { "error": { "code": -32601, … } }`,
    good: `capabilities: {}`,
    source: "MCP 2025-11-25, lifecycle: capability negotiation",
    *find({ probes, spec }) {
      if (spec.kind !== "definitions") return;
      for (const probe of probes)
        for (const exchange of exchangesOf(probe.exchanges, ...listMethods)) {
          if (breakIn(probe) !== undefined) continue;
          if (givesList(exchange)) continue;
          yield {
            ...about(exchange, probe, refusedListText(exchange, probe)),
            ...(resultOf(exchange) === undefined
              ? fixOfLoss(probe)
              : itemsOf(exchange) === undefined
                ? {}
                : { fix: "Give an object for each item of the list." }),
          };
        }
    },
  },
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
        if (errorOf(exchange)?.["code"] !== -32_601) continue;
        yield about(exchange, probe, `${methodOf(exchange)} got ${answerText(exchange, probe)}`);
      }
    },
  },
  "protocol/endless-list": {
    severity: "error",
    title: "The pages of a list do not end",
    why: "Clients read pages until there is none left.",
    fix: "Leave nextCursor out on the last page.",
    bad: `→ tools/list { "cursor": "a" }   ← { "tools": [], "nextCursor": "a" }`,
    good: `→ tools/list { "cursor": "a" }   ← { "tools": [] }`,
    source: "MCP 2025-11-25, pagination",
    *find({ probes, spec }) {
      if (spec.kind !== "definitions") return;
      for (const probe of probes)
        for (const [method, pages] of Map.groupBy(exchangesOf(probe.exchanges, ...listMethods), methodOf)) {
          const last = pages.at(-1);
          const cursor = last === undefined ? undefined : resultOf(last)?.["nextCursor"];
          if (last === undefined || typeof cursor !== "string") continue;
          const again = pages.some(({ params }) => params["cursor"] === cursor);
          const what = again
            ? `the cursor ${shortened(JSON.stringify(cursor), 60)} comes twice`
            : "there is always another";
          yield about(last, probe, `${method}: after ${pages.length} pages ${what}`);
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
        if (errorOf(exchange)?.["code"] === -32_601 || statusOf(exchange, probe.events) !== undefined)
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
        const [exited] = eventsOf(probe.events, "server.exited");
        const how = isLost
          ? exited === undefined
            ? "ended the connection"
            : `ended the server (${exited.exitCode === null ? exited.signal : `exit code ${exited.exitCode}`})`
          : "left the server without answers";
        yield {
          message: `${tried} ${how}`,
          evidence: [probe.started, probe.finished],
        };
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
  "protocol/shutdown": {
    severity: "warning",
    title: "The server goes on when its stdin is closed",
    why: "It stays behind when a client ends without a signal, and holds memory, ports and files.",
    fix: "Exit when stdin ends.",
    bad: `a timer or an open connection keeps the process alive`,
    good: `for line in sys.stdin: …   (and then the program ends)`,
    source: "MCP 2025-11-25, lifecycle: shutdown; microsoft/azure-devops-mcp#1598",
    *find({ probes }) {
      for (const stopped of stopsOf(probes))
        if (stopped.by === "SIGTERM" || stopped.by === "SIGKILL")
          yield { message: `it had to be ended with ${stopped.by}`, evidence: [stopped.seq] };
    },
  },
  "protocol/leftover-processes": {
    severity: "warning",
    title: "Processes of the server go on when it has ended",
    why: "They stay behind after every session, and hold memory, ports and files.",
    fix: "End the processes that the server started before it exits, or have them end with its stdin.",
    bad: `spawn("worker", { detached: true })`,
    good: `process.stdin.on("end", () => worker.kill())`,
    source: "MCP 2025-11-25, lifecycle: shutdown; abhigyanpatwari/GitNexus#1546",
    *find({ probes }) {
      for (const { survivors = 0, by, seq } of stopsOf(probes))
        if (survivors > 0 && by === "stdin")
          yield {
            message: `${survivors} of its processes went on, and had to be ended`,
            evidence: [seq],
          };
    },
  },
  "protocol/second-start": {
    severity: "warning",
    title: "The server cannot run twice at the same time",
    why: "Each window of a client starts the server once more; only the first gets one that works.",
    fix: "Do not hold a fixed port or lock, or go on without it when it is taken.",
    bad: `server.listen(3333)   (EADDRINUSE ends the second process)`,
    good: `server.listen(0)`,
    source: "boshyxd/robloxstudio-mcp#42, lgazo/drawio-mcp-server#59",
    *find({ probes }) {
      const probe = failedSecondStart(probes);
      const exchange = probe === undefined ? undefined : handshakesOf(probe).at(-1);
      if (probe === undefined || exchange === undefined) return;
      const got = `${methodOf(exchange)} got ${answerText(exchange, probe)}`;
      yield about(exchange, probe, `started while it ran, ${got}`);
    },
  },
  "protocol/broken-connection": {
    severity: "error",
    title: "The server breaks the connection",
    why: "Clients end the session there, and every request that waits is lost; the official SDK does at a message of 10 MiB.",
    fix: "Send smaller, flatter and fewer messages, and keep stdin and stdout open until the end.",
    bad: `← a message of 20 MB`,
    good: `← a page of 100 items, and nextCursor`,
    source:
      "MCP 2025-11-25, transports: stdio; modelcontextprotocol/typescript-sdk#2239, DeusData/codebase-memory-mcp#1375",
    *find({ probes }) {
      for (const probe of probes) {
        const message = breakIn(probe);
        if (message === undefined) continue;
        const place = probe.call === undefined ? {} : { tool: probe.call.tool };
        yield { place, message, evidence: [probe.started, probe.finished] };
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

/** The start of a server that already ran, if that gave no session. */
export function failedSecondStart(probes: CheckView["probes"]): ProbeView | undefined {
  const probe = probes.find((each) => each.probe === "second-start");
  const handshakes = probe === undefined ? [] : handshakesOf(probe);
  return handshakes.some((exchange) => resultOf(exchange) !== undefined) ? undefined : probe;
}

const text = { type: "string" };
const flag = { type: "boolean" };
/** A capability with flags. */
const withFlags = (...flags: readonly string[]): JsonObject => ({
  type: "object",
  properties: Object.fromEntries(flags.map((name) => [name, flag])),
});
/** What MCP 2025-11-25 says of the members of an InitializeResult, but for the version, which has a rule of its own. */
const initializeResult: JsonObject = {
  type: "object",
  properties: {
    capabilities: {
      type: "object",
      properties: {
        tools: withFlags("listChanged"),
        prompts: withFlags("listChanged"),
        resources: withFlags("listChanged", "subscribe"),
        logging: { type: "object" },
        completions: { type: "object" },
        experimental: { type: "object" },
      },
    },
    serverInfo: {
      type: "object",
      properties: { name: text, version: text, title: text },
      required: ["name", "version"],
    },
    instructions: text,
  },
  required: ["capabilities", "serverInfo"],
};

/** Events that one finding names at most. */
const maxEvidence = 10;

/** Published versions of MCP. */
const knownVersions = ["2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/** Codex' limit until March 2026, in seconds; most clients have 30. */
const maxSecondsToStart = 10;

/** Addresses of this machine. */
const loopback = /^https?:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::|\/|$)/;

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

/** What to do where a server ended by itself: what it was asked has little to do with it. */
function fixOfLoss(probe: ProbeView): { readonly fix?: string } {
  return eventsOf(probe.events, "server.exited").some(({ expected }) => !expected)
    ? {
        fix: "Find out why the server ended: the trace has what it wrote to stderr. It may lack an argument, an environment variable or a service.",
      }
    : {};
}

/** Whether a program runs and gives no answer, as one does that listens elsewhere. */
function isSilent({ answer }: Exchange, { events }: ProbeView): boolean {
  const [started] = eventsOf(events, "server.started");
  return (
    answer === undefined &&
    started?.transport === "stdio" &&
    eventsOf(events, "server.exited").every(({ expected }) => expected)
  );
}

/** Whether a request got a JSON-RPC error or an HTTP error. */
function isRefused(exchange: Exchange, { events }: ProbeView): boolean {
  return errorOf(exchange) !== undefined || statusOf(exchange, events) !== undefined;
}

function hasSession(probes: CheckView["probes"]): boolean {
  return probes.some((probe) => handshakesOf(probe).some((each) => resultOf(each) !== undefined));
}

function stopsOf(probes: CheckView["probes"]): readonly EventOf<"server.stopped">[] {
  return probes.flatMap(({ probe, events }) =>
    probe === "shutdown" ? eventsOf(events, "server.stopped") : [],
  );
}

function declaredCapabilities(probes: CheckView["probes"]): JsonObject | undefined {
  const hello = probes
    .flatMap(handshakesOf)
    .map(resultOf)
    .find((result) => result !== undefined);
  const capabilities = hello?.["capabilities"];
  return isJsonObject(capabilities) ? capabilities : undefined;
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

function isModern(probes: CheckView["probes"]): boolean {
  return probes.some(({ exchanges }) =>
    exchangesOf(exchanges, "server/discover").some((each) => resultOf(each)?.["supportedVersions"]),
  );
}

/** What came in place of a page of a list: `tools/list got no answer in time`. */
export function refusedListText(exchange: Exchange, probe: ProbeView): string {
  const method = methodOf(exchange);
  if (resultOf(exchange) === undefined) return `${method} got ${answerText(exchange, probe)}`;
  const key = listKeys[method];
  const odd = itemsOf(exchange)?.flatMap((item, index) => (isJsonObject(item) ? [] : [`${key}[${index}]`]));
  const what =
    odd === undefined
      ? `${key} is not a list`
      : `${listNames(odd)} ${odd.length === 1 ? "is not an object" : "are not objects"}`;
  return `${method} got a result in which ${what}`;
}

function answerText(exchange: Exchange, probe: ProbeView): string {
  if (errorOf(exchange) !== undefined) return `the error ${errorText(exchange)}`;
  if (exchange.answer !== undefined)
    return resultOf(exchange) === undefined ? "an answer without a result" : "a result";
  const status = statusOf(exchange, probe.events);
  const [{ error: failure } = {}] = eventsOf(probe.events, "probe.finished");
  const said = failure?.code === "server/http-status" ? (failure.detail ?? "").trim() : "";
  if (status !== undefined)
    return `no answer: HTTP ${status}${said === "" ? "" : `: ${JSON.stringify(shortened(said, 80))}`}`;
  const [exited] = eventsOf(probe.events, "server.exited");
  if (exited !== undefined && !exited.expected) return `no answer: ${exitText(exited, probe)}`;
  const [finished] = eventsOf(probe.events, "probe.finished");
  if (finished?.error !== undefined) return `no answer: ${finished.error.message}`;
  if (finished?.outcome === "lost") return "no answer: the connection ended";
  // A probe that got no session did nothing but wait for one.
  return finished !== undefined && handshakesOf(probe).at(-1) === exchange
    ? `no answer within ${Number((finished.durationMs / 1000).toFixed(1))} s`
    : "no answer in time";
}

/** What an exchange of a probe shows. */
function about({ request, answer }: Exchange, { finished }: ProbeView, message: string): Found {
  return { message, evidence: [request.seq, answer?.seq ?? finished] };
}
