import { asList, asObject } from "../../base/json.ts";
import type { ToolUse, WireObject } from "../programs/preset.ts";
import * as common from "../programs/preset.ts";
import {
  compacted,
  contradiction,
  contradicts,
  entriesAt,
  ofSubagent,
  textOfParts,
  timeOf,
  tookBack,
  type TranscriptEntry,
  type TranscriptFormat,
  type TranscriptReader,
} from "./transcript.ts";

/** Gemini CLI's: JSON Lines with messages and changes of the session; in older versions one JSON document. */
export const geminiTranscript: TranscriptFormat = {
  program: "gemini",
  place: "~/.gemini/tmp/PROJECT/chats/session-….jsonl",
  recognises: ({ sessionId, projectHash }) =>
    typeof sessionId === "string" && typeof projectHash === "string",
  createReader,
  subagentTools: new Set(["invoke_agent"]),
};

function createReader(): TranscriptReader {
  // A message is written again when it changes, and all of them when the conversation is resumed or compressed: what was there before has happened all the same.
  const messages = new Map<string, WireObject>();
  const remarks = new Set<string>();
  const unknown: TranscriptEntry[] = [];
  let session: string | undefined;

  const add = (message: WireObject): void => {
    const id = common.textOf(message["id"]);
    if (id === undefined) return;
    const before = messages.get(id);
    // A later list may lack the calls, and has the time at which it was made.
    const gone = before === undefined ? [] : endedOtherwise(before, message);
    if (gone.length > 0) remarks.add(contradiction);
    messages.set(id, {
      ...before,
      ...message,
      ...(before && { timestamp: before["timestamp"] }),
      ...(gone.length > 0 && { toolCalls: [...gone, ...asList(message["toolCalls"])] }),
    });
  };

  const addAll = (list: unknown): void => {
    const all = asList(list).map(asObject);
    const known = all.filter(
      (message) => messages.has(common.textOf(message["id"]) ?? "") || !isSummary(message),
    );
    if (known.length < all.length) remarks.add(compacted);
    for (const message of known) add(message);
  };

  return {
    read(line) {
      session ??= common.textOf(line["sessionId"]);
      if (line["kind"] === "subagent") remarks.add(ofSubagent);
      if (typeof line["$rewindTo"] === "string") {
        remarks.add(tookBack);
        return [];
      }
      if (line["$set"] !== undefined) addAll(asObject(line["$set"])["messages"]);
      else if (line["id"] !== undefined) add(line);
      else if (line["sessionId"] !== undefined) addAll(line["messages"]);
      else unknown.push({ kind: "unknown", type: "without a type" });
      return [];
    },
    finish() {
      const entries = [...messages.values()].flatMap(readMessage);
      const about = [...remarks].map((text) => ({ kind: "remark", text }) as const);
      return [...common.sessionEvent(session), ...entries, ...unknown, ...about];
    },
  };
}

/** The calls of a message that had ended in another way than they have when it is written again. */
function endedOtherwise(before: WireObject, after: WireObject): readonly WireObject[] {
  return callsIn(before).filter((call) => {
    const again = callsIn(after).filter(({ id }) => id === call["id"]);
    return endsOf(call).some((end) => again.flatMap(endsOf).some((other) => contradicts(end, other)));
  });
}

function callsIn(message: WireObject): readonly WireObject[] {
  return asList(message["toolCalls"]).map(asObject);
}

function endsOf(call: WireObject): readonly ToolUse[] {
  return readCall(call, undefined).flatMap((use) =>
    use.kind === "tool" && use.status !== "started" ? [use] : [],
  );
}

function readMessage(message: WireObject): readonly TranscriptEntry[] {
  const at = timeOf(message["timestamp"]);
  const text = textIn(message);
  switch (message["type"]) {
    case "user": {
      // Results of tools, and what the program says itself before the first words of the user.
      const isResult = asList(message["content"]).some((part) => "functionResponse" in asObject(part));
      const isOfUser = !isResult && text !== "" && !text.startsWith("<session_context>");
      return isOfUser ? entriesAt(at, [{ kind: "user", text }]) : [];
    }
    case "gemini": {
      const model = common.textOf(message["model"]);
      const said = common.messageEvent(text);
      const calls = callsIn(message);
      const isEnd = calls.length === 0 && text !== "";
      return [
        ...entriesAt(at, [...(model === undefined ? [] : [{ kind: "ran", model } as const]), ...said]),
        ...calls.flatMap((call) => readCall(call, at)),
        ...entriesAt(at, usageOf(message["tokens"])),
        ...entriesAt(at, isEnd ? [{ kind: "end", reason: "done" }] : []),
      ];
    }
    case "error":
      return entriesAt(at, [{ kind: "failed", message: text }]);
    case "info":
    case "warning":
      if (/cancelled|interrupted/i.test(text)) return entriesAt(at, [{ kind: "end", reason: "cancelled" }]);
      return entriesAt(at, [{ kind: "note", text }]);
    default:
      return [{ kind: "unknown", type: common.textOf(message["type"]) ?? "without a type" }];
  }
}

/** Whether a message is what the program has put in the place of others. */
function isSummary(message: WireObject): boolean {
  return textIn(message).startsWith("<state_snapshot>");
}

function textIn({ content }: WireObject): string {
  if (typeof content === "string") return content.trim();
  return textOfParts(
    asList(content)
      .map(asObject)
      .filter(({ thought }) => thought !== true),
  );
}

function usageOf(tokens: unknown): readonly TranscriptEntry[] {
  if (typeof tokens !== "object" || tokens === null) return [];
  const { output, ...counted } = common.tokensOf(asObject(tokens), {
    input: "input",
    output: "output",
    cacheRead: "cached",
  });
  const thoughts = common.countOf(asObject(tokens)["thoughts"]);
  // It also sends requests that it does not write down, such as those that choose a model.
  return [
    {
      kind: "usage",
      usage: { ...common.usageOf({ ...counted, output: output + thoughts }), isPartial: true },
    },
  ];
}

/** `TOOL (SERVER MCP Server)`: how it shows the tool of a server. */
const shown = /^(.+) \((.+) MCP Server\)$/s;

function plain(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9]/g, "_");
}

function readCall(call: WireObject, at: number | undefined): readonly TranscriptEntry[] {
  const callId = common.textOf(call["id"]) ?? "";
  const name = common.textOf(call["name"]) ?? "";
  const [, tool = "", server = ""] = shown.exec(common.textOf(call["displayName"]) ?? "") ?? [];
  // Long names are cut in the middle.
  const isOf = server !== "" && plain(name).startsWith(plain(`mcp_${server}`).slice(0, 30));
  const origin = isOf ? { origin: { server, tool } } : {};
  const started: ToolUse = {
    callId,
    name,
    ...origin,
    status: "started",
    ...common.optional("args", call["args"]),
  };
  const { status } = call;
  if (status !== "success" && status !== "error" && status !== "cancelled")
    return entriesAt(at, [{ kind: "tool", ...started }]);
  const responses = asList(call["result"]).map(
    (part) => asObject(asObject(part)["functionResponse"])["response"],
  );
  const { output, error } = asObject(responses.find((response) => response !== undefined));
  const result = output ?? error ?? (responses.length > 0 ? call["result"] : call["resultDisplay"]);
  const end: ToolUse = {
    callId,
    name,
    ...origin,
    status: status === "success" && error === undefined ? "completed" : "failed",
    ...common.optional("result", result),
  };
  return [
    ...entriesAt(at, [{ kind: "tool", ...started }]),
    ...entriesAt(timeOf(call["timestamp"]) ?? at, [{ kind: "tool", ...end }]),
  ];
}
