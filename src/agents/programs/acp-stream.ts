import type { Readable, Writable } from "node:stream";
import type { AnyMessage, Stream } from "@agentclientprotocol/sdk";
import { LineReader } from "../../process/line-reader.ts";
import { ambiguity, longestMessage, SaidBudget } from "./said-budget.ts";

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
export function openAcpStream({ stdin, stdout, onBroken, ...hear }: AcpStreamOptions): AcpStream {
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
