import { asObject, isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { shortened } from "../base/visible-text.ts";
import { type EventOf, eventsOf, type TraceEvent } from "../model/event.ts";
import {
  breakIn,
  type CheckView,
  declaredCapabilities,
  handshakesOf,
  oncePerProblem,
  type RuleTable,
} from "./check-view.ts";
import { placeOf } from "./touched.ts";

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

/** Rules about what a server sends: its output, its messages, and those that it sends by itself. */
export const serverMessageRules = {
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
      const problemOf = ({ seq, message, malformed }: EventOf<"mcp.message">): string | undefined => {
        const { id, method, result, error } = asObject(message);
        if (malformed !== undefined || method !== undefined) return malformed;
        if (result !== undefined && error !== undefined) return "it has both a result and an error";
        // An answer to text that was not a message has the id null (JSON-RPC 2.0, 5.1).
        if (answers.has(seq) || id === null || id === undefined) return undefined;
        return typeof id === "string" && numbers.has(Number(id))
          ? "an answer has its request's id as a text, and not as the number that was sent"
          : "an answer has an id that no request waits for";
      };
      const received = eventsOf(events, "mcp.message").filter(
        ({ direction, message }) => direction === "server-to-client" && isJsonObject(message),
      );
      // One faulty line of a program shows in many messages. Ids and counts, which no two sessions share, are in the evidence.
      yield* oncePerProblem(received, problemOf);
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
        yield { ...placeOf(probe), message, evidence: [probe.started, probe.finished] };
      }
    },
  },
  "protocol/unsupported-request": {
    severity: "error",
    title: "The server asks the client for something that the client does not offer",
    why: "The client answers with an error or not at all, and what the server wanted to do fails.",
    fix: "Ask only clients that declared the capability in initialize, and go on without it otherwise.",
    bad: `→ initialize { "capabilities": {} }   ← sampling/createMessage`,
    good: `→ initialize { "capabilities": { "sampling": {} } }   ← sampling/createMessage`,
    source: "MCP 2025-11-25, lifecycle: both parties must only use capabilities that were negotiated",
    *find(view) {
      const offered = clientCapabilities(view);
      yield* oncePerProblem(sentBy(view), ({ method, isRequest }) => {
        const capability = requests[method];
        if (!isRequest || capability === undefined || capability === "" || offered[capability] !== undefined)
          return undefined;
        return `it sent ${method}, and the client does not declare ${capability}`;
      });
    },
  },
  "protocol/unknown-message": {
    severity: "warning",
    title: "The server sends a message that MCP does not have",
    why: "Clients refuse unknown requests and drop unknown notifications.",
    fix: "Use the methods of MCP, or declare your own under experimental or extensions in capabilities.",
    bad: `← { "method": "notifications/tool_changed" }`,
    good: `← { "method": "notifications/tools/list_changed" }`,
    source: "MCP 2025-11-25, schema: ServerRequest, ServerNotification",
    *find(view) {
      const { experimental, extensions } = declaredCapabilities(view.probes) ?? {};
      if ([experimental, extensions].some((each) => isJsonObject(each) && Object.keys(each).length > 0))
        return;
      yield* oncePerProblem(sentBy(view), ({ method, isRequest }) =>
        (isRequest ? requests[method] : notifications[method]) === undefined
          ? `MCP has no ${isRequest ? "request" : "notification"} ${quoted(method)} of servers`
          : undefined,
      );
    },
  },
  "protocol/undeclared-notification": {
    severity: "warning",
    title: "A notification belongs to a capability that the server does not declare",
    why: "Clients that go by the capabilities ignore it, and keep what they have.",
    fix: "Declare the capability that the message names, or do not send the notification.",
    bad: `capabilities: { tools: {} }   ← notifications/tools/list_changed`,
    good: `capabilities: { tools: { listChanged: true } }   ← notifications/tools/list_changed`,
    source:
      "MCP 2025-11-25, tools, resources, prompts, logging: capabilities; servers that emit log messages must declare logging",
    *find(view) {
      const declared = declaredCapabilities(view.probes) ?? {};
      yield* oncePerProblem(sentBy(view), ({ method, isRequest }) => {
        const [capability = "", flag] = (notifications[method] ?? "").split(".");
        if (isRequest || capability === "") return undefined;
        const value = declared[capability];
        if (value !== undefined && (flag === undefined || asObject(value)[flag] === true)) return undefined;
        return `it sent ${method}, and capabilities lacks ${flag === undefined ? capability : `${capability}.${flag}: true`}`;
      });
    },
  },
  "protocol/progress": {
    severity: "warning",
    title: "A progress notification has an unknown token, or a value that falls",
    why: "Clients cannot tell which request it is about, or show a bar that jumps back.",
    fix: "Send progress only with the progressToken of a request that has one, and with values that rise.",
    bad: `→ tools/call { "_meta": { "progressToken": 7 } }   ← notifications/progress { "progressToken": "job-1", "progress": 5 }`,
    good: `→ tools/call { "_meta": { "progressToken": 7 } }   ← notifications/progress { "progressToken": 7, "progress": 5 }`,
    source: "MCP 2025-11-25, progress: tokens must belong to an active request, and values must increase",
    *find(view) {
      const known = new Set(
        view.exchanges.map(({ params }) => keyOf(asObject(params["_meta"])["progressToken"])),
      );
      const last = new Map<string, number>();
      yield* oncePerProblem(sentBy(view), ({ method, isRequest, params }) => {
        if (isRequest || method !== "notifications/progress") return undefined;
        const token = keyOf(params["progressToken"]);
        if (token === undefined || !known.has(token)) return "no request has its progressToken";
        const { progress } = params;
        if (typeof progress !== "number") return "its progress is not a number";
        const before = last.get(token) ?? -Infinity;
        last.set(token, progress);
        return progress < before ? "its progress is less than that of the notification before" : undefined;
      });
    },
  },
  "protocol/cancelled": {
    severity: "warning",
    title: "The server cancels a request that it never sent",
    why: "Clients cannot tell what is meant; only who sent a request can cancel it.",
    fix: "Send notifications/cancelled only with the id of a request of the server itself. A call that fails is answered with an error.",
    bad: `→ { "id": 7, "method": "tools/call", … }   ← notifications/cancelled { "requestId": 7 }`,
    good: `← { "id": 1, "method": "roots/list" }   ← notifications/cancelled { "requestId": 1 }`,
    source: "MCP 2025-11-25, cancellation: only requests that were issued in the same direction",
    *find(view) {
      const sent = new Set<string | undefined>();
      yield* oncePerProblem(sentBy(view), ({ method, isRequest, params, id }) => {
        if (isRequest) sent.add(keyOf(id));
        if (isRequest || method !== "notifications/cancelled" || sent.has(keyOf(params["requestId"])))
          return undefined;
        return "it sent notifications/cancelled, and the server sent no request with this id";
      });
    },
  },
  "protocol/early-message": {
    severity: "warning",
    title: "The server sends messages before the handshake",
    why: "The client does not know yet which version and capabilities hold, and drops the message or ends the connection.",
    fix: "Before initialize is answered, send nothing but ping and log messages.",
    bad: `→ initialize   ← notifications/tools/list_changed   ← { "result": { "protocolVersion": … } }`,
    good: `→ initialize   ← { "result": { "protocolVersion": … } }   → notifications/initialized   ← notifications/tools/list_changed`,
    source:
      "MCP 2025-11-25, lifecycle: before initialized, servers should send no requests but ping and logging",
    *find(view) {
      // In later probes an earlier session may still end.
      const [probe] = view.probes;
      const answer = probe === undefined ? undefined : handshakesOf(probe)[0]?.answer;
      if (probe === undefined || answer === undefined) return;
      const early = sentBy(view).filter(({ seq }) => seq > probe.started && seq < answer.seq);
      yield* oncePerProblem(early, ({ method }) =>
        method === "ping" || method === "notifications/message"
          ? undefined
          : `it sent ${quoted(method)} before initialize was answered`,
      );
    },
  },
} as const satisfies RuleTable;

/** Requests of servers, and the capability of the client that each needs; empty: none. */
const requests: Readonly<Record<string, string>> = {
  ping: "",
  "sampling/createMessage": "sampling",
  "elicitation/create": "elicitation",
  "roots/list": "roots",
  "tasks/get": "tasks",
  "tasks/result": "tasks",
  "tasks/list": "tasks",
  "tasks/cancel": "tasks",
};

/** Notifications of servers, and the capability of the server, with its flag, that each needs; empty: none. */
const notifications: Readonly<Record<string, string>> = {
  "notifications/cancelled": "",
  "notifications/progress": "",
  "notifications/message": "logging",
  "notifications/resources/updated": "resources.subscribe",
  "notifications/resources/list_changed": "resources.listChanged",
  "notifications/tools/list_changed": "tools.listChanged",
  "notifications/prompts/list_changed": "prompts.listChanged",
  "notifications/elicitation/complete": "",
  "notifications/tasks/status": "",
  "notifications/subscriptions/acknowledged": "",
};

/** A message that the server sent by itself. */
interface SentByServer {
  readonly method: string;
  readonly isRequest: boolean;
  readonly id: Json | undefined;
  readonly params: JsonObject;
  readonly seq: number;
}

function sentBy({ events }: CheckView): readonly SentByServer[] {
  return eventsOf(events, "mcp.message").flatMap(({ direction, message, seq }) => {
    if (direction !== "server-to-client" || !isJsonObject(message)) return [];
    const { method, id, params } = message;
    if (typeof method !== "string") return [];
    return [{ method, isRequest: id !== undefined, id, params: isJsonObject(params) ? params : {}, seq }];
  });
}

/** What the client of the check declares. */
function clientCapabilities({ probes }: CheckView): JsonObject {
  const params = probes.flatMap(handshakesOf)[0]?.params ?? {};
  return isJsonObject(params["capabilities"]) ? params["capabilities"] : {};
}

/** A token or id, so that 1 and "1" differ; undefined: it is none. */
function keyOf(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? JSON.stringify(value) : undefined;
}

function quoted(text: string): string {
  return JSON.stringify(shortened(text, 60));
}
