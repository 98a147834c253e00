import { McpvalsError } from "../../core/errors/error.ts";
import type { AgentPreset, Json } from "../../core/formats/model.ts";
import type { Emit, EventBody } from "../../core/trace/events.ts";
import { toolOrigin, type ToolOrigin } from "../../core/trace/tool-origin.ts";
import {
  type AgentNotice,
  jsonOf,
  objectOf,
  textOf,
  type WireObject,
} from "../../core/formats/presets/preset.ts";
import { presets } from "../../core/formats/presets/presets.ts";
import { longestMessage } from "./json-lines.ts";

export interface AcpUpdatesOptions {
  readonly emit: Emit;
  readonly preset?: AgentPreset;
  /** Names of the servers that the agent reaches. */
  readonly servers: readonly string[];
  /** The agent's tool that loads a skill; absent: the preset's. */
  readonly skillTool?: string | undefined;
  /** Called when the agent tells that its key was refused, with how it says so. */
  readonly onRefused: (note: string) => void;
}

interface ToolState {
  readonly name: string;
  /** What kind of tool it is, as the protocol has them. */
  readonly kind?: string;
  readonly origin: ToolOrigin;
  readonly status: "started" | "completed" | "failed";
  readonly args?: Json;
  readonly result?: Json;
  readonly parentCallId?: string;
}

/**
 * Makes events of what an agent tells while it acts: its words, joined to one message from one use of a tool to the next,
 * and its uses of tools.
 */
export class AcpUpdates {
  readonly #options: AcpUpdatesOptions;
  readonly #tools = new Map<string, ToolState>();
  /** Ids of uses that are on record. */
  readonly #recorded = new Set<string>();
  #turn: number | undefined;
  #failure: string | undefined;
  #text = "";
  #messageId: string | undefined;

  constructor(options: AcpUpdatesOptions) {
    this.#options = options;
  }

  /** Why the agent's model could not be reached, by its last notice in this turn. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** Later updates belong to this turn. */
  begin(turn: number): void {
    this.#turn = turn;
    this.#failure = undefined;
  }

  /** Updates are ignored until the next turn begins. */
  end(): void {
    this.#flush();
    this.#turn = undefined;
  }

  /** Takes the `update` of a `session/update`. Throws McpvalsError `agent/protocol` for a message without end. */
  take(update: WireObject): void {
    if (this.#turn === undefined || this.#isNotice(update)) return;
    switch (update["sessionUpdate"]) {
      case "agent_message_chunk":
        this.#takeChunk(update);
        break;
      case "tool_call":
      case "tool_call_update":
        this.#takeTool(update, this.#turn);
        break;
      default:
        break; // plans, thoughts, modes and the like are no behaviour towards servers or the user
    }
  }

  /** Takes what the agent says of a tool that it only asks about: some tell of it nowhere else until it is done. */
  takeAsked(call: WireObject): void {
    const callId = textOf(call["toolCallId"]);
    if (callId === undefined || this.#tools.has(callId)) return;
    this.#flush();
    this.#tools.set(callId, this.#next(call, undefined));
  }

  /** Where a tool comes from that the agent asks about, which it may have told of before. */
  originOf(call: WireObject): ToolOrigin {
    const known = this.#tools.get(textOf(call["toolCallId"]) ?? "");
    const origin = this.#originOf(acpToolName(call));
    return origin.tool === undefined && known !== undefined ? known.origin : origin;
  }

  /** The title of such a tool, as the agent has it. */
  titleOf(call: WireObject): string {
    const known = this.#tools.get(textOf(call["toolCallId"]) ?? "");
    return textOf(call["title"]) ?? acpToolName(call) ?? known?.name ?? "";
  }

  #noticeIn(update: WireObject): AgentNotice {
    const { preset } = this.#options;
    return preset === undefined ? {} : (presets[preset].acp.readNotice?.(update) ?? {});
  }

  /** Whether an update is a note, which is on record as output; notes after a failure say what it was. */
  #isNotice(update: WireObject): boolean {
    const { note, failure, isRefused, program } = this.#noticeIn(update);
    if (failure !== undefined) this.#failure = failure ?? undefined;
    else if (note !== undefined && this.#failure !== undefined) this.#failure = note.trim();
    if (program !== undefined) this.#emit({ type: "agent.told", program });
    if (note === undefined) return false;
    this.#emit({ type: "agent.output", stream: "stdout", text: `${note.trim()}\n` });
    if (isRefused === true) this.#options.onRefused(note);
    return true;
  }

  #takeChunk(update: WireObject): void {
    const messageId = textOf(update["messageId"]);
    if (messageId !== this.#messageId) this.#flush();
    this.#messageId = messageId;
    const content = objectOf(update["content"]);
    if (content["type"] === "text") this.#text += textOf(content["text"]) ?? "";
    if (this.#text.length > longestMessage)
      throw new McpvalsError(
        "agent/protocol",
        `the agent said more than ${longestMessage} characters at once`,
      );
  }

  #flush(): void {
    const text = this.#text;
    this.#text = "";
    if (text.trim() === "" || this.#turn === undefined) return;
    this.#emit({ type: "agent.message", turn: this.#turn, text });
  }

  /** When the record has ended, nothing need be kept any more. */
  #emit(event: EventBody): void {
    if (this.#options.emit(event) !== 0) return;
    this.#turn = undefined;
    this.#tools.clear();
    this.#recorded.clear();
  }

  #takeTool(call: WireObject, turn: number): void {
    const callId = textOf(call["toolCallId"]);
    if (callId === undefined) return;
    const before = this.#tools.get(callId);
    if (before === undefined) this.#flush();
    const now = this.#next(call, before);
    this.#tools.set(callId, now);
    if (before !== undefined && this.#recorded.has(callId) && !hasNews(before, now)) return;
    this.#recorded.add(callId);
    const { name, kind: _kind, origin, ...told } = now;
    this.#emit({ type: "agent.tool", turn, callId, name, ...origin, ...told });
  }

  #next(call: WireObject, before: ToolState | undefined): ToolState {
    const told = acpToolName(call);
    const title = told === undefined || isNamed(before) ? (before?.name ?? "") : told;
    const kind = textOf(call["kind"]) ?? before?.kind;
    // A title can say anything, such as the command line; the kind is the same for each use.
    const isOwn = told !== undefined && told === call["title"] && this.#originOf(title).source === "builtin";
    const byKind = isOwn && kind !== "other" ? kind : undefined;
    const name = byKind ?? title;
    const args = argsOf(call["rawInput"]) ?? before?.args;
    const result = resultOf(call) ?? before?.result;
    const parentCallId = parentOf(call) ?? before?.parentCallId;
    return {
      name,
      ...(kind === undefined ? {} : { kind }),
      origin: isNamed(before) ? before.origin : this.#originOf(name),
      status: statusOf(call["status"], before?.status),
      ...(args === undefined ? {} : { args }),
      ...(result === undefined ? {} : { result }),
      ...(parentCallId === undefined ? {} : { parentCallId }),
    };
  }

  #originOf(name: string | undefined): ToolOrigin {
    const { preset, servers, skillTool } = this.#options;
    if (name === undefined || name === "") return { source: "unknown" };
    return toolOrigin(name, { servers, skillTool, ...(preset === undefined ? {} : { preset }) });
  }
}

/** A tool that was found to be a server's stays it, whatever title the agent gives it later. */
function isNamed(state: ToolState | undefined): state is ToolState {
  return state?.origin.tool !== undefined;
}

function hasNews(before: ToolState, now: ToolState): boolean {
  if (before.status !== now.status || before.name !== now.name) return true;
  return JSON.stringify(before.args) !== JSON.stringify(now.args);
}

function statusOf(told: unknown, before: ToolState["status"] = "started"): ToolState["status"] {
  return told === "completed" || told === "failed" ? told : before;
}

/** Codex tells of a server's tool as `{server, tool, arguments}`. */
function argsOf(input: unknown): Json | undefined {
  const { server, tool, arguments: args, ...rest } = objectOf(input);
  const isCodex = typeof server === "string" && typeof tool === "string" && Object.keys(rest).length === 0;
  return jsonOf(isCodex && args !== undefined ? args : input);
}

function resultOf(call: WireObject): Json | undefined {
  const raw = jsonOf(call["rawOutput"]);
  if (raw !== undefined) return raw;
  const content = Array.isArray(call["content"]) ? call["content"].map(objectOf) : [];
  if (content.length === 0) return undefined;
  const texts = content.map((part) => textOf(objectOf(part["content"])["text"]));
  return texts.every((text) => text !== undefined) ? texts.join("\n") : jsonOf(content);
}

function parentOf(call: WireObject): string | undefined {
  return textOf(objectOf(objectOf(call["_meta"])["claudeCode"])["parentToolUseId"]);
}

/**
 * The name by which an agent means a tool. The protocol had only titles for long, so agents tell the name in places of
 * their own; the title is the last resort.
 */
function acpToolName(call: WireObject): string | undefined {
  const meta = objectOf(call["_meta"]);
  return textOf(call["name"]) ?? textOf(objectOf(meta["claudeCode"])["toolName"]) ?? textOf(call["title"]);
}
