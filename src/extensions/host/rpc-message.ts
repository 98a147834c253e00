import {
  jsonExcess,
  type JsonExcess,
  mostMemory,
  previewJson,
  repeatedKey,
} from "../../core/formats/read-json.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";

/** Largest answer of an extension, in bytes. */
export const largestAnswer: number = 10 * 1024 * 1024;
/** Nesting of arrays and objects that an answer may have: code that handles it may recurse. */
const deepestAnswer = 400;

const excessText: Readonly<Record<JsonExcess, string>> = {
  deep: "is nested too deeply",
  heavy: `has so many values that it would take more than ${mostMemory / 1024 / 1024} MiB of memory`,
};

/** What an extension wrote, parsed. `problem` is a predicate. */
export type ParsedAnswer =
  | { readonly kind: "value"; readonly value: Json }
  | { readonly kind: "duplicate-key"; readonly value: Json; readonly problem: string }
  /** It takes too much memory or stack to be used. */
  | { readonly kind: "excessive"; readonly problem: string }
  | { readonly kind: "not-json" };

/** Parses what should be one JSON value. */
export function parseAnswer(bytes: Buffer): ParsedAnswer {
  const excess = jsonExcess(bytes, { levels: deepestAnswer });
  if (excess !== undefined) return { kind: "excessive", problem: excessText[excess] };
  const text = bytes.toString("utf8");
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    return { kind: "not-json" };
  }
  if (isDeeper(value, deepestAnswer)) return { kind: "excessive", problem: excessText.deep };
  const key = repeatedKey(text);
  if (key === undefined) return { kind: "value", value };
  return { kind: "duplicate-key", value, problem: `has the key ${previewJson(key)} twice` };
}

function isDeeper(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item: Json) => isDeeper(item, levels - 1));
}

/** A line that an extension may write. */
export type RpcMessage =
  | ({ readonly kind: "answer"; readonly id: Json } & RpcAnswer)
  | { readonly kind: "notification"; readonly method: string; readonly params: Json | undefined }
  /** It was meant to be an answer; `problem` is a predicate. */
  | { readonly kind: "broken"; readonly problem: string };

/** `problem` completes `answered initialize …`. */
export type RpcAnswer =
  | { readonly result: Json }
  | { readonly error: JsonObject }
  | { readonly problem: string };

const openingBrace = 0x7b;
const answerMembers = ["result", "error"];

/** Reads a line as a message of JSON-RPC 2.0; undefined if it is none, or one that only a host may send. */
export function readRpcMessage(line: Buffer): RpcMessage | undefined {
  // A flood of noise must be cheap, and a failing JSON.parse is not.
  if (line.find((byte) => byte !== 0x20 && byte !== 0x09) !== openingBrace) return undefined;
  const parsed = parseAnswer(line);
  if (parsed.kind === "excessive") return { kind: "broken", problem: `it ${parsed.problem}` };
  if (parsed.kind === "not-json")
    return looksLikeAnswer(line) ? { kind: "broken", problem: "it is not JSON" } : undefined;
  const { value } = parsed;
  if (!isJsonObject(value)) return undefined;
  const { jsonrpc, id, method, params } = value;
  if (jsonrpc !== "2.0") {
    const isAnswer = id !== undefined && answerMembers.some((name) => value[name] !== undefined);
    return isAnswer ? { kind: "broken", problem: 'its jsonrpc is not "2.0"' } : undefined;
  }
  if (typeof method === "string" && id === undefined) return { kind: "notification", method, params };
  if (method !== undefined || id === undefined) return undefined;
  return parsed.kind === "value"
    ? { kind: "answer", id, ...readRpcAnswer(value) }
    : { kind: "broken", problem: `it ${parsed.problem}` };
}

function looksLikeAnswer(line: Buffer): boolean {
  const has = (name: string): boolean => line.includes(`"${name}"`);
  return has("jsonrpc") && !has("method") && answerMembers.some(has);
}

/** A member that is null counts as absent where the other one is there. */
function readRpcAnswer({ result, error }: JsonObject): RpcAnswer {
  if (error === undefined || error === null)
    return result === undefined ? { problem: "without result and without error" } : { result };
  if (result !== undefined && result !== null) return { problem: "with a result and an error" };
  return isJsonObject(error) ? { error } : { problem: "with an error that is not an object" };
}

/** An error of JSON-RPC for a reader: `-32601: method not found`. */
export function rpcErrorText({ code, message }: JsonObject): string {
  const text = typeof message === "string" && message.trim() !== "" ? message : "without a message";
  return `${typeof code === "number" ? code : "without a code"}: ${text}`;
}
