import type { ValidateSchema } from "../../core/checks/schema-check.ts";
import { McpvalsError } from "../../core/errors/error.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import type { ExtensionManifest, ExtensionPhase } from "../../core/formats/extension/manifest.ts";
import {
  goDurationText,
  type OperationContext,
  type OperationResult,
} from "../../core/formats/extension/protocol.ts";
import { fillDefaults } from "../../core/formats/extension/protocol.ts";
import type { ExtensionSpec, JsonObject } from "../../core/formats/model.ts";
import type { Expander } from "../../core/templates/expand.ts";
import { inVariable } from "../../core/templates/places.ts";
import type { Emit, Phase } from "../../core/trace/events.ts";
import { abortAfter, untilAborted } from "../../process/deadline.ts";
import type {
  OperationCall,
  OperationHost,
  PreparedExtension,
  PreparedExtensions,
} from "../operation-host.ts";
import { formatArgumentError } from "../prepare/check-uses.ts";
import { expandConfig, extensionEnvironment, unknownProtocol } from "./ask-manifest.ts";
import type { ExtensionPlace, ExtensionProcess } from "./extension-process.ts";
import { JsonRpcExtension } from "./json-rpc-extension.ts";
import { runOneShot } from "./one-shot.ts";

/** The extensions of one trial; ends their processes when it is disposed of. */
export interface TrialExtensions extends OperationHost, AsyncDisposable {}

export interface TrialExtensionsOptions {
  /** By the names that steps use. */
  readonly specs: Readonly<Record<string, ExtensionSpec>>;
  readonly prepared: PreparedExtensions;
  readonly trial: ExtensionTrial;
  /** Replaces templates in settings and variables. */
  readonly expander: Expander;
  /** The environment of mcpvals itself. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables that were given for the run. */
  readonly given?: Readonly<Record<string, string>>;
  readonly emit: Emit;
}

/** The current state of the trial that extensions work for. */
export interface ExtensionTrial {
  /** Absolute path of the task's folder. */
  readonly dir: string;
  /** Absolute path of the trial's own folder. */
  readonly workspace: string;
  /** The variables that operations are told. */
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
  #working: Pick<ExtensionProcess, "error"> | undefined;
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
    using limit = abortAfter(call.timeoutMs, () => this.#timeUp(call), signal);
    const within = limit.signal;
    const work = this.#last.then(() => this.#execute(call, { signal: within, endsAt }));
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

  async #execute(call: OperationCall, time: Time): Promise<OperationResult> {
    time.signal.throwIfAborted();
    await this.#leaveBroken(call);
    try {
      const { validateSchema: validate } = this.#options.trial;
      this.#manifest ??= await this.#ask(time.signal);
      const checked = await checkCall(call, this.#manifest, { validate, signal: time.signal });
      return this.#manifest.protocol === "one-shot"
        ? await this.#once(call, checked, time)
        : await this.#converse(call, checked, time);
    } catch (error) {
      if (this.#running?.fault !== undefined) await this.#drop();
      throw error;
    } finally {
      this.#working = undefined;
    }
  }

  async #converse(call: OperationCall, { args, phase }: CheckedCall, time: Time): Promise<OperationResult> {
    const { extension, operation } = call;
    const running = await this.#start(time.signal);
    if (this.#offered !== undefined && !Object.hasOwn(this.#offered.operations, operation)) {
      const message = `extension "${extension}" does not have the operation ${operation}, which its extension.yaml declares`;
      throw new McpvalsError("extension/protocol", message);
    }
    return running.execute({ operation, args, context: this.#contextOf(phase, time) }, time.signal);
  }

  async #once(
    { operation }: OperationCall,
    { args, phase }: CheckedCall,
    time: Time,
  ): Promise<OperationResult> {
    const { emit, expander } = this.#options;
    const extension = this.#extension;
    const config = expandConfig(extension.spec.config, expander);
    const place = await this.#place(config);
    return runOneShot(
      { extension, place, emit, onStart: (process) => (this.#working = process) },
      { operation, args, config, context: this.#contextOf(phase, time) },
      time.signal,
    );
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
    const { emit, expander } = this.#options;
    const extension = this.#extension;
    const config = expandConfig(extension.spec.config, expander);
    const place = await this.#place(config);
    const starting = JsonRpcExtension.start({ extension, place, emit });
    const running = await untilAborted(starting, signal).catch((error: unknown) => {
      this.#abandoned.push(starting.then((late) => late[Symbol.asyncDispose]()).catch(() => undefined));
      throw error;
    });
    this.#running = running;
    this.#working = running.process;
    this.#offered = await running.initialize(config, signal);
    return running;
  }

  async #place(config: JsonObject): Promise<ExtensionPlace> {
    const { trial, expander } = this.#options;
    const { spec } = this.#extension;
    const env = extensionEnvironment(spec, this.#options, (template, name) =>
      expander.placed(template, inVariable(name)),
    );
    const named = Object.values(spec.env).map(expander.text);
    await trial.releasePorts([...named, JSON.stringify(config)]);
    return { cwd: trial.dir, env, read: [trial.dir], write: [trial.workspace] };
  }

  #contextOf(phase: ExtensionPhase, { endsAt }: Time): OperationContext {
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

  #timeUp({ operation, timeoutMs }: OperationCall): McpvalsError {
    const message = `took longer than ${timeoutMs} ms for ${operation}`;
    const { alias } = this.#extension.spec;
    return (
      this.#working?.error("extension/timeout", message) ??
      new McpvalsError("extension/timeout", `extension "${alias}" ${message}`)
    );
  }
}

interface Time {
  readonly signal: AbortSignal;
  /** On the clock of `performance.now`. */
  readonly endsAt: number;
}

/** A call with checked arguments. */
interface CheckedCall {
  /** With their defaults. */
  readonly args: JsonObject;
  readonly phase: ExtensionPhase;
}

/**
 * Checks a call against the manifest. Throws McpvalsError `extension/invalid-arguments` for an unknown operation and for
 * arguments that violate their schema, `task/extension` for a phase that the operation lacks, `extension/protocol` for a
 * schema that cannot be used, and the signal's reason.
 */
async function checkCall(
  call: OperationCall,
  manifest: ExtensionManifest,
  { validate, signal }: { readonly validate: ValidateSchema; readonly signal: AbortSignal },
): Promise<CheckedCall> {
  const { extension, operation } = call;
  const name = `${extension}.${operation}`;
  const { operations } = manifest;
  const declared = Object.hasOwn(operations, operation) ? operations[operation] : undefined;
  if (declared === undefined) {
    const message = `extension "${extension}" has no operation "${operation}"`;
    throw new McpvalsError("extension/invalid-arguments", message, {
      hint: suggestion(operation, Object.keys(operations), "operations"),
    });
  }
  const phase = phaseOf(call.phase, declared.phases);
  if (phase === undefined) {
    throw new McpvalsError(
      "task/extension",
      `${name} is for ${declared.phases.join(" and ")}, not for ${call.phase}`,
    );
  }
  const args = fillDefaults(declared.params, call.args);
  if (acceptsAnything(declared.params)) return { args, phase };
  const check = await untilAborted(validate(declared.params, args), signal);
  if (check.status === "valid") return { args, phase };
  if (check.status === "unusable") {
    const message = `the schema of the arguments of ${name} cannot be used: ${check.reason}`;
    throw new McpvalsError("extension/protocol", message);
  }
  const problems = check.errors.map(formatArgumentError).join("; ");
  throw new McpvalsError("extension/invalid-arguments", `invalid arguments of ${name}: ${problems}`);
}

/**
 * The phase that the operation is told; undefined when it cannot be used in the given one. A probe runs as verify, or as the
 * first phase of an operation that lacks verify.
 */
function phaseOf(phase: Phase, allowed: readonly ExtensionPhase[]): ExtensionPhase | undefined {
  if (phase === "probe") return allowed.includes("verify") ? "verify" : allowed[0];
  return allowed.find((each) => each === phase);
}

/** Whether a schema accepts every object. */
function acceptsAnything(schema: JsonObject): boolean {
  return Object.entries(schema).every(([key, value]) => key === "type" && value === "object");
}
