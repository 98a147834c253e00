import type { Readable, Writable } from "node:stream";
import type {
  AnyMessage,
  ClientConnection,
  RequestPermissionRequest,
  RequestPermissionResponse,
  Stream,
} from "@agentclientprotocol/sdk";
import { McpvalsError } from "../../core/errors/error.ts";
import type { Preset } from "../../core/formats/presets/preset.ts";
import type { Emit } from "../../core/trace/events.ts";
import { abortWithAny, settlesWithin, withDeadline } from "../../process/deadline.ts";
import { closed } from "../../process/process-tree.ts";
import { LineReader } from "../../process/program-output.ts";
import type { AgentProgram } from "./agent-program.ts";
import { ambiguity, longestMessage, ProgramLines, SaidBudget } from "./json-lines.ts";

export interface AcpLinkOptions {
  /** The agent's name. */
  readonly name: string;
  readonly program: AgentProgram;
  readonly emit: Emit;
  readonly signal: AbortSignal;
  /** Gets the parameters of each `session/update`, in order. */
  readonly onUpdate: (params: unknown) => void;
  readonly onPermission: (request: RequestPermissionRequest) => RequestPermissionResponse;
}

export interface AcpRequest {
  readonly method: string;
  readonly params: object;
  /** What is going on, for messages: `in turn 1`. */
  readonly doing: string;
  /** Time limit in milliseconds; absent: none but the signal's. */
  readonly ms?: number;
}

/** Lines that are no messages which a program may write before its first answer; a banner has fewer. */
const mostNonsense = 20;
/** How long what was written before the end may take to arrive. */
const drainMs = 200;
/** How long a program whose stdout has ended may take to end itself. */
const leaveMs = 1000;

/** The exchange of messages with a running agent program, which is lost when the program cannot go on. */
export class AcpLink {
  readonly #options: AcpLinkOptions;
  readonly #stream: AcpStream;
  readonly #connection: ClientConnection;
  readonly #lost: AbortController;
  readonly #noise: ProgramLines;
  readonly #watching: Promise<void>;
  #nonsense: string[] = [];
  #answered = false;
  #doing = "at the start";
  #last: Promise<unknown> = Promise.resolve();

  /** Loads the protocol's SDK and begins to listen. */
  static async open(options: AcpLinkOptions): Promise<AcpLink> {
    return new AcpLink(options, await import("@agentclientprotocol/sdk"));
  }

  private constructor(options: AcpLinkOptions, sdk: typeof import("@agentclientprotocol/sdk")) {
    this.#options = options;
    this.#lost = new AbortController();
    this.#noise = new ProgramLines({ stream: "stdout", emit: options.emit });
    const { stdin, stdout } = options.program.process;
    this.#stream = openAcpStream({
      stdin,
      stdout,
      onUpdate: options.onUpdate,
      onNonsense: (line) => this.#hearNonsense(line),
      onBroken: (problem) => (typeof problem === "string" ? this.#lose(problem) : this.#lost.abort(problem)),
    });
    this.#connection = sdk
      .client({ name: "mcpvals" })
      .onRequest(sdk.methods.client.session.requestPermission, ({ params }) => options.onPermission(params))
      .connect(this.#stream);
    this.#watching = this.#watch();
  }

  /**
   * Asks the agent. Rejects with the agent's error as the SDK has it, with McpvalsError `agent/exited`, `agent/protocol` or
   * `agent/startup-timeout`, and with the signal's reason.
   */
  async request({ method, params, doing, ms = Infinity }: AcpRequest): Promise<unknown> {
    this.#doing = doing;
    using end = abortWithAny([this.#lost.signal, this.#options.signal]);
    const onTimeout = (): McpvalsError => this.#timeoutError(method, ms);
    const ask = (): Promise<unknown> => {
      this.#last = this.#connection.agent.request(method, params);
      return this.#last;
    };
    const answer = await withDeadline(ask, { ms, signal: end.signal, onTimeout });
    this.#answered = true;
    return answer;
  }

  /** Settles when the last request was answered, even one that nobody waits for any more. */
  async settled(): Promise<void> {
    await this.#last.then(
      () => undefined,
      () => undefined,
    );
  }

  notify(method: string, params: object): void {
    // Only a link that is closed refuses, and then there is nobody to be told.
    this.#connection.agent.notify(method, params).catch(() => undefined);
  }

  /** Ends the exchange; requests that wait are rejected, and nothing is recorded any more. */
  close(): void {
    this.#stream.stop();
    this.#connection.close();
    this.#noise.finish();
  }

  /** Settles soon after the program was stopped, when nothing of the link waits any more. */
  finished(): Promise<void> {
    return this.#watching;
  }

  /** An error for what the agent says that it should not. */
  protocolError(what: string): McpvalsError {
    const { name, program } = this.#options;
    const [first] = this.#nonsense;
    const noise = first === undefined ? undefined : `stdout: ${first}`;
    const detail = [noise, program.stderrTail()].filter((text) => text !== undefined).join("\n");
    return new McpvalsError("agent/protocol", `agent ${name} ${what}`, detail === "" ? {} : { detail });
  }

  #lose(what: string): void {
    this.#lost.abort(this.protocolError(what));
  }

  #hearNonsense(line: Buffer): void {
    this.#noise.push(Buffer.concat([line, Buffer.from("\n")]));
    if (this.#answered) return;
    if (this.#nonsense.length < mostNonsense) this.#nonsense.push(line.toString("utf8", 0, 500));
    else this.#lose("does not speak the Agent Client Protocol on stdout");
  }

  async #watch(): Promise<void> {
    const { program } = this.#options;
    const { exited, stdout } = program.process;
    const silent = closed(stdout);
    await Promise.race([exited, silent]);
    // The last answer can still be on its way when the program has gone, and the other way around.
    if (program.process.exit !== undefined) await settlesWithin(silent, drainMs);
    else await settlesWithin(exited, leaveMs);
    if (program.process.exit === undefined) this.#lose("closed its stdout and went on running");
    else this.#lost.abort(program.exitedError(this.#doing));
  }

  #timeoutError(method: string, ms: number): McpvalsError {
    if (this.#nonsense.length > 0)
      return this.protocolError(`did not answer ${method} within ${ms} ms, but wrote something else`);
    const { name, program } = this.#options;
    const detail = program.stderrTail();
    return new McpvalsError(
      "agent/startup-timeout",
      `agent ${name} did not answer ${method} within ${ms} ms`,
      {
        hint: "Run the same command in a terminal: it may wait for a login, or may not speak the Agent Client Protocol.",
        ...(detail === undefined ? {} : { detail }),
      },
    );
  }
}

export interface AcpStreamOptions {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Gets the parameters of each `session/update`, and what is one by another name, in the order of the wire. */
  readonly onUpdate: (params: unknown) => void;
  /** Gets each line that is no message. */
  readonly onNonsense: (line: Buffer) => void;
  /** Hears what the program did that nobody can read on after, or an error that nobody expected; nothing comes any more. */
  readonly onBroken: (problem: string | Error) => void;
}

export interface AcpStream extends Stream {
  /** Reads nothing any more. */
  stop(): void;
}

/**
 * The messages of an agent program, one a line. Updates of the session are handed over as they come, so that each comes
 * before the answer that follows it; answers to nothing are left out. The stream has no end of its own.
 */
function openAcpStream({ stdin, stdout, onBroken, ...hear }: AcpStreamOptions): AcpStream {
  const asked = new Set<unknown>();
  const budget = new SaidBudget();
  let lines: LineReader | undefined;
  const breakOff = (problem: string | Error): void => {
    lines?.stop();
    onBroken(problem);
  };
  const readable = new ReadableStream<AnyMessage>({
    start(controller) {
      const onMessage = (message: AnyMessage): void => controller.enqueue(message);
      const onLine = (line: Buffer): void => {
        const problem = budget.problemOf(line);
        if (problem !== undefined) return breakOff(problem);
        try {
          sort(line, { ...hear, asked, budget, onMessage, onDoubt: breakOff });
        } catch (error) {
          breakOff(error instanceof Error ? error : new Error(String(error)));
        }
      };
      const reader = new LineReader({
        limit: longestMessage,
        onLine,
        onTooLong: () => breakOff(`wrote a message of more than ${longestMessage} bytes`),
      });
      lines = reader;
      stdout.on("data", (chunk: Buffer) => reader.push(chunk));
      stdout.once("end", () => reader.end());
    },
    cancel: () => lines?.stop(),
  });
  const writable = new WritableStream<AnyMessage>({
    write(message) {
      if ("id" in message && "method" in message) asked.add(message.id);
      return new Promise((resolve) => {
        // A broken pipe means that the program has gone, which its end reports.
        stdin.write(`${JSON.stringify(message)}\n`, () => resolve());
      });
    },
  });
  return { readable, writable, stop: () => lines?.stop() };
}

interface Sorting extends Pick<AcpStreamOptions, "onUpdate" | "onNonsense"> {
  /** Ids of our own requests that wait for an answer. */
  readonly asked: Set<unknown>;
  readonly budget: SaidBudget;
  readonly onMessage: (message: AnyMessage) => void;
  /** Hears what is wrong with a message that is better not read. */
  readonly onDoubt: (problem: string) => void;
}

function sort(line: Buffer, { asked, budget, onMessage, onUpdate, onNonsense, onDoubt }: Sorting): void {
  const message = parseMessage(line);
  if (message === "blank") return;
  const doubt = message === undefined ? undefined : doubtOf(message, line, budget);
  if (doubt !== undefined) onDoubt(doubt);
  else if (message === undefined) onNonsense(line);
  else if (isUpdate(message)) onUpdate(message["params"]);
  else if (isMessage(message) && ("method" in message || asked.delete(message["id"]))) onMessage(message);
  else onNonsense(line);
}

function doubtOf(message: Parsed, line: Buffer, budget: SaidBudget): string | undefined {
  if ("result" in message && message["error"] !== undefined && message["error"] !== null)
    return "wrote an answer with both a result and an error";
  const isRequest = "method" in message && "id" in message;
  return ambiguity(line.toString("utf8")) ?? (isRequest ? budget.problemOfRequest() : undefined);
}

type Parsed = Readonly<Record<string, unknown>>;

function parseMessage(line: Buffer): Parsed | "blank" | undefined {
  const text = line.toString("utf8").trim();
  if (text === "") return "blank";
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The second one is Claude Code's own, with what it was asked to tell of itself. */
const updates: readonly unknown[] = ["session/update", "_claude/sdkMessage"];

function isUpdate(message: Parsed): boolean {
  return updates.includes(message["method"]) && !("id" in message);
}

function isMessage(message: Parsed): message is Parsed & AnyMessage {
  if (typeof message["method"] === "string") return true;
  if (!("error" in message)) return "result" in message;
  const { error } = message;
  return isRecord(error) && typeof error["code"] === "number" && typeof error["message"] === "string";
}

function isRecord(value: unknown): value is Parsed {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What is known of the agent that answered. */
export interface AcpAnswerer {
  readonly name: string;
  readonly facts?: Preset;
  /** What it offers to log in with, by its own names. */
  readonly authMethods: readonly string[];
  readonly stderrTail: string | undefined;
}

const authRequired = -32_000;

/** What an agent's error answer to a request of ours means: it could not act, which is nothing that it did badly. */
export function acpAnswerError(error: unknown, method: string, agent: AcpAnswerer): unknown {
  const code = codeOf(error);
  if (!(error instanceof Error) || code === undefined) return error;
  const detail = [detailOf(error), agent.stderrTail].filter((text) => text !== undefined).join("\n");
  const more = { ...(detail === "" ? {} : { detail }), cause: error };
  if (code === authRequired) return authError(error.message, agent, more);
  return new McpvalsError(
    "agent/failed",
    `agent ${agent.name} answered ${method} with an error: ${error.message}`,
    more,
  );
}

/** The error for an agent whose account or key is refused. */
export function authError(
  message: string,
  agent: AcpAnswerer,
  more: { readonly detail?: string; readonly cause?: unknown } = {},
): McpvalsError {
  return new McpvalsError("agent/auth", `agent ${agent.name} is not logged in: ${message}`, {
    hint: loginHint(agent),
    ...more,
  });
}

function loginHint({ facts, authMethods }: AcpAnswerer): string {
  const keys = (facts?.inheritEnv ?? []).filter((name) => /KEY|TOKEN/.test(name));
  const named = keys.length === 0 ? "the variable that it takes its key from" : keys.join(" or ");
  const offers = authMethods.length === 0 ? "" : ` It offers: ${authMethods.join(", ")}.`;
  return `Log in with the program itself in a terminal, or set ${named}.${offers}`;
}

function codeOf(error: unknown): number | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : undefined;
}

function detailOf(error: Error): string | undefined {
  if (!("data" in error) || error.data === undefined || error.data === null) return undefined;
  return typeof error.data === "string" ? error.data : JSON.stringify(error.data);
}
