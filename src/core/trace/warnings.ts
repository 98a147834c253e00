import { isJsonObject } from "../formats/json.ts";
import type { EventOf, TraceEvent } from "./events.ts";
import { solutionWarnings } from "./solution-warnings.ts";
import { stepWarnings } from "./step-warnings.ts";
import { serverEndWarnings } from "./server-end-warnings.ts";
import { turnWarnings } from "./turn-warnings.ts";

/**
 * What deserves a look but changes no verdict: a server that writes other things than MCP on stdout, or that answers
 * what it was not asked, be it with a wrong id or twice, or in malformed messages; one that did not end in order; a model that did not end a turn as it should; a call of a
 * task's own solution that failed; a step that failed and was allowed to, in a cleanup say; a verify step that was skipped;
 * a step of a tool test that passed only when it was tried again.
 */
export function warningsOf(events: readonly TraceEvent[]): string[] {
  const noise = new Tally();
  const unasked = new Tally();
  const malformed = new Tally();
  const denials = new Tally();
  const transports = new Map<string, string>();
  const open = new Set<string>();
  for (const event of events) {
    if (event.type === "server.invalid_output") noise.add(event.server, event.text.slice(0, shownText));
    if (event.type === "server.started") transports.set(event.server, event.transport);
    if (event.type === "http.response" && transports.get(event.server) === "shttp" && deniesAnswer(event))
      denials.add(event.server, `HTTP ${event.status}`);
    if (event.type === "mcp.message") readMessage(event, open, unasked);
    if (event.type === "mcp.message" && event.malformed !== undefined)
      malformed.add(event.server, event.malformed);
  }
  return [
    ...noise.map(
      (server, count, first) =>
        `server "${server}" wrote ${count === 1 ? "a line" : `${count} lines`} on stdout that ${count === 1 ? "is" : "are"} not MCP, first ${JSON.stringify(first)}${logsOnStderr}`,
    ),
    ...unasked.map(
      (server, count, first) =>
        `server "${server}" gave ${count === 1 ? "an answer" : `${count} answers`} that no request was waiting for, ${count === 1 ? "" : "first "}with ${first}`,
    ),
    ...malformed.map(
      (server, count, first) =>
        `server "${server}" sent ${count === 1 ? "a malformed message" : `${count} malformed messages, first`}: ${first}; other clients may read it in another way or not at all`,
    ),
    ...denials.map(
      (server, count, first) =>
        `server "${server}" responded to ${count === 1 ? "a request" : `${count} requests`} with ${first}, as if there were nothing to answer`,
    ),
    ...serverEndWarnings(events),
    ...turnWarnings(events),
    ...solutionWarnings(events),
    ...stepWarnings(events),
  ];
}

/** Statuses for what has no answer; over Streamable HTTP the answer to a request comes in its response. */
function deniesAnswer({ method, status, requestIds }: EventOf<"http.response">): boolean {
  return method === "POST" && (status === 202 || status === 204) && requestIds.length > 0;
}

const shownText = 80;
const logsOnStderr = "; logs belong on stderr, other clients may break on them";

function readMessage(event: EventOf<"mcp.message">, open: Set<string>, unasked: Tally): void {
  const { server, client = "", direction, message } = event;
  if (!isJsonObject(message) || message["id"] === undefined) return;
  const id = JSON.stringify(message["id"]);
  const isRequest = message["method"] !== undefined;
  const key = `${server}\n${client}\n${id}`;
  if (direction === "client-to-server" && isRequest) open.add(key);
  if (direction === "client-to-server" || isRequest || open.delete(key)) return;
  const { error } = message;
  const said = isJsonObject(error) && typeof error["message"] === "string" ? `: ${error["message"]}` : "";
  unasked.add(server, `id ${id}${said}`.slice(0, shownText));
}

/** Counts things by server and keeps the first of each. */
class Tally {
  readonly #seen = new Map<string, { readonly first: string; count: number }>();

  add(server: string, text: string): void {
    const seen = this.#seen.get(server);
    if (seen === undefined) this.#seen.set(server, { first: text, count: 1 });
    else seen.count += 1;
  }

  map(write: (server: string, count: number, first: string) => string): string[] {
    return [...this.#seen].map(([server, { first, count }]) => write(server, count, first));
  }
}
