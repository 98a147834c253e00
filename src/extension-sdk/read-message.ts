import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/json-value.ts";
import { errorText } from "./error-text.ts";
import { RpcError } from "./rpc-error.ts";

/** Of any kind that JSON-RPC has. */
export type RequestId = string | number | null;

/** One line of a host, read. */
export type Incoming =
  | { readonly kind: "request"; readonly id: RequestId; readonly method: string; readonly params: JsonObject }
  | { readonly kind: "notification"; readonly method: string }
  /** To be answered at once; `id` is null where none can be read. */
  | { readonly kind: "refused"; readonly id: RequestId; readonly error: RpcError };

/** Reads one JSON-RPC message. Params that are left out or null are an empty object. */
export function readMessage(line: string): Incoming {
  let message: Json;
  try {
    message = JSON.parse(line) as Json;
  } catch (error) {
    const text = `the line is not valid JSON: ${errorText(error)}`;
    return refused(null, new RpcError("invalidJson", text, { cause: error }));
  }
  if (!isJsonObject(message)) return refused(null, new RpcError("invalidRequest", "a message is an object"));
  return readObject(message);
}

function readObject(message: JsonObject): Incoming {
  const { jsonrpc, id, method, params = {} } = message;
  if (id !== undefined && !isId(id)) return invalid(null, "id must be a text, a number or null");
  if (jsonrpc !== "2.0") return invalid(id ?? null, 'jsonrpc must be "2.0"');
  if (typeof method !== "string") return invalid(id ?? null, "method must be a text");
  if (id === undefined) return { kind: "notification", method };
  if (params === null) return { kind: "request", id, method, params: {} };
  if (isJsonObject(params)) return { kind: "request", id, method, params };
  return refused(id, new RpcError("invalidParams", "params must be an object"));
}

function invalid(id: RequestId, message: string): Incoming {
  return refused(id, new RpcError("invalidRequest", message));
}

function refused(id: RequestId, error: RpcError): Incoming {
  return { kind: "refused", id, error };
}

function isId(id: Json): id is RequestId {
  return id === null || typeof id === "string" || typeof id === "number";
}
