import type { TurnEnd } from "../../../core/trace/events.ts";
import { objectOf, textOf, type WireObject } from "../acp-values.ts";
import { countOf, optional, type OutputEvent, type OutputReader, usageOf } from "./output-reader.ts";

/** Reads what `opencode run --format json` prints. Uses of tools are printed when they have ended. */
export function readOpencode(): OutputReader {
  let session: string | undefined;
  return {
    lastEvent: "step_finish with the reason stop",
    finish: () => [],
    read(line) {
      const id = textOf(line["sessionID"]);
      const isNew = id !== undefined && id !== session;
      session = id ?? session;
      return [...(isNew ? [{ kind: "session", id } as const] : []), ...readPart(line)];
    },
  };
}

function readPart(line: WireObject): readonly OutputEvent[] {
  const part = objectOf(line["part"]);
  switch (line["type"]) {
    case "text": {
      const text = textOf(part["text"]);
      return text === undefined ? [] : [{ kind: "message", text }];
    }
    case "tool_use":
      return [readTool(part)];
    case "step_finish":
      return readStep(part);
    case "error": {
      const error = objectOf(line["error"]);
      const message = textOf(objectOf(error["data"])["message"]) ?? textOf(error["name"]) ?? "it failed";
      return [{ kind: "failed", message }];
    }
    default:
      return [];
  }
}

function readTool(part: WireObject): OutputEvent {
  const state = objectOf(part["state"]);
  return {
    kind: "tool",
    callId: textOf(part["callID"]) ?? "",
    name: textOf(part["tool"]) ?? "",
    status: state["status"] === "completed" ? "completed" : "failed",
    ...optional("args", state["input"]),
    ...optional("result", state["output"] ?? state["error"]),
  };
}

/** The last one counts: a program may go on after an answer that was cut off. */
const ends: Readonly<Record<string, TurnEnd>> = {
  length: "max-tokens",
  "content-filter": "refused",
  stop: "done",
  "tool-calls": "done",
};

/** `input` is without the tokens of the cache. */
function readStep(part: WireObject): readonly OutputEvent[] {
  const tokens = objectOf(part["tokens"]);
  const cache = objectOf(tokens["cache"]);
  const cacheRead = countOf(cache["read"]);
  const cacheWrite = countOf(cache["write"]);
  const input = countOf(tokens["input"]) + cacheRead + cacheWrite;
  const output = countOf(tokens["output"]) + countOf(tokens["reasoning"]);
  const reason = ends[textOf(part["reason"]) ?? ""];
  return [
    { kind: "usage", usage: usageOf({ input, output, cacheRead, cacheWrite }, 1) },
    ...(reason === undefined ? [] : [{ kind: "end", reason } as const]),
    ...(reason === undefined || part["reason"] === "tool-calls" ? [] : [{ kind: "complete" } as const]),
  ];
}
