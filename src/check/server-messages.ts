import { asObject, isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { shortened } from "../base/visible-text.ts";
import { eventsOf } from "../model/event.ts";
import {
  type CheckView,
  exchangesOf,
  type Found,
  handshakesOf,
  listMethods,
  methodOf,
  resultOf,
  type RuleTable,
} from "./check-view.ts";

/** Rules about what a server sends by itself: requests and notifications. */
export const serverMessageRules = {
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
      yield* grouped(sentBy(view), ({ method, isRequest }) => {
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
      const own = ["experimental", "extensions"].map((name) => serverCapabilities(view)[name]);
      if (own.some((each) => isJsonObject(each) && Object.keys(each).length > 0)) return;
      yield* grouped(sentBy(view), ({ method, isRequest }) =>
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
      const declared = serverCapabilities(view);
      yield* grouped(sentBy(view), ({ method, isRequest }) => {
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
      yield* grouped(sentBy(view), ({ method, isRequest, params }) => {
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
      yield* grouped(sentBy(view), ({ method, isRequest, params, id }) => {
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
      yield* grouped(early, ({ method }) =>
        method === "ping" || method === "notifications/message"
          ? undefined
          : `it sent ${quoted(method)} before initialize was answered`,
      );
    },
  },
  "protocol/invalid-cursor": {
    severity: "error",
    title: "The cursor of the next page is not a text",
    why: "Clients that check lists against the schema of MCP, as those of the official SDKs do, lose the whole list.",
    fix: "Leave nextCursor out on the last page.",
    bad: `← { "tools": [ … ], "nextCursor": null }`,
    good: `← { "tools": [ … ] }`,
    source: "MCP 2025-11-25, schema: PaginatedResult.nextCursor",
    *find({ exchanges }) {
      const wrong = exchangesOf(exchanges, ...listMethods).flatMap((page) => {
        const cursor = resultOf(page)?.["nextCursor"];
        if (cursor === undefined || typeof cursor === "string") return [];
        const problem = `${methodOf(page)} gives the nextCursor ${shortened(JSON.stringify(cursor), 60)}`;
        return [{ problem, seq: page.answer?.seq ?? page.request.seq }];
      });
      yield* oncePerProblem(wrong);
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

/** One finding for each message that `problemOf` gives, since a server often repeats itself. */
function* grouped(
  sent: readonly SentByServer[],
  problemOf: (message: SentByServer) => string | undefined,
): Iterable<Found> {
  yield* oncePerProblem(
    sent.flatMap((message) => {
      const problem = problemOf(message);
      return problem === undefined ? [] : [{ problem, seq: message.seq }];
    }),
  );
}

function* oncePerProblem(
  found: readonly { readonly problem: string; readonly seq: number }[],
): Iterable<Found> {
  for (const [problem, same] of Map.groupBy(found, (each) => each.problem))
    yield { message: problem, evidence: same.slice(0, maxEvidence).map(({ seq }) => seq) };
}

/** Events that one finding names at most. */
const maxEvidence = 10;

/** What the client of the check declares. */
function clientCapabilities({ probes }: CheckView): JsonObject {
  const params = probes.flatMap(handshakesOf)[0]?.params ?? {};
  return isJsonObject(params["capabilities"]) ? params["capabilities"] : {};
}

function serverCapabilities({ probes }: CheckView): JsonObject {
  const hello = probes
    .flatMap(handshakesOf)
    .map(resultOf)
    .find((result) => result !== undefined);
  const capabilities = hello?.["capabilities"];
  return isJsonObject(capabilities) ? capabilities : {};
}

/** A token or id, so that 1 and "1" differ; undefined: it is none. */
function keyOf(value: unknown): string | undefined {
  return typeof value === "string" || typeof value === "number" ? JSON.stringify(value) : undefined;
}

function quoted(text: string): string {
  return JSON.stringify(shortened(text, 60));
}
