import {
  jsonExcess,
  type JsonExcess,
  mostMemory,
  previewJson,
  repeatedKey,
} from "../../core/formats/read-json.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";

/** What an extension may write on a line. */
export type RpcMessage =
  | { readonly kind: "answer"; readonly id: Json; readonly body: JsonObject }
  | { readonly kind: "notification"; readonly method: string; readonly params: Json | undefined }
  /** What was meant to be an answer, and what is wrong with it. */
  | { readonly kind: "broken"; readonly problem: string };

const openingBrace = 0x7b;
const answerMembers = ["result", "error"];

/** Reads a line as a message of JSON-RPC 2.0; undefined if it is none, or one that only a host may send. */
export function readRpcMessage(line: Buffer): RpcMessage | undefined {
  // A flood of noise must be cheap, and a failing JSON.parse is not.
  if (line.find((byte) => byte !== 0x20 && byte !== 0x09) !== openingBrace) return undefined;
  const excess = jsonExcess(line, { levels: deepestAnswer });
  if (excess !== undefined) return { kind: "broken", problem: `it ${excessText[excess]}` };
  const text = line.toString("utf8");
  const value = parse(text);
  if (value === undefined)
    return meansAnswer(line) ? { kind: "broken", problem: "it is not JSON" } : undefined;
  if (!isJsonObject(value)) return undefined;
  if (value["jsonrpc"] !== "2.0") {
    const isAnswer = value["id"] !== undefined && answerMembers.some((name) => value[name] !== undefined);
    return isAnswer ? { kind: "broken", problem: 'its jsonrpc is not "2.0"' } : undefined;
  }
  const { id, method, params } = value;
  if (method === undefined) return id === undefined ? undefined : answerOf(id, value, text);
  return typeof method === "string" && id === undefined
    ? { kind: "notification", method, params }
    : undefined;
}

function answerOf(id: Json, body: JsonObject, text: string): RpcMessage {
  const twin = repeatedKey(text);
  if (twin === undefined) return { kind: "answer", id, body };
  return { kind: "broken", problem: `it has the key ${previewJson(twin)} twice` };
}

function meansAnswer(line: Buffer): boolean {
  const has = (name: string): boolean => line.includes(`"${name}"`);
  return has("jsonrpc") && !has("method") && answerMembers.some(has);
}

function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined; // no message then, which is what the caller is told
  }
}

/** What an answer says: a result, an error, or what is wrong with it. */
export type RpcAnswer =
  | { readonly kind: "result"; readonly result: Json }
  | { readonly kind: "error"; readonly error: JsonObject }
  | { readonly kind: "broken"; readonly problem: string };

/** Reads an answer. A member that is null counts as absent where the other one is there. */
export function readRpcAnswer({ result, error }: JsonObject): RpcAnswer {
  if (error === undefined || error === null) {
    if (result !== undefined) return { kind: "result", result };
    return { kind: "broken", problem: "without result and without error" };
  }
  if (result !== undefined && result !== null)
    return { kind: "broken", problem: "with a result and an error" };
  if (!isJsonObject(error)) return { kind: "broken", problem: "with an error that is no object" };
  return { kind: "error", error };
}

/** An error as a reader wants it: `-32601: method not found`. */
export function rpcErrorText({ code, message }: JsonObject): string {
  const words = typeof message === "string" && message.trim() !== "" ? message : "without a message";
  return `${typeof code === "number" ? code : "without a code"}: ${words}`;
}

/** Levels of arrays and objects that an answer may have: who handles it does so with a stack that has a limit. */
export const deepestAnswer = 400;

/** What is wrong with an answer that is better not parsed. */
export const excessText: Readonly<Record<JsonExcess, string>> = {
  deep: "is nested too deeply",
  heavy: `has so many values that it would take more than ${mostMemory / 1024 / 1024} MiB of memory`,
};

/** Whether an answer is nested deeper than anybody can handle. */
export function isTooDeep(value: Json): boolean {
  return hasMoreLevels(value, deepestAnswer);
}

function hasMoreLevels(value: Json, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((item: Json) => hasMoreLevels(item, levels - 1));
}

/** Largest answer of an extension, in bytes. */
export const largestAnswer: number = 10 * 1024 * 1024;
