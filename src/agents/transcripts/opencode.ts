import { asList, asObject, withoutUndefined } from "../../base/json.ts";
import type { Usage } from "../../model/grade.ts";
import { opencode } from "../programs/opencode.ts";
import type { OutputEvent, WireObject } from "../programs/preset.ts";
import * as common from "../programs/preset.ts";
import {
  compacted,
  entriesAt,
  timeOf,
  type TranscriptEntry,
  type TranscriptFormat,
  type TranscriptReader,
} from "./transcript.ts";

/** What `opencode export` prints of a session: one JSON document, with messages and their parts. */
export const opencodeTranscript: TranscriptFormat = {
  program: "opencode",
  place: "opencode export SESSION > FILE",
  recognises: ({ info, messages }) =>
    typeof asObject(info)["id"] === "string" &&
    typeof asObject(info)["time"] === "object" &&
    Array.isArray(messages),
  createReader,
  subagentTools: new Set(["task"]),
  originIn: (name) => (name.includes("_") && !ownTools.test(name) ? "unknown" : undefined),
};

/** Types of parts that say nothing of what the agent did. */
const idle = new Set("agent compaction file patch reasoning retry snapshot step-start subtask".split(" "));

/** Names of its own tools that look as if they were of a server. */
const ownTools = /^(?:apply_patch|plan_enter|plan_exit|list_sessions|read_session)$/;

function createReader(): TranscriptReader {
  return {
    read(document) {
      const { id, version } = asObject(document["info"]);
      const program = common.textOf(version);
      return [
        ...common.sessionEvent(id),
        ...(program === undefined ? [] : [{ kind: "ran", program: `opencode ${program}` } as const]),
        ...asList(document["messages"]).flatMap((message) => readMessage(asObject(message))),
      ];
    },
    finish: () => [],
  };
}

function readMessage(message: WireObject): readonly TranscriptEntry[] {
  const info = asObject(message["info"]);
  const parts = asList(message["parts"]).map(asObject);
  const { created, completed } = asObject(info["time"]);
  const at = timeOf(created);
  if (info["role"] === "user") {
    const said = parts.filter(
      ({ type, synthetic, ignored }) => type === "text" && synthetic !== true && ignored !== true,
    );
    const text = said.flatMap((part) => common.textOf(part["text"]) ?? []).join("\n");
    const files = parts.filter(({ type }) => type === "file").map(() => "[file]");
    return entriesAt(at, text === "" ? [] : [{ kind: "user", text: [text, ...files].join("\n") }]);
  }
  const model = common.textOf(info["modelID"]);
  const isSummary = info["summary"] === true;
  return [
    ...entriesAt(at, model === undefined ? [] : [{ kind: "ran", model }]),
    ...(isSummary ? entriesAt(at, [{ kind: "remark", text: compacted }]) : []),
    ...parts.flatMap((part) => readPart(part, at, isSummary)),
    ...entriesAt(timeOf(completed) ?? at, readError(asObject(info["error"]))),
  ];
}

function readPart(
  part: WireObject,
  created: number | undefined,
  isSummary: boolean,
): readonly TranscriptEntry[] {
  const lines = opencode.createReader();
  const events = (type: string): readonly OutputEvent[] => lines.read({ type, part });
  switch (part["type"]) {
    case "text":
      return isSummary ? [] : entriesAt(timeOf(asObject(part["time"])["start"]) ?? created, events("text"));
    case "tool":
      return readTool(part, created, events("tool_use"));
    case "step-finish":
      // It also sends requests that it does not write down, such as for titles.
      return events("step_finish").flatMap((event): TranscriptEntry[] => {
        if (event.kind === "usage") return [{ kind: "usage", usage: partOf(event.usage) }];
        return part["reason"] === "tool-calls" ? [] : [event];
      });
    default: {
      const type = common.textOf(part["type"]) ?? "without a type";
      return idle.has(type) ? [] : [{ kind: "unknown", type }];
    }
  }
}

function partOf(usage: Usage): Usage {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, cost } = usage;
  const known = withoutUndefined({ cacheReadTokens, cacheWriteTokens, cost });
  return { inputTokens, outputTokens, ...known, isPartial: true };
}

function readTool(
  part: WireObject,
  created: number | undefined,
  ended: readonly OutputEvent[],
): readonly TranscriptEntry[] {
  const state = asObject(part["state"]);
  const { start, end } = asObject(state["time"]);
  const [from, to] = [timeOf(start) ?? created, timeOf(end)];
  const isOver = state["status"] === "completed" || state["status"] === "error";
  const durationMs = from === undefined || to === undefined ? undefined : Math.max(0, to - from);
  return ended.flatMap((event): readonly TranscriptEntry[] => {
    if (event.kind !== "tool") return [];
    const { callId, name, args } = event;
    const started = {
      kind: "tool",
      callId,
      name,
      ...common.optional("args", args),
      at: from,
      status: "started",
    } as const;
    return isOver ? [started, { ...event, at: to ?? from, durationMs }] : [started];
  });
}

function readError(error: WireObject): readonly OutputEvent[] {
  const name = common.textOf(error["name"]);
  if (name === undefined) return [];
  if (name === "MessageAbortedError") return [{ kind: "end", reason: "cancelled" }];
  if (name === "MessageOutputLengthError") return [{ kind: "end", reason: "max-tokens" }];
  return [{ kind: "failed", message: common.textOf(asObject(error["data"])["message"]) ?? name }];
}
