import { jsonExcess } from "../../core/formats/read-json.ts";
import { ByteStore } from "../../process/program-output.ts";
import { deepestMessage, excessive, messageTooLarge } from "../messages/message-limits.ts";

export interface StreamReaderOptions {
  /** Name of the server, for messages. */
  readonly server: string;
  /** Longest body, or event of a stream, in bytes. */
  readonly limit: number;
}

/**
 * The events of a body; bytes after the last one come as an event without data. Throws McpvalsError `server/message-too-large`
 * and `server/protocol-error` for an event beyond the limits, and the reason why the connection broke.
 */
export async function* eventsOf(
  chunks: AsyncIterable<Uint8Array>,
  { server, limit }: StreamReaderOptions,
): AsyncGenerator<StreamEvent> {
  let isTooLong = false;
  const cutter = new EventCutter({
    limit,
    onTooLong: () => {
      isTooLong = true;
    },
  });
  for await (const chunk of chunks) {
    for (const event of cutter.push(chunk)) {
      if (event.data !== undefined) refuseExcess(server, Buffer.from(event.data));
      yield event;
    }
    if (isTooLong) throw messageTooLarge(server, limit);
  }
  const rest = cutter.rest();
  if (rest.length > 0) yield { bytes: rest };
}

/** A body in one piece. Throws as {@link eventsOf} does. */
export async function wholeOf(
  chunks: AsyncIterable<Uint8Array>,
  { server, limit }: StreamReaderOptions,
): Promise<Buffer> {
  const whole = new ByteStore();
  for await (const chunk of chunks) {
    if (whole.length + chunk.length > limit) throw messageTooLarge(server, limit);
    whole.push(chunk);
  }
  const body = whole.take();
  refuseExcess(server, body);
  return body;
}

/** Throws McpvalsError for JSON that is too deep or too expensive to parse. */
function refuseExcess(server: string, json: Uint8Array): void {
  const excess = jsonExcess(json, { levels: deepestMessage });
  if (excess !== undefined) throw excessive(server, excess);
}

/** Read of the body of a response whose status is an error, in bytes. */
const longestRefusal = 64 * 1024;

/** The beginning of a body. */
export async function refusalText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let left = longestRefusal;
  for await (const chunk of chunksOf(response)) {
    parts.push(chunk.subarray(0, left));
    left -= chunk.length;
    if (left <= 0) break;
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Whether a response is a stream of server-sent events. */
export function isEventStream({ headers }: Response): boolean {
  return /^text\/event-stream/i.test(headers.get("content-type") ?? "");
}

/** The chunks of a response's body. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  if (response.body === null) return;
  for await (const chunk of response.body) yield chunk as Uint8Array;
}

const newline = 0x0a;
const carriageReturn = 0x0d;

/** One event of a stream with its bytes, up to and including the empty line that ends it. */
export interface StreamEvent {
  readonly bytes: Buffer;
  /** The type; absent: `message`. */
  readonly event?: string;
  /** The `data:` lines, joined; absent: none. */
  readonly data?: string;
  readonly id?: string;
  /** How long to wait before the stream is resumed, in milliseconds. */
  readonly retry?: number;
}

export interface EventCutterOptions {
  /** Longest event, in bytes. */
  readonly limit: number;
  /** Called once, for an event over the limit; reading stops there. */
  readonly onTooLong: () => void;
}

/**
 * Splits a stream of server-sent events into its events. Unlike a parser from a library it keeps the bytes of each event, which
 * the gateway passes on unchanged.
 */
export class EventCutter {
  readonly #options: EventCutterOptions;
  readonly #unfinished = new ByteStore();
  #lineIsEmpty = true;
  #afterReturn = false;
  #stopped = false;

  constructor(options: EventCutterOptions) {
    this.#options = options;
  }

  /** The events that end in this chunk. */
  push(chunk: Uint8Array): StreamEvent[] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const events: StreamEvent[] = [];
    let start = 0;
    for (let index = 0; index < bytes.length && !this.#stopped; index++) {
      if (!this.#endsEvent(bytes[index] ?? 0)) continue;
      const end = isLineBreak(bytes, index) ? index + 2 : index + 1;
      this.#hold(bytes.subarray(start, end));
      if (this.#stopped) break;
      events.push(readEvent(this.rest()));
      start = end;
      index = end - 1;
    }
    if (!this.#stopped) this.#hold(bytes.subarray(start));
    return events;
  }

  /** Takes the bytes of an unfinished event. */
  rest(): Buffer {
    return this.#unfinished.take();
  }

  /** An empty line ends an event; lines end with LF, CR or both. */
  #endsEvent(byte: number): boolean {
    const secondHalf = byte === newline && this.#afterReturn;
    this.#afterReturn = byte === carriageReturn;
    if (secondHalf) return false;
    const endsLine = byte === newline || byte === carriageReturn;
    const ends = endsLine && this.#lineIsEmpty;
    this.#lineIsEmpty = endsLine;
    if (ends) this.#afterReturn = false;
    return ends;
  }

  #hold(piece: Buffer): void {
    if (this.#unfinished.length + piece.length > this.#options.limit) {
      this.#stopped = true;
      this.#unfinished.clear();
      this.#options.onTooLong();
    } else this.#unfinished.push(piece);
  }
}

function isLineBreak(bytes: Buffer, index: number): boolean {
  return bytes[index] === carriageReturn && bytes[index + 1] === newline;
}

function readEvent(bytes: Buffer): StreamEvent {
  const fields = new Map<string, string>();
  for (const line of linesOf(bytes)) {
    const { name, value } = readField(line);
    const before = name === "data" ? fields.get(name) : undefined;
    fields.set(name, before === undefined ? value : `${before}\n${value}`);
  }
  const [event, data, id, retry] = ["event", "data", "id", "retry"].map((name) => fields.get(name));
  return {
    bytes,
    ...(event === undefined || event === "" ? {} : { event }),
    ...(data === undefined ? {} : { data }),
    ...(id === undefined ? {} : { id }),
    ...(retry === undefined || !/^\d+$/.test(retry) ? {} : { retry: Number(retry) }),
  };
}

/** Without a byte order mark at the beginning. */
function linesOf(bytes: Buffer): string[] {
  return bytes
    .toString("utf8")
    .replace(/^\uFEFF/, "")
    .split(/\r\n|\r|\n/);
}

function readField(line: string): { name: string; value: string } {
  const colon = line.indexOf(":");
  if (colon === -1) return { name: line, value: "" };
  const value = line.slice(colon + 1);
  return { name: line.slice(0, colon), value: value.startsWith(" ") ? value.slice(1) : value };
}

/** The same event with another message. */
export function eventWithData(event: StreamEvent, text: string): Buffer {
  const kept = linesOf(event.bytes).filter((line) => line !== "" && !/^data(:|$)/.test(line));
  return Buffer.from([...kept, `data: ${text}`, "", ""].join("\n"));
}
