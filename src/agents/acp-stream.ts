import type { Readable, Writable } from "node:stream";
import type { AnyMessage, Stream } from "@agentclientprotocol/sdk";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json } from "../core/formats/model.ts";
import type { WireObject } from "../core/formats/presets/preset.ts";
import { LineReader } from "../process/program-output.ts";
import { longestMessage, MessageBudget, parseObject, repeatedKeyProblem } from "./program-lines.ts";

export interface AcpStreamOptions {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Called with the parameters of each `session/update` in the order of the wire. */
  readonly onUpdate: (params: unknown) => void;
  /** Called with each line that is not an expected message. */
  readonly onOther: (line: Buffer) => void;
  /** Called with what the program did wrong, or with what `onUpdate` threw; nothing more is read. */
  readonly onBroken: (problem: string | Error) => void;
}

/** The second is Claude Code's own notification, in which it reports about itself. */
const updates: readonly unknown[] = ["session/update", "_claude/sdkMessage"];

/**
 * The messages of an agent program, one a line. Updates of the session bypass the SDK, so that each comes before the answer
 * that follows it; answers to no request are left out. The stream has no end of its own.
 */
export function openAcpStream(options: AcpStreamOptions): Stream & { readonly stop: () => void } {
  const { stdin, stdout, onUpdate, onOther, onBroken } = options;
  /** Ids of mcpvals' requests that wait for an answer. */
  const waiting = new Set<unknown>();
  const budget = new MessageBudget();
  let controller: Pick<ReadableStreamDefaultController<AnyMessage>, "enqueue"> | undefined;
  const breakOff = (problem: string | Error): void => {
    lines.stop();
    onBroken(problem);
  };
  const readLine = (line: Buffer): void => {
    const text = line.toString("utf8").trim();
    if (text === "") return;
    const excess = budget.problemOf(line);
    if (excess !== undefined) return breakOff(excess);
    const message = parseObject(text);
    if (message === undefined) return onOther(line);
    const problem = problemOf(message, text, budget);
    if (problem !== undefined) breakOff(problem);
    else if (updates.includes(message["method"]) && !("id" in message)) onUpdate(message["params"]);
    else if (isMessage(message) && ("method" in message || waiting.delete(message["id"])))
      controller?.enqueue(message);
    else onOther(line);
  };
  const lines = new LineReader({
    limit: longestMessage,
    onLine(line) {
      try {
        readLine(line);
      } catch (error) {
        breakOff(error instanceof Error ? error : new Error(String(error)));
      }
    },
    onTooLong: () => breakOff(`wrote a message of more than ${longestMessage} bytes`),
  });
  stdout.on("data", (chunk: Buffer) => lines.push(chunk));
  stdout.once("end", () => lines.end());
  return {
    readable: new ReadableStream<AnyMessage>({
      start(given) {
        controller = given;
      },
      cancel: () => lines.stop(),
    }),
    writable: new WritableStream<AnyMessage>({
      write(message) {
        if ("id" in message && "method" in message) waiting.add(message.id);
        // A broken pipe means that the program has ended, which is reported elsewhere.
        return new Promise((resolve) => {
          stdin.write(`${JSON.stringify(message)}\n`, () => resolve());
        });
      },
    }),
    stop: () => lines.stop(),
  };
}

/** Why a message must not be used. */
function problemOf(message: WireObject, text: string, budget: MessageBudget): string | undefined {
  if ("result" in message && (message["error"] ?? undefined) !== undefined)
    return "wrote an answer with both a result and an error";
  const isRequest = "method" in message && "id" in message;
  return repeatedKeyProblem(text) ?? (isRequest ? budget.problemOfRequest() : undefined);
}

function isMessage(message: WireObject): message is WireObject & AnyMessage {
  if (typeof message["method"] === "string") return true;
  if (!("error" in message)) return "result" in message;
  const error = message["error"] as Json;
  return isJsonObject(error) && typeof error["code"] === "number" && typeof error["message"] === "string";
}
