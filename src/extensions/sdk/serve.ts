import { on } from "node:events";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { stringify } from "yaml";
import * as z from "zod";
import { suggestion } from "../../base/did-you-mean.ts";
import { parseGoDuration } from "../../base/duration.ts";
import { type ExtensionManifest, extensionProtocolVersion } from "../manifest.ts";
import type { OperationContext, OperationResult } from "../protocol.ts";
import { isJsonObject, type Json, type JsonObject, withoutUndefined } from "../../base/json.ts";
import {
  describeIssues,
  EnvironmentError,
  errorText,
  type ExtensionDefinition,
  type Log,
  rpcCodes,
  RpcError,
} from "./operation.ts";
import { type ExtensionPhase, extensionPhases } from "../../model/extension.ts";

/** How long a running operation may take once the program has to end, in milliseconds. */
const workMs = 600;
/** How long `close` may take then, in milliseconds. */
const closeMs = 1500;
/** How long an operation may take to notice that it should end, in milliseconds, before it is no longer waited for. */
const noticeMs = 500;
/** How long an operation may take when the host does not say, in milliseconds: as long as one of a task's steps. */
const defaultTimeoutMs = 300_000;
const signalExitCodes = { SIGTERM: 143, SIGINT: 130, SIGHUP: 129 } as const;
/** Phases of a verb when the input has none, most likely first. */
const phasesOfVerbs = { action: ["setup", "cleanup"], check: ["verify"] } as const;
const newline = 0x0a;

/** An extension, not yet running. */
export interface Extension {
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
    ...withoutUndefined({ description }),
    protocol: "json-rpc",
    operations: Object.fromEntries(declared),
  };
  return { manifest, serve: () => new Program(manifest, definition).serve() };
}

/** `extension.yaml` of an extension. `program` is the path of its program in the folder, where it is not its name. */
export function manifestText(manifest: ExtensionManifest, program?: string): string {
  const { operations, ...head } = manifest;
  const written = { ...head, ...withoutUndefined({ program }), operations };
  return stringify(written, { aliasDuplicateObjects: false, lineWidth: 110 });
}

/** One operation to be run, as the host wrote it. */
interface Call {
  readonly operation: string;
  readonly args: JsonObject;
  readonly context: Json | undefined;
  /** Phases that the way of calling allows, most likely first; used when the context names none. */
  readonly phases: readonly ExtensionPhase[];
}

/** The program of an extension while it runs, with what `open` made. */
class Program<C, R> {
  readonly #manifest: ExtensionManifest;
  readonly #definition: ExtensionDefinition<C, R>;
  readonly #end = new AbortController();
  /** Exit code when the program has to end early. */
  #code: number | undefined;
  /** Writes to the host; rejects when stdout is closed. */
  #write: (text: string) => Promise<void> = () => Promise.resolve();
  #log: Log = (level, message, data) => {
    process.stderr.write(`${level}: ${message}${data === undefined ? "" : ` ${JSON.stringify(data)}`}\n`);
  };
  #opened: { readonly resources: R } | undefined;

  constructor(manifest: ExtensionManifest, definition: ExtensionDefinition<C, R>) {
    this.#manifest = manifest;
    this.#definition = definition;
  }

  async serve(): Promise<void> {
    for (const [name, code] of Object.entries(signalExitCodes)) {
      process.once(name, () => this.#mustEnd(`the program was asked to end (${name})`, code));
    }
    this.#reserveStdout();
    let code: number;
    try {
      const own = await this.#run();
      code = this.#code ?? own;
    } catch (error) {
      process.stderr.write(`${this.#manifest.name}: ${errorText(error)}\n`);
      code = this.#code || 1;
    }
    await new Promise<void>((resolve) => process.stderr.write("", () => resolve()));
    // An operation may have left something open, such as a connection.
    process.exit(code);
  }

  /** From now on, all other output of this process to stdout goes to stderr. */
  #reserveStdout(): void {
    const { stdout, stderr } = process;
    const write = stdout.write.bind(stdout);
    stdout.write = stderr.write.bind(stderr);
    stdout.on("error", (error) => this.#mustEnd("the host reads no more", 0, error));
    // Nothing can be reported when stderr is closed too.
    stderr.on("error", () => undefined);
    this.#write = (text) =>
      new Promise((resolve, reject) => {
        write(text, (error) => (error ? reject(error) : resolve()));
      });
  }

  #mustEnd(reason: string, code: number, cause?: Error): void {
    if (this.#end.signal.aborted) return;
    this.#code = code;
    this.#end.abort(new Error(reason, { cause }));
  }

  /** Waits for work, but at most `ms` milliseconds after the program has to end. */
  async #wait<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
    return Promise.race([work, whenAborted(this.#end.signal, ms)]);
  }

  /** Does what the arguments say, and gives the exit code. Unknown options of future hosts are ignored. */
  async #run(): Promise<number> {
    const { positionals, values } = parseArgs({
      options: { input: { type: "string" }, config: { type: "string" }, manifest: { type: "boolean" } },
      allowPositionals: true,
      strict: false,
    });
    const [verb, operation] = positionals;
    const config = typeof values.config === "string" ? values.config : undefined;
    if (values.manifest === true) {
      await this.#write(manifestText(this.#manifest));
      return 0;
    }
    if (verb === undefined) return this.#jsonRpc(config);
    const { name } = this.#manifest;
    if (verb !== "action" && verb !== "check")
      throw new Error(
        `unknown command ${verb}. Use ${name} without arguments, ${name} action|check NAME --input FILE, ${name} --config JSON or ${name} --manifest.`,
      );
    if (operation === undefined) throw new Error(`${verb} needs the name of an operation`);
    if (typeof values.input !== "string") throw new Error(`${verb} ${operation} needs --input FILE`);
    const phases = phasesOfVerbs[verb];
    const result = await this.#wait(this.#oneShot(operation, values.input, config, phases), workMs + closeMs);
    if (result === undefined) throw new Error("the operation did not end when it was asked to");
    await this.#write(`${JSON.stringify(result)}\n`);
    return result.success ? 0 : 1;
  }

  /** Runs one operation of a file with `{args, context, config?}`. A `config` that is given takes precedence. */
  async #oneShot(
    operation: string,
    path: string,
    config: string | undefined,
    phases: readonly ExtensionPhase[],
  ): Promise<OperationResult> {
    const text = await readFile(path, "utf8").catch((error: unknown) => {
      throw new Error(`the input ${path} cannot be read`, { cause: error });
    });
    const input = objectOf(parse(text, `the input ${path}`), `the input ${path}`);
    const settings = config === undefined ? input["config"] : parse(config, "--config");
    await this.#open(objectOf(settings, "config"));
    try {
      const args = objectOf(input["args"], "args");
      return await this.#execute({ operation, args, context: input["context"], phases });
    } finally {
      await this.#close();
    }
  }

  async #jsonRpc(config: string | undefined): Promise<number> {
    const send = (message: object): Promise<void> =>
      this.#write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    this.#log = (level, message, data) => {
      const params = { level, message, ...withoutUndefined({ data }) };
      // The error of stdout reports that the host has gone.
      send({ method: "log", params }).catch(() => undefined);
    };
    if (config !== undefined) await this.#open(objectOf(parse(config, "--config"), "--config"));
    try {
      // With a config as an argument, requests are piped, so stdin may end before they are answered.
      const onInputEnd = (): void => {
        if (config === undefined) this.#mustEnd("the host has closed stdin", 0);
      };
      await this.#wait(this.#answerAll(send, onInputEnd), workMs);
    } finally {
      this.#mustEnd("the host has ended the session", 0);
      await this.#wait(this.#close(), closeMs);
    }
    return 0;
  }

  /** Answers requests one at a time, in their order, until `shutdown` or the end of stdin. Rejects when stdout is closed. */
  async #answerAll(send: (message: object) => Promise<void>, onInputEnd: () => void): Promise<void> {
    for await (const line of readLines(onInputEnd)) {
      if (line.trim() === "") continue;
      const { id, method, params, error } = readMessage(line);
      if (id !== undefined) {
        const answer = error === undefined ? await this.#answer(method, params) : { error: asError(error) };
        await send({ id, ...answer });
      }
      if (method === "shutdown") return;
    }
  }

  async #answer(method: string, params: JsonObject): Promise<object> {
    try {
      return { result: await this.#handle(method, params) };
    } catch (error) {
      return { error: asError(error) };
    }
  }

  async #handle(method: string, params: JsonObject): Promise<object> {
    switch (method) {
      case "initialize": {
        const { protocolVersion: version, config } = params;
        if (version !== extensionProtocolVersion) {
          const got = version === undefined ? "none" : JSON.stringify(version);
          const message = `protocolVersion must be "${extensionProtocolVersion}", got ${got}`;
          throw new RpcError("invalidParams", message);
        }
        if (this.#opened !== undefined) throw new RpcError("invalidRequest", "initialize was called before");
        await this.#open(objectOf(config, "config"));
        const { protocol: _, ...manifest } = this.#manifest;
        return { ...manifest, protocolVersion: version };
      }
      case "execute": {
        const { operation, args, context } = params;
        if (typeof operation !== "string") throw new RpcError("invalidParams", "operation must be a text");
        return this.#execute({ operation, args: objectOf(args, "args"), context, phases: extensionPhases });
      }
      case "shutdown":
        await this.#close();
        return {};
      default:
        throw new RpcError("unknownMethod", `there is no method ${JSON.stringify(method)}`);
    }
  }

  /** Throws RpcError for a config that is not valid, and when `open` throws. */
  async #open(config: JsonObject): Promise<void> {
    const { config: schema, open } = this.#definition;
    const checked =
      schema === undefined
        ? { success: true as const, data: config as C }
        : await schema.safeParseAsync(config);
    if (!checked.success) {
      const problems = describeIssues(checked.error.issues);
      throw new RpcError("invalidParams", `the config is not valid: ${problems}`);
    }
    try {
      // Without `open` there is nothing that R could be but undefined.
      const start = { log: this.#log, signal: this.#end.signal };
      this.#opened = { resources: open === undefined ? (undefined as R) : await open(checked.data, start) };
    } catch (error) {
      throw new RpcError("internal", `the extension could not start: ${errorText(error)}`, { cause: error });
    }
  }

  /** Gives up what `open` made; once. Throws what `close` throws. */
  async #close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened !== undefined) await this.#definition.close?.(opened.resources);
  }

  /**
   * Runs one operation. Throws RpcError when `open` was not called, and for arguments or a phase that it does not take;
   * EnvironmentError when its time is up; and whatever it throws but OperationFailed.
   */
  async #execute({ operation: name, args, context: written, phases }: Call): Promise<OperationResult> {
    if (this.#opened === undefined)
      throw new RpcError("invalidRequest", "initialize must come first, and succeed");
    const { operations } = this.#definition;
    const operation = Object.hasOwn(operations, name) ? operations[name] : undefined;
    if (operation === undefined) {
      const hint = suggestion(name, Object.keys(operations), "operations");
      const error = `${this.#manifest.name} has no operation ${JSON.stringify(name)}. ${hint}`;
      return { success: false, error };
    }
    const context = readContext(written);
    const { phases: own } = operation.declaration;
    const meant = context.phase === undefined ? phases : [context.phase];
    const phase = meant.find((each) => own.includes(each));
    if (phase === undefined) {
      const message = `${name} cannot be used in ${meant.join(" or ")}, only in ${own.join(", ")}`;
      throw new RpcError("invalidParams", message);
    }
    const time = new AbortController();
    const late = new EnvironmentError(`the operation did not end within ${context.timeout}`);
    const timer = setTimeout(() => time.abort(late), Math.min(context.timeoutMs, 2 ** 31 - 1));
    const signal = AbortSignal.any([this.#end.signal, time.signal]);
    try {
      const run = { ...context, phase, resources: this.#opened.resources, signal, log: this.#log };
      const work = operation.execute(args, run);
      // Some operations ignore their signal.
      const givenUp = whenAborted(signal, noticeMs).then(() => Promise.reject(signal.reason as Error));
      return await Promise.race([work, givenUp]);
    } catch (error) {
      // What is thrown once the time is up, such as by an aborted request, says less than that it is up.
      throw time.signal.aborted ? late : error;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Settles `ms` milliseconds after the signal has aborted. */
function whenAborted(signal: AbortSignal, ms: number): Promise<undefined> {
  return new Promise((resolve) => {
    const start = (): void => void setTimeout(() => resolve(undefined), ms);
    if (signal.aborted) start();
    else signal.addEventListener("abort", start, { once: true });
  });
}

/** Reads JSON. Throws an Error that begins with `what`, the text's name. */
function parse(text: string, what: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    throw new Error(`${what} is not valid JSON`, { cause: error });
  }
}

/** Throws RpcError unless the value is an object; an absent one and null count as empty. */
function objectOf(value: Json | undefined, what: string): JsonObject {
  if (value === undefined || value === null) return {};
  if (isJsonObject(value)) return value;
  throw new RpcError("invalidParams", `${what} must be an object`);
}

function asError(error: unknown): { readonly code: number; readonly message: string } {
  if (error instanceof RpcError) return { code: error.code, message: error.message };
  const code = error instanceof EnvironmentError ? rpcCodes.failed : rpcCodes.internal;
  return { code, message: errorText(error) };
}

/** The lines of stdin, of any length; the last one may lack its line end. Stdin is read ahead, so that `onEnd` is called at once. */
async function* readLines(onEnd: () => void): AsyncGenerator<string> {
  process.stdin.once("end", onEnd).once("close", onEnd);
  const chunks: AsyncIterable<readonly Buffer[]> = on(process.stdin, "data", { close: ["end", "close"] });
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

/** One line of a host. */
interface Incoming {
  /** Undefined for a notification; null in an answer to a message without a valid one. */
  readonly id: string | number | null | undefined;
  readonly method: string;
  /** An empty object when they are left out or null. */
  readonly params: JsonObject;
  /** What an invalid message is answered with. */
  readonly error?: RpcError;
}

/** Reads one JSON-RPC message. */
function readMessage(line: string): Incoming {
  const refused = (
    id: Incoming["id"],
    kind: keyof typeof rpcCodes,
    message: string,
    cause?: unknown,
  ): Incoming => ({ id: id ?? null, method: "", params: {}, error: new RpcError(kind, message, { cause }) });
  let message: Json;
  try {
    message = JSON.parse(line) as Json;
  } catch (error) {
    return refused(null, "invalidJson", `the line is not valid JSON: ${errorText(error)}`, error);
  }
  if (!isJsonObject(message)) return refused(null, "invalidRequest", "a message is an object");
  const { jsonrpc, id, method } = message;
  const params = message["params"] ?? {};
  if (id !== undefined && id !== null && typeof id !== "string" && typeof id !== "number")
    return refused(null, "invalidRequest", "id must be a text, a number or null");
  if (jsonrpc !== "2.0") return refused(id, "invalidRequest", 'jsonrpc must be "2.0"');
  if (typeof method !== "string") return refused(id, "invalidRequest", "method must be a text");
  if (isJsonObject(params)) return { id, method, params };
  return id === undefined
    ? { id, method, params: {} }
    : refused(id, "invalidParams", "params must be an object");
}

/** The context as operations see it, complete. `phase` is undefined where the host says none. */
interface ReadContext extends Omit<OperationContext, "phase"> {
  readonly phase: ExtensionPhase | undefined;
  readonly timeoutMs: number;
}

const optional = <S extends z.ZodType>(schema: S) => schema.optional().catch(undefined);
const filledText = optional(z.string().min(1));
const contextSchema = z.object({
  workdir: filledText,
  workspace: filledText,
  phase: optional(z.enum(extensionPhases)),
  env: optional(z.record(z.string(), z.unknown())),
  timeout: filledText,
  agent: optional(z.object({ prompt: filledText, output: filledText })),
});

/** Reads the context of a call. Hosts leave out what they do not know, so everything has a value that stands for it. */
function readContext(value: Json | undefined): ReadContext {
  const {
    workdir = ".",
    workspace,
    phase,
    env,
    timeout = "",
    agent,
  } = contextSchema.parse(isJsonObject(value) ? value : {});
  const timeoutMs = parseGoDuration(timeout);
  const texts = Object.entries(env ?? {}).filter(([, text]) => typeof text === "string");
  return {
    workdir: resolve(workdir),
    workspace: resolve(workspace ?? workdir),
    phase,
    env: Object.fromEntries(texts) as Record<string, string>,
    timeout: timeoutMs === undefined ? `${defaultTimeoutMs / 1000}s` : timeout,
    timeoutMs: timeoutMs ?? defaultTimeoutMs,
    ...(agent && { agent: { prompt: agent.prompt ?? "", output: agent.output ?? "" } }),
  };
}
