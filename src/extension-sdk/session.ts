import { resolve } from "node:path";
import * as z from "zod";
import { suggestion } from "../core/formats/did-you-mean.ts";
import { type ExtensionPhase, extensionPhases } from "../core/formats/extension/manifest.ts";
import type { OperationContext, OperationResult } from "../core/formats/extension/protocol.ts";
import { parseGoDuration } from "../core/formats/duration.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/formats/json.ts";
import {
  describeIssues,
  EnvironmentError,
  errorText,
  type ExtensionDefinition,
  type Operation,
  type OperationRun,
  RpcError,
  type StartContext,
} from "./operation.ts";

/** How long an operation may take to notice that it should end, in milliseconds, before it is no longer waited for. */
const noticeMs = 500;

/** One operation to be run, as the host wrote it. */
export interface Call {
  readonly operation: string;
  readonly args: JsonObject;
  readonly context: Json | undefined;
  /** Phases that the way of calling allows, most likely first; used when the context names none. */
  readonly phases: readonly ExtensionPhase[];
}

/** An extension while it runs: what `open` made, and the operations on it. */
export class Session<C, R> {
  readonly #definition: ExtensionDefinition<C, R>;
  readonly #start: StartContext;
  #opened: { readonly resources: R } | undefined;

  constructor(definition: ExtensionDefinition<C, R>, start: StartContext) {
    this.#definition = definition;
    this.#start = start;
  }

  get isOpen(): boolean {
    return this.#opened !== undefined;
  }

  /** Throws RpcError for a config that is not valid, and when `open` throws. */
  async open(config: JsonObject): Promise<void> {
    const { config: schema, open } = this.#definition;
    const read = schema === undefined ? (config as C) : await checkConfig(schema, config);
    try {
      // Without `open` there is nothing that R could be but undefined.
      const resources = open === undefined ? (undefined as R) : await open(read, this.#start);
      this.#opened = { resources };
    } catch (error) {
      throw new RpcError("internal", `the extension could not start: ${errorText(error)}`, { cause: error });
    }
  }

  /**
   * Runs one operation. Throws RpcError when `open` was not called, and for arguments or a phase that it does not take;
   * EnvironmentError when its time is up; and whatever it throws but OperationFailed.
   */
  async execute(call: Call): Promise<OperationResult> {
    if (this.#opened === undefined) {
      throw new RpcError("invalidRequest", "initialize must come first, and succeed");
    }
    const { operations } = this.#definition;
    const found = Object.hasOwn(operations, call.operation) ? operations[call.operation] : undefined;
    if (found === undefined) return this.#unknown(call.operation);
    const context = readContext(call.context);
    const phase = phaseOf(found, context, call.phases);
    if (phase === undefined) throw wrongPhase(call, found, context);
    return this.#run(found, call.args, { ...context, phase, resources: this.#opened.resources });
  }

  /** Gives up what `open` made; once. Throws what `close` throws. */
  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened !== undefined) await this.#definition.close?.(opened.resources);
  }

  async #run(
    operation: Operation<R>,
    args: JsonObject,
    context: Omit<OperationRun<R>, "signal" | "log">,
  ): Promise<OperationResult> {
    const time = new AbortController();
    const late = new EnvironmentError(`the operation did not end within ${context.timeout}`);
    const timer = setTimeout(() => time.abort(late), Math.min(context.timeoutMs, 2 ** 31 - 1));
    const signal = AbortSignal.any([this.#start.signal, time.signal]);
    try {
      const work = operation.execute(args, { ...context, signal, log: this.#start.log });
      return await Promise.race([work, givenUp(signal)]);
    } catch (error) {
      // What is thrown once the time is up, such as by an aborted request, says less than that it is up.
      throw time.signal.aborted ? late : error;
    } finally {
      clearTimeout(timer);
    }
  }

  #unknown(operation: string): OperationResult {
    const { name, operations } = this.#definition;
    const hint = suggestion(operation, Object.keys(operations), "operations");
    return { success: false, error: `${name} has no operation ${JSON.stringify(operation)}. ${hint}` };
  }
}

async function checkConfig<C>(schema: z.ZodType<C>, config: JsonObject): Promise<C> {
  const checked = await z.safeParseAsync(schema, config);
  if (checked.success) return checked.data;
  throw new RpcError("invalidParams", `the config is not valid: ${describeIssues(checked.error.issues)}`);
}

/** The phase that an operation runs in; undefined when it has none of those that are meant. */
function phaseOf<R>(
  { declaration: { phases } }: Operation<R>,
  { phase }: ReadContext,
  likely: readonly ExtensionPhase[],
): ExtensionPhase | undefined {
  const meant = phase === undefined ? likely : [phase];
  return meant.find((each) => phases.includes(each));
}

function wrongPhase<R>(call: Call, { declaration }: Operation<R>, { phase }: ReadContext): RpcError {
  const used = phase ?? call.phases.join(" or ");
  const message = `${call.operation} cannot be used in ${used}, only in ${declaration.phases.join(", ")}`;
  return new RpcError("invalidParams", message);
}

/** Rejects a little after the signal has aborted, with its reason, for operations that do not heed it. */
function givenUp(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = (): void => void setTimeout(() => reject(signal.reason as Error), noticeMs).unref();
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp, { once: true });
  });
}

/** How long an operation may take when the host does not say, in milliseconds: as long as one of a task's steps. */
const usualTimeoutMs = 300_000;

/** The context as operations see it, complete. `phase` is undefined where the host says none. */
export interface ReadContext extends Omit<OperationContext, "phase"> {
  readonly phase: ExtensionPhase | undefined;
  readonly timeoutMs: number;
}

/** Reads the context of a call. Hosts leave out what they do not know, so everything has a value that stands for it. */
function readContext(value: Json | undefined): ReadContext {
  const context = isJsonObject(value) ? value : {};
  const workdir = resolve(textOf(context["workdir"]) ?? ".");
  const timeout = textOf(context["timeout"]);
  const timeoutMs = timeout === undefined ? undefined : parseGoDuration(timeout);
  const agent = agentOf(context["agent"]);
  return {
    workdir,
    workspace: resolve(textOf(context["workspace"]) ?? workdir),
    phase: extensionPhases.find((phase) => phase === context["phase"]),
    env: textsOf(context["env"]),
    timeout: timeoutMs === undefined || timeout === undefined ? `${usualTimeoutMs / 1000}s` : timeout,
    timeoutMs: timeoutMs ?? usualTimeoutMs,
    ...(agent === undefined ? {} : { agent }),
  };
}

function agentOf(value: Json | undefined): OperationContext["agent"] {
  if (!isJsonObject(value)) return undefined;
  return { prompt: textOf(value["prompt"]) ?? "", output: textOf(value["output"]) ?? "" };
}

function textsOf(value: Json | undefined): Readonly<Record<string, string>> {
  const texts = Object.entries(isJsonObject(value) ? value : ({} satisfies JsonObject));
  return Object.fromEntries(
    texts.flatMap(([name, text]) => (typeof text === "string" ? [[name, text]] : [])),
  );
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
