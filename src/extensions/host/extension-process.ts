import { maxMemory, maxMessageBytes } from "../../base/limits.ts";
import { homedir } from "node:os";
import { extname } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import type { ErrorCode } from "../../base/catalogue.ts";
import { type ErrorDetails, McpvalsError } from "../../base/error.ts";
import type { ExtensionProtocol } from "../manifest.ts";
import { isJsonObject, withoutUndefined, type Json } from "../../base/json.ts";
import type { ExtensionSpec } from "../../model/task.ts";
import { jsonExcess, previewJson, repeatedKey } from "../../base/read-json.ts";
import type { Emit } from "../../model/event.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { closed } from "../../process/process-tree.ts";
import { TextTail, WholeLines } from "../../process/program-output.ts";
import type { ProcessExit, StopOptions } from "../../process/spawn.ts";
import { listedPath } from "../../sandbox/mounts.ts";
import type { ConfinedProcess, Confinement, Sandbox } from "../../sandbox/sandbox.ts";
import type { ResolvedExtension } from "../resolve/program.ts";

/** Longest wait for output that was written before the end when a descendant holds the pipe, in milliseconds. */
const drainMs = 100;
/** Turns of the event loop that reading what has arrived already may take. */
const drainTurns = 16;
/** Longest wait for the end to be recorded once the tree was stopped, in milliseconds. */
const endMs = 1000;
/** How long a program that is killed has after SIGTERM to cancel its work, in milliseconds. */
const termMs = 300;
/** How many lines of stdout that are not messages are recorded. */
const invalidLineLimit = 50;
/** How much of such a line is recorded, in characters. */
const invalidLineLength = 2000;
/** How many notifications `log` are recorded. */
const logLimit = { messages: 1000, bytes: 256 * 1024 };
const logLevels = new Set(["debug", "info", "warn", "error"]);

/** An extension that can be started. */
export interface PreparedExtension {
  readonly spec: ExtensionSpec;
  readonly resolved: ResolvedExtension;
  readonly sandbox: Sandbox;
}

/** Every extension that the tasks of a run use, found by their specs. */
export interface PreparedExtensions {
  /** Throws an Error for a spec that was not prepared: a bug. */
  of(spec: ExtensionSpec): PreparedExtension;
  /** What is worth telling: what was locked, what runs unconfined. */
  readonly notes: readonly string[];
}

/** Where an extension's program runs, and what it may access besides its own files. */
export interface ExtensionPlace {
  /** Absolute folder that it starts in. */
  readonly cwd: string;
  /** The complete environment of its process. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute paths that it may read. */
  readonly read: readonly string[];
  /** Absolute folders that it may write. */
  readonly write: readonly string[];
}

export interface ProcessStart {
  readonly extension: PreparedExtension;
  readonly place: ExtensionPlace;
  readonly protocol: ExtensionProtocol;
  /** Added to the arguments of the program's launch. */
  readonly args?: readonly string[];
  readonly emit: Emit;
}

/**
 * A running program of an extension, in its sandbox. What it does is recorded; of its output, besides its answers, only as much
 * as the limits allow, then only how much there was, so that a flood costs little.
 */
export class ExtensionProcess {
  /** Settles when the program has ended and its output was read, even if a descendant holds its pipes. Never rejects. */
  readonly ended: Promise<ProcessExit>;
  readonly program: ConfinedProcess;
  readonly #alias: string;
  readonly #emit: Emit;
  readonly #stderr: WholeLines;
  readonly #tail = new TextTail();
  readonly #logs = { messages: 0, bytes: 0, omitted: 0 };
  readonly #invalid = { lines: 0, omitted: 0 };
  #firstInvalid: string | undefined;
  #expected = false;

  /** Throws McpvalsError `extension/integrity` when its files were changed, `extension/start-failed`, `sandbox/unavailable`. */
  static async start({ extension, place, args, emit, protocol }: ProcessStart): Promise<ExtensionProcess> {
    const { spec, resolved, sandbox } = extension;
    await resolved.recheck?.();
    const running = await sandbox.start(confinementOf(extension, place, args)).catch((error: unknown) => {
      throw startFailed(spec.alias, error);
    });
    emit({
      type: "extension.started",
      extension: spec.alias,
      package: spec.package,
      ...withoutUndefined({ version: resolved.version }),
      protocol,
      sandbox: sandbox.kind,
      pid: running.pid,
    });
    return new ExtensionProcess(spec.alias, running, emit);
  }

  constructor(alias: string, running: ConfinedProcess, emit: Emit) {
    this.#alias = alias;
    this.program = running;
    this.#emit = emit;
    this.#stderr = new WholeLines((text) => void emit({ type: "extension.stderr", extension: alias, text }));
    this.ended = this.#watch();
  }

  /** For the detail of an error: the first line of stdout that is not a message, and the end of stderr. */
  get detail(): string | undefined {
    const invalid = this.#firstInvalid === undefined ? [] : [`unexpected on stdout: ${this.#firstInvalid}`];
    return [...invalid, ...(this.#tail.text === undefined ? [] : [this.#tail.text])].join("\n") || undefined;
  }

  /** Whether no further `log` is recorded, so that they need not be parsed. */
  get isLogFull(): boolean {
    return this.#logs.messages >= logLimit.messages || this.#logs.bytes >= logLimit.bytes;
  }

  /** Whether so much of stdout was not a message that an answer is unlikely. */
  get isFlooded(): boolean {
    return this.#invalid.omitted > maxMessageBytes;
  }

  /** An error about this extension, with its output as the detail; it names a limit instead when the program broke one. */
  error(code: ErrorCode, message: string, details: ErrorDetails = {}): McpvalsError {
    const limit = this.program.brokenLimit;
    const all = { ...withoutUndefined({ detail: this.detail }), ...details };
    return limit === undefined
      ? new McpvalsError(code, `extension "${this.#alias}" ${message}`, all)
      : new McpvalsError("extension/limit", `extension "${this.#alias}" broke a limit: ${limit}`, all);
  }

  /** Records a line of stdout that is not a message, or an answer that was not requested. */
  invalidLine(line: Buffer): void {
    if (this.#invalid.lines === invalidLineLimit) {
      this.#invalid.omitted += line.length + 1;
      return;
    }
    this.#invalid.lines += 1;
    // A character has at most four bytes.
    const text = cutText(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
    this.#firstInvalid ??= text;
    this.#emit({ type: "extension.invalid_output", extension: this.#alias, text });
  }

  /** Records a `log`, `bytes` long; false when its params are not valid. */
  log(params: Json | undefined, bytes: number): boolean {
    if (!isJsonObject(params)) return false;
    const { level, message, data } = params;
    if (typeof level !== "string" || !logLevels.has(level) || typeof message !== "string") return false;
    // Never a part of one: the redactor would not find half of a secret.
    if (this.isLogFull || this.#logs.bytes + bytes > logLimit.bytes) this.omitLog();
    else {
      this.#logs.messages += 1;
      this.#logs.bytes += bytes;
      const rest = withoutUndefined({ data: data ?? undefined });
      this.#emit({ type: "extension.log", extension: this.#alias, level, message, ...rest });
    }
    return true;
  }

  omitLog(): void {
    this.#logs.omitted += 1;
  }

  /** From now on its end is recorded as expected. */
  expectEnd(): void {
    this.#expected = true;
  }

  /** Ends it with everything that it started; first it is asked to. Never throws. */
  async kill(): Promise<void> {
    if (this.program.exit === undefined) this.#expected = false;
    await this.stop({ stdinMs: 0, termMs });
  }

  /** Ends it as `stopTree` does, and records its end. Never throws. */
  async stop(options?: StopOptions): Promise<void> {
    await this.program.stop(options);
    // The kernel may be unable to end it now.
    await settlesWithin(this.ended, endMs);
  }

  async #watch(): Promise<ProcessExit> {
    const { exited, stdout, stderr } = this.program;
    const take = (chunk: Buffer): void => {
      this.#tail.push(chunk);
      this.#stderr.push(chunk);
    };
    stderr.on("data", take);
    const ends = Promise.all([closed(stdout), closed(stderr)]);
    const exit = await exited;
    // When this process is busy, the time can be over before anything was read.
    if (!(await settlesWithin(ends, drainMs))) for (let left = drainTurns; left > 0; left -= 1) await turn();
    stderr.off("data", take);
    const omitted = { stderr: this.#stderr.finish(), stdout: this.#invalid.omitted, log: this.#logs.omitted };
    for (const stream of ["stderr", "stdout", "log"] as const) {
      const count = omitted[stream];
      if (count > 0) this.#emit({ type: "extension.output_omitted", extension: this.#alias, stream, count });
    }
    this.#emit({ type: "extension.exited", extension: this.#alias, ...exit, expected: this.#expected });
    return exit;
  }
}

/** How a program ended, as a predicate. */
export function formatExit({ exitCode, signal }: ProcessExit): string {
  return exitCode === null ? `was ended by ${signal ?? "a signal"}` : `ended with exit code ${exitCode}`;
}

function startFailed(alias: string, error: unknown): unknown {
  if (!(error instanceof McpvalsError) || error.code !== "server/spawn-failed") return error;
  const message = `extension "${alias}" cannot be started: ${error.message}`;
  const { hint } = error.details;
  return new McpvalsError("extension/start-failed", message, { ...withoutUndefined({ hint }), cause: error });
}

function confinementOf(
  { spec, resolved }: PreparedExtension,
  { cwd, env, read, write }: ExtensionPlace,
  args: readonly string[] = [],
): Confinement {
  const launch = launchOf(resolved);
  const interpreter = launch.command === resolved.program ? [] : [launch.command];
  const own = [resolved.folder, ...(resolved.dependencies ?? [])];
  const home = env["HOME"] ?? homedir();
  const listed = (paths: readonly string[]): readonly string[] =>
    paths.map((path) => listedPath(path, spec.dir, home));
  return {
    process: { command: launch.command, args: [...launch.args, ...args], cwd, env },
    read: [...new Set([...own, ...interpreter, ...read, ...listed(spec.sandbox.read)])],
    write: [...write, ...listed(spec.sandbox.write)],
    spec: spec.sandbox,
  };
}

/** How a program is started, without further arguments: JavaScript and TypeScript with the Node of this process. */
export function launchOf({ program }: Pick<ResolvedExtension, "program">): {
  readonly command: string;
  readonly args: readonly string[];
} {
  return [".js", ".mjs", ".cjs", ".ts", ".mts"].includes(extname(program).toLowerCase())
    ? { command: process.execPath, args: [program] }
    : { command: program, args: [] };
}

/** At most `length` characters of a text. No word is cut in two, since the redactor would not find half of a secret. */
export function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text.slice(0, length).replace(/[^\s"'`,;:=(){}<>[\]]*$/, "")}…`;
}

/** What an extension wrote, parsed. `problem` is a predicate. */
export type ParsedAnswer =
  | { readonly kind: "value"; readonly value: Json }
  | { readonly kind: "duplicate-key"; readonly value: Json; readonly problem: string }
  /** It takes too much memory or stack to be used. */
  | { readonly kind: "excessive"; readonly problem: string }
  | { readonly kind: "not-json" };

/** Parses what should be one JSON value. */
export function parseAnswer(bytes: Buffer): ParsedAnswer {
  const excess = jsonExcess(bytes);
  if (excess === "deep") return { kind: "excessive", problem: "is nested too deeply" };
  if (excess === "heavy") {
    const limit = `${maxMemory / 1024 / 1024} MiB of memory`;
    return { kind: "excessive", problem: `has so many values that it would take more than ${limit}` };
  }
  const text = bytes.toString("utf8");
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    return { kind: "not-json" };
  }
  const key = repeatedKey(text);
  if (key === undefined) return { kind: "value", value };
  return { kind: "duplicate-key", value, problem: `has the key ${previewJson(key)} twice` };
}
