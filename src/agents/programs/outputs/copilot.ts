import { objectOf, textOf, type WireObject } from "../acp-values.ts";
import {
  countOf,
  optional,
  type OutputEvent,
  type OutputReader,
  type ToolUse,
  usageOf,
} from "./output-reader.ts";

type Named = Pick<ToolUse, "name" | "origin" | "parentCallId">;

/** Reads what `copilot --output-format json` prints. */
export function readCopilot(): OutputReader {
  const names = new Map<string, Named>();
  let trouble: string | undefined;
  return {
    lastEvent: "result",
    finish: () => [],
    read(line) {
      const data = objectOf(line["data"]);
      switch (line["type"]) {
        case "assistant.message": {
          const text = textOf(data["content"]);
          // What other agents tell the one that it started is none of its messages.
          return text === undefined || data["parentToolCallId"] !== undefined
            ? []
            : [{ kind: "message", text }];
        }
        case "assistant.usage":
          return [readUsage(data)];
        case "model.call_final_result": {
          const model = textOf(data["model"]);
          return model === undefined || data["result"] !== "success" ? [] : [{ kind: "ran", model }];
        }
        case "tool.execution_start": {
          const callId = textOf(data["toolCallId"]) ?? "";
          const named = nameOf(data);
          names.set(callId, named);
          const args = optional("args", data["arguments"]);
          return [{ kind: "tool", callId, ...named, status: "started", ...args }];
        }
        case "tool.execution_complete":
          return [readResult(data, names)];
        case "session.error":
          trouble = textOf(data["message"]);
          return [];
        case "result":
          return [...readEnd(line, trouble), { kind: "complete" }];
        default:
          return [];
      }
    },
  };
}

function nameOf(data: WireObject): Named {
  const server = textOf(data["mcpServerName"]);
  const tool = textOf(data["mcpToolName"]);
  const parentCallId = textOf(data["parentToolCallId"]);
  return {
    name: textOf(data["toolName"]) ?? "",
    ...(server === undefined || tool === undefined ? {} : { origin: { server, tool } }),
    ...(parentCallId === undefined ? {} : { parentCallId }),
  };
}

function readResult(data: WireObject, names: ReadonlyMap<string, Named>): OutputEvent {
  const callId = textOf(data["toolCallId"]) ?? "";
  const result = objectOf(data["result"]);
  return {
    kind: "tool",
    callId,
    ...(names.get(callId) ?? nameOf(data)),
    status: data["success"] === true ? "completed" : "failed",
    ...optional("result", result["contents"] ?? result["content"] ?? objectOf(data["error"])["message"]),
  };
}

function readUsage(data: WireObject): OutputEvent {
  const tokens = {
    input: countOf(data["inputTokens"]),
    output: countOf(data["outputTokens"]),
    cacheRead: countOf(data["cacheReadTokens"]),
    cacheWrite: countOf(data["cacheWriteTokens"]),
  };
  return { kind: "usage", usage: usageOf(tokens, 1) };
}

function readEnd(line: WireObject, trouble: string | undefined): readonly OutputEvent[] {
  const id = textOf(line["sessionId"]);
  return [
    ...(id === undefined ? [] : [{ kind: "session", id } as const]),
    ...(line["exitCode"] === 0 ? [] : [{ kind: "failed", message: trouble ?? "it failed" } as const]),
  ];
}
