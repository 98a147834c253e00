import { readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import type { Fixtures } from "../core/formats/config/mock.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import { readRegularFile } from "../files/read-file.ts";

/** Largest file of fixtures, in bytes. */
const largestFile = 4 * 1024 * 1024;
/** Most files of a folder and those in it. */
const mostFiles = 1000;

/**
 * Makes what reads the tools of mocks from a folder, relative to `dir`: of each JSON file in it, and in the folders in it that
 * are not hidden, the tools under `tools`, else the one tool that the file is named after. Later files win, in the order
 * of their names.
 */
export function fixtureReader(dir: string): (path: string) => Fixtures {
  return (path) => {
    try {
      const folder = resolve(dir, path);
      if (!statSync(folder).isDirectory()) return { ok: false, reason: `${path} is not a folder` };
      const tools = filesIn(folder).flatMap((file) => Object.entries(toolsIn(file)));
      return { ok: true, tools: Object.fromEntries(tools) };
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      if ("code" in error && error.code === "ENOENT")
        return { ok: false, reason: `there is no folder ${path}` };
      return { ok: false, reason: `${path}: ${error.message}` };
    }
  };
}

function filesIn(folder: string): readonly string[] {
  const files = readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".json"))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !file.slice(folder.length).split(/[/\\]/).slice(0, -1).some(isHidden))
    .toSorted();
  if (files.length > mostFiles) throw new Error(`it has more than ${mostFiles} JSON files`);
  return files;
}

function isHidden(name: string): boolean {
  return name.startsWith(".");
}

function toolsIn(file: string): JsonObject {
  const value = parsed(file);
  if (!isJsonObject(value)) throw new Error(`${basename(file)} is not a JSON object`);
  const { tools } = value;
  const isBundle = isJsonObject(tools) && Object.keys(tools).length > 0;
  return isBundle ? tools : { [basename(file, ".json")]: value };
}

function parsed(file: string): Json {
  try {
    return JSON.parse(readRegularFile(file, largestFile).toString("utf8")) as Json;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${basename(file)}: ${reason}`, { cause });
  }
}
