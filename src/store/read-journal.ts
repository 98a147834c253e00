import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { getHeapStatistics } from "node:v8";
import { crc32 } from "node:zlib";
import { McpvalsError } from "../core/errors/error.ts";
import { JsonMeter } from "../core/formats/read-json.ts";
import type { TraceEvent } from "../core/trace/events.ts";
import { attach } from "./attachments.ts";

/** A journal as read back. */
export interface JournalContent {
  readonly events: readonly TraceEvent[];
  /** True when the last line was cut off, as a killed process leaves it. */
  readonly torn: boolean;
}

const newline = 0x0a;
const readBytes = 1024 * 1024;
/** In bytes; what one trial may record is less. */
const longestLine = 256 * 1024 * 1024;

/**
 * Reads a run folder's journal and checks every line. Throws `store/corrupt` for a journal that is missing or has a line
 * that does not match its checksum, unless that is the last one and cut off.
 */
export async function readJournal(folder: string, budget = new ReadBudget()): Promise<JournalContent> {
  const file = join(folder, "journal.jsonl");
  const events: TraceEvent[] = [];
  let rest: Buffer[] = [];
  let restBytes = 0;
  let line = 0;
  for await (const chunk of chunksOf(file)) {
    const [first = chunk, ...lines] = linesOf(chunk);
    rest.push(first);
    restBytes += first.length;
    if (restBytes > longestLine) throw corrupt({ file, line: line + 1 });
    if (lines.length === 0) continue;
    const whole = [Buffer.concat(rest), ...lines];
    rest = [whole.pop() ?? first];
    restBytes = rest[0]?.length ?? 0;
    for (const bytes of whole) {
      line += 1;
      events.push(attach(folder, readLine(bytes, { place: { file, line }, budget }), budget));
    }
  }
  return { events, torn: restBytes > 0 };
}

/** Not readline, which also breaks lines at characters that JSON may hold; not one string, which has a largest size. */
async function* chunksOf(file: string): AsyncGenerator<Buffer> {
  try {
    // Reading a pipe could wait without end.
    if (!(await stat(file)).isFile()) throw new Error("it is not a regular file");
    yield* createReadStream(file, { highWaterMark: readBytes }) as AsyncIterable<Buffer>;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("store/corrupt", `the journal of the run cannot be read: ${reason}`, { cause });
  }
}

/** The lines of a piece of text; the last one is what follows the last line break. */
function linesOf(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = bytes.indexOf(newline); end !== -1; end = bytes.indexOf(newline, start)) {
    lines.push(bytes.subarray(start, end));
    start = end + 1;
  }
  return [...lines, bytes.subarray(start)];
}

interface Place {
  readonly file: string;
  readonly line: number;
}

interface Reading {
  readonly place: Place;
  readonly budget: ReadBudget;
}

const linePrefix = /^\{"crc":"([0-9a-f]{8})","event":$/;
const prefixBytes = '{"crc":"00000000","event":'.length;

function readLine(bytes: Buffer, { place, budget }: Reading): TraceEvent {
  const crc = linePrefix.exec(bytes.toString("latin1", 0, prefixBytes))?.[1];
  const event = bytes.subarray(prefixBytes, -1);
  if (crc === undefined || bytes.at(-1) !== 0x7d || crc32(event) !== Number.parseInt(crc, 16)) {
    throw corrupt(place);
  }
  const parsed = budget.parse(event);
  if (!isEvent(parsed)) throw corrupt(place);
  return parsed;
}

/** The rest of what was written with a checksum is taken as it is. */
function isEvent(value: unknown): value is TraceEvent {
  return typeof value === "object" && value !== null && "type" in value && "trial" in value;
}

function corrupt(place: Place): McpvalsError {
  return new McpvalsError("store/corrupt", `line ${place.line} of the journal does not match its checksum`, {
    location: place,
    hint: "The file was changed or damaged after it was written; its totals would be wrong.",
  });
}

/** Maximum nesting of one record: that of the deepest message, and of the event around it. */
const mostLevels = 500;

/**
 * What is left of the memory for a run that is read back. A run's folder can come from anywhere, and one of a few megabytes can
 * have values that take a hundred times as much.
 */
export class ReadBudget {
  #left = getHeapStatistics().heap_size_limit / 2;

  /** Reads JSON. Throws `store/corrupt` for text over the remaining budget or nested too deeply, and an Error for invalid JSON. */
  parse(json: Uint8Array): unknown {
    const { deepest, weight } = new JsonMeter().push(json);
    this.#left -= weight;
    if (this.#left < 0) {
      throw new McpvalsError("store/corrupt", "the run is too large to read into memory", {
        hint: "Give Node more: NODE_OPTIONS=--max-old-space-size=MEGABYTES.",
      });
    }
    if (deepest > mostLevels) {
      throw new McpvalsError(
        "store/corrupt",
        `a record of the run is nested more than ${mostLevels} levels deep`,
      );
    }
    return JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString("utf8"));
  }
}
