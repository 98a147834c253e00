import { ByteStore } from "../../process/program-output.ts";

const newline = 0x0a;
const carriageReturn = 0x0d;

/** One block of a stream of events, up to and with the empty line that ends it. */
export interface StreamEvent {
  readonly bytes: Buffer;
  /** What follows `event:`; absent: a message. */
  readonly event?: string;
  /** The `data:` lines, joined; absent: none. */
  readonly data?: string;
  readonly id?: string;
  /** Milliseconds that the server asks to be waited for before the stream is taken up again. */
  readonly retry?: number;
}

export interface EventCutterOptions {
  /** Longest event, in bytes. */
  readonly limit: number;
  /** Called once, for an event over the limit; nothing is read any more. */
  readonly onTooLong: () => void;
}

/** Cuts a stream of server-sent events, in chunks of any size, into its events. */
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

  /** Takes what has come of an event that has not ended. */
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

/** A stream may begin with a byte order mark, which is no part of its first line. */
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

/** An event as it came, but with another message in it. */
export function eventWithData(event: StreamEvent, text: string): Buffer {
  const kept = linesOf(event.bytes).filter((line) => line !== "" && !/^data(:|$)/.test(line));
  return Buffer.from([...kept, `data: ${text}`, "", ""].join("\n"));
}
