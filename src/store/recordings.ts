import { createHash } from "node:crypto";
import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { codeOf, McpvalsError, messageOf } from "../base/error.ts";
import { makeFolder, readRegularFile } from "../base/files.ts";
import { canonicalJson, isJsonObject, type Json, type JsonObject } from "../base/json.ts";
import { maxPartBytes } from "../base/limits.ts";
import {
  type ModelExchange,
  type Recording,
  type RecordingHead,
  recordingHead,
  recordingLine,
  recordingVersion,
} from "../model/recording.ts";

/** A recording, and where it is. */
export interface StoredRecording extends Recording {
  readonly file: string;
}

/**
 * Writes the recording of a trial into a folder, in a file of its own: JSON Lines, the first of which says of which trial it is. Replaces an earlier
 * recording of it. Throws McpvalsError `store/unwritable`.
 */
export function writeRecording(folder: string, { head, servers, models }: Recording): void {
  const lines = [
    head,
    ...servers.map((server) => ({ server })),
    ...shortened(models).map((model) => ({ model })),
  ];
  const path = join(folder, fileNameOf(head));
  try {
    makeFolder(folder);
    // A recording that is cut off is none.
    writeFileSync(`${path}.part`, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    renameSync(`${path}.part`, path);
  } catch (cause) {
    throw new McpvalsError(
      "store/unwritable",
      `the recording cannot be written to ${path}: ${messageOf(cause)}`,
      {
        cause,
      },
    );
  }
}

/** Reads all recordings of a folder. Throws McpvalsError `replay/unreadable`. */
export function readRecordings(folder: string): readonly StoredRecording[] {
  let names: readonly string[];
  try {
    names = readdirSync(folder)
      .filter((name) => name.endsWith(".jsonl"))
      .toSorted();
  } catch (cause) {
    const why = codeOf(cause) === "ENOENT" ? "the folder does not exist" : messageOf(cause);
    throw unreadable(folder, why, cause);
  }
  if (names.length === 0) throw unreadable(folder, "it has no recordings (*.jsonl)");
  const byTrial = new Map<string, StoredRecording>();
  for (const name of names) {
    const recording = readRecording(join(folder, name));
    const { task, agent, variant, attempt } = recording.head;
    const trial = JSON.stringify([task, agent, variant ?? null, attempt]);
    const other = byTrial.get(trial);
    if (other !== undefined)
      throw unreadable(folder, `${other.file} and ${recording.file} are of the same trial`);
    byTrial.set(trial, recording);
  }
  return [...byTrial.values()];
}

function readRecording(file: string): StoredRecording {
  let lines: readonly string[];
  try {
    lines = readRegularFile(file, maxPartBytes).toString("utf8").split("\n");
  } catch (cause) {
    throw unreadable(file, messageOf(cause), cause);
  }
  if (lines.at(-1) !== "") throw unreadable(file, "its last line is cut off");
  const [first = "", ...others] = lines.slice(0, -1);
  const version = isJsonObject(parsed(file, first, 1))
    ? (parsed(file, first, 1) as JsonObject)["recording"]
    : undefined;
  if (typeof version === "number" && version !== recordingVersion)
    throw unreadable(
      file,
      `it has version ${version} of the format, and this version of mcpvals reads ${recordingVersion}`,
    );
  const head = recordingHead.safeParse(parsed(file, first, 1));
  if (!head.success) throw unreadable(file, "line 1 does not say of which trial it is");
  const servers: Recording["servers"][number][] = [];
  const models: ModelExchange[] = [];
  for (const [index, text] of others.entries()) {
    const line = recordingLine.safeParse(parsed(file, text, index + 2));
    if (!line.success) throw unreadable(file, `line ${index + 2} is not one of a recording`);
    if ("server" in line.data) servers.push(line.data.server);
    else {
      const model = whole(line.data.model, models);
      if (model === undefined) throw unreadable(file, `line ${index + 2} does not say what it repeats`);
      models.push(model);
    }
  }
  return { file, head: head.data, servers, models };
}

function parsed(file: string, text: string, line: number): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw unreadable(file, `line ${line} is not JSON`, cause);
  }
}

function unreadable(place: string, why: string, cause?: unknown): McpvalsError {
  const details = cause === undefined ? {} : { cause };
  return new McpvalsError("replay/unreadable", `the recordings in ${place} cannot be read: ${why}`, details);
}

/** A name that says which trial it is; what no file name can have is replaced, and a hash keeps names apart. */
function fileNameOf({ task, agent, variant, attempt }: RecordingHead): string {
  const names = [task, agent, variant].filter((name) => name !== null && name !== undefined);
  const safe = names.map((name) => name.replaceAll(/[^\w.-]+/g, "_").slice(0, 60)).join("--");
  const isSafe = names.every((name) => /^\w[\w.-]{0,59}$/.test(name) && !name.includes("--"));
  const hash = createHash("sha256")
    .update(JSON.stringify([task, agent, variant ?? null]))
    .digest("hex");
  return `${safe}${isSafe ? "" : `-${hash.slice(0, 8)}`}--${attempt}.jsonl`;
}

// A conversation is sent whole with each request; what a request repeats of the one before is written once.

/** `members` are the same; so are, by their number, the first messages of `prompt`. */
const repeated = z.strictObject({ members: z.array(z.string()), messages: z.int().min(0) });

function shortened(models: readonly ModelExchange[]): readonly ModelExchange[] {
  return models.map((model, index) => {
    const before = previous(models.slice(0, index), model);
    if (before === undefined || !isJsonObject(model.request)) return model;
    const { prompt, ...request } = model.request;
    const members = Object.keys(request).filter(
      (key) => key in before && canonicalJson(before[key] ?? null) === canonicalJson(request[key] ?? null),
    );
    const rest = Object.fromEntries(Object.entries(request).filter(([key]) => !members.includes(key)));
    const [old, own] = [promptOf(before), promptOf(model.request)];
    const differing = own.findIndex(
      (message, at) => old[at] === undefined || canonicalJson(message) !== canonicalJson(old[at]),
    );
    const messages = differing === -1 ? own.length : differing;
    const asBefore: z.infer<typeof repeated> = { members, messages };
    const short = { asBefore, ...rest, ...(prompt === undefined ? {} : { prompt: own.slice(messages) }) };
    return { ...model, request: short };
  });
}

/** Undefined where it does not say what it repeats. */
function whole(model: ModelExchange, earlier: readonly ModelExchange[]): ModelExchange | undefined {
  const { request } = model;
  if (!isJsonObject(request) || !isJsonObject(request["asBefore"])) return model;
  const { asBefore, prompt, ...own } = request;
  const read = repeated.safeParse(asBefore);
  if (!read.success) return undefined;
  const { members, messages } = read.data;
  const before = previous(earlier, model) ?? {};
  const same = Object.fromEntries(members.map((key) => [key, before[key] ?? null]));
  const joined =
    prompt === undefined ? {} : { prompt: [...promptOf(before).slice(0, messages), ...promptOf({ prompt })] };
  return { ...model, request: { ...same, ...own, ...joined } };
}

function previous(models: readonly ModelExchange[], { purpose }: ModelExchange): JsonObject | undefined {
  const request = models.findLast((each) => each.purpose === purpose)?.request;
  return isJsonObject(request) ? request : undefined;
}

function promptOf({ prompt }: JsonObject): readonly Json[] {
  return Array.isArray(prompt) ? (prompt as readonly Json[]) : [];
}
