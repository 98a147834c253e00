import { McpvalsError } from "../../base/error.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { HttpServerSpec } from "../../model/server.ts";
import type { Emit } from "../../model/event.ts";
import { pause, settlesWithin, untilAborted, withDeadline } from "../../process/deadline.ts";
import { type ManagedProcess, type ProcessExit, spawnProcess } from "../../process/spawn.ts";
import {
  type ChannelListener,
  type Evidence,
  exitMs,
  settleMs,
  startFailure,
  Watchers,
} from "../connections/host.ts";
import { sendRequest } from "./http-request.ts";
import { displayUrl } from "./http-errors.ts";

/** Pause between two requests that find out whether the program listens, in milliseconds. */
const pollMs = 50;
/** How long the URL may take to answer one of these requests, in milliseconds. */
const answerMs = 2000;

/**
 * Starts the program of a server with a URL. Throws McpvalsError `server/spawn-failed`, also when something answers at the URL
 * before the program is started: it would be tested in place of the program.
 */
export async function startListeningProgram(
  name: string,
  { url, transport, program, captureStderr }: HttpServerSpec & Required<Pick<HttpServerSpec, "program">>,
): Promise<ListeningProgram> {
  if (await answers(url))
    throw new McpvalsError(
      "server/spawn-failed",
      `server "${name}" was not started: something answers at ${displayUrl(url)} already`,
      { hint: "Stop it, or choose another port. To test what runs there, remove `command`." },
    );
  try {
    const process = await spawnProcess(program);
    const target = `${displayUrl(url)}, started with ${[program.command, ...program.args].join(" ")}`;
    const watchers = new Watchers(name, { transport, target, pid: process.pid });
    return new ListeningProgram({ name, url, process, watchers, recordsStderr: captureStderr !== false });
  } catch (error) {
    throw startFailure(name, error);
  }
}

/** Whether there is a response that is not the one of a proxy without its server. `OPTIONS` opens no session. */
async function answers(url: string, signal?: AbortSignal): Promise<boolean> {
  try {
    const response = await withDeadline(
      (limit) => sendRequest(new URL(url), { method: "OPTIONS", headers: {}, signal: limit }),
      { ms: answerMs, onTimeout: () => new Error("no answer"), ...withoutUndefined({ signal }) },
    );
    response.cancel();
    return response.status < 500 || response.status === 501;
  } catch {
    return false;
  }
}

interface Started {
  readonly name: string;
  readonly url: string;
  readonly process: ManagedProcess;
  readonly watchers: Watchers;
  readonly recordsStderr: boolean;
}

/** A program that serves MCP at a URL. */
export class ListeningProgram {
  /** Settles when the URL answers; rejects when the program ends before. */
  readonly ready: Promise<void>;
  readonly #started: Started;
  readonly #lost = new AbortController();
  readonly #over = new AbortController();
  readonly #ended: Promise<void>;
  #isReady = false;
  #stopping: Promise<void> | undefined;

  constructor(started: Started) {
    const { process, watchers, recordsStderr } = started;
    this.#started = started;
    process.stderr.on("data", (chunk: Buffer) => watchers.stderr(chunk, recordsStderr));
    process.stdout.on("data", (chunk: Buffer) => watchers.stdout(chunk));
    this.#ended = process.exited.then((exit) => this.#recordExit(exit));
    this.ready = this.#untilReady();
    this.ready.catch(() => undefined);
  }

  /** Aborts with an McpvalsError when the program ends without being stopped. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Records the program until the returned function is called. */
  watch(emit: Emit): () => void {
    return this.#started.watchers.add(emit);
  }

  evidence(): Evidence {
    const { stderrTail } = this.#started.watchers.evidence();
    return withoutUndefined({
      stderrTail,
      silentUrl: this.#isReady ? undefined : displayUrl(this.#started.url),
    });
  }

  /** A listener that is told of the end of the program, where this is why its channel broke. */
  listenerOf(listener: ChannelListener): ChannelListener {
    return {
      ...listener,
      onClosed: (reason) => {
        const reported = settlesWithin(this.#ended, exitMs);
        void reported.then(() =>
          listener.onClosed(this.#lost.signal.aborted ? this.#lost.signal.reason : reason),
        );
      },
    };
  }

  /** Ends the program with its whole process tree. Never throws; afterwards nothing is recorded. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { process, watchers } = this.#started;
    // Servers that listen do not read stdin.
    const { by, durationMs } = await process.stop({ stdinMs: 0 });
    await settlesWithin(this.#ended, settleMs);
    this.#over.abort();
    watchers.stop(by, durationMs);
  }

  async #untilReady(): Promise<void> {
    const { signal } = this.#over;
    while (!(await untilAborted(answers(this.#started.url, signal), signal))) await pause(pollMs, signal);
    this.#isReady = true;
  }

  async #recordExit(exit: ProcessExit): Promise<void> {
    const { name, process, watchers } = this.#started;
    const how = await watchers.exited(exit, process, async () => {
      return this.#stopping !== undefined && (await process.stop()).by !== "already-exited";
    });
    if (how !== undefined) {
      const hint = "Its output usually says why; run the same command in a terminal.";
      const detail = watchers.evidence().stderrTail;
      const details = withoutUndefined({ hint, detail });
      this.#lost.abort(new McpvalsError("server/exited", `server "${name}" ${how}`, details));
    }
    this.#over.abort(this.#lost.signal.reason);
  }
}
