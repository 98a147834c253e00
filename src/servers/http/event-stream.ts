import { jsonExcess } from "../../base/read-json.ts";
import { ByteStore } from "../../process/program-output.ts";
import type { HttpResponse } from "../connections/host.ts";
import { excessive, messageTooLarge } from "../messages/json-rpc.ts";

export interface ReadLimits {
  /** Name of the server, for messages. */
  readonly server: string;
  /** Longest body, or event of a stream, in bytes. */
  readonly limit: number;
}

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

const newline = 0x0a;
const carriageReturn = 0x0d;

/**
 * The events of a body; bytes after the last one come as an event without data. Unlike a parser from a library it keeps the bytes
 * of each event, which the gateway passes on unchanged. Throws McpvalsError `server/message-too-large` and `server/protocol-error`
 * for an event beyond the limits, and the reason why the connection broke.
 */
export async function* eventsOf(
  response: Pick<HttpResponse, "body">,
  { server, limit }: ReadLimits,
): AsyncGenerator<StreamEvent> {
  const unfinished = new ByteStore();
  const hold = (piece: Buffer): void => {
    if (unfinished.length + piece.length > limit) throw messageTooLarge(server, limit);
    unfinished.push(piece);
  };
  let isLineEmpty = true;
  let isAfterReturn = false;
  for await (const chunk of response.body) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let start = 0;
    for (let index = 0; index < bytes.length; index += 1) {
      // An empty line ends an event; lines end with LF, CR or both.
      const byte = bytes[index];
      const isSecondHalf = byte === newline && isAfterReturn;
      isAfterReturn = byte === carriageReturn;
      if (isSecondHalf) continue;
      const endsLine = byte === newline || byte === carriageReturn;
      const endsEvent = endsLine && isLineEmpty;
      isLineEmpty = endsLine;
      if (!endsEvent) continue;
      if (byte === carriageReturn && bytes[index + 1] === newline) index += 1;
      hold(bytes.subarray(start, index + 1));
      start = index + 1;
      const event = readEvent(unfinished.take());
      if (event.data !== undefined) refuseExcess(server, Buffer.from(event.data));
      yield event;
    }
    hold(bytes.subarray(start));
  }
  if (unfinished.length > 0) yield { bytes: unfinished.take() };
}

/** A body in one piece. Throws as {@link eventsOf} does. */
export async function wholeOf(
  response: Pick<HttpResponse, "body">,
  { server, limit }: ReadLimits,
): Promise<Buffer> {
  const whole = new ByteStore();
  for await (const chunk of response.body) {
    if (whole.length + chunk.length > limit) throw messageTooLarge(server, limit);
    whole.push(chunk);
  }
  const body = whole.take();
  refuseExcess(server, body);
  return body;
}

/** Throws McpvalsError for JSON that is too deep or too expensive to parse. */
function refuseExcess(server: string, json: Uint8Array): void {
  const excess = jsonExcess(json);
  if (excess !== undefined) throw excessive(server, excess);
}

/** Read of the body of a response whose status is an error, in bytes. */
const maxRefusalLength = 64 * 1024;

/** The beginning of a body. */
export async function refusalText(response: HttpResponse): Promise<string> {
  const parts: Uint8Array[] = [];
  let left = maxRefusalLength;
  for await (const chunk of response.body) {
    parts.push(chunk.subarray(0, left));
    left -= chunk.length;
    if (left <= 0) break;
  }
  return Buffer.concat(parts).toString("utf8");
}

/** Whether a response is a stream of server-sent events. */
export function isEventStream({ headers }: HttpResponse): boolean {
  return /^text\/event-stream/i.test(headers["content-type"] ?? "");
}

function readEvent(bytes: Buffer): StreamEvent {
  const fields = new Map<string, string>();
  for (const line of linesOf(bytes)) {
    const [, name = "", value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
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

/** The same event with another message. */
export function eventWithData(event: StreamEvent, text: string): Buffer {
  const kept = linesOf(event.bytes).filter((line) => line !== "" && !/^data(:|$)/.test(line));
  return Buffer.from([...kept, `data: ${text}`, "", ""].join("\n"));
}
