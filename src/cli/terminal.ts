import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { WriteStream } from "node:tty";
import { McpvalsError } from "../core/errors/error.ts";
import type { ReporterOutput } from "../core/report/reporter.ts";
import { environment } from "../config/environment.ts";

process.stdout.on("error", ignoreClosedPipe);
process.stderr.on("error", ignoreClosedPipe);

/** A reader that stops reading, as `| head` does, must not turn a finished run into a crash. */
function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== "EPIPE") throw error;
}

/** Writes a line or more to stdout. */
export function writeOut(text: string): void {
  process.stdout.write(text.endsWith("\n") ? text : `${text}\n`);
}

/** Writes a message for the person at the terminal, never mixed into a document on stdout. */
export function writeError(text: string): void {
  process.stderr.write(text.endsWith("\n") ? text : `${text}\n`);
}

/** Waits until everything written so far has left the process. */
export async function finishOutput(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((done) => {
      stream.write("", () => done());
    });
  }
}

/** stdout as reporters see it. */
export function stdoutOutput(): ReporterOutput {
  return terminalOutput(process.stdout);
}

function terminalOutput(stream: WriteStream): ReporterOutput {
  const isTerminal = stream.isTTY === true && environment()["TERM"] !== "dumb";
  return {
    write: (text) => void stream.write(text),
    isTerminal,
    colors: wantsColors(stream),
    columns: () => stream.columns ?? 80,
    now: Date.now,
    every: repeat,
  };
}

/** https://no-color.org, and FORCE_COLOR as Node itself reads it. */
export function wantsColors(stream: WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = environment();
  if (NO_COLOR !== undefined && NO_COLOR !== "") return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== "0";
  return stream.isTTY === true && TERM !== "dumb";
}

function repeat(ms: number, callback: () => void): () => void {
  const timer = setInterval(callback, ms);
  timer.unref();
  return () => clearInterval(timer);
}

/** A file as reporters see it. Throws `store/unwritable` at once when it cannot be written. */
export function fileOutput(file: string): ReporterOutput & { close(): void } {
  const path = resolve(file);
  try {
    mkdirSync(dirname(path), { recursive: true });
    const handle = openSync(path, "w");
    return {
      write: (text) => void writeSync(handle, text),
      isTerminal: false,
      colors: false,
      columns: () => 100,
      now: Date.now,
      every: repeat,
      close: () => closeSync(handle),
    };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("store/unwritable", `the report cannot be written to ${path}: ${reason}`, {
      hint: "Choose a file that can be written, with --reporter NAME=FILE.",
      cause,
    });
  }
}
