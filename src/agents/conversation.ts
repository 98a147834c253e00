import type { FinishReason, generateText, ModelMessage, ToolModelMessage, ToolSet } from "ai";
import { McpvalsError } from "../core/errors/error.ts";
import type { Json, JsonObject } from "../core/formats/model.ts";
import type { TurnEnd } from "../core/trace/events.ts";
import type { AgentContext } from "./driver.ts";
import type { OfferedTool } from "./offered-tools.ts";
import { toolOutput } from "./tool-output.ts";

/** What a model gave when it was asked once. */
export type ModelTurn = Awaited<ReturnType<typeof generateText<ToolSet>>>;

export interface ConversationOptions {
  /** Asks the model once, without calling any tools. */
  readonly ask: (messages: ModelMessage[]) => Promise<ModelTurn>;
  readonly context: AgentContext;
  readonly tools: ReadonlyMap<string, OfferedTool>;
  /** How often the model may be asked in one user turn. */
  readonly maxSteps: number;
  /** Whether the model's tool results can carry images. */
  readonly images: boolean;
}

/** What a turn ends with when the model's last answer was not ended by the model. */
const cutOffEnds: Readonly<Partial<Record<FinishReason, TurnEnd>>> = {
  length: "max-tokens",
  "content-filter": "refused",
};

type RequestedCall = ModelTurn["toolCalls"][number];
type ToolResult = Extract<ToolModelMessage["content"][number], { type: "tool-result" }>;

/** All messages between user, model and tools in one trial. */
export class Conversation {
  readonly #messages: ModelMessage[] = [];
  readonly #options: ConversationOptions;

  constructor(options: ConversationOptions) {
    this.#options = options;
  }

  /** Plays one user turn; throws what asking the model and calling the tools throw. */
  async playTurn(turn: number, user: string): Promise<void> {
    const { context, maxSteps } = this.#options;
    context.emit({ type: "turn.started", turn, user });
    this.#messages.push({ role: "user", content: user });
    let end: TurnEnd | undefined;
    for (let step = 0; end === undefined && step < maxSteps; step += 1) end = await this.#step(turn);
    context.emit({ type: "turn.finished", turn, reason: end ?? "max-steps" });
  }

  /** Asks the model once and makes the calls that it wants; where there are none, gives how the turn has ended. */
  async #step(turn: number): Promise<TurnEnd | undefined> {
    const { ask, context } = this.#options;
    context.signal.throwIfAborted();
    const answer = await ask(this.#messages);
    if (answer.rawFinishReason === "error")
      throw new McpvalsError("model/invalid-response", "the model's answer was broken off by an error");
    if (answer.text.trim() !== "") context.emit({ type: "agent.message", turn, text: answer.text });
    for (const message of answer.responseMessages)
      if (message.role === "assistant") this.#messages.push(message);
    if (answer.toolCalls.length === 0) return cutOffEnds[answer.finishReason] ?? "done";
    this.#messages.push({ role: "tool", content: await this.#callAll(answer) });
    return undefined;
  }

  /** Makes the calls of one answer at the same time, as agents do; the first that throws ends the others. */
  async #callAll({ toolCalls, finishReason }: ModelTurn): Promise<ToolResult[]> {
    const failed = new AbortController();
    const signal = AbortSignal.any([this.#options.context.signal, failed.signal]);
    const settled = await Promise.allSettled(
      toolCalls.map(async (call) => {
        try {
          return await this.#answerCall(call, finishReason, signal);
        } catch (error) {
          failed.abort(error);
          throw error;
        }
      }),
    );
    failed.signal.throwIfAborted();
    return settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  }

  async #answerCall(call: RequestedCall, finish: FinishReason, signal: AbortSignal): Promise<ToolResult> {
    const { toolCallId, toolName } = call;
    const tool = this.#options.tools.get(toolName);
    const reason = this.#rejection(call, tool, finish);
    if (tool === undefined || reason !== undefined) {
      return { type: "tool-result", toolCallId, toolName, output: this.#reject(call, tool, reason ?? "") };
    }
    const { context, images } = this.#options;
    const options = { timeoutMs: context.callTimeoutMs, signal, progress: true };
    const outcome = await tool.call(call.input as JsonObject, options);
    const output =
      "rejected" in outcome ? this.#reject(call, tool, outcome.rejected) : toolOutput(outcome, { images });
    return { type: "tool-result", toolCallId, toolName, output };
  }

  /** Why a call cannot be made; undefined when it can. */
  #rejection(call: RequestedCall, tool: OfferedTool | undefined, finish: FinishReason): string | undefined {
    if (tool === undefined) {
      const names = [...this.#options.tools.keys()].join(", ");
      return `there is no tool called ${JSON.stringify(call.toolName)}; the tools are: ${names || "none"}`;
    }
    if (finish === "length" || finish === "content-filter" || finish === "error") {
      return `the answer with this call was cut off (${finish}), so it was not made`;
    }
    if (call.invalid === true || !isObject(call.input))
      return "the arguments of this call are not a JSON object";
    return undefined;
  }

  #reject(call: RequestedCall, tool: OfferedTool | undefined, reason: string): ToolResult["output"] {
    this.#options.context.emit({
      type: "tool.rejected",
      tool: tool?.definition.name ?? call.toolName,
      args: call.input as Json,
      reason,
    });
    return { type: "error-text", value: `Error: ${reason}` };
  }
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
