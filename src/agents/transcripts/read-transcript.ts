import { createHash } from "node:crypto";
import { closeSync, readSync } from "node:fs";
import { basename } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { messageOf, McpvalsError } from "../../base/error.ts";
import { openRegularFile } from "../../base/files.ts";
import { maxDocumentBytes, maxMemory, maxMessageBytes, maxMessageDepth } from "../../base/limits.ts";
import { JsonMeter } from "../../base/read-json.ts";
import { countOf, shortened } from "../../base/visible-text.ts";
import { JsonLines, parseObject } from "../program-lines.ts";
import type { WireObject } from "../programs/preset.ts";
import type {
  TranscriptEntry,
  TranscriptFormat,
  TranscriptPart,
  TranscriptReader,
  TrialHead,
} from "./transcript.ts";
import { transcriptFormats } from "./transcripts.ts";

/** A session as its transcript has it. */
export interface Transcript {
  readonly format: TranscriptFormat;
  readonly head: TrialHead;
  /** Absolute path. */
  readonly file: string;
  readonly sha256: string;
  /** The program's id of it. */
  readonly session: string | undefined;
  /** In the order of their times. */
  readonly entries: readonly TimedEntry[];
  /** What it does not have, or what could not be read of it, in sentences; each once. */
  readonly remarks: readonly string[];
  /** Why a part of it was not read, so that nothing can be said of the whole session. */
  readonly damage: string | undefined;
}

export type TimedEntry = TranscriptEntry & { readonly at: number };

/** Objects that may stand before one of which the format is known: programs begin with notes about a session. */
const maxBefore = 200;
const pieceBytes = 256 * 1024;

/** What a file has. */
export interface TranscriptFile {
  /** None: it is no transcript. */
  readonly sessions: readonly Transcript[];
  /** Why it has none, where that is of interest. */
  readonly problem?: string | undefined;
}

/**
 * Reads the sessions of a file, with the parts that other files have of them. Throws McpvalsError `transcript/unreadable`, and the signal's reason.
 */
export async function readTranscript(file: string, signal: AbortSignal): Promise<TranscriptFile> {
  const main = new FileReading();
  const sha256 = await readFile(file, main, signal);
  const { format } = main;
  if (format === undefined) return { sessions: [], problem: main.problem };
  const sessions: Transcript[] = [];
  for (const entries of sessionsIn(main.entries))
    sessions.push(await sessionOf(entries, { main, format, file, sha256, signal }));
  return { sessions };
}

/** The entries of each session: a head begins one. */
function sessionsIn(entries: readonly TranscriptEntry[]): readonly (readonly TranscriptEntry[])[] {
  const heads = entries.flatMap((entry, index) => (entry.kind === "trial" ? index : []));
  return heads.length === 0 ? [entries] : heads.map((start, index) => entries.slice(start, heads[index + 1]));
}

interface SessionFile {
  readonly main: FileReading;
  readonly format: TranscriptFormat;
  readonly file: string;
  readonly sha256: string;
  readonly signal: AbortSignal;
}

async function sessionOf(
  own: readonly TranscriptEntry[],
  { main, format, file, sha256, signal }: SessionFile,
): Promise<Transcript> {
  const head: TrialHead = own.find((entry) => entry.kind === "trial") ?? {};
  const session = own.find((entry) => entry.kind === "session")?.id ?? main.session;
  const remarks = new Set(main.remarks);
  const damages = [main.damage];
  const parts = partsOf(format, file, session);
  // What the program says of all of it has the tokens of subagents.
  const isWhole = own.some((entry) => entry.kind === "usage" && entry.usage.isPartial !== true);
  const entries = [...timed(own)];
  for (const part of parts) {
    const reading = new FileReading();
    await readFile(part.file, reading, signal);
    if (reading.format !== format)
      remarks.add(`${basename(part.file)} of a subagent is no transcript of ${format.program}`);
    else
      for (const entry of timed(reading.entries))
        if (!isWhole || entry.kind !== "usage") entries.push(ofSubagent(entry, part));
    damages.push(reading.damage && `${basename(part.file)}: ${reading.damage}`);
    for (const remark of reading.remarks) remarks.add(`${basename(part.file)}: ${remark}`);
  }
  if (own.length > 0 && head.record === undefined && own.every(({ at }) => at === undefined))
    remarks.add("it has no times, so that all of it seems to have happened at once, in 1970");
  const missing = subagentsIn(format, own) - parts.length;
  if (missing > 0) remarks.add(`it has nothing of what ${countOf(missing, "subagent")} did`);
  // Stable, so that what has the same time stays in its order.
  if (parts.length > 0) entries.sort((a, b) => a.at - b.at);
  for (const entry of entries) if (entry.kind === "remark") remarks.add(entry.text);
  for (const remark of unknownTypes(entries)) remarks.add(remark);
  return {
    format,
    head,
    file,
    sha256,
    session,
    entries,
    remarks: [...remarks],
    damage: damages.find((damage) => damage !== undefined),
  };
}

/** How many subagents came to an end of which the file itself does not say what they did. */
function subagentsIn({ subagentTools }: TranscriptFormat, entries: readonly TranscriptEntry[]): number {
  const uses = entries.filter((entry) => entry.kind === "tool");
  if (uses.some(({ parentCallId }) => parentCallId !== undefined)) return 0;
  return uses.filter(({ name, status }) => status === "completed" && subagentTools.has(name)).length;
}

function partsOf(
  { partsOf: find }: TranscriptFormat,
  file: string,
  session: string | undefined,
): readonly TranscriptPart[] {
  try {
    return session === undefined ? [] : (find?.(file, session) ?? []);
  } catch (cause) {
    throw unreadable(file, cause);
  }
}

/** What a subagent says is not said to the user. */
function ofSubagent(entry: TimedEntry, { parentCallId }: TranscriptPart): TimedEntry {
  return entry.kind === "tool" && parentCallId !== undefined ? { ...entry, parentCallId } : entry;
}

/** Gives each entry a time that is not before that of the one before it. */
function timed(entries: readonly TranscriptEntry[]): readonly TimedEntry[] {
  let last = entries.find((entry) => entry.at !== undefined)?.at ?? 0;
  return entries.map((entry) => {
    last = Math.max(last, entry.at ?? last);
    return { ...entry, at: last };
  });
}

/** Most types that one remark names. */
const maxNamed = 5;

function unknownTypes(entries: readonly TranscriptEntry[]): readonly string[] {
  const types = entries.flatMap((entry) => (entry.kind === "unknown" ? [shortened(entry.type, 40)] : []));
  if (types.length === 0) return [];
  const names = [...new Set(types)];
  const more = names.length > maxNamed ? ", …" : "";
  return [
    `${countOf(types.length, "line")} of types that mcpvals does not know: ${names.slice(0, maxNamed).join(", ")}${more}; a newer version of the program may have written them`,
  ];
}

/** Reads the objects of one file, and finds out which format they have. */
class FileReading {
  readonly entries: TranscriptEntry[] = [];
  readonly remarks: string[] = [];
  damage: string | undefined;
  /** Why it is of no format, where that is of interest. */
  problem: string | undefined;
  format: TranscriptFormat | undefined;
  /** An id that objects of the file name. */
  session: string | undefined;
  #reader: TranscriptReader | undefined;
  /** Objects before the first one of which the format is known. */
  #before: WireObject[] = [];

  /** So much was read of it that it is of no format. */
  get isForeign(): boolean {
    return this.format === undefined && this.#before.length >= maxBefore;
  }

  take(object: WireObject): void {
    if (this.#reader !== undefined) return this.#read(object);
    if (this.isForeign) return;
    this.#before.push(object);
    this.format = transcriptFormats.find(({ recognises }) => recognises(object));
    if (this.format === undefined) return;
    this.#reader = this.format.createReader();
    if (typeof object["sessionId"] === "string") this.session = object["sessionId"];
    for (const each of this.#before.splice(0)) this.#read(each);
  }

  finish(): void {
    for (const entry of this.#reader?.finish() ?? []) this.entries.push(entry);
  }

  #read(object: WireObject): void {
    for (const entry of this.#reader?.read(object) ?? []) this.entries.push(entry);
  }
}

interface OtherLine {
  readonly line: number;
  readonly text: string;
}

/** Reads a file as JSON Lines, or as one JSON document if its first line is no object. Gives its SHA-256. */
async function readFile(path: string, reading: FileReading, signal: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  let line = 0;
  /** The file so far, while it may be a document. */
  let document: Buffer[] | undefined = [];
  let isLines: boolean | undefined;
  const lines = new JsonLines({
    limit: maxMessageBytes,
    onBroken: (problem) => {
      line += 1;
      reading.damage ??= `nothing from line ${line} on was read: the program ${problem}`;
    },
    onObject: (object) => {
      line += 1;
      reading.take(object);
    },
    onOther: (bytes) => {
      line += 1;
      if (bytes.toString("utf8").trim() === "") return;
      last = { line, text: bytes.toString("utf8", 0, 200).trim() };
      first ??= last;
    },
  });
  /** Lines that are no objects. */
  let first: OtherLine | undefined;
  let last: OtherLine | undefined;
  let endsWithBreak = true;
  let size = 0;
  try {
    const file = openRegularFile(path, maxDocumentBytes);
    try {
      for (;;) {
        const piece = Buffer.allocUnsafe(pieceBytes);
        const length = readSync(file, piece, 0, pieceBytes, null);
        if (length === 0) break;
        const bytes = piece.subarray(0, length);
        size += length;
        // What grows meanwhile may grow without end.
        if (size > maxDocumentBytes) throw new Error("it became too large while it was read");
        hash.update(bytes);
        endsWithBreak = bytes.at(-1) === 0x0a;
        document?.push(bytes);
        isLines ??= firstLineIsObject(document ?? []);
        if (isLines === true) {
          for (const each of document ?? [bytes]) lines.push(each);
          document = undefined;
        } else if (!/^\s*[[{]/.test(document?.[0]?.toString("latin1", 0, 64) ?? "")) return "";
        else if (size > maxMemory) throw new Error("a document of this size is not read");
        if (reading.isForeign) return "";
        signal.throwIfAborted();
        await nextTurn();
      }
    } finally {
      closeSync(file);
    }
  } catch (cause) {
    signal.throwIfAborted();
    throw unreadable(path, cause);
  }
  if (document !== undefined) readDocument(Buffer.concat(document), reading, path);
  else {
    lines.finish();
    // The last line of a file that is being written may be there in part.
    const isCut = !endsWithBreak && last?.line === line;
    if (isCut)
      reading.remarks.push("its last line is cut off: the session may go on, or the program was killed");
    if (first !== undefined && !(isCut && first === last))
      reading.damage ??= `line ${first.line} is no JSON object, or too long: ${JSON.stringify(shortened(first.text, 60))}`;
  }
  reading.finish();
  return hash.digest("hex");
}

/** Whether the first line with something in it is a JSON object; undefined while it has not ended. */
function firstLineIsObject(pieces: readonly Buffer[]): boolean | undefined {
  const bytes = Buffer.concat(pieces);
  const text = bytes.toString("utf8").trimStart();
  const end = text.indexOf("\n");
  if (end === -1) return bytes.length > maxMessageBytes ? true : undefined;
  return parseObject(text.slice(0, end)) !== undefined;
}

/** Older tools write a list of results, which is read as an object with that list. */
function readDocument(bytes: Buffer, reading: FileReading, path: string): void {
  const { deepest, weight } = new JsonMeter().push(bytes);
  if (deepest > maxMessageDepth || weight > maxMemory) {
    reading.problem = "it is nested too deeply, or has too many values";
    return;
  }
  let document: unknown;
  try {
    document = JSON.parse(bytes.toString("utf8"));
  } catch (cause) {
    reading.problem = `it is no JSON, or was cut off: ${messageOf(cause)}`;
    return;
  }
  try {
    reading.take(Array.isArray(document) ? { results: document } : (document as WireObject));
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function unreadable(file: string, cause: unknown): McpvalsError {
  if (cause instanceof McpvalsError) return cause;
  return new McpvalsError(
    "transcript/unreadable",
    `the transcript ${file} cannot be read: ${messageOf(cause)}`,
    { cause },
  );
}
