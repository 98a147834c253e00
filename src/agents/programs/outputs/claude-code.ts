import type { TurnEnd } from "../../../core/trace/events.ts";
import { apiRetry, claudeProgram, isRefusal } from "../acp-asides.ts";
import { objectOf, textOf, type WireObject } from "../acp-values.ts";
import { countOf, listOf, optional, type OutputEvent, type OutputReader, usageOf } from "./output-reader.ts";

/** Reads what `claude --print --output-format stream-json --verbose` prints. */
export function readClaudeCode(): OutputReader {
  const names = new Map<string, string>();
  const requests = new Set<string>();
  return {
    lastEvent: "result",
    finish: () => [],
    read(line) {
      switch (line["type"]) {
        case "system": {
          if (line["subtype"] === "api_retry") return readRetry(line);
          const id = textOf(line["session_id"]);
          if (id === undefined || line["subtype"] !== "init") return [];
          const { program } = claudeProgram(line);
          return [
            { kind: "session", id },
            ...(program === undefined ? [] : [{ kind: "ran", program } as const]),
          ];
        }
        case "assistant": {
          const id = textOf(objectOf(line["message"])["id"]);
          if (id !== undefined) requests.add(id);
          return readBlocks(line, names);
        }
        case "user":
          return readBlocks(line, names);
        case "result": {
          const count = requests.size;
          requests.clear();
          return [...readModels(line), ...readEnd(line, count), { kind: "complete" }];
        }
        default:
          return [];
      }
    },
  };
}

function readRetry(line: WireObject): readonly OutputEvent[] {
  const text = apiRetry(line);
  return [{ kind: "note", text }, ...(isRefusal(line) ? [{ kind: "refused", message: text } as const] : [])];
}

function readModels(line: WireObject): readonly OutputEvent[] {
  return Object.keys(objectOf(line["modelUsage"])).map((model) => ({ kind: "ran", model }));
}

function readBlocks(line: WireObject, names: Map<string, string>): readonly OutputEvent[] {
  const message = objectOf(line["message"]);
  const parent = textOf(line["parent_tool_use_id"]);
  const blocks = listOf(message["content"]).flatMap((item) => readBlock(objectOf(item), parent, names));
  const reason = ends[textOf(message["stop_reason"]) ?? ""];
  return reason === undefined || parent !== undefined ? blocks : [...blocks, { kind: "end", reason }];
}

/** The last one counts: a program may go on after an answer that was cut off. */
const ends: Readonly<Record<string, TurnEnd>> = {
  max_tokens: "max-tokens",
  model_context_window_exceeded: "max-tokens",
  refusal: "refused",
  end_turn: "done",
  stop_sequence: "done",
  tool_use: "done",
};

function readBlock(
  block: WireObject,
  parent: string | undefined,
  names: Map<string, string>,
): readonly OutputEvent[] {
  const parentCallId = parent === undefined ? {} : { parentCallId: parent };
  switch (block["type"]) {
    case "text": {
      const text = textOf(block["text"]);
      // What other agents tell the one that it started is none of its messages.
      return text === undefined || parent !== undefined ? [] : [{ kind: "message", text }];
    }
    case "tool_use": {
      const callId = textOf(block["id"]) ?? "";
      const name = textOf(block["name"]) ?? "";
      names.set(callId, name);
      const args = optional("args", block["input"]);
      return [{ kind: "tool", callId, name, status: "started", ...args, ...parentCallId }];
    }
    case "tool_result": {
      const callId = textOf(block["tool_use_id"]) ?? "";
      const name = names.get(callId) ?? "";
      const status = block["is_error"] === true ? "failed" : "completed";
      const result = optional("result", block["content"]);
      return [{ kind: "tool", callId, name, status, ...result, ...parentCallId }];
    }
    default:
      return [];
  }
}

function readEnd(line: WireObject, requests: number): readonly OutputEvent[] {
  const usage = objectOf(line["usage"]);
  const cacheRead = countOf(usage["cache_read_input_tokens"]);
  const cacheWrite = countOf(usage["cache_creation_input_tokens"]);
  const input = countOf(usage["input_tokens"]) + cacheRead + cacheWrite;
  const tokens = { input, output: countOf(usage["output_tokens"]), cacheRead, cacheWrite };
  const reason = ends[textOf(line["stop_reason"]) ?? ""];
  const events: OutputEvent[] = [
    { kind: "usage", usage: usageOf(tokens, requests) },
    // Newer versions tell only here how the last answer ended.
    ...(reason === undefined ? [] : [{ kind: "end", reason } as const]),
  ];
  const subtype = textOf(line["subtype"]) ?? "";
  if (subtype === "error_max_turns") return [...events, { kind: "end", reason: "max-steps" }];
  if (line["is_error"] !== true && subtype === "success") return events;
  const errors = listOf(line["errors"]).flatMap((item) => textOf(item) ?? []);
  return [...events, { kind: "failed", message: textOf(line["result"]) ?? (errors.join("; ") || subtype) }];
}
