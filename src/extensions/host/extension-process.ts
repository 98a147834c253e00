import { homedir } from "node:os";
import { extname } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import type { ErrorCode } from "../../core/errors/catalogue.ts";
import { type ErrorDetails, McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import { isJsonObject } from "../../core/formats/json.ts";
import type { Json } from "../../core/formats/model.ts";
import type { Emit } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import type { ProcessExit } from "../../process/spawn.ts";
import { closed, type StopOptions } from "../../process/process-tree.ts";
import { TextTail, WholeLines } from "../../process/program-output.ts";
import { listedPath } from "../../sandbox/mounts.ts";
import type { ConfinedProcess, Confinement } from "../../sandbox/sandbox.ts";
import type { PreparedExtension } from "../prepared-extensions.ts";
import type { ResolvedExtension } from "../resolve/extension-resolver.ts";
import { largestAnswer } from "./rpc-message.ts";

/** How long what was written before the end may take to arrive when somebody else holds the pipe, in milliseconds. */
const drainMs = 100;
/** Longest wait for the record of an end that has happened, in milliseconds. */
const endMs = 1000;
/** Turns of the event loop that reading what is there already may take. */
const drainTurns = 16;
/** What is killed has so long to cancel its work after SIGTERM, in milliseconds. */
const termMs = 300;

export interface ProcessStart {
  readonly extension: PreparedExtension;
  readonly place: ExtensionPlace;
  readonly protocol: ExtensionProtocol;
  /** Added to those that the program is started with. */
  readonly args?: readonly string[];
  readonly emit: Emit;
}

/** A running program of an extension, in its sandbox, with all that is recorded of it. */
export class ExtensionProcess {
  readonly output: ExtensionOutput;
  readonly #process: ConfinedProcess;
  readonly #alias: string;
  #expected = false;

  /** Starts it, unless its files were changed. Throws `extension/integrity`, `extension/start-failed` and `sandbox/unavailable`. */
  static async start(start: ProcessStart): Promise<ExtensionProcess> {
    const { extension, place, args, emit, protocol } = start;
    const { spec, resolved, sandbox } = extension;
    await resolved.recheck?.();
    const running = await sandbox.start(confinementOf(extension, place, args)).catch((error: unknown) => {
      throw startFailed(spec.alias, error);
    });
    emit({
      type: "extension.started",
      extension: spec.alias,
      package: spec.package,
      ...(resolved.version === undefined ? {} : { version: resolved.version }),
      protocol,
      sandbox: sandbox.kind,
      pid: running.pid,
    });
    return new ExtensionProcess(spec.alias, running, emit);
  }

  /** Settles when the program has ended and what it wrote was read, whoever else holds its pipes. Never rejects. */
  readonly ended: Promise<ProcessExit>;

  constructor(alias: string, running: ConfinedProcess, emit: Emit) {
    this.#alias = alias;
    this.#process = running;
    this.output = new ExtensionOutput(alias, emit);
    this.ended = this.#watch(emit);
  }

  get stdin(): ConfinedProcess["stdin"] {
    return this.#process.stdin;
  }

  get stdout(): ConfinedProcess["stdout"] {
    return this.#process.stdout;
  }

  /** An error that names this extension, with what it wrote as its detail. */
  error(code: ErrorCode, message: string, details: ErrorDetails = {}): McpvalsError {
    const limit = this.#process.brokenLimit;
    const told = { ...this.output.detail, ...details };
    return limit === undefined
      ? new McpvalsError(code, `extension "${this.#alias}" ${message}`, told)
      : new McpvalsError("extension/limit", `extension "${this.#alias}" broke a limit: ${limit}`, told);
  }

  /** From now on its end is what was to come. */
  expectEnd(): void {
    this.#expected = true;
  }

  /** Ends it with everything that it started; first it is asked to. Never throws. */
  async kill(): Promise<void> {
    if (this.#process.exit === undefined) this.#expected = false;
    await this.stop({ stdinMs: 0, termMs });
  }

  /** Ends it as `stopTree` does, and records its end. Never throws. */
  async stop(options?: StopOptions): Promise<void> {
    await this.#process.stop(options);
    // One that the kernel cannot end now is waited for no longer.
    await settlesWithin(this.ended, endMs);
  }

  async #watch(emit: Emit): Promise<ProcessExit> {
    const { exited, stdout, stderr } = this.#process;
    const take = (chunk: Buffer): void => this.output.stderr(chunk);
    stderr.on("data", take);
    const ends = Promise.all([closed(stdout), closed(stderr)]);
    const exit = await exited;
    await this.#drain(ends);
    // It goes on to flow when nobody listens any more.
    stderr.off("data", take);
    this.output.finish();
    emit({ type: "extension.exited", extension: this.#alias, ...exit, expected: this.#expected });
    return exit;
  }

  async #drain(ends: Promise<unknown>): Promise<void> {
    if (await settlesWithin(ends, drainMs)) return;
    // In a busy process the time can be up before anything was read.
    for (let round = 0; round < drainTurns; round += 1) await turn();
  }
}

/** How a program ended, for a sentence that begins with it. */
export function howItEnded({ exitCode, signal }: ProcessExit): string {
  return exitCode === null ? `was ended by ${signal ?? "a signal"}` : `ended with exit code ${exitCode}`;
}

function startFailed(alias: string, error: unknown): unknown {
  if (!(error instanceof McpvalsError) || error.code !== "server/spawn-failed") return error;
  const { hint } = error.details;
  return new McpvalsError(
    "extension/start-failed",
    `extension "${alias}" cannot be started: ${error.message}`,
    {
      ...(hint === undefined ? {} : { hint }),
      cause: error,
    },
  );
}

/** Recorded of what stands on stdout and is no message, in lines. */
const invalidLineLimit = 50;
/** Kept of such a line, in characters. */
const invalidLineLength = 2000;
/** Recorded of the notifications `log`. */
const logLimit = { messages: 1000, bytes: 256 * 1024 } as const;
const levels = new Set(["debug", "info", "warn", "error"]);

/** Records what an extension writes besides its answers: all of it at first, then only how much, so that a flood costs nothing. */
export class ExtensionOutput {
  readonly #extension: string;
  readonly #emit: Emit;
  readonly #stderr: WholeLines;
  readonly #tail = new TextTail();
  readonly #logs = { messages: 0, bytes: 0, omitted: 0 };
  readonly #invalid = { lines: 0, omitted: 0 };
  #firstInvalid: string | undefined;

  constructor(extension: string, emit: Emit) {
    this.#extension = extension;
    this.#emit = emit;
    this.#stderr = new WholeLines((text) => void emit({ type: "extension.stderr", extension, text }));
  }

  /** For the detail of an error: the end of stderr, and the first line of stdout that is no message. */
  get detail(): { readonly detail?: string } {
    const invalid = this.#firstInvalid === undefined ? [] : [`stdout, no message: ${this.#firstInvalid}`];
    const parts = [...invalid, ...(this.#tail.text === undefined ? [] : [this.#tail.text])];
    return parts.length === 0 ? {} : { detail: parts.join("\n") };
  }

  /** Whether no log is recorded any more, so that nobody needs to read them. */
  get isLogFull(): boolean {
    return this.#logs.messages >= logLimit.messages || this.#logs.bytes >= logLimit.bytes;
  }

  /** Whether so much on stdout was no message that there will hardly be one. */
  get isFlooded(): boolean {
    return this.#invalid.omitted > largestAnswer;
  }

  stderr(chunk: Buffer): void {
    this.#tail.push(chunk);
    this.#stderr.push(chunk);
  }

  /** Takes a line of stdout that is no message, or that comes unasked. */
  invalidLine(line: Buffer): void {
    if (this.#invalid.lines === invalidLineLimit) {
      this.#invalid.omitted += line.length + 1;
      return;
    }
    this.#invalid.lines += 1;
    // A character has at most four bytes.
    const text = cutText(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
    this.#firstInvalid ??= text;
    this.#emit({ type: "extension.invalid_output", extension: this.#extension, text });
  }

  /** Takes the params of a `log`, `bytes` long; false when they are none. */
  log(params: Json | undefined, bytes: number): boolean {
    if (!isJsonObject(params)) return false;
    const { level, message, data } = params;
    if (typeof level !== "string" || !levels.has(level) || typeof message !== "string") return false;
    // What does not fit is left out as a whole: a secret that is cut in two would not be found.
    if (this.isLogFull || this.#logs.bytes + bytes > logLimit.bytes) this.omitLog();
    else {
      this.#logs.messages += 1;
      this.#logs.bytes += bytes;
      const more = data === undefined || data === null ? {} : { data };
      this.#emit({ type: "extension.log", extension: this.#extension, level, message, ...more });
    }
    return true;
  }

  omitLog(): void {
    this.#logs.omitted += 1;
  }

  /** Records the rest, and how much was left out. */
  finish(): void {
    this.#omitted("stderr", this.#stderr.finish());
    this.#omitted("stdout", this.#invalid.omitted);
    this.#omitted("log", this.#logs.omitted);
    this.#invalid.omitted = 0;
    this.#logs.omitted = 0;
  }

  #omitted(stream: "stderr" | "stdout" | "log", count: number): void {
    if (count === 0) return;
    this.#emit({ type: "extension.output_omitted", extension: this.#extension, stream, count });
  }
}

/** Where an extension's program runs and what it may see besides its own files. */
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

/** What the sandbox is asked for; `args` are added to those that the program is started with. */
function confinementOf(
  { spec, resolved }: PreparedExtension,
  { cwd, env, read, write }: ExtensionPlace,
  args: readonly string[] = [],
): Confinement {
  const launch = launchOf(resolved);
  const interpreter = launch.command === resolved.program ? [] : [launch.command];
  const home = env["HOME"] ?? homedir();
  const listed = (paths: readonly string[]): readonly string[] =>
    paths.map((path) => listedPath(path, spec.dir, home));
  return {
    process: { command: launch.command, args: [...launch.args, ...args], cwd, env },
    read: [...new Set([resolved.folder, ...interpreter, ...read, ...listed(spec.sandbox.read)])],
    write: [...write, ...listed(spec.sandbox.write)],
    spec: spec.sandbox,
  };
}

/** Endings of programs that Node runs. */
const nodeEndings = new Set([".js", ".mjs", ".cjs", ".ts", ".mts"]);

/** How an extension's program is started; further arguments come after these. */
export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
}

/** A program of JavaScript or TypeScript is run by the Node that runs us, any other by itself. */
export function launchOf({ program }: Pick<ResolvedExtension, "program">): Launch {
  return nodeEndings.has(extname(program).toLowerCase())
    ? { command: process.execPath, args: [program] }
    : { command: program, args: [] };
}

/**
 * The first `length` characters of a text that is longer, without the word that would be cut in two: half of a secret would
 * not be found.
 */
export function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text.slice(0, length).replace(/[^\s"'`,;:=(){}<>[\]]*$/, "")}…`;
}
