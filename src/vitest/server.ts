import { afterAll, beforeAll, onTestFinished } from "vitest";
import {
  check,
  type CheckOptions,
  type CheckResult,
  loadServers,
  type Target,
  type TargetOptions,
} from "../check.ts";
import { answerText, outputProblem, resultProblem, structuredContent } from "../expect/tool-result.ts";
import { McpvalsError, renderError } from "../base/error.ts";
import type { Json, JsonObject } from "../base/json.ts";
import type { ServerSpec } from "../model/server.ts";
import type { McpRequest } from "../model/step.ts";
import { createRedactor } from "../trace/redact.ts";
import { version } from "../base/version.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import {
  openSession,
  sendRequest,
  type ServerSession,
  type ToolDefinition,
} from "../servers/client/session.ts";
import { openHost } from "../servers/server-pool.ts";

/** How a server is started and called. */
export interface ServerOptions extends TargetOptions {
  /** Time limit of a call, in milliseconds. Default: 4000, less than the time limit of a test in Vitest. */
  readonly callTimeoutMs?: number;
}

/** What a server answered to a request. */
export class Answer {
  readonly request: McpRequest;
  /** As the server sent it; absent when it answered with a JSON-RPC error. */
  readonly result?: JsonObject;
  readonly error?: { readonly code?: number; readonly message: string; readonly data?: Json };
  /** The text of the result, or the message of the error. */
  readonly text: string;
  readonly structuredContent?: Json;
  /** Whether the server said that the request failed: a JSON-RPC error, or `isError: true`. */
  readonly failed: boolean;
  readonly latencyMs: number;
  /** Whether the result fits the `outputSchema` that the tool declares; absent where it declares none. */
  readonly output?: { readonly problem?: string };

  constructor(answer: Omit<Answer, "text" | "structuredContent" | "failed">) {
    const { request, result, error, latencyMs, output } = answer;
    const structured = result && structuredContent(result);
    this.request = request;
    if (result !== undefined) this.result = result;
    if (error !== undefined) this.error = error;
    this.text = result === undefined ? (error?.message ?? "") : answerText(request.kind, result);
    if (structured !== undefined) this.structuredContent = structured;
    this.failed = result === undefined || result["isError"] === true;
    this.latencyMs = latencyMs;
    if (output !== undefined) this.output = output;
  }
}

/**
 * A server for the tests of a file, of a `describe` or of one test, whichever calls this: it is started before the first of them, and
 * stopped after the last. In a `beforeAll` hook or a fixture of Vitest call `stop` yourself.
 *
 * @param target A command with its arguments, a URL, or the path of a file with servers.
 */
export function startServer(target: Target, options: ServerOptions = {}): TestServer {
  const server = new TestServer(target, options);
  const stop = (): Promise<void> => server.stop();
  if (isInTest(stop)) return server;
  // Its own limit is the startup timeout of the server.
  beforeAll(() => server.start(), noTimeout);
  afterAll(stop, noTimeout);
  return server;
}

const noTimeout = 0;

/** Whether a test is running now; `onEnd` is then called at its end. */
function isInTest(onEnd: () => Promise<void>): boolean {
  try {
    onTestFinished(onEnd, noTimeout);
    return true;
  } catch {
    return false;
  }
}

/** A server under test. It is started by its first use; one that was lost is started again by the next. */
export class TestServer implements AsyncDisposable {
  readonly #target: Target;
  readonly #options: ServerOptions;
  readonly #validator = new SchemaValidator();
  #running: Promise<RunningServer> | undefined;
  #isStopped = false;
  #redact: (text: string) => string = (text) => text;

  constructor(target: Target, options: ServerOptions = {}) {
    this.#target = target;
    this.#options = options;
  }

  /** Starts the server if it is not running, also after `stop`. Throws when it cannot be started or reached. */
  async start(): Promise<void> {
    this.#isStopped = false;
    await this.#use(() => Promise.resolve());
  }

  /** The tools that it lists. */
  tools(): Promise<readonly ToolDefinition[]> {
    return this.#use(({ session }) => Promise.resolve(session.tools));
  }

  /** Calls a tool. Throws when there is no valid answer: the server is lost, too slow, or sent an unusable result. */
  callTool(tool: string, args: JsonObject = {}): Promise<Answer> {
    return this.#send({ kind: "tool", tool, args });
  }

  /** Reads a resource. Throws as `callTool`. */
  readResource(uri: string): Promise<Answer> {
    return this.#send({ kind: "resource", uri });
  }

  /** Gets a prompt. Throws as `callTool`. */
  getPrompt(prompt: string, args: JsonObject = {}): Promise<Answer> {
    return this.#send({ kind: "prompt", prompt, args });
  }

  /** Checks the server as `mcpvals check` does, in processes of its own; keeps no run folder unless `output` names one. */
  async check(options: CheckOptions = {}): Promise<CheckResult> {
    const { callTimeoutMs: _, ...target } = this.#options;
    try {
      return await check(this.#target, { output: false, ...target, ...options });
    } catch (error) {
      throw testError(error);
    }
  }

  /** Ends the connection, and the process with all that it started. Never throws. */
  async stop(): Promise<void> {
    const running = this.#running;
    this.#running = undefined;
    this.#isStopped = true;
    const [settled] = await Promise.allSettled([running]);
    if (settled.status === "fulfilled") await settled.value?.stop();
    await this.#validator[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #send(request: McpRequest): Promise<Answer> {
    return this.#use(async ({ session, signal }) => {
      const { callTimeoutMs: timeoutMs = 4000 } = this.#options;
      const limits = { timeoutMs, signal };
      const outcome = await sendRequest(session, request, limits);
      const { latencyMs } = outcome;
      if (outcome.kind === "timeout") throw new McpvalsError("server/call-timeout", outcome.message);
      if (outcome.kind === "result") {
        const { result } = outcome;
        const problem = resultProblem(request.kind, result);
        if (problem !== undefined) throw unusable(session, problem);
        const output =
          request.kind === "tool" ? await this.#output(session, request.tool, result, limits) : {};
        return new Answer({ request, result, latencyMs, ...output });
      }
      const { kind: _, unusable: isUnusable, latencyMs: __, ...error } = outcome;
      if (isUnusable === true) throw unusable(session, error.message);
      return new Answer({ request, error, latencyMs });
    });
  }

  async #output(
    session: ServerSession,
    name: string,
    result: JsonObject,
    limits: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<Pick<Answer, "output">> {
    const [tool] = await session.toolsNamed(name, limits);
    if (tool?.outputSchema === undefined) return {};
    const validate = this.#validator.validate.bind(this.#validator);
    const problem = await outputProblem(tool.outputSchema, result, validate);
    return { output: problem === undefined ? {} : { problem } };
  }

  async #use<T>(work: (server: RunningServer) => Promise<T>): Promise<T> {
    if (this.#isStopped) throw new Error("the server was stopped; call start() to start it again");
    try {
      return await work(await this.#ready());
    } catch (error) {
      throw testError(error, this.#redact);
    }
  }

  async #ready(): Promise<RunningServer> {
    const starting = (this.#running ??= this.#start());
    const running = await starting;
    if (!running.session.lost.aborted) return running;
    if (this.#running === starting) this.#running = running.stop().then(() => this.#start());
    // Stopped meanwhile: the call throws why the server was lost.
    return this.#running ?? running;
  }

  async #start(): Promise<RunningServer> {
    const controller = new AbortController();
    const { signal } = controller;
    const { callTimeoutMs: _, ...given } = this.#options;
    const { eval: spec, secrets } = await loadServers(this.#target, { ...given, signal });
    this.#redact = createRedactor(secrets);
    const [name, server] = onlyServer(spec.servers);
    const host = await openHost(name, server);
    const stop = async (): Promise<void> => {
      controller.abort(new McpvalsError("run/interrupted", `server "${name}" is being stopped`));
      await host.stop();
    };
    try {
      const session = await openSession(host, server, { emit: () => 0, signal, version });
      return { session, signal, stop };
    } catch (error) {
      await stop();
      throw error;
    }
  }
}

/** Throws McpvalsError `usage/no-match` when it is not one. */
function onlyServer(servers: Readonly<Record<string, ServerSpec>>): readonly [string, ServerSpec] {
  const [first, ...others] = Object.entries(servers);
  if (first !== undefined && others.length === 0) return first;
  const names = Object.keys(servers).join(", ");
  throw new McpvalsError(
    "usage/no-match",
    first === undefined ? "the target has no server" : `the target has several servers: ${names}`,
    { hint: 'Name one: startServer("mcp-eval.config.yaml", { server: "NAME" }).' },
  );
}

interface RunningServer {
  readonly session: ServerSession;
  /** Aborts when the server is being stopped. */
  readonly signal: AbortSignal;
  stop(): Promise<void>;
}

function unusable({ name }: ServerSession, problem: string): McpvalsError {
  return new McpvalsError("server/protocol-error", `server "${name}" gave an unusable answer: ${problem}`);
}

/** An error as Vitest shows it best: all that is known, such as a server's stderr, in its message, without secrets. */
export function testError(error: unknown, redact: (text: string) => string = (text) => text): Error {
  if (!(error instanceof McpvalsError)) return error instanceof Error ? error : new Error(String(error));
  const shown = new Error(redact(renderError(error)).replace(/^error /, ""));
  shown.name = "McpvalsError";
  return shown;
}
