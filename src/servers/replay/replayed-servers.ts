import { jsonDifference } from "../../expect/json-difference.ts";
import { McpvalsError, messageOf } from "../../base/error.ts";
import type { SerializedError } from "../../base/serialized-error.ts";
import { canonicalJson, isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { previewJson } from "../../base/read-json.ts";
import type { Emit, EventBody, EventOf, TraceEvent } from "../../model/event.ts";
import type { FileChange, ServerEvent } from "../../model/recording.ts";
import type { ServerSpec } from "../../model/server.ts";
import type { MarkedTexts } from "./marked-texts.ts";
import { applyChanges } from "./workspace-changes.ts";
import {
  type Channel,
  type ChannelListener,
  type ConnectOptions,
  ServerConnection,
  type ServerHost,
} from "../connections/host.ts";
import {
  isRepeatable,
  messageJson,
  parseMessage,
  requestOf,
  type WireMessage,
  wireMessage,
  withIdAt,
} from "../messages/json-rpc.ts";

/** The time of a trial, which goes on as it did when it was recorded: what took a second takes a second of it. */
export class ReplayClock {
  #aheadMs = 0;

  /** Milliseconds, as `performance.now()`. */
  readonly now = (): number => performance.now() + this.#aheadMs;

  /** Lets at least so many milliseconds have passed since a time. */
  passed(ms: number, since: number): void {
    this.#aheadMs += Math.max(0, ms - (this.now() - since));
  }
}

export interface ReplayOptions {
  readonly clock: ReplayClock;
  readonly texts: MarkedTexts;
  /** The folder of the trial; "" while it has none. */
  readonly workspace: () => string;
  /** Where the recording is, for errors. */
  readonly source: string;
  /** To be called with what makes the trial an error, whatever is made of it where it happens; gives it back. */
  readonly broken: (error: McpvalsError) => McpvalsError;
  /**
   * Whether all that the servers were sent comes as it was recorded, since the models are replayed too: then everything happens in the
   * recorded order. Otherwise each answer comes when its request has.
   */
  readonly inOrder: boolean;
}

/** An event of the recording, and what has become of it. */
interface Entry {
  readonly server: string;
  readonly event: ServerEvent["event"];
  readonly after: number;
  readonly at: number;
  /** Of an answer: its request. Of what else a server did: the last message to it before. */
  readonly cause: Entry | undefined;
  readonly isAnswer: boolean;
  readonly files: readonly FileChange[];
  /** A message to the server that has been sent again, or something else that has happened again. */
  isDone: boolean;
  /** Who sent it, and with which id. */
  sentBy?: ReplayChannel;
  sentId?: string | number;
  sentAt?: number;
}

/** How long the recorded order is waited for, in milliseconds, before answers are given as they are asked for. */
const orderWaitMs = 1000;

/**
 * The servers of one trial as they were recorded: nothing is started or reached. What a server is sent is looked up in the recording,
 * and what followed there happens again. Anything else that it is asked or answered is the loss of the server, with `replay/not-recorded`.
 */
export class ReplayedServers {
  readonly #entries: readonly Entry[];
  readonly #options: ReplayOptions;
  readonly #hosts = new Map<string, ReplayHost>();
  /** Servers that wait for their turn to start. */
  readonly #opening = new Map<string, () => void>();
  /** Why servers that the task can do without did not start. */
  readonly #failed = new Map<string, { readonly after: number; readonly error: McpvalsError }>();
  /** Messages to servers that have not been sent again, by what they say. */
  readonly #expected = new Map<string, Entry[]>();
  readonly #answered = new Map<string, Entry>();
  #inOrder: boolean;
  /** Events of this trial that no server caused. */
  #passed = 0;
  #isPlanned = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(events: readonly ServerEvent[], options: ReplayOptions) {
    this.#options = options;
    this.#inOrder = options.inOrder;
    for (const { event, after } of events)
      if (event.type === "server.failed")
        this.#failed.set(event.server, { after, error: errorOf(event.error) });
    this.#entries = entriesOf(events.filter(({ event }) => event.type !== "server.failed"));
    for (const entry of this.#entries) {
      if (!isSent(entry.event)) continue;
      const key = keyOf(entry.server, entry.event.message);
      this.#expected.set(key, [...(this.#expected.get(key) ?? []), entry]);
    }
  }

  /** To be called with every event of the trial, after it was recorded. */
  note(event: EventBody): void {
    if (isServerEvent(event)) return;
    this.#passed += 1;
    this.#recordNext();
    this.#plan();
  }

  /** Gives the server as it was recorded; in the recorded order of their starts, together with those that started before anything was sent. */
  async open(name: string): Promise<ServerHost> {
    const starts = this.#entries.filter(({ event }) => event.type === "server.started");
    const start = starts.find(({ server }) => server === name);
    const failed = this.#failed.get(name);
    if (start === undefined && failed !== undefined) {
      const end = performance.now() + orderWaitMs;
      while (this.#inOrder && this.#passed < failed.after && performance.now() < end)
        await new Promise((resolve) => setImmediate(resolve));
      throw failed.error;
    }
    if (start?.event.type !== "server.started")
      throw this.#options.broken(
        new McpvalsError("replay/not-recorded", `${this.#options.source} has no server "${name}"`),
      );
    const host = new ReplayHost(name, start.event, this);
    this.#hosts.set(name, host);
    const { promise, resolve } = Promise.withResolvers<ServerHost>();
    this.#opening.set(name, () => resolve(host));
    this.#openNext(starts);
    const late = setTimeout(() => this.#openNext(starts, { isLate: true }), orderWaitMs);
    return promise.finally(() => clearTimeout(late));
  }

  /** Opens all whose turn it is, in one moment. `isLate`: those that were to open before will not. */
  #openNext(starts: readonly Entry[], { isLate = !this.#inOrder } = {}): void {
    for (const { after } of starts) {
      const group = starts.filter((start) => start.after === after);
      const isReady = ({ server }: Entry): boolean => this.#hosts.has(server);
      if (!isLate && !group.every(isReady)) return;
      for (const { server } of group) {
        this.#opening.get(server)?.();
        this.#opening.delete(server);
      }
    }
  }

  get now(): () => number {
    return this.#options.clock.now;
  }

  /** Requests of the recording that nobody has sent. */
  get unused(): readonly string[] {
    return [...this.#expected.values()]
      .flat()
      .map(({ server, event }) => ({ server, message: asMessage(event) }))
      .filter(({ message }) => "id" in message && "method" in message)
      .map(
        ({ server, message }) => `${methodOf(message)} ${previewJson(contentOf(message), 100)} to ${server}`,
      );
  }

  /** Lets happen at once what comes before the first message. */
  watched(): void {
    this.#advance();
  }

  /** Takes a message to a server. */
  send(channel: ReplayChannel, { message }: WireMessage): void {
    const { name } = channel.host;
    const request = requestOf(message);
    const marked = this.#options.texts.toMarks(messageJson(message));
    const key = keyOf(name, marked);
    const entry = this.#expected.get(key)?.shift();
    const again = request !== undefined && isRepeatable(message) ? this.#answered.get(key) : undefined;
    if (entry !== undefined) {
      entry.isDone = true;
      entry.sentBy = channel;
      entry.sentAt = this.#options.clock.now();
      if (request !== undefined) entry.sentId = request.id;
      this.#plan();
    } else if (again !== undefined) {
      setImmediate(() => channel.deliver(this.#wireOf(again, request?.id)));
    } else if (request !== undefined || this.#isOtherAnswer(name, marked)) {
      channel.host.lose(this.#options.broken(this.#notRecorded(name, marked)));
    }
  }

  /**
   * Whether a message answers a request of a server that was answered in the recording too. That a client has no roots does not matter: it
   * would not have been asked for them.
   */
  #isOtherAnswer(name: string, message: Json): boolean {
    if (!isJsonObject(message) || "method" in message) return false;
    const alike = this.#entries
      .filter(({ server, event }) => server === name && asMessage(event)["id"] === message["id"])
      .map(({ event }) => ({ isAnswer: isSent(event), method: asMessage(event)["method"] }));
    const isOfRoots = alike.some(({ isAnswer, method }) => !isAnswer && method === "roots/list");
    return (
      !(isOfRoots && "error" in message) &&
      alike.some(({ isAnswer, method }) => isAnswer && method === undefined)
    );
  }

  /** Lets happen what is left of a server but its messages, and settles then. */
  async stop(host: ReplayHost): Promise<void> {
    host.isStopping = true;
    // Nobody has got it, as when another server did not start.
    if (host.emit === undefined) return;
    this.#plan();
    const isLeft = ({ server, event, isDone }: Entry): boolean =>
      server === host.name && !isDone && !isMessage(event);
    while (this.#entries.some(isLeft)) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Records at once what only has to be recorded, such as stderr: the next event of our own may come in the same moment. */
  #recordNext(): void {
    if (!this.#inOrder) return;
    for (const entry of this.#entries) {
      if (entry.isDone || isSent(entry.event)) continue;
      if (isMessage(entry.event) || entry.event.type === "server.lost" || !this.#isDue(entry)) return;
      this.#happen(entry);
    }
  }

  /** Sockets and pipes are read when the work of the moment is done; so is a recording. */
  #plan(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#advance();
    });
  }

  #advance(): void {
    clearTimeout(this.#timer);
    for (const entry of this.#entries) {
      if (entry.isDone || isSent(entry.event)) continue;
      if (this.#isDue(entry)) this.#happen(entry);
      else if (this.#inOrder) break;
    }
    const waits = this.#entries.some(
      ({ isDone, isAnswer, cause }) => isAnswer && !isDone && cause?.isDone === true,
    );
    const stops = [...this.#hosts.values()].some(({ isStopping }) => isStopping);
    if (!this.#inOrder || !(waits || stops)) return;
    this.#timer = setTimeout(() => {
      this.#inOrder = false;
      this.#advance();
    }, orderWaitMs);
  }

  #isDue({ server, event, after, cause, isAnswer }: Entry): boolean {
    const host = this.#hosts.get(server);
    if (host?.emit === undefined) return false;
    if (host.isStopping && !isMessage(event)) return !this.#inOrder || this.#passed >= after || isLast(event);
    if (isAnswer && cause?.isDone !== true) return false;
    return this.#inOrder ? this.#passed >= after : cause === undefined || cause.isDone;
  }

  #happen(entry: Entry): void {
    entry.isDone = true;
    const { event, cause, isAnswer, server } = entry;
    const host = this.#hosts.get(server);
    if (event.type === "mcp.message") {
      if (isAnswer && cause?.sentAt !== undefined) {
        this.#answered.set(keyOf(server, asMessage(cause.event)), entry);
        this.#options.clock.passed(entry.at - cause.at, cause.sentAt);
      }
      const { texts, workspace } = this.#options;
      const files = texts.fromMarks(entry.files);
      try {
        applyChanges(workspace(), files);
      } catch (cause) {
        host?.lose(this.#options.broken(new McpvalsError("replay/unreadable", messageOf(cause), { cause })));
      }
      const channel = isAnswer ? cause?.sentBy : (cause?.sentBy ?? host?.channels.values().next().value);
      channel?.deliver(this.#wireOf(entry, isAnswer ? cause?.sentId : undefined));
    } else if (event.type === "server.lost") {
      host?.lose(errorOf(event.error));
    } else {
      host?.emit?.(this.#options.texts.fromMarks(event));
    }
  }

  #wireOf({ event }: Entry, id: string | number | undefined): WireMessage {
    const { message, raw } = event as EventOf<"mcp.message">;
    const own = this.#options.texts.fromMarks(message);
    const text = raw === undefined ? undefined : this.#options.texts.fromMarks(raw);
    const read = typeof text === "string" ? parseMessage(Buffer.from(text)) : undefined;
    const wire = read ?? wireMessage(own as unknown as WireMessage["message"]);
    return id === undefined ? wire : withIdAt(wire, ["id"], id);
  }

  #notRecorded(server: string, message: Json): McpvalsError {
    const { method } = message as JsonObject;
    const content = contentOf(message);
    const [what, part] = method === undefined ? ["the answer", "answer"] : [methodOf(message), "params"];
    const asked = `${what} ${previewJson(content, 200)}`;
    const candidates = this.#entries.filter(
      ({ server: of, event }) => of === server && isSent(event) && asMessage(event)["method"] === method,
    );
    const where = `server "${server}": ${asked} is not in ${this.#options.source}`;
    const hint = "Record the task again with --record, or change it back.";
    const nearest = candidates
      .filter(({ isDone }) => !isDone)
      .map(({ event }) => contentOf(asMessage(event)))
      .map((recorded) => ({ recorded, difference: jsonDifference(content, recorded, "equal") }))
      .toSorted((a, b) => (b.difference?.depth ?? 0) - (a.difference?.depth ?? 0))[0];
    if (nearest === undefined) {
      const many =
        candidates.length === 0 ? "no request of this method was recorded" : "each recorded one was sent";
      return new McpvalsError("replay/not-recorded", `${where}: ${many}`, { hint });
    }
    const { difference, recorded } = nearest;
    const how = difference?.messageFor(`${part}${difference.pointer}`) ?? "";
    const text = `${where}; the nearest is ${previewJson(recorded, 200)}: ${how}`;
    return new McpvalsError("replay/not-recorded", text, { hint });
  }
}

function errorOf({ code, message, ...details }: SerializedError): McpvalsError {
  return new McpvalsError(code, message, details);
}

/** One server of a recording. */
class ReplayHost implements ServerHost {
  readonly name: string;
  readonly transport: ServerSpec["transport"];
  readonly isProgram: boolean;
  readonly address = undefined;
  readonly channels = new Set<ReplayChannel>();
  isStopping = false;
  emit: Emit | undefined;
  readonly #servers: ReplayedServers;
  readonly #lost = new AbortController();

  constructor(
    name: string,
    { transport, pid }: Extract<EventBody, { type: "server.started" }>,
    servers: ReplayedServers,
  ) {
    this.name = name;
    this.transport = transport as ServerSpec["transport"];
    this.isProgram = pid !== undefined;
    this.#servers = servers;
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  watch(emit: Emit): () => void {
    this.emit = emit;
    this.#servers.watched();
    return () => (this.emit = undefined);
  }

  connect(emit: Emit, { onHeld }: ConnectOptions = {}): ServerConnection {
    return new ServerConnection({
      name: this.name,
      emit,
      open: (listener) => this.open(listener),
      hostLost: this.lost,
      onHeld,
    });
  }

  open(listener: ChannelListener): Channel {
    return new ReplayChannel(this, this.#servers, listener);
  }

  get now(): () => number {
    return this.#servers.now;
  }

  lose(error: McpvalsError): void {
    this.#lost.abort(error);
    for (const channel of this.channels) channel.end(error);
  }

  stop(): Promise<void> {
    return this.#servers.stop(this);
  }
}

class ReplayChannel implements Channel {
  readonly host: ReplayHost;
  readonly #servers: ReplayedServers;
  readonly #listener: ChannelListener;

  constructor(host: ReplayHost, servers: ReplayedServers, listener: ChannelListener) {
    this.host = host;
    this.#servers = servers;
    this.#listener = listener;
    host.channels.add(this);
  }

  send(wire: WireMessage): Promise<void> {
    const lost: unknown = this.host.lost.reason;
    if (lost instanceof McpvalsError) return Promise.reject(lost);
    if (!this.host.channels.has(this)) return Promise.reject(new Error("the client has closed its channel"));
    this.#servers.send(this, wire);
    return Promise.resolve();
  }

  deliver(wire: WireMessage): void {
    if (this.host.channels.has(this)) this.#listener.onMessage(wire);
  }

  end(reason: McpvalsError): void {
    if (this.host.channels.delete(this)) this.#listener.onClosed(reason);
  }

  close(): Promise<void> {
    this.host.channels.delete(this);
    return Promise.resolve();
  }
}

/** Events that a server causes, or what stands before it; the agent's own connections are not among them. */
const serverEvents: ReadonlySet<string> = new Set([
  "server.started",
  "server.stderr",
  "server.stdout",
  "server.invalid_output",
  "server.output_omitted",
  "server.exited",
  "server.stopped",
  "server.limit_changed",
  "request.held",
  "fault.injected",
  "fault.unmet",
  "tools.hidden",
  "tool.refused",
] satisfies readonly EventBody["type"][]);

/** Whether a server caused an event, so that it happens again when the server is replayed. */
function isServerEvent(event: EventBody): boolean {
  if (event.type === "mcp.message") return event.direction === "server-to-client";
  return serverEvents.has(event.type) || (event.type === "http.response" && event.client === undefined);
}

function isOfServer(event: EventBody): event is ServerEvent["event"] {
  return isServerEvent(event) || ["mcp.message", "server.lost", "server.failed"].includes(event.type);
}

/**
 * What is recorded of a trial's servers, with the messages to them; mocks answer from their definition anyway. `filesOf`: what was
 * changed in the workspace before an event, by its number.
 */
export function serverEventsOf(
  events: readonly TraceEvent[],
  filesOf: ReadonlyMap<number, readonly FileChange[]>,
): readonly ServerEvent[] {
  const mocks = new Set(
    events.flatMap((event) =>
      event.type === "server.started" && event.transport === "mock" ? [event.server] : [],
    ),
  );
  const found: ServerEvent[] = [];
  const started = events[0]?.at ?? 0;
  let after = 0;
  for (const event of events) {
    const isOutside = isServerEvent(event);
    const { seq, at, trial: _, ...body } = event;
    const files = filesOf.get(seq);
    if (isOfServer(body) && !mocks.has(body.server))
      found.push({ after, at: Number((at - started).toFixed(3)), event: body, ...(files && { files }) });
    if (!isOutside) after += 1;
  }
  return found;
}

/** The loss of a server is recorded at the end of the trial; it happened after the last that came from it or went there. */
function withLossInPlace(events: readonly ServerEvent[]): readonly ServerEvent[] {
  const ordered = [...events];
  for (const lost of events.filter(({ event }) => event.type === "server.lost")) {
    ordered.splice(ordered.indexOf(lost), 1);
    const at = ordered.findLastIndex(
      ({ event }) =>
        event.server === lost.event.server &&
        (isMessage(event) || (event.type === "server.exited" && !event.expected)),
    );
    const { after = 0, event } = ordered[at] ?? {};
    const isSentLast = event !== undefined && isSent(event);
    ordered.splice(at + 1, 0, { ...lost, after: after + (isSentLast ? 1 : 0) });
  }
  return ordered;
}

function entriesOf(events: readonly ServerEvent[]): readonly Entry[] {
  const requests = new Map<string, Entry[]>();
  const last = new Map<string, Entry>();
  return withLossInPlace(events).map(({ event, after, at, files = [] }) => {
    const { server } = event;
    const id = isMessage(event) ? asMessage(event)["id"] : undefined;
    const place = isMessage(event) ? JSON.stringify([server, event.client, id]) : "";
    const isAnswer = isMessage(event) && !isSent(event) && !("method" in asMessage(event));
    const request = isAnswer ? requests.get(place)?.shift() : undefined;
    const entry: Entry = {
      server,
      event,
      after,
      at,
      cause: request ?? last.get(server),
      isAnswer: request !== undefined,
      files,
      isDone: false,
    };
    if (isSent(event)) {
      last.set(server, entry);
      if ("method" in asMessage(event) && id !== undefined)
        requests.set(place, [...(requests.get(place) ?? []), entry]);
    }
    return entry;
  });
}

function methodOf(message: Json): string {
  const { method } = isJsonObject(message) ? message : {};
  return typeof method === "string" ? method : "";
}

function isMessage(event: EventBody): event is Extract<EventBody, { type: "mcp.message" }> {
  return event.type === "mcp.message";
}

/** Whether it is a message to a server. */
function isSent(event: EventBody): event is Extract<EventBody, { type: "mcp.message" }> {
  return isMessage(event) && event.direction === "client-to-server";
}

function isLast({ type }: EventBody): boolean {
  return type === "server.exited" || type === "server.stopped";
}

function asMessage(event: EventBody): JsonObject {
  return isMessage(event) && isJsonObject(event.message) ? event.message : {};
}

/** Requests in which a client says who it is, which changes with the version of mcpvals. */
const greetings = ["initialize", "server/discover"];

/** What a message says, apart from the id of a request, its progress token, and who its client is. */
function keyOf(server: string, message: Json): string {
  const { method = null, id = null } = isJsonObject(message) ? message : {};
  const isFree =
    method === "notifications/cancelled" || (typeof method === "string" && greetings.includes(method));
  return canonicalJson([server, method, method === null ? id : null, isFree ? null : contentOf(message)]);
}

/** The parameters of a request, the result or the error of an answer; without `_meta`. */
function contentOf(message: Json): Json {
  const { method, params = {}, result, error = null } = isJsonObject(message) ? message : {};
  const content = method === undefined ? (result ?? error) : params;
  if (!isJsonObject(content)) return content;
  const { _meta: _, ...rest } = content;
  return rest;
}
