import type { FinishReason, generateText, ModelMessage, ToolModelMessage, ToolSet } from "ai";
import { McpvalsError } from "../core/errors/error.ts";
import { isJsonObject } from "../core/formats/json.ts";
import type { Json, JsonObject, ModelAgentSpec } from "../core/formats/model.ts";
import type { Emit, TurnEnd } from "../core/trace/events.ts";
import {
  type Environment,
  type LanguageModelV4,
  locateModel,
  type ModelAccess,
} from "../models/locate-model.ts";
import { resolveModel } from "../models/resolve-model.ts";
import {
  callSettings,
  createRetryingModel,
  loadAiSdk,
  type RetrySettings,
} from "../models/retrying-model.ts";
import { abortWithAny } from "../process/deadline.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { describeBlock, type OfferedTool, offeredTools, passableImage, toolOutput } from "./offered-tools.ts";
import { answersOf, writtenAnswers } from "./scripted.ts";

export interface ModelAgentOptions {
  readonly env: Environment;
  /** Longest that one request to the model may take, in milliseconds. */
  readonly modelMs: number;
  readonly retry?: RetrySettings;
}

const defaultSystem =
  "You are an assistant with tools. Use them when they are needed to do what the user asks, and base your answer on " +
  "what they return. When you are done, answer the user briefly.";

/**
 * Makes an agent that is a loop around a language model: it is told the user's turns one after the other in one
 * conversation, calls the tools of all sessions, and sees their results, until it answers without calling any or has
 * been asked `maxSteps` times in a turn. Calls of tools that do not exist or with arguments that are no JSON object
 * are recorded as rejected and told to the model as errors. With tools of ours it reads the servers' resources and
 * prompts. While it acts, servers can ask its model (sampling), with a context of its own; and, whenever, the user.
 *
 * `prepare` throws `model/unknown-provider`, `model/no-key` or `config/invalid-value`; `run` throws these, the final
 * errors of the model (`model/unreachable`, `model/rejected`, `model/invalid-response`), what the sessions throw, and
 * the signal's reason.
 */
export function createModelAgent(spec: ModelAgentSpec, options: ModelAgentOptions): AgentDriver {
  let acting: Actor | undefined;
  return {
    reach: "sessions",
    clientSide: (context) => ({
      ...writtenAnswers(context),
      // Elicitation is always supported, even if the task accepts nothing.
      elicitation: answersOf(context.elicitation),
      sampling: async (params, signal) => {
        if (acting === undefined) throw nobodyActs();
        return acting.sample(params, signal);
      },
    }),
    prepare: async () => {
      locateModel(spec, options.env);
    },
    run: async (given) => {
      given.signal.throwIfAborted();
      const broken = new AbortController();
      using end = abortWithAny([given.signal, broken.signal]);
      const context = { ...given, signal: end.signal };
      const actor = await createActor(spec, options, { context, broken });
      try {
        acting = actor;
        context.emit({ type: "agent.started", agent: spec.name, kind: "model", model: spec.model });
        for (const [turn, { user }] of context.turns.entries()) await actor.conversation.playTurn(turn, user);
        end.signal.throwIfAborted();
      } finally {
        acting = undefined;
      }
    },
  };
}

type Request = Omit<Parameters<typeof generateText<ToolSet>>[0], "messages" | "prompt">;

/** The agent of one trial while it acts. */
interface Actor {
  readonly conversation: Conversation;
  /** Asks the model what a server wants to know from it. Throws refusals, and what asking the model throws. */
  sample(params: JsonObject, signal: AbortSignal): Promise<JsonObject>;
}

interface Stage {
  readonly context: AgentContext;
  /** Aborted when a server's request for sampling could not reach the model: the server's reaction proves nothing. */
  readonly broken: AbortController;
}

async function createActor(
  spec: ModelAgentSpec,
  options: ModelAgentOptions,
  { context, broken }: Stage,
): Promise<Actor> {
  const access = locateModel(spec, options.env);
  const ai = await loadAiSdk();
  const tools = offeredTools(context.sessions, { resources: spec.resources !== false });
  const model = await agentModel(access, options, context.emit);
  const shared = { ...callSettings(spec, access), model };
  const request: Request = {
    ...shared,
    instructions: spec.system ?? defaultSystem,
    ...(tools.size === 0 ? {} : { tools: toolSet(ai, tools) }),
    stopWhen: ai.isStepCount(1),
    abortSignal: context.signal,
  };
  const conversation = new Conversation({
    ask: (messages) => ai.generateText({ ...request, messages }),
    context,
    tools,
    maxSteps: spec.maxSteps,
    images: takesImages(access),
  });
  let sampled = 0;
  return {
    conversation,
    sample: async (params, signal) => {
      const asked = readSampling(params);
      sampled += 1;
      if (sampled > mostSampled) throw askedTooOften();
      const maxOutputTokens = fewest(asked.maxOutputTokens, spec.maxOutputTokens);
      const settings = { ...shared, ...asked, ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }) };
      using end = abortWithAny([signal, context.signal]);
      try {
        const answer = await ai.generateText({ ...settings, abortSignal: end.signal });
        return samplingResult(answer, access.model);
      } catch (error) {
        if (!end.signal.aborted) broken.abort(error);
        throw error;
      }
    },
  };
}

async function agentModel(
  access: ModelAccess,
  { modelMs: requestTimeoutMs, retry }: ModelAgentOptions,
  emit: Emit,
): Promise<LanguageModelV4> {
  return createRetryingModel(await resolveModel(access), {
    access,
    purpose: "agent",
    emit,
    requestTimeoutMs,
    ...(retry === undefined ? {} : { retry }),
  });
}

function fewest(...limits: readonly (number | undefined)[]): number | undefined {
  const given = limits.filter((limit) => limit !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}

/** Tools without `execute`: the conversation makes the calls, so that the SDK does not swallow their errors. */
function toolSet(
  ai: Awaited<ReturnType<typeof loadAiSdk>>,
  tools: ReadonlyMap<string, OfferedTool>,
): ToolSet {
  return Object.fromEntries(
    [...tools].map(([name, { definition }]) => [
      name,
      ai.dynamicTool({
        ...(definition.description === undefined ? {} : { description: definition.description }),
        inputSchema: ai.jsonSchema(completeSchema(definition.inputSchema)),
      }),
    ]),
  );
}

/** OpenAI refuses a schema without `type` or `properties`, which many servers leave out for tools without arguments. */
function completeSchema(schema: JsonObject): object {
  return { type: "object", properties: {}, ...schema };
}

/** OpenAI's chat format has only text in tool results; an image would be sent as megabytes of base64 text. */
function takesImages(access: ModelAccess): boolean {
  return access.wire !== "openai-chat" && access.wire !== "openai-compatible";
}

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

  /** Asks the model once and makes its calls; without calls, returns how the turn ended. */
  async #step(turn: number): Promise<TurnEnd | undefined> {
    const { ask, context } = this.#options;
    context.signal.throwIfAborted();
    const answer = await ask(this.#messages);
    if (answer.rawFinishReason === "error")
      throw new McpvalsError("model/invalid-response", "the model's response ended with an error");
    if (answer.text.trim() !== "") context.emit({ type: "agent.message", turn, text: answer.text });
    for (const message of answer.responseMessages)
      if (message.role === "assistant") this.#messages.push(message);
    if (answer.toolCalls.length === 0) return cutOffEnds[answer.finishReason] ?? "done";
    this.#messages.push({ role: "tool", content: await this.#callAll(answer) });
    return undefined;
  }

  /** Makes the calls of one response concurrently, as agents do; the first that throws ends the others. */
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

/** The parameters of a server's request for sampling. */
export type SamplingRequest = Pick<
  Parameters<typeof generateText<ToolSet>>[0],
  "maxOutputTokens" | "temperature" | "stopSequences"
> & { readonly instructions?: string; readonly messages: ModelMessage[] };

/** A refusal that the server gets as a JSON-RPC error. */
class SamplingRefusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.name = "SamplingRefusal";
    this.code = code;
  }
}

const invalidParams = -32_602;
/** Errors that the client defines; the specification's own example for a refused sampling is -1. */
const refused = -1;

/** The refusal of sampling while no agent turn is active. */
export function nobodyActs(): SamplingRefusal {
  return new SamplingRefusal(refused, "the agent does not act now, so its model cannot be asked");
}

/** How often servers may ask the model in one trial: each time costs what a request to a model costs. */
export const mostSampled = 1000;

/** The refusal when servers have asked {@link mostSampled} times. */
export function askedTooOften(): SamplingRefusal {
  return new SamplingRefusal(refused, `the model may be asked ${mostSampled} times in one trial`);
}

/**
 * Reads the params of `sampling/createMessage`. Preferences for models and requests for context are not heeded: the
 * specification leaves both to the client. Throws a refusal, with a code for the server, for a request without messages, or with tools,
 * which this client does not declare.
 */
export function readSampling(params: JsonObject): SamplingRequest {
  const { tools, messages, systemPrompt, maxTokens, temperature, stopSequences } = params;
  if (Array.isArray(tools) && tools.length > 0)
    throw new SamplingRefusal(
      invalidParams,
      "this client does not declare sampling.tools: ask without tools",
    );
  const said = Array.isArray(messages) ? messages.filter(isJsonObject).map(messageOf) : [];
  if (said.length === 0) throw new SamplingRefusal(invalidParams, "there are no messages to answer");
  return {
    messages: said,
    ...(typeof systemPrompt === "string" ? { instructions: systemPrompt } : {}),
    ...(typeof maxTokens === "number" ? { maxOutputTokens: maxTokens } : {}),
    ...(typeof temperature === "number" ? { temperature } : {}),
    ...(Array.isArray(stopSequences) ? { stopSequences: stopSequences.filter(isText) } : {}),
  };
}

/** The result of `sampling/createMessage`. */
export function samplingResult(
  { text, finishReason }: { readonly text: string; readonly finishReason: FinishReason },
  model: string,
): JsonObject {
  return {
    role: "assistant",
    content: { type: "text", text },
    model,
    stopReason: stopReasons[finishReason] ?? finishReason,
  };
}

const stopReasons: Readonly<Partial<Record<FinishReason, string>>> = { stop: "endTurn", length: "maxTokens" };

function messageOf({ role, content }: JsonObject): ModelMessage {
  const blocks = (Array.isArray(content) ? (content as readonly Json[]) : [content ?? ""]).filter(
    isJsonObject,
  );
  if (role === "assistant") return { role, content: blocks.map(describeBlock).join("\n") || "(nothing)" };
  return {
    role: "user",
    content: blocks.map(
      (block) => passableImage(block) ?? { type: "text", text: describeBlock(block) || "(nothing)" },
    ),
  };
}

function isText(value: Json): value is string {
  return typeof value === "string";
}
