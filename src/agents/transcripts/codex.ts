import { asList, asObject } from "../../base/json.ts";
import { readJsonText } from "../../base/read-json.ts";
import type { ToolUse, WireObject } from "../programs/preset.ts";
import * as common from "../programs/preset.ts";
import {
  compacted,
  entriesAt,
  ofSubagent,
  textOfParts,
  timeOf,
  tookBack,
  type TranscriptEntry,
  type TranscriptFormat,
  type TranscriptReader,
} from "./transcript.ts";

/** Codex's rollouts: JSON Lines, a file for each session, with what goes to the model (`response_item`) and what the program does (`event_msg`). */
export const codexTranscript: TranscriptFormat = {
  program: "codex",
  place: "~/.codex/sessions/YEAR/MONTH/DAY/rollout-….jsonl",
  recognises: ({ type, payload }) =>
    type === "session_meta" && typeof payload === "object" && payload !== null && "id" in payload,
  createReader,
  subagentTools: new Set(["spawn_agent"]),
};

/** Types of lines, and of what is in them, that say nothing of what the agent did, or what another one says too. */
const idle = new Set(
  `world_state turn_context inter_agent_communication inter_agent_communication_metadata session_state ghost_snapshot reasoning task_started turn_started
  thread_settings_applied agent_reasoning agent_reasoning_raw_content agent_reasoning_section_break agent_message exec_command_begin exec_command_output_delta
  mcp_tool_call_begin mcp_startup_update mcp_startup_complete patch_apply_begin turn_diff web_search_begin background_event session_configured
  thread_name_updated plan_update view_image_tool_call entered_review_mode exited_review_mode raw_response_item item_started item_updated agent_message_content_delta
  warning deprecation_notice compaction_trigger context_compaction other`.split(/\s+/),
);

function createReader(): TranscriptReader {
  const names = new Map<string, Pick<ToolUse, "name" | "origin">>();
  /** Uses of which the program itself says how they ended; what the model got of them says less. */
  const ended = new Set<string>();
  let before = 0;
  let total = zero;
  let said: string | undefined;

  const end = (
    callId: string,
    use: Omit<ToolUse, "callId" | "name"> & { readonly name?: string },
  ): ToolUse => {
    ended.add(callId);
    return { name: callId, ...names.get(callId), ...use, callId };
  };

  const readUsage = (tokens: unknown): TranscriptEntry[] => {
    const now = common.tokensOf(asObject(tokens), {
      input: "input_tokens",
      output: "output_tokens",
      cacheRead: "cached_input_tokens",
      cacheWrite: "cache_write_input_tokens",
    });
    const sum = now.input + now.output;
    // Each sum is there more than once. A smaller one begins again.
    if (sum === before) return [];
    const from = sum < before ? zero : total;
    [before, total] = [sum, now];
    const usage = common.usageOf({
      input: now.input - from.input,
      output: now.output - from.output,
      cacheRead: now.cacheRead - from.cacheRead,
      cacheWrite: now.cacheWrite - from.cacheWrite,
    });
    return [{ kind: "usage", usage }];
  };

  const readUser = (text: string): TranscriptEntry[] => {
    // Some versions write it in two ways.
    if (text === "" || text === said) return [];
    said = text;
    return [{ kind: "user", text }];
  };

  const readItem = (item: WireObject): TranscriptEntry[] => {
    const type = common.textOf(item["type"]) ?? "";
    if (type !== "message") said = undefined;
    const callId = common.textOf(item["call_id"]) ?? common.textOf(item["id"]) ?? "";
    switch (type) {
      case "message":
        if (item["role"] !== "assistant") return [];
        said = undefined;
        return [...common.messageEvent(textOfParts(asList(item["content"]).map(asObject)))];
      case "function_call":
      case "custom_tool_call":
      case "local_shell_call":
      case "web_search_call":
      case "tool_search_call":
      case "image_generation_call": {
        const use = nameOf(item, type);
        names.set(callId, use);
        const args = parsed(item["arguments"] ?? item["input"] ?? item["action"]);
        // These two have no output of their own.
        const isOver =
          (type === "web_search_call" || type === "image_generation_call") && item["status"] === "completed";
        const status = isOver ? ("completed" as const) : ("started" as const);
        return [{ kind: "tool", callId, ...use, status, ...common.optional("args", args) }];
      }
      case "function_call_output":
      case "custom_tool_call_output":
      case "tool_search_output":
      case "local_shell_call_output": {
        if (ended.has(callId)) return [];
        const output = parsed(item["output"] ?? item["tools"]);
        const { success, content } = asObject(output);
        // That a server answered is said elsewhere, and before; what the model got may only say that the call was stopped.
        const isFailed =
          success === false ||
          names.get(callId)?.origin !== undefined ||
          (typeof output === "string" && output.startsWith("aborted"));
        const status = isFailed ? "failed" : "completed";
        return [
          { kind: "tool", ...end(callId, { status, ...common.optional("result", content ?? output) }) },
        ];
      }
      case "compaction":
        return [{ kind: "remark", text: compacted }];
      default:
        return idle.has(type) ? [] : [{ kind: "unknown", type: `response_item ${type}` }];
    }
  };

  const readEvent = (event: WireObject): TranscriptEntry[] => {
    const type = common.textOf(event["type"]) ?? "";
    const callId = common.textOf(event["call_id"]) ?? "";
    const durationMs = durationOf(event["duration"]);
    switch (type) {
      case "user_message":
        return readUser(common.textOf(event["message"])?.trim() ?? "");
      case "item_completed":
        return readThing(asObject(event["item"]));
      case "mcp_tool_call_end": {
        const { server, tool, arguments: args } = asObject(event["invocation"]);
        const { Ok, Err } = asObject(event["result"]);
        return [
          { kind: "tool", ...mcpUse(callId, { server, tool, args, result: Ok, error: Err }), durationMs },
        ];
      }
      case "exec_command_end":
      case "patch_apply_end": {
        const isFailed =
          event["success"] === false ||
          common.countOf(event["exit_code"]) !== 0 ||
          event["status"] === "failed";
        const result = event["aggregated_output"] ?? event["formatted_output"] ?? event["stdout"];
        const use = end(callId, {
          status: isFailed ? "failed" : "completed",
          ...common.optional("result", result),
        });
        return names.has(callId) ? [{ kind: "tool", ...use, durationMs }] : [];
      }
      case "token_count":
        return readUsage(asObject(event["info"])["total_token_usage"] ?? {});
      case "task_complete":
      case "turn_complete":
        return [{ kind: "end", reason: "done" }, { kind: "complete" }];
      case "turn_aborted":
        return [{ kind: "end", reason: "cancelled" }];
      case "context_compacted":
        return [{ kind: "remark", text: compacted }];
      case "thread_rolled_back":
        return [{ kind: "remark", text: tookBack }];
      case "stream_error":
        return [{ kind: "note", text: common.textOf(event["message"]) ?? type }];
      case "error":
        return [{ kind: "failed", message: common.textOf(event["message"]) ?? "the turn failed" }];
      default:
        return idle.has(type) ? [] : [{ kind: "unknown", type: `event_msg ${type}` }];
    }
  };

  /** What newer versions say of one thing that was done, in the place of an event of its own. */
  const readThing = (item: WireObject): TranscriptEntry[] => {
    const callId = common.textOf(item["id"]) ?? "";
    const durationMs = durationOf(item["duration"]);
    switch (item["type"]) {
      case "UserMessage":
        return readUser(textOfParts(asList(item["content"]).map(asObject)));
      case "McpToolCall": {
        const { server, tool, arguments: args, result, error } = item;
        return [{ kind: "tool", ...mcpUse(callId, { server, tool, args, result, error }), durationMs }];
      }
      default: {
        if (!names.has(callId) || typeof item["status"] !== "string") return [];
        const status = item["status"] === "completed" ? "completed" : "failed";
        const result = item["aggregated_output"] ?? item["result"];
        return [
          { kind: "tool", ...end(callId, { status, ...common.optional("result", result) }), durationMs },
        ];
      }
    }
  };

  const mcpUse = (callId: string, { server, tool, args, result, error }: WireObject): ToolUse => {
    const origin = { server: common.textOf(server) ?? "", tool: common.textOf(tool) ?? "" };
    const isFailed =
      (error !== undefined && error !== null) ||
      asObject(result)["isError"] === true ||
      asObject(result)["is_error"] === true;
    return end(callId, {
      name: `${origin.server}.${origin.tool}`,
      origin,
      status: isFailed ? "failed" : "completed",
      ...common.optional("args", args),
      ...common.optional("result", result ?? error),
    });
  };

  return {
    read(line) {
      const at = timeOf(line["timestamp"]);
      const payload = asObject(line["payload"]);
      const type = common.textOf(line["type"]) ?? "without a type";
      switch (type) {
        case "session_meta": {
          const version = common.textOf(payload["cli_version"]);
          const program =
            version === undefined ? [] : [{ kind: "ran", program: `codex ${version}` } as const];
          const isPart = asObject(payload["source"])["subagent"] !== undefined;
          const about = isPart ? [{ kind: "remark", text: ofSubagent } as const] : [];
          return entriesAt(at, [...common.sessionEvent(payload["id"]), ...program, ...about]);
        }
        case "turn_context": {
          const model = common.textOf(payload["model"]);
          return model === undefined ? [] : entriesAt(at, [{ kind: "ran", model }]);
        }
        case "response_item":
          return entriesAt(at, readItem(payload));
        case "event_msg":
          return entriesAt(at, readEvent(payload));
        case "token_usage_record":
          return entriesAt(at, readUsage(payload["thread_token_usage"]));
        case "compacted":
          return entriesAt(at, [{ kind: "remark", text: compacted }]);
        default:
          return idle.has(type) ? [] : entriesAt(at, [{ kind: "unknown", type }]);
      }
    },
    finish: () => [],
  };
}

const zero: common.Tokens = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

/** The tools of a server have its name in a namespace, `mcp__SERVER`, or before their own. */
function nameOf(item: WireObject, type: string): Pick<ToolUse, "name" | "origin"> {
  const name = common.textOf(item["name"]) ?? type.replace(/_call$/, "");
  const namespace = common.textOf(item["namespace"]);
  const server = /^mcp__(.+?)_*$/.exec(namespace ?? "")?.[1];
  return server === undefined ? { name } : { name: `${server}.${name}`, origin: { server, tool: name } };
}

/** What a text of JSON says; any other value as it is. */
function parsed(value: unknown): unknown {
  return typeof value === "string" ? (readJsonText(value).value ?? value) : value;
}

/** A duration in milliseconds. */
function durationOf(value: unknown): number | undefined {
  const { secs, nanos } = asObject(value);
  return typeof secs === "number" && typeof nanos === "number" ? secs * 1000 + nanos / 1e6 : undefined;
}
