import { McpvalsError } from "../core/errors/error.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { AgentPreset, CommandOutput } from "../core/formats/model.ts";
import type { OutputEvent, OutputReader, ToolUse } from "../core/formats/presets/preset.ts";
import { presets } from "../core/formats/presets/presets.ts";
import type { Emit, TurnEnd } from "../core/trace/events.ts";
import { toolOrigin } from "../core/trace/tool-events.ts";
import { ByteStore } from "../process/program-output.ts";
import { loginDetails } from "./agent-program.ts";
import { JsonLines, ProgramLines } from "./program-lines.ts";

export interface ConversationOptions {
  /** The agent's name. */
  readonly agent: string;
  readonly output: CommandOutput;
  readonly preset?: AgentPreset;
  readonly servers: readonly string[];
  /** The agent's tool that loads a skill; absent: the preset's. */
  readonly skillTool?: string | undefined;
  readonly emit: Emit;
}

/** What is known of a turn when its program has ended. */
export interface TurnResult {
  readonly reason: TurnEnd;
  /** Why the program could not act, in its own words. */
  readonly failure?: string;
  /** Whether anything was in the expected format. */
  readonly understood: boolean;
  /** The event that ends a turn, if it is missing: the output was cut off. */
  readonly missing?: string;
}

/** Takes what one turn's program prints. */
export interface TurnOutput {
  /** Aborts with McpvalsError `agent/auth` when the program reports that its key was refused. */
  readonly refused: AbortSignal;
  /** Never throws. */
  push(chunk: Buffer): void;
  /** Throws unexpected errors in reading what was printed. */
  finish(): TurnResult;
}

/** Longest line of JSON, in bytes. */
const lineLimit = 10 * 1024 * 1024;
/** Longest message of a program whose whole output is its message, in bytes. */
const textLimit = 1024 * 1024;

/** Turns what a program prints in all turns of a conversation into events. */
export class ConversationOutput {
  /** Id of the program's session; empty until it reports one. */
  session = "";
  readonly #options: ConversationOptions;
  readonly #reader: OutputReader | undefined;
  readonly #firstTurns = new Map<string, number>();

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#reader = options.output === "text" ? undefined : presets[options.output].createReader();
  }

  begin(turn: number): TurnOutput {
    return this.#reader === undefined ? this.#beginText(turn) : this.#beginLines(turn, this.#reader);
  }

  #beginText(turn: number): TurnOutput {
    const { emit } = this.#options;
    const printed = new ByteStore();
    let length = 0;
    return {
      refused: new AbortController().signal,
      push(chunk) {
        printed.push(chunk.subarray(0, Math.max(0, textLimit - length)));
        length += chunk.length;
      },
      finish() {
        const text = printed.take().toString("utf8").trimEnd();
        if (text !== "") emit({ type: "agent.message", turn, text });
        if (length > textLimit) {
          const omission = `[${length - textLimit} more bytes were left out]\n`;
          emit({ type: "agent.output", stream: "stdout", text: omission });
        }
        return { reason: "done", understood: true };
      },
    };
  }

  #beginLines(turn: number, reader: OutputReader): TurnOutput {
    const { agent, preset, emit } = this.#options;
    const others = new ProgramLines("stdout", emit);
    const refused = new AbortController();
    let result: TurnResult = { reason: "done", understood: false };
    let isComplete = false;
    let broken: unknown;
    const take = (events: readonly OutputEvent[]): void => {
      if (events.length === 0) return;
      isComplete = events.some(({ kind }) => kind === "complete");
      result = { ...result, understood: true };
      for (const event of events) {
        if (event.kind === "end") result = { ...result, reason: event.reason };
        else if (event.kind === "failed") result = { ...result, failure: event.message };
        else if (event.kind === "refused") {
          const message = `agent ${agent} is not logged in: ${event.message}`;
          refused.abort(new McpvalsError("agent/auth", message, loginDetails(preset)));
        } else this.#emit(event, turn);
      }
    };
    const lines = new JsonLines({
      limit: lineLimit,
      onBroken: (problem) => (result = { ...result, failure: `it ${problem}` }),
      onObject: (line) => take(reader.read(line)),
      onOther: (line) => others.push(line),
    });
    return {
      refused: refused.signal,
      push(chunk) {
        try {
          if (broken === undefined) lines.push(chunk);
        } catch (error) {
          // The caller is a listener of a stream, where nothing could catch it.
          broken = error;
        }
      },
      finish() {
        if (broken !== undefined) throw broken;
        lines.finish();
        take(reader.finish());
        others.finish();
        return isComplete ? result : { ...result, missing: reader.lastEvent };
      },
    };
  }

  #emit(event: OutputEvent, turn: number): void {
    const { emit } = this.#options;
    if (event.kind === "session") this.session = event.id;
    else if (event.kind === "message") emit({ type: "agent.message", turn, text: event.text });
    else if (event.kind === "tool") this.#emitTool(event, turn);
    else if (event.kind === "usage") emit({ type: "agent.usage", source: "agent", usage: event.usage });
    else if (event.kind === "note") emit({ type: "agent.output", stream: "stdout", text: `${event.text}\n` });
    else if (event.kind === "ran") {
      const { kind: _, ...told } = event;
      emit({ type: "agent.told", ...told });
    }
  }

  #emitTool({ callId, name, status, args, result, parentCallId, origin }: ToolUse, turn: number): void {
    const { emit, output, servers, skillTool } = this.#options;
    // Some programs count their calls from the beginning in each turn.
    const unique = (id: string): string => {
      const first = this.#firstTurns.get(id) ?? turn;
      this.#firstTurns.set(id, first);
      return first === turn ? id : `${id} (turn ${turn})`;
    };
    const preset = output === "text" ? this.#options.preset : output;
    const parent = parentCallId === undefined ? undefined : unique(parentCallId);
    const source =
      origin === undefined
        ? toolOrigin(name, { servers, skillTool, ...withoutUndefined({ preset }) })
        : { source: `mcp:${origin.server}`, tool: origin.tool };
    const use = withoutUndefined({ ...source, status, args, result, parentCallId: parent });
    emit({ type: "agent.tool", turn, callId: unique(callId), name, ...use });
  }
}
