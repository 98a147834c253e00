import { withoutUndefined } from "../../core/formats/json.ts";
import { shortened } from "../../core/text/visible-text.ts";
import type { Emit, EventBody } from "../../core/trace/events.ts";
import { settlesWithin } from "../../process/deadline.ts";
import { closed } from "../../process/process-tree.ts";
import { TextTail, WholeLines } from "../../process/program-output.ts";
import type { ManagedProcess, ProcessExit } from "../../process/spawn.ts";
import type { Evidence } from "./host.ts";

type Started = Extract<EventBody, { type: "server.started" }>;
type Stopped = Extract<EventBody, { type: "server.stopped" }>;

/** Maximum number of recorded lines on stdout that are not messages. */
const invalidLineLimit = 50;
/** Recorded length of a line on stdout that is not a message, in characters. */
const invalidLineLength = 2000;

/** Maximum delay between the exit of a process and the end of its output, in either order, in milliseconds. */
export const settleMs = 250;

/** Records a server as a whole for each trial that watches it: its start, its output besides MCP, and its end. */
export class Watchers {
  readonly #server: string;
  readonly #started: Omit<Started, "type" | "server" | "reused">;
  readonly #outputs = new Map<Emit, OutputRecorder>();
  /** Output before the first watcher, which receives it. */
  readonly #early: EventBody[] = [];
  readonly #firstOutput: OutputRecorder;
  readonly #stderrTail = new TextTail();
  readonly #stdoutTail = new TextTail();
  #firstEmit: Emit = (event) => this.#early.push(event);
  #isWatched = false;
  #firstInvalidLine: string | undefined;

  constructor(server: string, started: Omit<Started, "type" | "server" | "reused">) {
    this.#server = server;
    this.#started = started;
    this.#firstOutput = new OutputRecorder(server, (event) => this.#firstEmit(event));
  }

  /** Records until the returned function is called; as `reused` from the second watcher on. */
  add(emit: Emit): () => void {
    const isFirst = !this.#isWatched;
    const output = isFirst ? this.#firstOutput : new OutputRecorder(this.#server, emit);
    const reused = isFirst ? {} : ({ reused: true } as const);
    emit({ type: "server.started", server: this.#server, ...this.#started, ...reused });
    this.#isWatched = true;
    if (isFirst) {
      this.#firstEmit = emit;
      for (const event of this.#early.splice(0)) emit(event);
    }
    this.#outputs.set(emit, output);
    return () => {
      if (this.#outputs.delete(emit)) output.finish();
    };
  }

  /** Keeps the end of stderr as evidence, and records it if `isRecorded`. */
  stderr(chunk: Buffer, isRecorded: boolean): void {
    this.#stderrTail.push(chunk);
    if (isRecorded) for (const output of this.#current()) output.stderr(chunk);
  }

  /** Records stdout of a program that does not send its messages there. */
  stdout(chunk: Buffer): void {
    this.#stdoutTail.push(chunk);
    for (const output of this.#current()) output.stdout(chunk);
  }

  /** Records a line on stdout that is not a message. */
  invalidLine(line: Buffer): void {
    this.#firstInvalidLine ??= invalidLineText(line);
    for (const output of this.#current()) output.invalidLine(line);
  }

  evidence(): Evidence {
    const stderrTail = this.#stderrTail.text ?? this.#stdoutTail.text;
    return withoutUndefined({ stderrTail, firstInvalidLine: this.#firstInvalidLine });
  }

  /** Records an event after all output so far. */
  emit(event: EventBody): void {
    for (const [emit, output] of this.#outputs) {
      output.flush();
      emit(event);
    }
  }

  /**
   * Records the exit of the server's process, after everything that it wrote. Returns how it ended, as the end of a sentence, unless it was
   * expected to.
   */
  async exited(
    { exitCode, signal }: ProcessExit,
    { stdout, stderr }: Pick<ManagedProcess, "stdout" | "stderr">,
    isExpected: () => Promise<boolean>,
  ): Promise<string | undefined> {
    await settlesWithin(Promise.all([closed(stdout), closed(stderr)]), settleMs);
    const expected = await isExpected();
    this.emit({ type: "server.exited", server: this.#server, exitCode, signal, expected });
    if (expected) return undefined;
    return signal === null ? `exited with code ${exitCode}` : `was ended by ${signal}`;
  }

  /** Records the end of the server; nothing is recorded afterwards. */
  stop(by: Stopped["by"], durationMs: number, survivors = 0): void {
    const left = survivors === 0 ? {} : { survivors };
    for (const [emit, output] of this.#outputs) {
      output.finish();
      emit({ type: "server.stopped", server: this.#server, by, durationMs, ...left });
    }
    this.#outputs.clear();
  }

  #current(): Iterable<OutputRecorder> {
    return this.#isWatched ? this.#outputs.values() : [this.#firstOutput];
  }
}

/** Records the output of a server besides MCP, up to a limit, and then only how much it is. */
class OutputRecorder {
  readonly #server: string;
  readonly #emit: Emit;
  readonly #stderr: WholeLines;
  readonly #stdout: WholeLines;
  #invalidLines = 0;
  #invalidOmitted = 0;

  constructor(server: string, emit: Emit) {
    this.#server = server;
    this.#emit = emit;
    this.#stderr = new WholeLines((text) => void emit({ type: "server.stderr", server, text }));
    this.#stdout = new WholeLines((text) => void emit({ type: "server.stdout", server, text }));
  }

  stderr(chunk: Buffer): void {
    this.#stderr.push(chunk);
  }

  stdout(chunk: Buffer): void {
    this.#stdout.push(chunk);
  }

  invalidLine(line: Buffer): void {
    this.#invalidLines += 1;
    if (this.#invalidLines > invalidLineLimit) this.#invalidOmitted += line.length + 1;
    else this.#emit({ type: "server.invalid_output", server: this.#server, text: invalidLineText(line) });
  }

  /** Records an unfinished line. */
  flush(): void {
    this.#stderr.flush();
    this.#stdout.flush();
  }

  /** Records the rest, and how much was omitted. */
  finish(): void {
    const omitted = { stderr: this.#stderr.finish(), stdout: this.#stdout.finish() + this.#invalidOmitted };
    this.#invalidOmitted = 0;
    for (const stream of ["stderr", "stdout"] as const) {
      const bytes = omitted[stream];
      if (bytes > 0) this.#emit({ type: "server.output_omitted", server: this.#server, stream, bytes });
    }
  }
}

/** The recorded text of a line on stdout that is not a message. */
export function invalidLineText(line: Buffer): string {
  // A character has at most four bytes.
  return shortened(line.toString("utf8", 0, invalidLineLength * 4), invalidLineLength);
}
