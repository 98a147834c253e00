import { on } from "node:events";
import { readFile } from "node:fs/promises";
import type { Readable } from "node:stream";
import { parseArgs } from "node:util";
import { stringify } from "yaml";
import {
  type ExtensionManifest,
  type ExtensionPhase,
  extensionPhases,
  extensionProtocolVersion,
} from "../core/formats/extension/manifest.ts";
import type { OperationResult } from "../core/formats/extension/protocol.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/formats/json.ts";
import {
  EnvironmentError,
  errorText,
  type ExtensionDefinition,
  type Log,
  rpcCodes,
  RpcError,
} from "./operation.ts";
import { Session } from "./session.ts";

/** How long a running operation may take once the program has to end, in milliseconds. */
const workMs = 600;
/** How long `close` may take then, in milliseconds. */
const closeMs = 1500;
const signalExitCodes = { SIGTERM: 143, SIGINT: 130, SIGHUP: 129 } as const;

/** Runs the program of an extension; see `Extension.serve`. */
async function serve<C, R>(
  manifest: ExtensionManifest,
  definition: ExtensionDefinition<C, R>,
): Promise<void> {
  const end = new ProgramEnd();
  const stdout = ownStdout((error) => end.come("the host reads no more", 0, error));
  const program: Program<C, R> = { manifest, definition, end, stdout };
  try {
    const code = await run(program, readArguments());
    await leave(end.code ?? code);
  } catch (error) {
    process.stderr.write(`${manifest.name}: ${errorText(error)}\n`);
    await leave(end.code || 1);
  }
}

interface Program<C, R> {
  readonly manifest: ExtensionManifest;
  readonly definition: ExtensionDefinition<C, R>;
  readonly end: ProgramEnd;
  readonly stdout: OwnStdout;
}

/** Says when the program has to end, and with which exit code. */
class ProgramEnd {
  readonly #controller = new AbortController();
  code: number | undefined;

  constructor() {
    for (const [name, code] of Object.entries(signalExitCodes)) {
      process.once(name, () => this.come(`the program was asked to end (${name})`, code));
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  come(reason: string, code: number, cause?: Error): void {
    if (this.signal.aborted) return;
    this.code = code;
    this.#controller.abort(new Error(reason, { cause }));
  }

  /** Waits for work, but at most `ms` milliseconds after the program has to end. */
  async wait(work: Promise<void>, ms: number): Promise<void> {
    const over = new Promise<void>((resolve) => {
      const start = (): void => void setTimeout(resolve, ms);
      if (this.signal.aborted) start();
      else this.signal.addEventListener("abort", start, { once: true });
    });
    await Promise.race([work, over]);
  }
}

function readArguments(): { readonly words: readonly string[]; readonly options: Options } {
  const { positionals, values } = parseArgs({
    options: { input: { type: "string" }, config: { type: "string" }, manifest: { type: "boolean" } },
    allowPositionals: true,
    // Unknown options of future hosts are ignored.
    strict: false,
  });
  const { input, config, manifest } = values;
  return {
    words: positionals,
    options: {
      input: typeof input === "string" ? input : undefined,
      config: typeof config === "string" ? config : undefined,
      manifest: manifest === true,
    },
  };
}

interface Options {
  readonly input: string | undefined;
  readonly config: string | undefined;
  readonly manifest: boolean;
}

async function run<C, R>(
  program: Program<C, R>,
  { words, options }: ReturnType<typeof readArguments>,
): Promise<number> {
  const [verb, operation] = words;
  if (options.manifest) {
    await program.stdout.write(manifestText(program.manifest));
    return 0;
  }
  if (verb === "action" || verb === "check") return oneShot(program, { verb, operation, ...options });
  if (verb === undefined) return jsonRpc(program, options.config);
  const { name } = program.manifest;
  throw new Error(
    `unknown command ${verb}. Use ${name} without arguments, ${name} action|check NAME --input FILE, ${name} --config JSON or ${name} --manifest.`,
  );
}

async function oneShot<C, R>(
  { definition, end, stdout }: Program<C, R>,
  call: Parameters<typeof runOneShot>[1],
): Promise<number> {
  const session = new Session(definition, { log: logToStderr, signal: end.signal });
  let result: OperationResult | undefined;
  const keep = (given: OperationResult): void => {
    result = given;
  };
  await end.wait(runOneShot(session, call).then(keep), workMs + closeMs);
  if (result === undefined) throw new Error("the operation did not end when it was asked to");
  await stdout.write(`${JSON.stringify(result)}\n`);
  return result.success ? 0 : 1;
}

const logToStderr: Log = (level, message, data) => {
  process.stderr.write(`${level}: ${message}${data === undefined ? "" : ` ${JSON.stringify(data)}`}\n`);
};

async function jsonRpc<C, R>(
  { manifest, definition, end, stdout }: Program<C, R>,
  config: string | undefined,
): Promise<number> {
  const send = (message: object): Promise<void> => stdout.write(`${JSON.stringify(message)}\n`);
  const log: Log = (level, message, data) => {
    const params = { level, message, ...(data === undefined ? {} : { data }) };
    // The error of stdout reports that the host has gone.
    send({ jsonrpc: "2.0", method: "log", params }).catch(() => undefined);
  };
  const session = new Session(definition, { log, signal: end.signal });
  if (config !== undefined) await session.open(objectOf(parse(config, "--config"), "--config"));
  // With a config as an argument, requests are piped, so stdin may end before they are answered.
  const onInputEnd = (): void => {
    if (config === undefined) end.come("the host has closed stdin", 0);
  };
  try {
    await end.wait(serveJsonRpc(manifest, session, { input: process.stdin, send, onInputEnd }), workMs);
  } finally {
    end.come("the host has ended the session", 0);
    await end.wait(session.close(), closeMs);
  }
  return 0;
}

/** Ends the process even if an operation left something open, such as a connection. */
async function leave(code: number): Promise<void> {
  await new Promise<void>((resolve) => process.stderr.write("", () => resolve()));
  process.exit(code);
}

/** The output to the host. */
export interface OwnStdout {
  /** Settles when the text was written; rejects when stdout is closed. */
  readonly write: (text: string) => Promise<void>;
}

/** Reserves stdout for the protocol: other output of this process to stdout goes to stderr. `onGone` is called when it is closed. */
function ownStdout(onGone: (error: Error) => void): OwnStdout {
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  stdout.write = stderr.write.bind(stderr);
  stdout.on("error", onGone);
  // Nothing can be reported when stderr is closed too.
  stderr.on("error", () => undefined);
  return {
    write: (text) =>
      new Promise((resolve, reject) => {
        write(text, (error) => (error ? reject(error) : resolve()));
      }),
  };
}

/** `action NAME --input FILE` or `check NAME --input FILE`, read. */
export interface OneShotCall {
  readonly verb: "action" | "check";
  readonly operation: string | undefined;
  /** Path of a file with `{args, context, config?}`. */
  readonly input: string | undefined;
  /** JSON of the config; takes precedence over that of the file. */
  readonly config: string | undefined;
}

/** Phases of a verb when the input has none, most likely first. */
const phasesOf: Readonly<Record<OneShotCall["verb"], readonly ExtensionPhase[]>> = {
  action: ["setup", "cleanup"],
  check: ["verify"],
};

/** Runs one operation, with `open` before it and `close` after it. Throws for an invalid input, and as these do. */
async function runOneShot<C, R>(
  session: Session<C, R>,
  { verb, operation, input, config }: OneShotCall,
): Promise<OperationResult> {
  if (operation === undefined) throw new Error(`${verb} needs the name of an operation`);
  if (input === undefined) throw new Error(`${verb} ${operation} needs --input FILE`);
  const document = await readInput(input);
  const settings = config === undefined ? document["config"] : parse(config, "--config");
  await session.open(objectOf(settings, "config"));
  try {
    const args = objectOf(document["args"], "args");
    const context = document["context"];
    return await session.execute({ operation, args, context, phases: phasesOf[verb] });
  } finally {
    await session.close();
  }
}

async function readInput(path: string): Promise<JsonObject> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new Error(`the input ${path} cannot be read`, { cause: error });
  });
  return objectOf(parse(text, `the input ${path}`), `the input ${path}`);
}

/** Reads JSON. Throws an Error that begins with `what`, the text's name. */
function parse(text: string, what: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw new Error(`${what} is not valid JSON`, { cause: error });
  }
}

/** Throws an Error unless the value is an object; an absent one and null count as empty. */
function objectOf(value: Json | undefined, what: string): JsonObject {
  if (value === undefined || value === null) return {};
  if (isJsonObject(value)) return value;
  throw new Error(`${what} must be an object`);
}

/** `extension.yaml` of an extension. `program` is the path of its program in the folder, where it is not its name. */
export function manifestText(manifest: ExtensionManifest, program?: string): string {
  const { operations, ...head } = manifest;
  const written = { ...head, ...(program === undefined ? {} : { program }), operations };
  return stringify(written, { aliasDuplicateObjects: false, lineWidth: 110 });
}

/** The connection to a host. */
export interface HostChannel {
  readonly input: Readable;
  /** Writes one message. */
  readonly send: (message: object) => Promise<void>;
  /** Called when stdin ends. */
  readonly onInputEnd: () => void;
}

/** Answers requests one at a time, in their order, until `shutdown` or the end of stdin. Rejects when stdout is closed. */
async function serveJsonRpc<C, R>(
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
  await session.open(objectParam(params["config"], "config"));
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
  return { operation, args: objectParam(args, "args"), context, phases: extensionPhases };
}

/** Some hosts write null for an empty object. */
function objectParam(value: Json | undefined, name: string): JsonObject {
  if (value === undefined || value === null) return {};
  if (isJsonObject(value)) return value;
  throw new RpcError("invalidParams", `${name} must be an object`);
}

const newline = 0x0a;

/** The lines of a stream, of any length; the last one may lack its line end. The stream is read ahead, so that `onEnd` is called at once. */
async function* readLines(input: Readable, onEnd: () => void): AsyncGenerator<string> {
  input.once("end", onEnd).once("close", onEnd);
  const chunks: AsyncIterable<readonly Buffer[]> = on(input, "data", { close: ["end", "close"] });
  let parts: Buffer[] = [];
  for await (const [chunk = Buffer.alloc(0)] of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString("utf8");
      parts = [];
      start = end + 1;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
  if (parts.length > 0) yield Buffer.concat(parts).toString("utf8");
}

/** Of any kind that JSON-RPC has. */
export type RequestId = string | number | null;

/** One line of a host, read. */
export type Incoming =
  | { readonly kind: "request"; readonly id: RequestId; readonly method: string; readonly params: JsonObject }
  | { readonly kind: "notification"; readonly method: string }
  /** An invalid message; `id` is null when it has no valid one. */
  | { readonly kind: "refused"; readonly id: RequestId; readonly error: RpcError };

/** Reads one JSON-RPC message. Params that are left out or null are an empty object. */
function readMessage(line: string): Incoming {
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

/** An extension, not yet running. */
export interface Extension {
  /** Its manifest. */
  readonly manifest: ExtensionManifest;
  /**
   * Runs the program, and ends the process. Without arguments it speaks JSON-RPC on stdin and stdout; `action NAME --input
   * FILE` and `check NAME --input FILE` run one operation, with a message on stderr and exit code 1 when it cannot give a
   * result; `--config JSON` opens the extension with that config and answers `execute` until stdin ends; `--manifest` prints
   * `extension.yaml`. Other output to stdout, such as of `console.log`, goes to stderr. A program that an operation starts
   * must not inherit stdout.
   */
  serve(): Promise<void>;
}

/** Defines an extension. Throws an Error when it has no name, no version or no operation. */
export function defineExtension<C = JsonObject, R = undefined>(
  definition: ExtensionDefinition<C, R>,
): Extension {
  const { name, version, description, operations } = definition;
  for (const [key, value] of Object.entries({ name, version })) {
    if (value === "") throw new Error(`an extension needs a ${key}`);
  }
  const declared = Object.entries(operations).map(([id, { declaration }]) => [id, declaration] as const);
  if (declared.length === 0) throw new Error(`the extension ${name} has no operations`);
  const manifest: ExtensionManifest = {
    name,
    version,
    ...(description === undefined ? {} : { description }),
    protocol: "json-rpc",
    operations: Object.fromEntries(declared),
  };
  return { manifest, serve: () => serve(manifest, definition) };
}
