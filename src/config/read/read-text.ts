import { isUtf8 } from "node:buffer";
import { McpvalsError } from "../../core/errors/error.ts";
import { FileTooLargeError, readRegularFile } from "../../files/read-file.ts";
import { SourceText } from "./source-text.ts";

/** Reads a text file of at most `limit` bytes; `shown` is its name in messages. Throws McpvalsError `config/unreadable`. */
export function readText(file: string, shown: string, limit: number): SourceText {
  const bytes = readBytes(file, shown, limit);
  try {
    return new SourceText(shown, new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    const location = { file: shown, ...placeOfBadByte(bytes) };
    throw new McpvalsError("config/unreadable", `${shown} is not UTF-8 text`, { location, cause });
  }
}

function readBytes(file: string, shown: string, limit: number): Uint8Array {
  try {
    return readRegularFile(file, limit);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const hint = "Split it, or make it with a program in a .ts or .js file; JSON may be larger than YAML.";
    throw new McpvalsError("config/unreadable", `${shown} cannot be read: ${reason}`, {
      location: { file: shown },
      cause,
      ...(cause instanceof FileTooLargeError ? { hint } : {}),
    });
  }
}

const lineFeed = 0x0a;

/** Line and column, in bytes, of the first byte that belongs to no character. */
function placeOfBadByte(bytes: Uint8Array): { readonly line: number; readonly column: number } {
  let line = 1;
  let start = 0;
  for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, start)) {
    if (!isUtf8(bytes.subarray(start, end))) break;
    start = end + 1;
    line += 1;
  }
  const next = bytes.indexOf(lineFeed, start);
  return { line, column: validLength(bytes.subarray(start, next === -1 ? undefined : next)) + 1 };
}

/** Bytes up to which a line is UTF-8. */
function validLength(bytes: Uint8Array): number {
  // The replacement characters of a lenient reading begin at the first bad byte, if none was written there.
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  let length = 0;
  for (const character of text) {
    const encoded = new TextEncoder().encode(character);
    if (!encoded.every((byte, index) => bytes[length + index] === byte)) return length;
    length += encoded.length;
  }
  return length;
}
