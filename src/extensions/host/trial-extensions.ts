import type { ValidateSchema } from "../../expect/tool-result.ts";
import { McpvalsError } from "../../base/error.ts";
import { suggestion } from "../../base/did-you-mean.ts";
import type { ExtensionManifest } from "../manifest.ts";
import { fillDefaults, goDurationText, type OperationContext, type OperationResult } from "../protocol.ts";
import { mapValues, withoutUndefined, type JsonObject } from "../../base/json.ts";
import type { ExtensionSpec } from "../../model/task.ts";
import type { Expander } from "../../templates/expand.ts";
import { inVariable } from "../../templates/places.ts";
import type { Emit, Phase } from "../../model/event.ts";
import { abortAfter, untilAborted, withDeadline } from "../../process/deadline.ts";
import { baseEnvironment, inheritedEnvironment, mergeEnvironments } from "../../process/environment.ts";
import { formatArgumentError } from "../check-uses.ts";
import type { ExtensionProcess, PreparedExtension, PreparedExtensions } from "./extension-process.ts";
import { JsonRpcExtension } from "./json-rpc.ts";
import { runOneShot } from "./one-shot.ts";
import type { ExtensionPhase } from "../../model/extension.ts";

/** Runs the operations of a trial's extensions. */
export interface OperationHost {
  /**
   * Runs one operation; its arguments are checked and completed before. Throws McpvalsError of the codes `extension/…`
   * when it could not be run or did not answer as it must, and the signal's reason. After either the next call gets a
   * fresh process.
   */
  execute(call: OperationCall, signal: AbortSignal): Promise<OperationResult>;
}

/** One operation to be run. */
export interface OperationCall {
  /** Id of the step. */
  readonly step: string;
  /** Name of the extension among those of the task. */
  readonly extension: string;
  readonly operation: string;
  readonly args: JsonObject;
  readonly phase: Phase;
  /** Longest that it may take, in milliseconds, starting the extension's process included. */
  readonly timeoutMs: number;
}

/** The extensions of one trial; ends their processes when it is disposed of. */
export interface TrialExtensions extends OperationHost, AsyncDisposable {}

/** Variables that an extension can get. */
export interface ExtensionVariables {
  /** The environment of mcpvals itself. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables that were given for the run. */
  readonly given?: Readonly<Record<string, string>>;
}

export interface TrialExtensionsOptions extends ExtensionVariables {
  /** By the names that steps use. */
  readonly specs: Readonly<Record<string, ExtensionSpec>>;
  readonly prepared: PreparedExtensions;
  readonly trial: ExtensionTrial;
  /** Replaces templates in settings and variables. */
  readonly expander: Expander;
  readonly emit: Emit;
}

/** The current state of the trial that extensions work for. */
export interface ExtensionTrial {
  /** Absolute path of the task's folder. */
  readonly dir: string;
  /** Absolute path of the trial's own folder. */
  readonly workspace: string;
  /** The variables that operations get. */
  readonly declared: Readonly<Record<string, string>>;
  readonly prompt: string;
  readonly agent: { readonly output: string } | undefined;
  readonly validateSchema: ValidateSchema;
  releasePorts(texts: Iterable<string>): Promise<void>;
}

/**
 * The extensions of one trial: each has at most one process at a time, which is started when the first operation needs it.
 * Disposing throws what an extension did wrong after its last answer.
 */
export function openTrialExtensions(options: TrialExtensionsOptions): TrialExtensions {
  const { specs, prepared } = options;
  const open = new Map<string, TrialExtension>();
  return {
    async execute(call, signal) {
      const alias = call.extension;
      const spec = Object.hasOwn(specs, alias) ? specs[alias] : undefined;
      if (spec === undefined)
        throw new McpvalsError("task/extension", `the task has no extension with the name "${alias}"`);
      const extension = open.get(alias) ?? new TrialExtension(prepared.of(spec), options);
      open.set(alias, extension);
      return extension.execute(call, signal);
    },
    async [Symbol.asyncDispose]() {
      const ends = await Promise.allSettled([...open.values()].map((each) => each[Symbol.asyncDispose]()));
      const failed = ends.find((end) => end.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    },
  };
}

/** One extension of a trial: its process, and a new one after that failed. */
class TrialExtension implements AsyncDisposable {
  readonly #extension: PreparedExtension;
  readonly #options: TrialExtensionsOptions;
  #manifest: ExtensionManifest | undefined;
  #running: JsonRpcExtension | undefined;
  /** The manifest that the running program gave. */
  #offered: ExtensionManifest | undefined;
  /** The process that carries out the current call, for the error when that takes too long. */
  #working: ExtensionProcess | undefined;
  /** What it did wrong after an answer that was accepted. */
  #late: McpvalsError | undefined;
  #last: Promise<unknown> = Promise.resolve();
  /** Programs that were given up while they were starting. */
  readonly #abandoned: Promise<unknown>[] = [];

  constructor(extension: PreparedExtension, options: TrialExtensionsOptions) {
    this.#extension = extension;
    this.#options = options;
    this.#manifest = extension.resolved.manifest;
  }

  /** Runs one operation, after those that were called before. Throws as `OperationHost.execute`. */
  async execute(call: OperationCall, signal: AbortSignal): Promise<OperationResult> {
    const endsAt = performance.now() + call.timeoutMs;
    const timeUp = (): McpvalsError => {
      const message = `took longer than ${call.timeoutMs} ms for ${call.operation}`;
      return (
        this.#working?.error("extension/timeout", message) ??
        new McpvalsError("extension/timeout", `extension "${this.#extension.spec.alias}" ${message}`)
      );
    };
    using limit = abortAfter(call.timeoutMs, timeUp, signal);
    const within = limit.signal;
    const work = this.#last.then(() => this.#execute(call, within, endsAt));
    this.#last = work.catch(() => undefined); // its caller has the error
    return await work;
  }

  /** Ends its process. Throws what it did wrong after an answer that was accepted. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#last;
    await Promise.all(this.#abandoned);
    this.#noteLate(this.#running?.fault);
    await this.#drop();
    if (this.#late !== undefined) throw this.#late;
  }

  /** `endsAt` is on the clock of `performance.now`. */
  async #execute(call: OperationCall, signal: AbortSignal, endsAt: number): Promise<OperationResult> {
    signal.throwIfAborted();
    await this.#leaveBroken(call);
    const { operation } = call;
    try {
      this.#manifest ??= await this.#ask(signal);
      const { args, phase } = await checkCall(
        call,
        this.#manifest,
        this.#options.trial.validateSchema,
        signal,
      );
      if (this.#manifest.protocol === "one-shot") {
        const { config, start } = await this.#prepareStart();
        const context = this.#contextOf(phase, endsAt);
        return await runOneShot(start, { operation, args, config, context }, signal, (process) => {
          this.#working = process;
        });
      }
      const running = await this.#start(signal);
      if (this.#offered !== undefined && !Object.hasOwn(this.#offered.operations, operation)) {
        const message = `extension "${call.extension}" does not have the operation ${operation}, which its extension.yaml declares`;
        throw new McpvalsError("extension/protocol", message);
      }
      return await running.execute({ operation, args, context: this.#contextOf(phase, endsAt) }, signal);
    } catch (error) {
      if (this.#running?.fault !== undefined) await this.#drop();
      throw error;
    } finally {
      this.#working = undefined;
    }
  }

  async #ask(signal: AbortSignal): Promise<ExtensionManifest> {
    try {
      await this.#start(signal);
    } catch (error) {
      throw unknownProtocol(error);
    }
    if (this.#offered === undefined) throw new Error("a bug: an extension was started without initialize");
    return this.#offered;
  }

  /** The running program, or a new one after `initialize`. */
  async #start(signal: AbortSignal): Promise<JsonRpcExtension> {
    if (this.#running !== undefined) {
      this.#working = this.#running.process;
      return this.#running;
    }
    const { config, start } = await this.#prepareStart();
    const starting = JsonRpcExtension.start(start);
    const running = await untilAborted(starting, signal).catch((error: unknown) => {
      this.#abandoned.push(starting.then((late) => late[Symbol.asyncDispose]()).catch(() => undefined));
      throw error;
    });
    this.#running = running;
    this.#working = running.process;
    this.#offered = await running.initialize(config, signal);
    return running;
  }

  /** Replaces the templates in settings and variables. */
  async #prepareStart() {
    const { trial, expander, emit } = this.#options;
    const { spec } = this.#extension;
    const config = mapValues(spec.config, expander.json);
    const env = extensionEnvironment(spec, this.#options, (template, name) =>
      expander.placed(template, inVariable(name)),
    );
    const named = Object.values(spec.env).map(expander.text);
    await trial.releasePorts([...named, JSON.stringify(config)]);
    const place = { cwd: trial.dir, env, read: [trial.dir], write: [trial.workspace] };
    return { config, start: { extension: this.#extension, place, emit } };
  }

  #contextOf(phase: ExtensionPhase, endsAt: number): OperationContext {
    const { dir, workspace, declared, agent, prompt } = this.#options.trial;
    const left = Math.max(1, Math.floor(endsAt - performance.now()));
    return {
      workdir: dir,
      workspace,
      phase,
      env: declared,
      timeout: goDurationText(left),
      ...(agent === undefined ? {} : { agent: { prompt, output: agent.output } }),
    };
  }

  /** A program that failed since its last answer has lost its state. Only cleanup and probes go on with a new one. */
  async #leaveBroken({ phase }: OperationCall): Promise<void> {
    const fault = this.#running?.fault;
    if (fault === undefined) return;
    await this.#drop();
    if (phase !== "cleanup" && phase !== "probe") throw fault;
    this.#noteLate(fault);
  }

  /** That a program ended after its last answer does not invalidate that answer. */
  #noteLate(fault: McpvalsError | undefined): void {
    if (fault?.code === "extension/protocol" || fault?.code === "extension/answer-too-large")
      this.#late ??= fault;
  }

  async #drop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    this.#offered = undefined;
    await running?.[Symbol.asyncDispose]();
  }
}

/**
 * Checks a call against the manifest, and gives its arguments with their defaults. Throws McpvalsError
 * `extension/invalid-arguments` for an unknown operation and for arguments that violate their schema, `task/extension` for a
 * phase that the operation lacks, `extension/protocol` for a schema that cannot be used, and the signal's reason.
 */
async function checkCall(
  call: OperationCall,
  { operations }: ExtensionManifest,
  validate: ValidateSchema,
  signal: AbortSignal,
): Promise<{ readonly args: JsonObject; readonly phase: ExtensionPhase }> {
  const { extension, operation } = call;
  const name = `${extension}.${operation}`;
  const declared = Object.hasOwn(operations, operation) ? operations[operation] : undefined;
  if (declared === undefined) {
    const message = `extension "${extension}" has no operation "${operation}"`;
    throw new McpvalsError("extension/invalid-arguments", message, {
      hint: suggestion(operation, Object.keys(operations), "operations"),
    });
  }
  const { phases, params } = declared;
  // A probe runs as verify, or as the first phase of an operation that lacks verify.
  const wanted = call.phase === "probe" ? (phases.includes("verify") ? "verify" : phases[0]) : call.phase;
  const phase = phases.find((each) => each === wanted);
  if (phase === undefined) {
    const message = `${name} is for ${phases.join(" and ")}, not for ${call.phase}`;
    throw new McpvalsError("task/extension", message);
  }
  const args = fillDefaults(params, call.args);
  const acceptsAnything = Object.entries(params).every(
    ([key, value]) => key === "type" && value === "object",
  );
  if (acceptsAnything) return { args, phase };
  const check = await untilAborted(validate(params, args), signal);
  if (check.status === "valid") return { args, phase };
  if (check.status === "unusable") {
    const message = `the schema of the arguments of ${name} cannot be used: ${check.reason}`;
    throw new McpvalsError("extension/protocol", message);
  }
  const problems = check.errors.map(formatArgumentError).join("; ");
  throw new McpvalsError("extension/invalid-arguments", `invalid arguments of ${name}: ${problems}`);
}

export interface AskOptions extends ExtensionVariables {
  readonly signal: AbortSignal;
  /** Replaces templates in settings and variables. */
  readonly expander: Expander;
  /** Longest wait for the manifest, in milliseconds. Default: 30 seconds. */
  readonly timeoutMs?: number;
}

/**
 * The manifest of an extension: its `extension.yaml`, else what it answers to `initialize`, in its sandbox. Throws
 * McpvalsError `extension/…` when it breaks the protocol, and the signal's reason.
 */
export async function askManifest(
  extension: PreparedExtension,
  { timeoutMs: ms = 30_000, ...options }: AskOptions,
): Promise<ExtensionManifest> {
  const { resolved, spec } = extension;
  if (resolved.manifest !== undefined) return resolved.manifest;
  const { expander, signal } = options;
  const env = extensionEnvironment(spec, options, expander.text);
  const place = { cwd: resolved.folder, env, read: [], write: [] };
  const program = await JsonRpcExtension.start({ extension, place, emit: () => 0 });
  try {
    const onTimeout = (): Error =>
      program.process.error("extension/timeout", `did not answer initialize in ${ms} ms`);
    const config = mapValues(spec.config, expander.json);
    return await withDeadline((within) => program.initialize(config, within), { ms, signal, onTimeout });
  } catch (error) {
    throw signal.aborted ? error : unknownProtocol(error);
  } finally {
    await program[Symbol.asyncDispose]();
  }
}

const answer = "It must answer initialize with one line of JSON-RPC on stdout.";
const oneShot =
  "A program that is started as PROGRAM action|check NAME --input FILE needs an extension.yaml with protocol: one-shot.";
/** How a program that does not know the protocol fails, with what to do. */
const hints = new Map([
  ["extension/protocol", `${answer} ${oneShot}`],
  ["extension/crashed", `See what it wrote on stderr. ${oneShot}`],
  [
    "extension/timeout",
    `${answer} A program that buffers its stdout has to flush it after each line. ${oneShot}`,
  ],
]);

/** Adds to an error of a program without `extension.yaml` that it may not speak JSON-RPC; any other error stays as it is. */
function unknownProtocol(error: unknown): unknown {
  const hint = error instanceof McpvalsError ? hints.get(error.code) : undefined;
  if (!(error instanceof McpvalsError) || hint === undefined) return error;
  return new McpvalsError(
    error.code === "extension/timeout" ? error.code : "extension/start-failed",
    `${error.message}; it has no extension.yaml, so it must speak JSON-RPC`,
    { hint, ...withoutUndefined({ detail: error.details.detail }), cause: error },
  );
}

/**
 * The complete environment of an extension's process: the basic variables; without a sandbox also those of `env`, the
 * environment of mcpvals itself, that the eval passes on, and those that were given for the run; then those of the spec.
 * `text` replaces templates.
 */
export function extensionEnvironment(
  { env: named, inheritEnv = [], sandbox }: ExtensionSpec,
  { env, given = {} }: ExtensionVariables,
  text: (template: string, name: string) => string,
): Readonly<Record<string, string>> {
  const inherited =
    sandbox.kind === "none" ? [inheritedEnvironment(env, inheritEnv), given] : [baseEnvironment(env)];
  return mergeEnvironments([...inherited, mapValues(named, text)]);
}
