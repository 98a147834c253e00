import { readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { codeOf, messageOf } from "../../../base/error.ts";
import { readRegularFile } from "../../../base/files.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { maxFileBytes } from "../../../base/limits.ts";
import type { Fixtures } from "./mcp-servers.ts";

/** Most files of a folder and those in it. */
const maxFiles = 1000;

/**
 * Reads the mock tools in a folder, relative to `dir`: of each JSON file in it, and in the folders in it that
 * are not hidden, the tools under `tools`, else the one tool that the file is named after. Later files win, in the order
 * of their names.
 */
export function readFixtures(dir: string, path: string): Fixtures {
  try {
    const folder = resolve(dir, path);
    if (!statSync(folder).isDirectory()) return { ok: false, reason: `${path} is not a folder` };
    const files = readdirSync(folder, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith(".json"))
      .filter(({ parentPath }) => !/[/\\]\./.test(parentPath.slice(folder.length)))
      .map((entry) => join(entry.parentPath, entry.name))
      .toSorted();
    if (files.length > maxFiles) throw new Error(`it has more than ${maxFiles} JSON files`);
    const tools = files.flatMap((file) => Object.entries(toolsIn(file)));
    return { ok: true, tools: Object.fromEntries(tools) };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return {
      ok: false,
      reason: codeOf(error) === "ENOENT" ? `there is no folder ${path}` : `${path}: ${error.message}`,
    };
  }
}

function toolsIn(file: string): JsonObject {
  const value = parsedFile(file);
  if (!isJsonObject(value)) throw new Error(`${basename(file)} is not a JSON object`);
  const { tools } = value;
  const isBundle = isJsonObject(tools) && Object.keys(tools).length > 0;
  return isBundle ? tools : { [basename(file, ".json")]: value };
}

function parsedFile(file: string): Json {
  try {
    return JSON.parse(readRegularFile(file, maxFileBytes).toString("utf8")) as Json;
  } catch (cause) {
    const reason = messageOf(cause);
    throw new Error(`${basename(file)}: ${reason}`, { cause });
  }
}
