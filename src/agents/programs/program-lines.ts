import type { Emit } from "../../core/trace/events.ts";
import { TextTail, WholeLines } from "../../process/program-output.ts";

export interface ProgramLinesOptions {
  readonly stream: "stdout" | "stderr";
  readonly emit: Emit;
}

/** Records what a program writes as `agent.output`: whole lines up to a limit, then only how much more there was. */
export class ProgramLines {
  readonly #record: (text: string) => void;
  readonly #lines: WholeLines;
  readonly #tail = new TextTail();

  constructor({ stream, emit }: ProgramLinesOptions) {
    this.#record = (text) => void emit({ type: "agent.output", stream, text });
    this.#lines = new WholeLines(this.#record);
  }

  /** The last 4 KiB; undefined when there is nothing. */
  get tail(): string | undefined {
    return this.#tail.text;
  }

  push(chunk: Buffer): void {
    this.#tail.push(chunk);
    this.#lines.push(chunk);
  }

  /** Records what has no line end yet, and how much was left out. */
  finish(): void {
    const omitted = this.#lines.finish();
    if (omitted > 0) this.#record(`[${omitted} more bytes were left out]\n`);
  }
}
