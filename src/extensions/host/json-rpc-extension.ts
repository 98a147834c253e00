import { setImmediate as turn } from "node:timers/promises";
import type { ErrorCode } from "../../core/errors/catalogue.ts";
import { type ErrorDetails, McpvalsError } from "../../core/errors/error.ts";
import { type ExtensionManifest, extensionProtocolVersion } from "../../core/formats/extension/manifest.ts";
import {
  type ExecuteParams,
  type InitializeParams,
  type OperationResult,
  readInitializeResult,
  readOperationResult,
} from "../../core/formats/extension/protocol.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { previewJson } from "../../core/formats/read-json.ts";
import { settlesWithin, untilAborted } from "../../process/deadline.ts";
import { LineReader } from "../../process/program-output.ts";
import type { ProcessExit } from "../../process/spawn.ts";
import {
  isTooDeep,
  largestAnswer,
  readRpcAnswer,
  readRpcMessage,
  rpcErrorText,
  type RpcMessage,
} from "./rpc-message.ts";
import { cutText, ExtensionProcess, howItEnded, type ProcessStart } from "./extension-process.ts";

/** How long an extension may take to answer `shutdown`, in milliseconds; then its stdin is closed. */
const shutdownMs = 2000;
/** How long a program that has closed its stdout may take to end, in milliseconds. */
const closedMs = 1000;
/** Shown of the data of an error, in characters. */
const dataLength = 1000;
const idMember = Buffer.from('"id"');

/** A request that is being answered. */
interface Waiting {
  readonly id: number;
  readonly what: string;
  resolve(result: Json): void;
  reject(error: McpvalsError): void;
}

/**
 * A running program that speaks the JSON-RPC protocol, one request at a time. Whatever it does wrong ends it, with its
 * process tree; it is of no use then, and `fault` says why.
 */
export class JsonRpcExtension implements AsyncDisposable {
  readonly #process: ExtensionProcess;
  readonly #reader: LineReader;
  #lastId = 0;
  #waiting: Waiting | undefined;
  #fault: McpvalsError | undefined;
  #closing = false;
  #streamEnded = false;
  /** Whether its last line had no end. */
  #unfinished = false;
  #ending: Promise<unknown> | undefined;

  /** Starts the program; `initialize` comes next. Throws `extension/start-failed` and `sandbox/unavailable`. */
  static async start(start: Omit<ProcessStart, "protocol">): Promise<JsonRpcExtension> {
    return new JsonRpcExtension(await ExtensionProcess.start({ ...start, protocol: "json-rpc" }));
  }

  constructor(process: ExtensionProcess) {
    this.#process = process;
    this.#reader = new LineReader({
      limit: largestAnswer,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#failTooLarge(),
    });
    process.stdout.on("data", (chunk: Buffer) => this.#reader.push(chunk));
    process.stdout.once("end", () => void this.#closedOutput());
    void process.ended.then((exit) => this.#ended(exit));
  }

  /** What went wrong, after which it is of no use; undefined as long as it can be asked. */
  get fault(): McpvalsError | undefined {
    return this.#fault;
  }

  /** As {@link ExtensionProcess.error}. */
  error(code: ErrorCode, message: string, details?: ErrorDetails): McpvalsError {
    return this.#process.error(code, message, details);
  }

  /**
   * Tells it its settings and asks what it offers. Throws McpvalsError `extension/version`, and as `execute` does; it has
   * ended then.
   */
  initialize(config: JsonObject, signal: AbortSignal): Promise<ExtensionManifest> {
    return this.#orKill(async () => {
      const settings = Object.keys(config).length === 0 ? {} : { config };
      const params: InitializeParams = { protocolVersion: extensionProtocolVersion, ...settings };
      const result = await this.#request("initialize", { ...params }, { what: "initialize", signal });
      const spoken = isJsonObject(result) ? result["protocolVersion"] : undefined;
      if (typeof spoken === "string" && spoken !== extensionProtocolVersion) throw this.#wrongVersion(spoken);
      const read = readInitializeResult(result);
      if (!read.ok) throw this.#protocol(`answered initialize with what is no manifest: ${read.message}`);
      return read.manifest;
    });
  }

  /**
   * Runs one operation. Throws McpvalsError `extension/protocol`, `rpc-error`, `crashed`, `answer-too-large` and `limit`,
   * and the signal's reason; it has ended then.
   */
  execute(params: ExecuteParams, signal: AbortSignal): Promise<OperationResult> {
    return this.#orKill(async () => {
      const what = `execute of ${params.operation}`;
      const result = await this.#request("execute", { ...params }, { what, signal });
      const read = readOperationResult(result);
      if (!read.ok) throw this.#protocol(`answered ${what} with what is no result: ${read.message}`);
      return read.result;
    });
  }

  /** Asks it to end, then ends it. Never throws. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#fault === undefined && this.#ending === undefined) {
      this.#closing = true;
      this.#process.expectEnd();
      const asked = this.#request("shutdown", {}, { what: "shutdown", signal: neverAborted });
      await settlesWithin(Promise.race([asked, this.#process.ended]), shutdownMs);
    }
    this.#ending ??= this.#process.stop();
    await this.#ending;
  }

  async #orKill<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.#fault ??=
        error instanceof McpvalsError ? error : this.#protocol("was left in the middle of its work");
      this.#ending ??= this.#process.kill();
      await this.#ending;
      throw error;
    }
  }

  async #request(
    method: string,
    params: object,
    { what, signal }: { readonly what: string; readonly signal: AbortSignal },
  ): Promise<Json> {
    if (this.#fault !== undefined) throw this.#fault;
    signal.throwIfAborted();
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = new Promise<Json>((resolve, reject) => {
      this.#waiting = { id, what, resolve, reject };
    });
    this.#process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    try {
      const result = await untilAborted(answer, signal);
      // What came right behind the answer tells whether it was the only one.
      await turn();
      const { fault } = this;
      // That it has ended since says nothing against what it answered.
      if (fault !== undefined && fault.code !== "extension/crashed") throw fault;
      return result;
    } finally {
      this.#waiting = undefined;
    }
  }

  #receive(line: Buffer): void {
    if (line.length === 0) return;
    // An answer has an id, so what has none needs no reading when it would not be recorded.
    if (this.#process.output.isLogFull && !line.includes(idMember)) return this.#process.output.omitLog();
    const message = readRpcMessage(line);
    if (this.#streamEnded) this.#leaveUnfinished(line);
    else if (message?.kind === "broken") this.#takeBroken(message, line);
    else if (message?.kind === "answer") this.#take(message, line);
    else if (message?.method !== "log" || !this.#process.output.log(message.params, line.length))
      this.#takeNoise(line);
  }

  #takeNoise(line: Buffer): void {
    const { output } = this.#process;
    output.invalidLine(line);
    if (output.isFlooded) this.#fail(this.#protocol("floods its stdout with what is no message"));
  }

  #take({ id, body }: Extract<RpcMessage, { kind: "answer" }>, line: Buffer): void {
    const waiting = this.#waiting;
    const answer = readRpcAnswer(body);
    if (waiting === undefined || id !== waiting.id) return this.#failUnasked(id, answer, line);
    this.#waiting = undefined;
    switch (answer.kind) {
      case "result":
        return isTooDeep(answer.result)
          ? waiting.reject(this.#protocol(`answered ${waiting.what} with something nested too deeply`))
          : waiting.resolve(answer.result);
      case "error":
        return waiting.reject(this.#rpcError(waiting.what, answer.error));
      case "broken":
        return waiting.reject(this.#protocol(`answered ${waiting.what} ${answer.problem}`));
    }
  }

  /** Whoever waits would wait in vain for the answer that this was meant to be. */
  #takeBroken({ problem }: Extract<RpcMessage, { kind: "broken" }>, line: Buffer): void {
    this.#process.output.invalidLine(line);
    if (this.#waiting === undefined) return;
    this.#fail(this.#protocol(`answered ${this.#waiting.what} with what is no message: ${problem}`));
  }

  #failUnasked(id: Json, answer: ReturnType<typeof readRpcAnswer>, line: Buffer): void {
    const waiting = this.#waiting;
    if (id === null && answer.kind === "error" && waiting !== undefined)
      return this.#fail(this.#rpcError(waiting.what, answer.error));
    this.#process.output.invalidLine(line);
    const known = typeof id === "number" && Number.isInteger(id) && id >= 1 && id <= this.#lastId;
    this.#fail(
      this.#protocol(
        known
          ? `answered request ${id} twice`
          : `gave an answer with the id ${previewJson(id, 40)}, which nobody asked for`,
      ),
    );
  }

  #rpcError(what: string, error: JsonObject): McpvalsError {
    const { detail } = this.#process.output.detail;
    const { data: given } = error;
    const data =
      given === undefined ? [] : [`data: ${cutText(previewJson(given, dataLength * 2), dataLength)}`];
    const parts = [...data, ...(detail === undefined ? [] : [detail])];
    return this.#process.error(
      "extension/rpc-error",
      `answered ${what} with the error ${rpcErrorText(error)}`,
      parts.length === 0 ? {} : { detail: parts.join("\n") },
    );
  }

  #protocol(problem: string): McpvalsError {
    return this.#process.error("extension/protocol", problem);
  }

  #wrongVersion(spoken: string): McpvalsError {
    return this.#process.error(
      "extension/version",
      `speaks version ${cutText(spoken, 40)} of the protocol, and mcpvals speaks ${extensionProtocolVersion}`,
    );
  }

  #failTooLarge(): void {
    const asked = this.#waiting === undefined ? "" : ` in answer to ${this.#waiting.what}`;
    this.#fail(
      this.#process.error(
        "extension/answer-too-large",
        `wrote a line of more than ${largestAnswer / 1024 / 1024} MiB${asked}`,
      ),
    );
  }

  #leaveUnfinished(line: Buffer): void {
    this.#process.output.invalidLine(line);
    this.#unfinished = true;
  }

  #endOfOutput(): void {
    this.#streamEnded = true;
    this.#reader.end();
  }

  /** Nothing can be answered without stdout. That it was closed is most often the beginning of the program's end. */
  async #closedOutput(): Promise<void> {
    this.#endOfOutput();
    if (await settlesWithin(this.#process.ended, closedMs)) return;
    this.#fail(this.#protocol("closed its stdout and went on"));
  }

  /** Its stdout may be held open by others, so that the unfinished line is looked for again. */
  #ended(exit: ProcessExit): void {
    this.#endOfOutput();
    if (this.#unfinished) {
      const problem = `left the last line of its stdout without a line end, and ${howItEnded(exit)}`;
      return this.#fail(this.#protocol(problem));
    }
    const asked =
      this.#waiting === undefined
        ? "while nobody asked anything of it"
        : `before it had answered ${this.#waiting.what}`;
    this.#fail(this.#process.error("extension/crashed", `${howItEnded(exit)} ${asked}`));
  }

  #fail(error: McpvalsError): void {
    if (this.#closing) return this.#waiting?.resolve(null);
    if (this.#fault !== undefined) return;
    this.#fault = error;
    if (this.#waiting === undefined) this.#ending ??= this.#process.kill();
    this.#waiting?.reject(error);
  }
}

const neverAborted = new AbortController().signal;
