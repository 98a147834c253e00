import { objectOf, textOf, type WireObject } from "../acp-values.ts";
import {
  countOf,
  optional,
  type OutputEvent,
  type OutputReader,
  type Tokens,
  type ToolUse,
  usageOf,
} from "./output-reader.ts";

/** Kinds of items that are uses of tools of its own. */
const ownTools = new Set(["command_execution", "file_change", "web_search", "collab_tool_call"]);

/** Reads what `codex exec --json` prints. */
export function readCodex(): OutputReader {
  let before: Tokens | undefined;
  return {
    lastEvent: "turn.completed",
    finish: () => [],
    read(line) {
      switch (line["type"]) {
        case "thread.started": {
          const id = textOf(line["thread_id"]);
          return id === undefined ? [] : [{ kind: "session", id }];
        }
        case "item.started":
        case "item.completed":
          return readItem(objectOf(line["item"]), line["type"] === "item.started");
        case "turn.completed": {
          const total = tokensOf(objectOf(line["usage"]));
          const usage = usageOf(since(before, total));
          before = total;
          return [{ kind: "usage", usage }, { kind: "complete" }];
        }
        case "turn.failed":
          return [
            { kind: "failed", message: textOf(objectOf(line["error"])["message"]) ?? "the turn failed" },
          ];
        default:
          return [];
      }
    },
  };
}

function readItem(item: WireObject, started: boolean): readonly OutputEvent[] {
  const type = textOf(item["type"]) ?? "";
  const callId = textOf(item["id"]) ?? "";
  if (type === "agent_message") {
    const text = textOf(item["text"]);
    return text === undefined || started ? [] : [{ kind: "message", text }];
  }
  const ended = item["status"] === "failed" || item["status"] === "declined" ? "failed" : "completed";
  const status = started ? "started" : ended;
  if (type === "mcp_tool_call") return [{ kind: "tool", callId, status, ...serverTool(item) }];
  return ownTools.has(type) ? [{ kind: "tool", callId, status, name: type, ...ownTool(item, started) }] : [];
}

function serverTool(item: WireObject): Pick<ToolUse, "name" | "args" | "result" | "origin"> {
  const server = textOf(item["server"]) ?? "";
  const tool = textOf(item["tool"]) ?? "";
  return {
    name: `${server}.${tool}`,
    origin: { server, tool },
    ...optional("args", item["arguments"]),
    ...optional("result", item["result"] ?? item["error"]),
  };
}

/** What it tells of its own tools is arguments and result in one; the result is there when it has ended. */
function ownTool(item: WireObject, started: boolean): Pick<ToolUse, "args" | "result"> {
  const {
    id: _id,
    type: _type,
    status: _status,
    aggregated_output: output,
    exit_code: exitCode,
    ...args
  } = item;
  const hasResult = !started && output !== undefined;
  return { ...optional("args", args), ...(hasResult ? optional("result", { output, exitCode }) : {}) };
}

function tokensOf(usage: WireObject): Tokens {
  return {
    input: countOf(usage["input_tokens"]),
    output: countOf(usage["output_tokens"]),
    cacheRead: countOf(usage["cached_input_tokens"]),
    cacheWrite: countOf(usage["cache_write_input_tokens"]),
  };
}

/** It tells the tokens of the whole session, those of earlier turns too. */
function since(before: Tokens | undefined, now: Tokens): Tokens {
  if (before === undefined || now.input < before.input || now.output < before.output) return now;
  return {
    input: now.input - before.input,
    output: now.output - before.output,
    cacheRead: now.cacheRead - before.cacheRead,
    cacheWrite: now.cacheWrite - before.cacheWrite,
  };
}
