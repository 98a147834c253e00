import { maxMessageBytes } from "../../base/limits.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import { McpvalsError } from "../../base/error.ts";
import { type ExtensionManifest, extensionProtocolVersion } from "../manifest.ts";
import {
  type ExecuteParams,
  type InitializeParams,
  type OperationResult,
  readInitializeResult,
  readOperationResult,
} from "../protocol.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { previewJson } from "../../base/read-json.ts";
import { settlesWithin, untilAborted } from "../../process/deadline.ts";
import { LineReader } from "../../process/program-output.ts";
import type { ProcessExit } from "../../process/spawn.ts";
import {
  cutText,
  ExtensionProcess,
  formatExit,
  parseAnswer,
  type ProcessStart,
} from "./extension-process.ts";

/** How long an extension may take to answer `shutdown`, in milliseconds; then its stdin is closed. */
const shutdownMs = 2000;
/** How long a program that has closed its stdout may take to end, in milliseconds. */
const closedMs = 1000;
/** How much of an error's data is shown, in characters. */
const dataLength = 1000;
const idMember = Buffer.from('"id"');
const neverAborted = new AbortController().signal;

interface PendingRequest {
  /** What messages call it. */
  readonly name: string;
  resolve(reply: RpcReply): void;
  reject(error: McpvalsError): void;
}

export interface JsonRpcStart extends Omit<ProcessStart, "protocol"> {
  /** Called with answers that were not requested; absent: they end the program. */
  readonly onStray?: (problem: string) => void;
}

/**
 * A running program that speaks the JSON-RPC protocol. When it breaks the protocol, or a request is given up, it is ended
 * with its process tree; it cannot be used any more, and `fault` says why.
 */
export class JsonRpcExtension implements AsyncDisposable {
  readonly process: ExtensionProcess;
  readonly #reader: LineReader;
  readonly #onStray: JsonRpcStart["onStray"];
  readonly #pending = new Map<Json, PendingRequest>();
  #lastId = 0;
  #fault: McpvalsError | undefined;
  #closing = false;
  #outputEnded = false;
  #unfinishedLine: Buffer | undefined;
  #ending: Promise<unknown> | undefined;

  /** Starts the program; `initialize` comes next. Throws as `ExtensionProcess.start`. */
  static async start({ onStray, ...start }: JsonRpcStart): Promise<JsonRpcExtension> {
    return new JsonRpcExtension(await ExtensionProcess.start({ ...start, protocol: "json-rpc" }), onStray);
  }

  constructor(process: ExtensionProcess, onStray?: JsonRpcStart["onStray"]) {
    this.process = process;
    this.#onStray = onStray;
    this.#reader = new LineReader({
      limit: maxMessageBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => {
        const [request] = this.#pending.values();
        const asked = request === undefined ? "" : ` in answer to ${request.name}`;
        const message = `wrote a line of more than ${maxMessageBytes / 1024 / 1024} MiB${asked}`;
        this.#fail(process.error("extension/answer-too-large", message));
      },
    });
    process.program.stdout.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    process.program.stdout.once("end", () => void this.#onOutputEnd());
    void process.ended.then((exit) => this.#onExit(exit));
  }

  /** Why it cannot be used any more; undefined as long as it can. */
  get fault(): McpvalsError | undefined {
    return this.#fault;
  }

  /** What it wrote on stdout after the last line end, once stdout has ended; undefined when that was nothing. */
  get unfinishedLine(): Buffer | undefined {
    return this.#unfinishedLine;
  }

  /** From now on its end is not a fault. */
  expectEnd(): void {
    this.#closing = true;
    this.process.expectEnd();
  }

  /**
   * Gives it its settings and asks for its manifest. Throws McpvalsError `extension/version`, and as `execute` does; it has
   * ended then.
   */
  initialize(config: JsonObject, signal: AbortSignal): Promise<ExtensionManifest> {
    return this.#orKill(async () => {
      const params = initializeParams(extensionProtocolVersion, config);
      const result = await this.#result("initialize", params, "initialize", signal);
      const version = isJsonObject(result) ? result["protocolVersion"] : undefined;
      if (typeof version === "string" && version !== extensionProtocolVersion) {
        const message = `speaks version ${cutText(version, 40)} of the protocol, and mcpvals speaks ${extensionProtocolVersion}`;
        throw this.process.error("extension/version", message);
      }
      const read = readInitializeResult(result);
      if (read.ok) return read.manifest;
      throw this.#protocolError(`answered initialize with an invalid manifest: ${read.message}`);
    });
  }

  /**
   * Runs one operation. Throws McpvalsError `extension/protocol`, `rpc-error`, `crashed`, `answer-too-large` and `limit`,
   * and the signal's reason; it has ended then.
   */
  execute(params: ExecuteParams, signal: AbortSignal): Promise<OperationResult> {
    return this.#orKill(async () => {
      const name = `execute of ${params.operation}`;
      const read = readOperationResult(await this.#result("execute", params, name, signal));
      if (read.ok) return read.result;
      throw this.#protocolError(`answered ${name} with an invalid result: ${read.message}`);
    });
  }

  /** Sends any request. Throws as `execute`, but not for an answer that is an error. */
  request(method: string, params: object, signal: AbortSignal): Promise<RpcReply> {
    return this.#orKill(() => this.#request(method, params, method, signal));
  }

  /** Asks it to end, then ends it. Never throws. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#fault === undefined && this.#ending === undefined && this.process.program.exit === undefined) {
      this.expectEnd();
      const asked = this.#request("shutdown", {}, "shutdown", neverAborted);
      await settlesWithin(Promise.race([asked, this.process.ended]), shutdownMs);
    }
    this.#ending ??= this.process.stop();
    await this.#ending;
  }

  async #orKill<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.#fault ??=
        error instanceof McpvalsError ? error : this.#protocolError("was interrupted in a request");
      this.#ending ??= this.process.kill();
      await this.#ending;
      throw error;
    }
  }

  async #result(method: string, params: object, name: string, signal: AbortSignal): Promise<Json> {
    const reply = await this.#request(method, params, name, signal);
    if ("result" in reply) return reply.result;
    const { data } = reply.error;
    const shown =
      data === undefined ? [] : [`data: ${cutText(previewJson(data, dataLength * 2), dataLength)}`];
    const detail = [...shown, ...(this.process.detail === undefined ? [] : [this.process.detail])].join("\n");
    const message = `answered ${name} with the error ${rpcErrorText(reply.error)}`;
    throw this.process.error("extension/rpc-error", message, detail === "" ? {} : { detail });
  }

  async #request(method: string, params: object, name: string, signal: AbortSignal): Promise<RpcReply> {
    if (this.#fault !== undefined) throw this.#fault;
    signal.throwIfAborted();
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = new Promise<RpcReply>((resolve, reject) => {
      this.#pending.set(id, { name, resolve, reject });
    });
    this.process.program.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    try {
      const reply = await untilAborted(answer, signal);
      // A second answer may come right behind the first one.
      await nextTurn();
      const { fault } = this;
      // That the program has ended since does not invalidate its answer.
      if (fault !== undefined && fault.code !== "extension/crashed") throw fault;
      return reply;
    } finally {
      this.#pending.delete(id);
    }
  }

  #receive(line: Buffer): void {
    if (line.length === 0) return;
    if (this.#outputEnded) {
      this.#unfinishedLine = line;
      return this.process.invalidLine(line);
    }
    // Only answers, which have an id, must be read when logs are not recorded any more.
    if (this.process.isLogFull && !line.includes(idMember)) return this.process.omitLog();
    const message = readRpcMessage(line);
    if (message?.kind === "answer") return this.#receiveAnswer(message.id, message, line);
    if (message?.kind === "notification" && message.method === "log") {
      if (this.process.log(message.params, line.length)) return;
    }
    this.process.invalidLine(line);
    if (message?.kind === "broken") {
      const [request] = this.#pending.values();
      if (request !== undefined)
        this.#fail(`answered ${request.name} with an invalid message: ${message.problem}`);
    } else if (this.process.isFlooded) this.#fail("floods its stdout with lines that are not messages");
  }

  #receiveAnswer(id: Json, answer: RpcAnswer, line: Buffer): void {
    const [oldest] = this.#pending.values();
    // A program that cannot read a request cannot know its id.
    const request = this.#pending.get(id) ?? (id === null && "error" in answer ? oldest : undefined);
    if (request !== undefined) {
      this.#pending.delete(id);
      if ("problem" in answer)
        request.reject(this.#protocolError(`answered ${request.name} ${answer.problem}`));
      else request.resolve(answer);
      return;
    }
    const isRepeated = typeof id === "number" && Number.isInteger(id) && id >= 1 && id <= this.#lastId;
    const problem = isRepeated
      ? `answered request ${id} twice`
      : `sent an answer with the id ${previewJson(id, 40)}, which was not requested`;
    if (this.#onStray !== undefined && (isRepeated || oldest === undefined)) return this.#onStray(problem);
    this.process.invalidLine(line);
    this.#fail(problem);
  }

  #protocolError(problem: string): McpvalsError {
    return this.process.error("extension/protocol", problem);
  }

  #endOutput(): void {
    this.#outputEnded = true;
    this.#reader.end();
  }

  /** Nothing can be answered without stdout. That it was closed is most often the beginning of the program's end. */
  async #onOutputEnd(): Promise<void> {
    this.#endOutput();
    if (!(await settlesWithin(this.process.ended, closedMs))) this.#fail("closed its stdout and went on");
  }

  /** Others may hold its stdout open, so that there was no end of output. */
  #onExit(exit: ProcessExit): void {
    this.#endOutput();
    const ended = formatExit(exit);
    if (this.#unfinishedLine !== undefined)
      return this.#fail(`left the last line of its stdout without a line end, and ${ended}`);
    const [request] = this.#pending.values();
    const when = request === undefined ? "between two requests" : `before it had answered ${request.name}`;
    this.#fail(this.process.error("extension/crashed", `${ended} ${when}`));
  }

  /** A text is an error of the protocol. */
  #fail(problem: McpvalsError | string): void {
    const error = typeof problem === "string" ? this.#protocolError(problem) : problem;
    if (!this.#closing && this.#fault === undefined) {
      this.#fault = error;
      if (this.#pending.size === 0) this.#ending ??= this.process.kill();
    }
    for (const request of this.#pending.values()) request.reject(error);
  }
}

/** The params of `initialize`; settings are left out when there are none. */
export function initializeParams(protocolVersion: string, config: JsonObject): InitializeParams {
  return Object.keys(config).length === 0 ? { protocolVersion } : { protocolVersion, config };
}

/** A line that an extension may write. */
export type RpcMessage =
  | ({ readonly kind: "answer"; readonly id: Json } & RpcAnswer)
  | { readonly kind: "notification"; readonly method: string; readonly params: Json | undefined }
  /** It was meant to be an answer; `problem` is a predicate. */
  | { readonly kind: "broken"; readonly problem: string };

/** What a program answered to a request. */
export type RpcReply = { readonly result: Json } | { readonly error: JsonObject };

/** `problem` completes `answered initialize …`. */
export type RpcAnswer = RpcReply | { readonly problem: string };

const openingBrace = 0x7b;
const answerMembers = ["result", "error"];

/** Reads a line as a message of JSON-RPC 2.0; undefined if it is none, or one that only a host may send. */
export function readRpcMessage(line: Buffer): RpcMessage | undefined {
  // A flood of noise must be cheap, and a failing JSON.parse is not.
  if (line.find((byte) => byte !== 0x20 && byte !== 0x09) !== openingBrace) return undefined;
  const parsed = parseAnswer(line);
  if (parsed.kind === "excessive") return { kind: "broken", problem: `it ${parsed.problem}` };
  if (parsed.kind === "not-json") {
    const has = (name: string): boolean => line.includes(`"${name}"`);
    const looksLikeAnswer = has("jsonrpc") && !has("method") && answerMembers.some(has);
    return looksLikeAnswer ? { kind: "broken", problem: "it is not JSON" } : undefined;
  }
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
