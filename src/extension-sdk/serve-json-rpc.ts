import type { Readable } from "node:stream";
import {
  type ExtensionManifest,
  extensionPhases,
  extensionProtocolVersion,
} from "../core/formats/extension/manifest.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject } from "../core/formats/json-value.ts";
import { EnvironmentError } from "./environment-error.ts";
import { errorText } from "./error-text.ts";
import { readLines } from "./read-lines.ts";
import { type Incoming, readMessage } from "./read-message.ts";
import { RpcError, rpcCodes } from "./rpc-error.ts";
import type { Session } from "./session.ts";

/** A host on the other side of two streams. */
export interface HostChannel {
  readonly input: Readable;
  /** Writes one message; settles when it is on its way. */
  readonly send: (message: object) => Promise<void>;
  /** Called when the host writes no more. */
  readonly onInputEnd: () => void;
}

/**
 * Answers a host's requests, one at a time and in their order. Settles when `shutdown` has been answered, or when the host
 * writes no more and everything before is answered. Rejects when the host cannot be written to.
 */
export async function serveJsonRpc<C, R>(
  manifest: ExtensionManifest,
  session: Session<C, R>,
  channel: HostChannel,
): Promise<void> {
  const { send, onInputEnd } = channel;
  for await (const line of readLines(channel.input, onInputEnd)) {
    if (line.trim() === "") continue;
    const message = readMessage(line);
    if (message.kind === "notification") {
      if (message.method === "shutdown") return;
      continue;
    }
    await send({ jsonrpc: "2.0", id: message.id, ...(await answer(manifest, session, message)) });
    if (message.kind === "request" && message.method === "shutdown") return;
  }
}

type Request = Extract<Incoming, { kind: "request" }>;

async function answer<C, R>(
  manifest: ExtensionManifest,
  session: Session<C, R>,
  message: Exclude<Incoming, { kind: "notification" }>,
): Promise<object> {
  if (message.kind === "refused") return { error: asError(message.error) };
  try {
    return { result: await handle(manifest, session, message) };
  } catch (error) {
    return { error: asError(error) };
  }
}

function asError(error: unknown): { readonly code: number; readonly message: string } {
  if (error instanceof RpcError) return { code: error.code, message: error.message };
  const code = error instanceof EnvironmentError ? rpcCodes.failed : rpcCodes.internal;
  return { code, message: errorText(error) };
}

async function handle<C, R>(
  manifest: ExtensionManifest,
  session: Session<C, R>,
  { method, params }: Request,
): Promise<object> {
  switch (method) {
    case "initialize":
      await initialize(session, params);
      return described(manifest);
    case "execute":
      return session.execute(readCall(params));
    case "shutdown":
      await session.close();
      return {};
    default:
      throw new RpcError("unknownMethod", `there is no method ${JSON.stringify(method)}`);
  }
}

async function initialize<C, R>(session: Session<C, R>, params: JsonObject): Promise<void> {
  const { protocolVersion } = params;
  if (protocolVersion !== extensionProtocolVersion) {
    const got = protocolVersion === undefined ? "none" : JSON.stringify(protocolVersion);
    throw new RpcError("invalidParams", `protocolVersion must be "${extensionProtocolVersion}", got ${got}`);
  }
  if (session.isOpen) throw new RpcError("invalidRequest", "initialize was called before");
  await session.open(objectOf(params["config"], "config"));
}

function described({ name, version, description, operations }: ExtensionManifest): object {
  return {
    name,
    version,
    protocolVersion: extensionProtocolVersion,
    ...(description === undefined ? {} : { description }),
    operations,
  };
}

function readCall(params: JsonObject): Parameters<Session<unknown, unknown>["execute"]>[0] {
  const { operation, args, context } = params;
  if (typeof operation !== "string") throw new RpcError("invalidParams", "operation must be a text");
  return { operation, args: objectOf(args, "args"), context, phases: extensionPhases };
}

/** Some hosts write null for an object without members. */
function objectOf(value: Json | undefined, name: string): JsonObject {
  if (value === undefined || value === null) return {};
  if (isJsonObject(value)) return value;
  throw new RpcError("invalidParams", `${name} must be an object`);
}
