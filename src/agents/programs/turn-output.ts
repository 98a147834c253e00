import type { McpvalsError } from "../../core/errors/error.ts";
import { presets } from "../../core/formats/presets/presets.ts";
import type { AgentPreset, CommandOutput } from "../../core/formats/model.ts";
import type { Emit, TurnEnd } from "../../core/trace/events.ts";
import { ByteStore } from "../../process/program-output.ts";
import { toolOrigin } from "../../core/trace/tool-origin.ts";
import { authError } from "./acp-link.ts";
import { JsonLines, ProgramLines } from "./json-lines.ts";
import type { OutputEvent, OutputReader, ToolUse } from "../../core/formats/presets/preset.ts";

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

/** What one turn's program has said, when it has ended. */
export interface TurnResult {
  readonly reason: TurnEnd;
  /** Why the program could not act, in its own words. */
  readonly failure?: string;
  /** Whether anything was understood; always, where all that is printed is the message. */
  readonly understood: boolean;
  /** The event that a turn ends with and that did not come: the output was cut off. */
  readonly missing?: string;
}

/** Takes what one turn's program prints. */
export interface TurnOutput {
  /** Aborts when the program tells that its key was refused, with McpvalsError `agent/auth`. */
  readonly refused: AbortSignal;
  /** Never throws. */
  push(chunk: Buffer): void;
  /** Throws what nobody expected of what was printed. */
  finish(): TurnResult;
}

/** Longest line of JSON, in bytes. */
const lineLimit = 10 * 1024 * 1024;
/** Longest message of a program whose whole output is its message, in bytes. */
const textLimit = 1024 * 1024;

/** What a program prints in all turns of a conversation, as events. */
export class ConversationOutput {
  readonly #options: ConversationOptions;
  readonly #reader: OutputReader | undefined;
  readonly #firstTurns = new Map<string, number>();
  #session = "";

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#reader = options.output === "text" ? undefined : presets[options.output].createReader();
  }

  /** Id of the program's session; empty as long as it has told none. */
  get session(): string {
    return this.#session;
  }

  begin(turn: number): TurnOutput {
    return this.#reader === undefined ? this.#beginText(turn) : this.#beginLines(turn, this.#reader);
  }

  #beginText(turn: number): TurnOutput {
    const { emit } = this.#options;
    const said = new ByteStore();
    let length = 0;
    return {
      refused: new AbortController().signal,
      push(chunk) {
        said.push(chunk.subarray(0, Math.max(0, textLimit - length)));
        length += chunk.length;
      },
      finish() {
        const text = said.take().toString("utf8").trimEnd();
        if (text !== "") emit({ type: "agent.message", turn, text });
        const omitted = length - textLimit;
        if (omitted > 0) {
          const text = `[${omitted} more bytes were left out]\n`;
          emit({ type: "agent.output", stream: "stdout", text });
        }
        return { reason: "done", understood: true };
      },
    };
  }

  #beginLines(turn: number, reader: OutputReader): TurnOutput {
    const others = new ProgramLines({ stream: "stdout", emit: this.#options.emit });
    let result: TurnResult = { reason: "done", understood: false };
    let isComplete = false;
    const refused = new AbortController();
    const take = (events: readonly OutputEvent[]): void => {
      if (events.length === 0) return;
      isComplete = events.some(({ kind }) => kind === "complete");
      result = { ...result, understood: true };
      for (const event of events) {
        result = { ...result, ...this.#take(event, turn) };
        if (event.kind === "refused") refused.abort(this.#authError(event.message));
      }
    };
    let broken: unknown;
    const lines = new JsonLines({
      limit: lineLimit,
      onBroken: (problem) => (result = { ...result, failure: `it ${problem}` }),
      onObject: (line) => take(reader.read(line)),
      onOther: (line) => others.push(line),
    });
    return {
      refused: refused.signal,
      push(chunk) {
        if (broken !== undefined) return;
        try {
          lines.push(chunk);
        } catch (error) {
          // Who pushes has nobody to throw to.
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

  /** Gives what is to be known of the turn's end. */
  #take(event: OutputEvent, turn: number): Partial<TurnResult> {
    const { emit } = this.#options;
    switch (event.kind) {
      case "session":
        this.#session = event.id;
        return {};
      case "message":
        emit({ type: "agent.message", turn, text: event.text });
        return {};
      case "tool":
        this.#emitTool(event, turn);
        return {};
      case "usage":
        emit({ type: "agent.usage", source: "agent", usage: event.usage });
        return {};
      case "end":
        return { reason: event.reason };
      case "ran": {
        const { kind: _kind, ...told } = event;
        emit({ type: "agent.told", ...told });
        return {};
      }
      case "note":
        emit({ type: "agent.output", stream: "stdout", text: `${event.text}\n` });
        return {};
      case "complete":
      case "refused":
        return {};
      case "failed":
        return { failure: event.message };
    }
  }

  #authError(message: string): McpvalsError {
    const { agent: name, preset } = this.#options;
    const facts = preset === undefined ? {} : { facts: presets[preset] };
    return authError(message, { name, ...facts, authMethods: [], stderrTail: undefined });
  }

  #emitTool({ callId, name, status, args, result, parentCallId, origin }: ToolUse, turn: number): void {
    const parent = parentCallId === undefined ? {} : { parentCallId: this.#unique(parentCallId, turn) };
    this.#options.emit({
      type: "agent.tool",
      turn,
      callId: this.#unique(callId, turn),
      name,
      ...(origin === undefined
        ? this.#originOf(name)
        : { source: `mcp:${origin.server}`, tool: origin.tool }),
      status,
      ...(args === undefined ? {} : { args }),
      ...(result === undefined ? {} : { result }),
      ...parent,
    });
  }

  #originOf(name: string): ReturnType<typeof toolOrigin> {
    const { output, preset, servers, skillTool } = this.#options;
    const known = output === "text" ? preset : output;
    return toolOrigin(name, { ...(known === undefined ? {} : { preset: known }), servers, skillTool });
  }

  /** Some programs count their calls from the beginning in each turn. */
  #unique(callId: string, turn: number): string {
    const first = this.#firstTurns.get(callId) ?? turn;
    this.#firstTurns.set(callId, first);
    return first === turn ? callId : `${callId} (turn ${turn})`;
  }
}
