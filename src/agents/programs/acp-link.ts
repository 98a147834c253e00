import type {
  ClientConnection,
  RequestPermissionRequest,
  RequestPermissionResponse,
} from "@agentclientprotocol/sdk";
import { McpvalsError } from "../../core/errors/error.ts";
import type { Emit } from "../../core/trace/events.ts";
import { abortWithAny, settlesWithin, withDeadline } from "../../process/deadline.ts";
import { closed } from "../../process/stop-tree.ts";
import { type AcpStream, openAcpStream } from "./acp-stream.ts";
import type { AgentProgram } from "./agent-program.ts";
import { ProgramLines } from "./program-lines.ts";

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
