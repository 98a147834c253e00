import { McpvalsError } from "../../core/errors/error.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import type { ExtensionManifest, ExtensionPhase } from "../../core/formats/extension/manifest.ts";
import {
  goDurationText,
  type OperationContext,
  type OperationResult,
} from "../../core/formats/extension/protocol.ts";
import { durationInWords, fillDefaults } from "../../core/formats/extension/typed-args.ts";
import type { ExtensionSpec, Json, JsonObject } from "../../core/formats/model.ts";
import type { SchemaCheck } from "../../core/grade/grader.ts";
import type { Expander } from "../../core/templates/expand.ts";
import { inVariable } from "../../core/templates/places.ts";
import type { Emit, Phase } from "../../core/trace/events.ts";
import { abortAfter, untilAborted } from "../../process/deadline.ts";
import type { OperationCall, OperationHost } from "../operation-host.ts";
import type { PreparedExtension, PreparedExtensions } from "../prepared-extensions.ts";
import { extensionEnvironment, unknownProtocol } from "./ask-manifest.ts";
import type { ExtensionPlace, ExtensionProcess } from "./extension-process.ts";
import { JsonRpcExtension } from "./json-rpc-extension.ts";
import { runOneShot } from "./one-shot.ts";

/** The extensions of one trial; ends their processes when it is disposed of. */
export interface TrialExtensions extends OperationHost, AsyncDisposable {}

export interface TrialExtensionsOptions extends TrialSurroundings {
  /** By what steps name them. */
  readonly specs: Readonly<Record<string, ExtensionSpec>>;
}

/**
 * The extensions of one trial: each has at most one process at a time, which is started when the first operation needs it.
 * Disposing throws what an extension did wrong that no step was told of.
 */
export function openTrialExtensions({ specs, ...surroundings }: TrialExtensionsOptions): TrialExtensions {
  return new OpenExtensions(specs, surroundings);
}

class OpenExtensions implements TrialExtensions {
  readonly #specs: Readonly<Record<string, ExtensionSpec>>;
  readonly #surroundings: TrialSurroundings;
  readonly #open = new Map<string, TrialExtension>();

  constructor(specs: Readonly<Record<string, ExtensionSpec>>, surroundings: TrialSurroundings) {
    this.#specs = specs;
    this.#surroundings = surroundings;
  }

  async execute(call: OperationCall, signal: AbortSignal): Promise<OperationResult> {
    return this.#find(call.extension).execute(call, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = await Promise.allSettled(
      [...this.#open.values()].map((each) => each[Symbol.asyncDispose]()),
    );
    const broken = ended.find((each) => each.status === "rejected");
    if (broken !== undefined) throw broken.reason;
  }

  #find(alias: string): TrialExtension {
    const known = this.#open.get(alias);
    if (known !== undefined) return known;
    const spec = Object.hasOwn(this.#specs, alias) ? this.#specs[alias] : undefined;
    if (spec === undefined) {
      throw new McpvalsError("task/extension", `the task has no extension that is named "${alias}"`);
    }
    const opened = new TrialExtension(this.#surroundings.prepared.of(spec), this.#surroundings);
    this.#open.set(alias, opened);
    return opened;
  }
}

/** The trial that extensions work for, as it is when it is asked. */
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

/** What the extensions of a trial have in common. */
export interface TrialSurroundings {
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

/** One extension of a trial: its process, and a fresh one after that went wrong. */
class TrialExtension implements AsyncDisposable {
  readonly #extension: PreparedExtension;
  readonly #surroundings: TrialSurroundings;
  #manifest: ExtensionManifest | undefined;
  #running: JsonRpcExtension | undefined;
  /** What the running program says that it offers. */
  #offered: ExtensionManifest | undefined;
  /** Who is at work, for the error when that takes too long. */
  #working: Pick<ExtensionProcess, "error"> | undefined;
  /** What it did wrong after an answer that was taken for good. */
  #late: McpvalsError | undefined;
  #last: Promise<unknown> = Promise.resolve();
  /** Programs that were given up before they had started. */
  readonly #abandoned: Promise<unknown>[] = [];

  constructor(extension: PreparedExtension, surroundings: TrialSurroundings) {
    this.#extension = extension;
    this.#surroundings = surroundings;
    this.#manifest = extension.resolved.manifest;
  }

  /** Runs one operation, after those that were asked for before. Throws as `OperationHost.execute`. */
  async execute(call: OperationCall, signal: AbortSignal): Promise<OperationResult> {
    const endsAt = performance.now() + call.timeoutMs;
    using limit = abortAfter(call.timeoutMs, () => this.#timeUp(call), signal);
    const within = limit.signal;
    const work = this.#last.then(() => this.#execute(call, { signal: within, endsAt }));
    this.#last = work.catch(() => undefined); // whoever asked has the error
    return await work;
  }

  /** Ends its process. Throws what it did wrong after an answer that was taken for good. */
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
      const { validateSchema: validate } = this.#surroundings.trial;
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
      const message = `extension "${extension}" does not offer ${operation}, which its extension.yaml names`;
      throw new McpvalsError("extension/protocol", message);
    }
    return running.execute({ operation, args, context: this.#contextOf(phase, time) }, time.signal);
  }

  async #once(
    { operation }: OperationCall,
    { args, phase }: CheckedCall,
    time: Time,
  ): Promise<OperationResult> {
    const { emit, expander } = this.#surroundings;
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
    if (this.#offered === undefined) throw new Error("an extension was started without being asked");
    return this.#offered;
  }

  /** The program that runs, or a fresh one that knows its settings. */
  async #start(signal: AbortSignal): Promise<JsonRpcExtension> {
    if (this.#running !== undefined) {
      this.#working = this.#running;
      return this.#running;
    }
    const { emit, expander } = this.#surroundings;
    const extension = this.#extension;
    const config = expandConfig(extension.spec.config, expander);
    const place = await this.#place(config);
    const starting = JsonRpcExtension.start({ extension, place, emit });
    const running = await untilAborted(starting, signal).catch((error: unknown) => {
      this.#abandoned.push(starting.then((late) => late[Symbol.asyncDispose]()).catch(() => undefined));
      throw error;
    });
    this.#running = running;
    this.#working = running;
    this.#offered = await running.initialize(config, signal);
    return running;
  }

  async #place(config: JsonObject): Promise<ExtensionPlace> {
    const { trial, expander } = this.#surroundings;
    const { spec } = this.#extension;
    const env = extensionEnvironment(spec, this.#surroundings, (template, name) =>
      expander.placed(template, inVariable(name)),
    );
    const named = Object.values(spec.env).map(expander.text);
    await trial.releasePorts([...named, JSON.stringify(config)]);
    return { cwd: trial.dir, env, read: [trial.dir], write: [trial.workspace] };
  }

  #contextOf(phase: ExtensionPhase, { endsAt }: Time): OperationContext {
    const { dir, workspace, declared, agent, prompt } = this.#surroundings.trial;
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

  /** A program that broke since its last answer has lost what it knew; only a cleanup does not mind. */
  async #leaveBroken({ phase }: OperationCall): Promise<void> {
    const fault = this.#running?.fault;
    if (fault === undefined) return;
    await this.#drop();
    if (phase !== "cleanup" && phase !== "probe") throw fault;
    this.#noteLate(fault);
  }

  /** That a program ended after its last answer says nothing against that answer. */
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

function expandConfig(config: JsonObject, { json }: Expander): JsonObject {
  return Object.fromEntries(Object.entries(config).map(([key, value]): [string, Json] => [key, json(value)]));
}

export type ValidateSchema = (schema: Json, value: Json) => Promise<SchemaCheck>;

/** A call that can be made. */
export interface CheckedCall {
  /** With their defaults. */
  readonly args: JsonObject;
  readonly phase: ExtensionPhase;
}

/**
 * Holds a call against what the extension offers. Throws McpvalsError `extension/invalid-arguments` for an operation that
 * there is not and for arguments that do not fit, `task/extension` for a phase that the operation lacks,
 * `extension/protocol` for a schema that cannot be used, and the signal's reason.
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
    throw new McpvalsError(
      "extension/invalid-arguments",
      `extension "${extension}" has no operation "${operation}"`,
      {
        hint: suggestion(operation, Object.keys(operations), "operations"),
      },
    );
  }
  const phase = phaseOf(call.phase, declared.phases);
  if (phase === undefined) {
    throw new McpvalsError(
      "task/extension",
      `${name} is for ${declared.phases.join(" and ")}, not for ${call.phase}`,
    );
  }
  const args = fillDefaults(declared.params, call.args);
  if (saysNothing(declared.params)) return { args, phase };
  const check = await untilAborted(validate(declared.params, args), signal);
  if (check.status === "valid") return { args, phase };
  throw check.status === "invalid"
    ? new McpvalsError(
        "extension/invalid-arguments",
        `${name} does not take these arguments: ${check.errors.map(durationInWords).join("; ")}`,
      )
    : new McpvalsError(
        "extension/protocol",
        `the schema of the arguments of ${name} cannot be used: ${check.reason}`,
      );
}

/**
 * The phase that the operation is told; undefined when it is not for it. The state of things is looked at as in verify, by
 * an operation that lacks verify as in the first phase that it has.
 */
function phaseOf(phase: Phase, allowed: readonly ExtensionPhase[]): ExtensionPhase | undefined {
  if (phase === "probe") return allowed.includes("verify") ? "verify" : allowed[0];
  return allowed.find((each) => each === phase);
}

/** Whether every object fits. */
function saysNothing(schema: JsonObject): boolean {
  return Object.entries(schema).every(([key, value]) => key === "type" && value === "object");
}
