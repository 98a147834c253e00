import { randomBytes } from "node:crypto";
import { realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { readRegularFile } from "../../files/read-file.ts";

const largestFile = 1024 * 1024;

/** Reads a file with tokens; throws an Error that says what is wrong with it. */
export function readTokenFile(path: string): JsonObject {
  const value = parsed(readRegularFile(path, largestFile).toString("utf8"));
  if (!isJsonObject(value)) throw new Error("it is not a JSON object");
  return value;
}

/** Replaces the file as a whole, so that nobody ever reads half of it; who may read it stays the same. */
export async function writeTokenFile(path: string, tokens: JsonObject): Promise<void> {
  const target = await realpath(path);
  const { mode } = await stat(target);
  const written = `${target}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(written, `${JSON.stringify(tokens, undefined, 2)}\n`, { flag: "wx", mode: mode & 0o777 });
    await rename(written, target);
  } catch (error) {
    await rm(written, { force: true });
    throw error;
  }
}

/** The parser's own message would quote the text, and with it a token. */
function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw new Error("it is not JSON");
  }
}
