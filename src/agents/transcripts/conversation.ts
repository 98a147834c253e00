import { McpvalsError } from "../../base/error.ts";
import { withoutUndefined } from "../../base/json.ts";
import { countOf, shortened } from "../../base/visible-text.ts";
import type { EventBody, TurnEnd } from "../../model/event.ts";
import type { ToolUse } from "../programs/preset.ts";
import { agentPresets } from "../programs/presets.ts";
import { toolOrigin } from "../tool-origin.ts";
import type { TimedEntry, Transcript } from "./read-transcript.ts";
import { agentOf, contradiction, contradicts } from "./transcript.ts";

/** What a session says of the conversation of its user with the agent. */
export interface Conversation {
  readonly events: readonly { readonly at: number; readonly event: EventBody }[];
  /** What is missing or odd, in sentences; those of the transcript come first. */
  readonly remarks: readonly string[];
  /** Of all turns together, each from its first entry to its last one: it has the time in which the program waited for the user's permission. */
  readonly durationMs: number;
  /** Why nothing can be said of the agent: the program could not act in its last turn, or it is not known of which servers tools are. */
  readonly failure: McpvalsError | undefined;
}

/** The events of a session. `servers` are names of servers that it had, where its transcript does not tell them. */
export function conversationOf(session: Transcript, servers: readonly string[]): Conversation {
  const reading = new ConversationReading(session, servers);
  for (const entry of session.entries) reading.take(entry);
  return reading.finish();
}

type UserEntry = TimedEntry & { readonly kind: "user" };
type ToolEntry = TimedEntry & { readonly kind: "tool" };

/** The turn that is open. */
interface OpenTurn {
  readonly turn: number;
  readonly startedAt: number;
  /** The time of the last thing that was done in it, and the number of events up to there. */
  endedAt: number;
  events: number;
  /** Absent: the transcript does not say that it has ended. */
  reason?: TurnEnd;
  /** Why the program could not act in it. */
  failure?: string;
}

class ConversationReading {
  readonly #session: Transcript;
  readonly #servers: readonly string[];
  readonly #events: { readonly at: number; readonly event: EventBody }[] = [];
  readonly #remarks: string[] = [];
  #open: OpenTurn | undefined;
  #turns = 0;
  #durationMs = 0;
  /** A command of the user, which begins a turn if the agent does something then. */
  #command: UserEntry | undefined;
  /** Programs and models that are named already. */
  readonly #ran = new Set<string>();
  /** Names of tools that may be of a server. */
  readonly #unclear = new Set<string>();
  /** The last use of each id of the program, with its last entry: some begin with the same ids again. */
  readonly #uses = new Map<string, { readonly id: string; last: ToolEntry }>();

  constructor(session: Transcript, servers: readonly string[]) {
    this.#session = session;
    this.#servers = servers;
  }

  take(entry: TimedEntry): void {
    const { at } = entry;
    switch (entry.kind) {
      case "user":
        if (entry.isCommand === true) this.#command = entry;
        else this.#begin(entry.text, at);
        break;
      case "message":
        this.#emit({ type: "agent.message", turn: this.#acting(entry).turn, text: entry.text }, at);
        break;
      case "tool":
        this.#emitTool(entry, this.#acting(entry));
        break;
      case "usage":
        this.#emit({ type: "agent.usage", source: "agent", usage: entry.usage }, at);
        break;
      case "ran": {
        const { program, model } = entry;
        const name = program ?? model ?? "";
        if (this.#ran.has(name)) break;
        this.#ran.add(name);
        this.#note({ type: "agent.reported", ...withoutUndefined({ program, model }) }, at);
        break;
      }
      case "note":
        this.#note({ type: "agent.output", stream: "stdout", text: `${entry.text}\n` }, at);
        break;
      case "end":
        if (this.#open !== undefined) this.#open.reason = entry.reason;
        this.#stay(at);
        break;
      case "failed":
        this.#note({ type: "agent.output", stream: "stdout", text: `${entry.message}\n` }, at);
        if (this.#open !== undefined) this.#open.failure = entry.message;
        this.#stay(at);
        break;
      default:
        break;
    }
  }

  finish(): Conversation {
    const { failure: failed, reason } = this.#open ?? {};
    if (this.#open !== undefined && failed === undefined && reason === undefined)
      this.#remarks.push("its last turn has no end: the session may go on, or the program was killed");
    this.#finishTurn();
    if (this.#turns === 0) this.#remarks.push("its user says nothing, and its agent does nothing");
    const open = [...this.#uses.values()].filter(({ last }) => isOpen(last)).length;
    if (open > 0)
      this.#remarks.push(`${countOf(open, "use")} of tools without a result, which count as failed`);
    return {
      events: this.#events,
      remarks: [...this.#session.remarks, ...new Set(this.#remarks)],
      durationMs: this.#durationMs,
      failure: this.#failureOf(failed),
    };
  }

  #failureOf(failed: string | undefined): McpvalsError | undefined {
    const program = agentOf(this.#session);
    if (this.#unclear.size > 0) return unclearTools([...this.#unclear]);
    if (failed === undefined) return undefined;
    return new McpvalsError("agent/failed", `agent ${program} could not act: ${failed}`);
  }

  /** What is known besides; it may stand between two turns. */
  #note(event: EventBody, at: number): void {
    this.#events.push({ at, event });
  }

  /** Something that is done in the turn. */
  #emit(event: EventBody, at: number): void {
    this.#events.push({ at, event });
    this.#stay(at);
  }

  #stay(at: number): void {
    if (this.#open !== undefined) Object.assign(this.#open, { endedAt: at, events: this.#events.length });
  }

  /** The turn in which the agent does something. What it does after an end or a failure shows that it went on. */
  #acting({ at, parentCallId }: { readonly at: number; readonly parentCallId?: string }): OpenTurn {
    const command = this.#command;
    if (command !== undefined) this.#begin(command.text, at);
    if (this.#open === undefined)
      this.#remarks.push("it does not have the words of the user with which it begins");
    const open = this.#open ?? this.#begin("", at);
    // A subagent may go on in the background.
    if (parentCallId !== undefined) return open;
    delete open.failure;
    delete open.reason;
    return open;
  }

  #begin(user: string, at: number): OpenTurn {
    this.#finishTurn();
    this.#command = undefined;
    const turn = this.#turns;
    this.#turns += 1;
    this.#note({ type: "turn.started", turn, user }, at);
    this.#open = { turn, startedAt: at, endedAt: at, events: this.#events.length };
    return this.#open;
  }

  #finishTurn(): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    const { turn, startedAt, endedAt, events, reason, failure } = open;
    this.#durationMs += endedAt - startedAt;
    const name = `turn ${turn + 1}`;
    if (failure !== undefined) this.#remarks.push(`${name} failed: ${shortened(failure, 200)}`);
    if (reason === undefined) return;
    this.#events.splice(events, 0, { at: endedAt, event: { type: "turn.finished", turn, reason } });
    if (reason !== "done") this.#remarks.push(`${name} ended early: ${ends[reason]}`);
  }

  #emitTool(entry: ToolEntry, { turn }: OpenTurn): void {
    const { name, status, args, result, parentCallId, durationMs } = entry;
    const callId = this.#idOf(entry, turn);
    const use = withoutUndefined({
      ...this.#originOf(entry),
      status,
      args,
      result,
      parentCallId,
      durationMs,
    });
    this.#emit({ type: "agent.tool", turn, callId, name, ...use }, entry.at);
  }

  #idOf(entry: ToolEntry, turn: number): string {
    const { callId } = entry;
    const use = this.#uses.get(callId);
    const isEnd = use !== undefined && !isOpen(entry);
    const isOther = isEnd && !isOpen(use.last) && contradicts(use.last, entry);
    if (isOther) this.#remarks.push(contradiction);
    if (use !== undefined && !isOther && (isEnd || isOpen(use.last))) {
      use.last = entry;
      return use.id;
    }
    const id = use === undefined ? callId : `${callId} (turn ${turn + 1}, event ${this.#events.length})`;
    this.#uses.set(callId, { id, last: entry });
    return id;
  }

  #originOf({ name, origin }: ToolUse): { readonly source: string; readonly tool?: string } {
    if (origin !== undefined) return { source: `mcp:${origin.server}`, tool: origin.tool };
    const program = agentOf(this.#session);
    const preset = agentPresets.find((each) => each === program);
    const known = toolOrigin(name, { ...(preset && { preset }), servers: this.#servers });
    if (known.tool !== undefined || known.source === "skill") return known;
    const told = this.#session.format.originIn?.(name, program);
    if (told === undefined || (told === "unknown" && this.#servers.length > 0)) return known;
    if (told !== "unknown") return { source: `mcp:${told.server}`, tool: told.tool };
    this.#unclear.add(name);
    return { source: "unknown" };
  }
}

function isOpen({ status }: ToolUse): boolean {
  return status === "started";
}

/** Graders that look for calls of a server would find none, and those that forbid them would pass. */
function unclearTools(names: readonly string[]): McpvalsError {
  const shown = names.slice(0, 5).map((name) => shortened(name, 60));
  const more = names.length > 5 ? ", …" : "";
  return new McpvalsError(
    "transcript/unclear-tools",
    `the transcript does not say whether these tools are of servers, and of which: ${shown.join(", ")}${more}`,
    {
      hint: "Name the servers that the program had: import --server NAME. If it had none, any name will do.",
    },
  );
}

const ends: Readonly<Record<TurnEnd, string>> = {
  done: "",
  cancelled: "the user, or the program, stopped it",
  refused: "the model refused",
  limit: "the agent was stopped",
  "max-tokens": "the model's output limit",
  "max-steps": "the limit of steps",
  "context-overflow": "the model's context window",
};
