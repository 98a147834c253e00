import { setImmediate as turn } from "node:timers/promises";
import type { ErrorCode } from "../../core/errors/catalogue.ts";
import { type ErrorDetails, McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionProtocol } from "../../core/formats/extension/manifest.ts";
import type { Emit } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import type { ProcessExit } from "../../process/spawn.ts";
import { closed, type StopOptions } from "../../process/stop-tree.ts";
import type { PreparedExtension } from "../prepared-extensions.ts";
import type { ConfinedProcess } from "../../sandbox/sandbox.ts";
import { confinementOf, type ExtensionPlace } from "./extension-place.ts";
import { ExtensionOutput } from "./extension-output.ts";

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
