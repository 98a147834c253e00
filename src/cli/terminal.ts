import {
  appendFileSync,
  closeSync,
  constants,
  createReadStream,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { Writable } from "node:stream";
import type { WriteStream } from "node:tty";
import { McpvalsError, messageOf } from "../base/error.ts";
import type { ClientInput } from "../formats/convert/client/client-file.ts";
import type { ReporterOutput } from "../report/reporter.ts";
import { visibleJson, visibleLines, visibleText, withoutCommands } from "../base/visible-text.ts";
import { createRedactor, type Redact, type Secret } from "../trace/redact.ts";
import { makeFolder } from "../base/files.ts";
import type { LoadedConfig } from "../formats/assemble-eval.ts";
import { environment } from "../formats/environment.ts";
import { cutToWidth, wrapText } from "../base/columns.ts";

/** Why stdout did not take everything, a full disk say. */
let outFailure: Error | undefined;

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  // A reader that stops reading, as `| head` does, or a closed terminal must not turn a finished run into a crash.
  if (error.code !== "EPIPE" && error.code !== "EIO") outFailure ??= error;
});
// An error of stderr cannot be reported anywhere.
process.stderr.on("error", () => undefined);

/** Removes the secrets of the command that runs from all that is written, but for files and reports. */
let redact = createRedactor([]);

/** From here on, nothing that is written has one of these secrets. What it returns takes more, such as tokens that are issued. */
export function hideSecrets(secrets: readonly Secret[]): Redact {
  redact = createRedactor(secrets);
  return redact;
}

/** Writes printable lines to stdout. */
export function writeOut(text: string): void {
  writeLine(process.stdout, withoutCommands(redact(text)));
}

/** Writes the content of a file to stdout, unchanged. */
export function writeFile(content: string): void {
  writeLine(process.stdout, content);
}

/** Writes the content of a large file to stdout, unchanged. Rejects when it cannot be read. */
export async function copyFile(path: string): Promise<void> {
  for await (const bytes of createReadStream(path))
    // What stdout does not take is known elsewhere.
    await new Promise<void>((done) => {
      process.stdout.write(bytes as Buffer, () => done());
    });
}

/** Writes a value to stdout as JSON, indented by `space`. */
export function writeJson(value: unknown, space?: number): void {
  writeLine(process.stdout, visibleJson(JSON.stringify(redact(value), undefined, space)));
}

/** Writes a text that ends its line. */
export function writeLine(stream: NodeJS.WriteStream, text: string): void {
  if (stream === process.stdout) eraseLine?.();
  stream.write(text.endsWith("\n") ? text : `${text}\n`);
}

/** Erases the line that is drawn on stderr, since what is written to stdout may be shown on the same terminal. */
let eraseLine: (() => void) | undefined;

/** Calls back before each text on stdout, until what is returned is called. */
export function beforeOutput(erase: () => void): () => void {
  eraseLine = erase;
  return () => {
    eraseLine = undefined;
  };
}

/** Shows messages while something is drawn on the terminal. */
let showNotice: ((text: string) => void) | undefined;

/**
 * Writes a message for the person at the terminal, never mixed into a document on stdout. Whatever text of others is in it
 * drives no terminal; lines of others have to be marked as such by the caller.
 */
export function writeError(text: string): void {
  const lines = visibleLines(redact(text)).flatMap(fitted).join("\n");
  if (showNotice === undefined) writeLine(process.stderr, lines);
  else showNotice(lines);
}

/** A line as a terminal shows it: broken at words, all under its indentation and bar. Elsewhere it stays as it is. */
function fitted(line: string): readonly string[] {
  if (!isTerminalAt(process.stderr)) return [line];
  const columns = columnsOf(process.stderr);
  // The marker of a code frame stands below its place.
  if (/^ *>? *\d* \| /.test(line)) return [cutToWidth(line, columns)];
  const [lead = ""] = /^ *(?:│ )?/.exec(line) ?? [];
  const lines = wrapText(line.slice(lead.length), columns - lead.length);
  return lines.map((part) => `${lead}${part}`.trimEnd());
}

/** Gives the listener what `writeError` writes, until what is returned is called. */
export function takeNotices(listener: (text: string) => void): () => void {
  showNotice = listener;
  return () => {
    showNotice = undefined;
  };
}

/** Writes notices to stderr, which may be shown on the same terminal by another program; before each the listener is called without it. */
function takeNoticesElsewhere(listener: () => void): () => void {
  return takeNotices((text) => {
    listener();
    writeLine(process.stderr, text);
  });
}

/** Waits until all output is flushed. Returns the error if writing to stdout failed. */
export async function finishOutput(): Promise<Error | undefined> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((done) => {
      stream.write("", () => done());
    });
  }
  return outFailure;
}

/** stdout as reporters see it. */
export function stdoutOutput({ quiet }: Pick<ReporterOutput, "quiet"> = {}): ReporterOutput {
  const { stdout, stderr } = process;
  const { GITHUB_STEP_SUMMARY = "" } = environment();
  const isTerminal = isTerminalAt(stdout);
  return {
    write(text) {
      eraseLine?.();
      stdout.write(text);
    },
    isTerminal,
    quiet,
    colors: wantsColors(stdout),
    columns: () => columnsOf(stdout),
    now: Date.now,
    every: repeat,
    ...(isTerminal ? { notices: stderr.isTTY ? takeNotices : takeNoticesElsewhere } : {}),
    ...(GITHUB_STEP_SUMMARY === ""
      ? {}
      : { summary: (text: string) => appendFileSync(GITHUB_STEP_SUMMARY, text) }),
  };
}

/** https://no-color.org, and FORCE_COLOR as Node itself reads it. */
function wantsColors(stream: WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR } = environment();
  if (NO_COLOR !== undefined && NO_COLOR !== "") return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== "0";
  return isTerminalAt(stream);
}

/** The width of a terminal; some say that they have no columns at all. */
export function columnsOf({ columns = 0 }: { readonly columns?: number }): number {
  return columns > 0 ? columns : 80;
}

/** Whether what is written to a stream is drawn by a terminal. Of a pipe or a file, Node leaves `isTTY` undefined. */
export function isTerminalAt(stream: { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true && environment()["TERM"] !== "dumb";
}

/** Calls back again and again until what it gives is called; it keeps no process alive. */
export function repeat(ms: number, callback: () => void): () => void {
  const timer = setInterval(callback, ms);
  timer.unref();
  return () => clearInterval(timer);
}

/**
 * A file as reporters see it. Throws `store/unwritable` at once when it cannot be written. Until something is written an
 * existing file stays unchanged; a new file is removed again if nothing is written.
 */
export function fileOutput(file: string): ReporterOutput & { close(): void } {
  const path = resolve(file);
  try {
    makeFolder(dirname(path));
    const isNew = !existsSync(path);
    const handle = openForAppending(path);
    let written = false;
    return {
      write(text) {
        if (!written && fstatSync(handle).isFile()) ftruncateSync(handle);
        written = true;
        writeFileSync(handle, text);
      },
      isTerminal: false,
      colors: false,
      columns: () => 100,
      now: Date.now,
      every: repeat,
      close() {
        closeSync(handle);
        if (isNew && !written) rmSync(path, { force: true });
      },
    };
  } catch (cause) {
    throw new McpvalsError(
      "store/unwritable",
      `the report cannot be written to ${path}: ${messageOf(cause)}`,
      {
        hint: "Choose a file that can be written, with --reporter NAME=FILE.",
        cause,
      },
    );
  }
}

/** Opening a named pipe without a reader would block, so a non-blocking attempt comes first. */
function openForAppending(path: string): number {
  const isPipe = statSync(path, { throwIfNoEntry: false })?.isFIFO() === true;
  const tried = isPipe ? openSync(path, constants.O_WRONLY | constants.O_NONBLOCK) : undefined;
  try {
    return openSync(path, "a");
  } finally {
    if (tried !== undefined) closeSync(tried);
  }
}

export function writeNotes({ notes }: Pick<LoadedConfig, "notes">): void {
  for (const note of notes) writeError(visibleText(`note: ${note}`));
}

/**
 * Asks the person at the terminal for inputs of a client's file, on stderr; undefined when there is no terminal. What it gives rejects
 * with `run/interrupted` after Ctrl-C and Ctrl-D.
 */
export function askAtTerminal(): ((input: ClientInput) => Promise<string>) | undefined {
  const { stdin, stderr } = process;
  if (!stdin.isTTY || !stderr.isTTY) return undefined;
  return ({ variable, description, isPassword }) =>
    askPerson(`${visibleText(description)} (${variable}): `, {
      isPassword,
      missing: `${variable} was not given`,
    });
}

interface Question {
  /** What is typed is not shown. */
  readonly isPassword?: boolean;
  /** The message after Ctrl-C and Ctrl-D. */
  readonly missing?: string;
}

/** Asks the person at the terminal, on stderr. Throws McpvalsError `run/interrupted` after Ctrl-C and Ctrl-D. */
export async function askPerson(
  prompt: string,
  { isPassword = false, missing = "the question was not answered" }: Question = {},
): Promise<string> {
  const { stdin, stderr } = process;
  const { createInterface } = await import("node:readline");
  // What is typed is echoed to the output.
  const output = isPassword ? new Writable({ write: (_chunk, _encoding, done) => done() }) : stderr;
  const reader = createInterface({ input: stdin, output, terminal: true });
  // From here on the terminal itself echoes nothing.
  if (isPassword) stderr.write(prompt);
  const answer = await new Promise<string | undefined>((give) => {
    reader.once("close", () => give(undefined));
    reader.question(isPassword ? "" : prompt, give);
  });
  reader.close();
  if (isPassword || answer === undefined) stderr.write("\n");
  if (answer === undefined) throw new McpvalsError("run/interrupted", missing);
  return answer;
}

/** The process's working folder. Throws McpvalsError `config/not-found` when it is gone. */
export function workingFolder(): string {
  try {
    return process.cwd();
  } catch (cause) {
    throw new McpvalsError("config/not-found", "the working folder no longer exists", {
      hint: "Change to a folder that exists.",
      cause,
    });
  }
}

let mayEnd = false;

/** Ends the process and every program that it started. mcpvals ends it only in this way, so any other end is that of code which it loaded: see {@link guardExit}. */
export function endProcess(code: number): never {
  mayEnd = true;
  process.exit(code);
}

/**
 * A config and what it imports run in this process and may end it with any exit code, 0 included, which would count as a pass.
 * Makes that exit code 3, and says so.
 */
export function guardExit(): void {
  process.on("exit", (code) => {
    if (mayEnd) return;
    process.exitCode = 3;
    writeError(
      `error the process was ended with exit code ${code} before mcpvals was done\n` +
        "  hint: Code that mcpvals loaded did it, such as a config or what it imports: it must not call process.exit.",
    );
  });
}

const interruptions: readonly NodeJS.Signals[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Waits for Ctrl-C, SIGTERM or SIGHUP. */
export async function untilInterrupted(): Promise<void> {
  await new Promise<void>((done) => {
    const end = (): void => {
      for (const name of interruptions) process.off(name, end);
      done();
    };
    for (const name of interruptions) process.on(name, end);
  });
}

export interface Interrupt extends Disposable {
  readonly signal: AbortSignal;
  /** The signal of the process that aborted; undefined: none has. */
  received(): NodeJS.Signals | undefined;
}

/** Signals that come closer together are one, sent both to this process and to its group, as `timeout` does. */
const sameMs = 100;

/**
 * A signal that aborts on Ctrl-C, SIGTERM and SIGHUP. The first asks the command to end in order: cleaned up, servers stopped,
 * results written. The second ends everything at once. `kept`: the command keeps finished trials, in the folder `output` where
 * it is not the usual one.
 */
export function abortOnInterrupt(kept?: { readonly output?: string }): Interrupt {
  const controller = new AbortController();
  let received: NodeJS.Signals | undefined;
  let isSame = true;
  const onSignal = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      if (isSame) return;
      const place = kept?.output === undefined ? "" : ` --output ${kept.output}`;
      const what = kept === undefined ? "" : ` Finished trials are kept: npx mcpvals show latest${place}`;
      writeError(`\nEnded immediately.${what}`);
      endProcess(130);
    }
    const doing =
      kept === undefined
        ? "cleaning up and stopping what was started"
        : "cleaning up, stopping servers and writing results";
    writeError(`\nInterrupted: ${doing}. Interrupt again to end immediately.`);
    received = name;
    controller.abort(new McpvalsError("run/interrupted", `received ${name}`));
    // A signal that waits while this process is busy is read between a timer and the next immediate.
    setTimeout(() => setImmediate(() => (isSame = false)), sameMs).unref();
  };
  for (const name of interruptions) process.on(name, onSignal);
  return {
    signal: controller.signal,
    received: () => received,
    [Symbol.dispose]() {
      for (const name of interruptions) process.off(name, onSignal);
    },
  };
}

/** What the first interruption asks for, and what the second. */
export interface Stages extends Disposable {
  readonly first: AbortSignal;
  readonly second: AbortSignal;
}

/**
 * Of a command whose work goes on elsewhere, or is given back: Ctrl-C and SIGTERM abort `first`, again `second`, and once more end the process. `notes` say
 * what happens.
 */
export function abortInStages(notes: readonly [first: string, second: string]): Stages {
  const stages = [new AbortController(), new AbortController()] as const;
  let last = -Infinity;
  const onSignal = (): void => {
    // Signals that come closer together are one.
    if (performance.now() - last < sameMs) return;
    last = performance.now();
    const index = stages.findIndex(({ signal }) => !signal.aborted);
    const stage = stages[index];
    if (stage === undefined) endProcess(130);
    writeError(`\n${notes[index] ?? ""}`);
    stage.abort(new McpvalsError("run/interrupted", "interrupted"));
  };
  const names = ["SIGINT", "SIGTERM"] as const;
  for (const name of names) process.on(name, onSignal);
  const [{ signal: first }, { signal: second }] = stages;
  return {
    first,
    second,
    [Symbol.dispose]() {
      for (const name of names) process.off(name, onSignal);
    },
  };
}
