import { jsonExcess } from "../../../core/formats/read-json.ts";
import { ByteStore, LineReader } from "../../../process/program-output.ts";
import { type ToldTokens, usageIn } from "./usage-in.ts";

/** Longest body, or line of a stream, that is looked at, in bytes. */
const limit = 16 * 1024 * 1024;
/** Lists and objects in each other that an answer may have. */
const levels = 400;

/** Reads the tokens out of the body of an answer while it passes; keeps nothing else of it. */
export interface UsageReader {
  push(chunk: Buffer): void;
  /** What was told, once the body has ended. */
  finish(): ToldTokens;
}

/** Makes the reader for a type of content: a stream of events, or JSON. */
export function createUsageReader(contentType: string | undefined): UsageReader {
  return /^text\/event-stream\b/i.test(contentType ?? "") ? eventReader() : jsonReader();
}

function eventReader(): UsageReader {
  let told: ToldTokens = {};
  const onLine = (line: Buffer): void => {
    if (line.toString("latin1", 0, 5) !== "data:") return;
    if (line.includes("usage")) told = { ...told, ...usageIn(parse(line.subarray(5))) };
  };
  const lines = new LineReader({ limit, onLine, onTooLong: () => undefined });
  return {
    push: (chunk) => lines.push(chunk),
    finish: () => {
      lines.end();
      return told;
    },
  };
}

function jsonReader(): UsageReader {
  const whole = new ByteStore();
  let isTooLong = false;
  return {
    push: (chunk) => {
      isTooLong ||= whole.length + chunk.length > limit;
      if (isTooLong) whole.clear();
      else whole.push(chunk);
    },
    finish: () => {
      const value = parse(whole.take());
      // Gemini streams an array unless it is asked for events.
      const pieces: readonly unknown[] = Array.isArray(value) ? value : [value];
      return pieces.reduce<ToldTokens>((told, piece) => ({ ...told, ...usageIn(piece) }), {});
    },
  };
}

function parse(json: Buffer): unknown {
  if (jsonExcess(json, { levels }) !== undefined) return undefined;
  try {
    return JSON.parse(json.toString("utf8")) as unknown;
  } catch {
    return undefined; // not JSON, so it tells nothing
  }
}
