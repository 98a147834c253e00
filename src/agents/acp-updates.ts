import { maxMessageBytes } from "../base/limits.ts";
import { McpvalsError } from "../base/error.ts";
import { asObject, withoutUndefined, type Json } from "../base/json.ts";
import {
  type AcpForm,
  type AgentNotice,
  countOf,
  jsonOf,
  textOf,
  type WireObject,
} from "./programs/preset.ts";
import type { Emit, EventBody } from "../model/event.ts";
import { toolOrigin, type ToolOrigin } from "./tool-origin.ts";
import { presetNamed } from "./programs/presets.ts";
import type { Usage } from "../model/grade.ts";

export interface AcpUpdatesOptions {
  readonly emit: Emit;
  readonly preset?: string | undefined;
  readonly servers: readonly string[];
  /** The agent's tool that loads a skill; absent: the preset's. */
  readonly skillTool?: string | undefined;
  /** Called when the agent reports that its key was refused, with its own words. */
  readonly onRefused: (note: string) => void;
}

interface ToolState {
  readonly name: string;
  /** The protocol's kind of tool, such as `execute`. */
  readonly kind?: string | undefined;
  readonly origin: ToolOrigin;
  readonly status: "started" | "completed" | "failed";
  readonly args?: Json | undefined;
  readonly result?: Json | undefined;
  readonly parentCallId?: string | undefined;
}

/**
 * Turns what an agent reports while it acts into events: its text, joined to one message from one use of a tool to the next,
 * and its uses of tools.
 */
export class AcpUpdates {
  readonly #options: AcpUpdatesOptions;
  readonly #tools = new Map<string, ToolState>();
  /** Ids of the uses of tools that were recorded. */
  readonly #recorded = new Set<string>();
  #turn: number | undefined;
  #failure: string | undefined;
  #ended: AgentNotice["end"];
  #cost: Cost | undefined;
  #text = "";
  #messageId: string | undefined;

  constructor(options: AcpUpdatesOptions) {
    this.#options = options;
  }

  /** Why the agent's model could not be reached, by its last notice in this turn. */
  get failure(): string | undefined {
    return this.#failure;
  }

  /** How this turn ended, if a notice said so. */
  get ended(): AgentNotice["end"] {
    return this.#ended;
  }

  /** What the session has cost so far; undefined when the agent does not report it. */
  get cost(): Cost | undefined {
    return this.#cost;
  }

  /** Later updates belong to this turn. */
  begin(turn: number): void {
    this.#turn = turn;
    this.#failure = undefined;
    this.#ended = undefined;
  }

  /** Updates are ignored until the next turn begins. */
  end(): void {
    this.#flush();
    this.#turn = undefined;
  }

  /** Takes the `update` of a `session/update`. Throws McpvalsError `agent/protocol` for a message that is too long. */
  take(update: WireObject): void {
    if (this.#turn === undefined || this.#isNotice(update)) return;
    const { sessionUpdate: kind } = update;
    // Plans, thoughts, modes and the like are not behaviour towards servers or the user.
    if (kind === "agent_message_chunk") this.#takeChunk(update);
    else if (kind === "usage_update") this.#cost = costIn(asObject(update["cost"])) ?? this.#cost;
    else if (kind === "tool_call" || kind === "tool_call_update") this.#takeTool(update, this.#turn);
  }

  /** Takes a tool that the agent asks permission for: some agents report it nowhere else until it is done. */
  takeAsked(call: WireObject): void {
    const callId = textOf(call["toolCallId"]);
    if (callId === undefined || this.#tools.has(callId)) return;
    this.#flush();
    this.#tools.set(callId, this.#next(call, undefined));
  }

  /** The origin of a tool that the agent asks permission for, which it may have reported before. */
  originOf(call: WireObject): ToolOrigin {
    const known = this.#tools.get(textOf(call["toolCallId"]) ?? "");
    const origin = this.#originOf(toolName(call));
    return origin.tool === undefined && known !== undefined ? known.origin : origin;
  }

  /** The agent's title of such a tool. */
  titleOf(call: WireObject): string {
    const known = this.#tools.get(textOf(call["toolCallId"]) ?? "");
    return textOf(call["title"]) ?? toolName(call) ?? known?.name ?? "";
  }

  /** Whether an update is a notice, which is recorded as output; a notice after a failure is its reason. */
  #isNotice(update: WireObject): boolean {
    const notice = presetNamed(this.#options.preset)?.acp.readNotice?.(update) ?? {};
    const { note, failure, isRefused, program, end } = notice;
    if (end !== undefined) this.#ended = end;
    if (failure !== undefined) this.#failure = failure ?? undefined;
    else if (note !== undefined && this.#failure !== undefined) this.#failure = note.trim();
    if (program !== undefined) this.#emit({ type: "agent.reported", program });
    if (note === undefined) return false;
    this.#emit({ type: "agent.output", stream: "stdout", text: `${note.trim()}\n` });
    if (isRefused === true) this.#options.onRefused(note);
    return true;
  }

  #takeChunk(update: WireObject): void {
    const messageId = textOf(update["messageId"]);
    if (messageId !== this.#messageId) this.#flush();
    this.#messageId = messageId;
    const { type, text } = asObject(update["content"]);
    if (type === "text") this.#text += textOf(text) ?? "";
    if (this.#text.length <= maxMessageBytes) return;
    const message = `the agent wrote a message of more than ${maxMessageBytes} characters`;
    throw new McpvalsError("agent/protocol", message);
  }

  #flush(): void {
    const text = this.#text;
    this.#text = "";
    if (text.trim() === "" || this.#turn === undefined) return;
    this.#emit({ type: "agent.message", turn: this.#turn, text });
  }

  /** Once the record has ended, which `emit` reports with 0, nothing needs to be kept. */
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
    const { kind: _, origin, ...state } = now;
    this.#emit(withoutUndefined({ type: "agent.tool" as const, turn, callId, ...origin, ...state }));
  }

  #next(call: WireObject, before: ToolState | undefined): ToolState {
    const given = toolName(call);
    // A tool that was identified as a server's keeps its name, whatever title the agent gives it later.
    const isNamed = before?.origin.tool !== undefined;
    const title = given === undefined || isNamed ? (before?.name ?? "") : given;
    const kind = textOf(call["kind"]) ?? before?.kind;
    // The title of an agent's own tool can be anything, such as the command line; its kind is the same for each use.
    const isOwn =
      given !== undefined && given === call["title"] && this.#originOf(title).source === "builtin";
    const name = (isOwn && kind !== "other" ? kind : undefined) ?? title;
    const { status } = call;
    return {
      name,
      kind,
      origin: isNamed ? before.origin : this.#originOf(name),
      status: status === "completed" || status === "failed" ? status : (before?.status ?? "started"),
      args: argsOf(call["rawInput"]) ?? before?.args,
      result: resultOf(call) ?? before?.result,
      parentCallId: claudeMeta(call, "parentToolUseId") ?? before?.parentCallId,
    };
  }

  #originOf(name: string | undefined): ToolOrigin {
    const { preset, servers, skillTool } = this.#options;
    if (name === undefined || name === "") return { source: "unknown" };
    return toolOrigin(name, { servers, skillTool, ...withoutUndefined({ preset }) });
  }
}

function hasNews(before: ToolState, now: ToolState): boolean {
  if (before.status !== now.status || before.name !== now.name) return true;
  return JSON.stringify(before.args) !== JSON.stringify(now.args);
}

/** Codex reports a server's tool as `{server, tool, arguments}`. */
function argsOf(input: unknown): Json | undefined {
  const { server, tool, arguments: args, ...rest } = asObject(input);
  const isCodex = typeof server === "string" && typeof tool === "string" && Object.keys(rest).length === 0;
  return jsonOf(isCodex && args !== undefined ? args : input);
}

function resultOf(call: WireObject): Json | undefined {
  const raw = jsonOf(call["rawOutput"]);
  if (raw !== undefined) return raw;
  const content = objectsIn(call["content"]);
  if (content.length === 0) return undefined;
  const texts = content.map((part) => textOf(asObject(part["content"])["text"]));
  return texts.every((text) => text !== undefined) ? texts.join("\n") : jsonOf(content);
}

/** The name of a tool: the protocol had only titles for long, so agents have the name in places of their own. */
function toolName(call: WireObject): string | undefined {
  return textOf(call["name"]) ?? claudeMeta(call, "toolName") ?? textOf(call["title"]);
}

function claudeMeta(call: WireObject, key: string): string | undefined {
  return textOf(asObject(asObject(call["_meta"])["claudeCode"])[key]);
}

/** The objects of an array from the wire; what is not an object becomes an empty one. */
export function objectsIn(value: unknown): readonly WireObject[] {
  return Array.isArray(value) ? value.map(asObject) : [];
}

/** Programs report 0 for models whose prices they do not know. */
function costIn({ amount, currency }: WireObject): Cost | undefined {
  const isCost = countOf(amount) > 0 && typeof currency === "string" && /^[A-Z]{3}$/.test(currency);
  return isCost ? { amount: countOf(amount), currency } : undefined;
}

/** Tokens and cost of each turn, if an agent reports tokens with its response to the prompt; single requests are unknown. */
export class AcpUsage {
  readonly #of: NonNullable<AcpForm["usage"]>;
  #before: Counts = { inputTokens: 0, outputTokens: 0 };
  #costBefore = 0;

  constructor(of: NonNullable<AcpForm["usage"]>) {
    this.#of = of;
  }

  /** The tokens of the turn, with its cost where that of the session is known; undefined when the agent reports neither. */
  take(answer: unknown, cost: Cost | undefined): Usage | undefined {
    const usage = this.#tokens(answer);
    if (cost === undefined) return usage;
    const amount = cost.amount - this.#costBefore;
    this.#costBefore = cost.amount;
    // A sum that did not grow is from before the turn.
    if (amount <= 0) return usage;
    return { ...(usage ?? { inputTokens: 0, outputTokens: 0, isPartial: true }), cost: { ...cost, amount } };
  }

  #tokens(answer: unknown): Omit<Usage, "cost"> | undefined {
    const { usage, _meta } = asObject(answer);
    const reported = reportedTokens(asObject(usage)) ?? quotaOf(asObject(_meta));
    if (this.#of === "part" && reported !== undefined) return { ...reported, isPartial: true };
    if (reported === undefined || this.#of !== "session") return reported;
    const before = this.#before;
    this.#before = reported;
    const keys = Object.keys(reported) as (keyof Counts)[];
    const counts = keys.map((key) => [key, (reported[key] ?? 0) - (before[key] ?? 0)]);
    return { ...reported, ...Object.fromEntries(counts) };
  }
}

type Counts = Omit<Usage, "cost" | "isPartial">;

type Cost = NonNullable<Usage["cost"]>;

/** As Gemini CLI reports tokens. */
function quotaOf({ quota }: WireObject): Counts | undefined {
  const { input_tokens: input, output_tokens: output } = asObject(asObject(quota)["token_count"]);
  const isKnown = typeof input === "number" && typeof output === "number";
  return isKnown ? { inputTokens: countOf(input), outputTokens: countOf(output) } : undefined;
}

/** Tokens in the form of the Agent Client Protocol; undefined if they are not known. */
export function reportedTokens(usage: WireObject): Counts | undefined {
  const count = (key: string): number | undefined => {
    const value = usage[key];
    return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
  };
  const [input, output] = [count("inputTokens"), count("outputTokens")];
  if (input === undefined || output === undefined) return undefined;
  const [cacheReadTokens, cacheWriteTokens] = [count("cachedReadTokens"), count("cachedWriteTokens")];
  const cached = (cacheReadTokens ?? 0) + (cacheWriteTokens ?? 0);
  // Some agents report cached tokens separately from the input; the total shows which.
  const inputTokens = usage["totalTokens"] === input + cached + output ? input + cached : input;
  return withoutUndefined({ inputTokens, outputTokens: output, cacheReadTokens, cacheWriteTokens });
}
