import type { FinishReason, generateText, ModelMessage, ToolModelMessage, ToolSet } from "ai";
import { McpvalsError } from "../base/error.ts";
import { isJsonObject, withoutUndefined, type Json, type JsonObject } from "../base/json.ts";
import { previewJson } from "../base/read-json.ts";
import type { ModelAgentSpec } from "../model/agent.ts";
import type { TurnEnd } from "../model/event.ts";
import type { SharedLimits } from "../process/adaptive-limit.ts";
import type { Environment, ModelAccess } from "./models/model-access.ts";
import { locateModel, resolveModel } from "./models/resolve-model.ts";
import {
  callSettings,
  createRetryingModel,
  loadAiSdk,
  repeatedKeyOf,
  type RetrySettings,
} from "./models/retrying-model.ts";
import { abortWithAny } from "../process/deadline.ts";
import type { ServerSession } from "../servers/client/session.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { describeBlock, type OfferedTool, offeredTools, passableImage, toolOutput } from "./offered-tools.ts";
import { answersOf, writtenAnswers } from "./scripted.ts";
import { errorCodes } from "../model/error-codes.ts";

export interface ModelAgentOptions {
  readonly env: Environment;
  /** Longest that one request to the model may take, in milliseconds. */
  readonly modelMs: number;
  readonly retry?: RetrySettings;
  /** Of the run; absent: requests are sent whatever others wait for. */
  readonly accounts?: SharedLimits;
}

const defaultSystem =
  "You are an assistant with tools. Use them when they are needed to do what the user asks, and base your answer on " +
  "what they return. When you are done, answer the user briefly.";

/**
 * Creates an agent that is a loop around a language model: it gets the user's turns one after the other in one
 * conversation, calls the tools of all sessions, and sees their results, until it answers without calling any or has
 * been asked `maxSteps` times in a turn. Calls of tools that do not exist or with arguments that are not a JSON object, or have a key
 * twice, are recorded as rejected and reported to the model as errors. Its system prompt ends with the servers' `instructions`. With built-in tools it reads the servers' resources and
 * prompts. While it acts, servers can ask its model (sampling), with a context of its own; and the user at any time.
 *
 * `prepare` throws `model/unknown-provider`, `model/no-key` or `config/invalid-value`; `run` throws these, the final
 * errors of the model (`model/unreachable`, `model/rejected`, `model/invalid-response`), what the sessions throw, and
 * the signal's reason.
 */
export function createModelAgent(spec: ModelAgentSpec, options: ModelAgentOptions): AgentDriver {
  let current: Conversation | undefined;
  return {
    reach: "sessions",
    clientSide: (context) => ({
      ...writtenAnswers(context),
      // Elicitation is always supported, even if the task accepts nothing.
      elicitation: answersOf(context.elicitation),
      sampling: async (params, signal) => {
        if (current === undefined)
          throw new SamplingRefusal(refused, "the agent does not act now, so its model cannot be asked");
        return current.sample(params, signal);
      },
    }),
    prepare: async () => {
      locateModel(spec, options.env);
    },
    run: async (context) => {
      context.signal.throwIfAborted();
      // Aborts when a server's request for sampling could not reach the model: the server's reaction proves nothing.
      const broken = new AbortController();
      using end = abortWithAny([context.signal, broken.signal]);
      const conversation = await createConversation(
        spec,
        options,
        { ...context, signal: end.signal },
        broken,
      );
      try {
        current = conversation;
        const instructions = instructing(context.sessions).map(({ name }) => name);
        context.emit({
          type: "agent.started",
          agent: spec.name,
          kind: "model",
          model: spec.model,
          ...(instructions.length === 0 ? {} : { instructions }),
        });
        let turn = 0;
        for await (const { user } of context.turns) {
          await conversation.playTurn(turn, user);
          turn += 1;
        }
        end.signal.throwIfAborted();
      } finally {
        current = undefined;
      }
    },
  };
}

type Request = Omit<Parameters<typeof generateText<ToolSet>>[0], "messages" | "prompt">;
/** The model's answer to one request. */
type Answer = Awaited<ReturnType<typeof generateText<ToolSet>>>;
type ToolCall = Answer["toolCalls"][number];
type ToolResult = Extract<ToolModelMessage["content"][number], { type: "tool-result" }>;

async function createConversation(
  spec: ModelAgentSpec,
  { env, modelMs, retry, accounts }: ModelAgentOptions,
  context: AgentContext,
  broken: AbortController,
): Promise<Conversation> {
  const access = locateModel(spec, env);
  const ai = await loadAiSdk();
  const model = await createRetryingModel(await resolveModel(access), {
    access,
    purpose: "agent",
    emit: context.emit,
    // The AI SDK reads a stream of Bedrock in a format of its own, of which texts could not be checked.
    stream: spec.stream !== false && access.wire !== "bedrock",
    requestTimeoutMs: modelMs,
    hold: context.hold,
    ...withoutUndefined({ retry, accounts }),
  });
  return new Conversation({
    ai,
    access,
    shared: { ...callSettings(spec, access), model },
    own: {
      instructions: systemPrompt(spec, context.sessions),
      stopWhen: ai.isStepCount(1),
    },
    spec,
    context,
    broken,
  });
}

/** Servers that say how they are to be used. */
function instructing(sessions: readonly ServerSession[]): readonly ServerSession[] {
  return sessions.filter(({ instructions = "" }) => instructions.trim() !== "");
}

/** The agent's system prompt, and after it the instructions of servers, each with its name. They stay as they are for the whole conversation. */
function systemPrompt(
  { system = defaultSystem }: ModelAgentSpec,
  sessions: readonly ServerSession[],
): string {
  const given = instructing(sessions);
  if (given.length === 0) return system;
  const heading =
    "# Instructions of MCP servers\n\nThe servers say this about the use of their tools and resources:";
  return [
    ...(system.trim() === "" ? [] : [system]),
    heading,
    ...given.map(({ name, instructions = "" }) => `## ${name}\n\n${instructions.trim()}`),
  ].join("\n\n");
}

interface ConversationOptions {
  readonly ai: Awaited<ReturnType<typeof loadAiSdk>>;
  readonly access: ModelAccess;
  readonly shared: Request;
  /** The settings of the agent's own requests only. */
  readonly own: Partial<Request>;
  readonly spec: ModelAgentSpec;
  readonly context: AgentContext;
  readonly broken: AbortController;
}

/** How a turn ends when something cut off the model's last answer. */
const cutOffEnds: Readonly<Partial<Record<FinishReason, TurnEnd>>> = {
  length: "max-tokens",
  "content-filter": "refused",
};

/** A conversation that is too long for the agent's model is the agent's failure; all other errors are thrown again. */
function refuseUnlessOverflow(error: unknown): undefined {
  if (!(error instanceof McpvalsError) || error.code !== "model/context-overflow") throw error;
}

/** The specification's names of reasons why a model stopped. */
const stopReasons: Readonly<Partial<Record<FinishReason, string>>> = { stop: "endTurn", length: "maxTokens" };

/** The agent of one trial while it acts: all messages between user, model and tools. */
class Conversation {
  readonly #messages: ModelMessage[] = [];
  readonly #options: ConversationOptions;
  #tools: ReadonlyMap<string, OfferedTool>;
  #sampled = 0;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#tools = this.#offeredTools();
  }

  /** Plays one user turn; throws what asking the model and calling the tools throw. */
  async playTurn(turn: number, user: string): Promise<void> {
    const { context, spec } = this.#options;
    context.emit({ type: "turn.started", turn, user });
    this.#messages.push({ role: "user", content: user });
    let end: TurnEnd | undefined;
    for (let step = 0; end === undefined && step < spec.maxSteps; step += 1) end = await this.#step(turn);
    context.emit({ type: "turn.finished", turn, reason: end ?? "max-steps" });
  }

  /** Answers `sampling/createMessage`. Throws refusals, and what asking the model throws. */
  async sample(params: JsonObject, signal: AbortSignal): Promise<JsonObject> {
    const { ai, access, shared, spec, context, broken } = this.#options;
    const asked = readSampling(params);
    this.#sampled += 1;
    if (this.#sampled > maxSampled)
      throw new SamplingRefusal(refused, `the model may be asked ${maxSampled} times in one trial`);
    const limits = [asked.maxOutputTokens, spec.maxOutputTokens].filter((limit) => limit !== undefined);
    const limit = limits.length === 0 ? {} : { maxOutputTokens: Math.min(...limits) };
    using end = abortWithAny([signal, context.signal]);
    try {
      const request = { ...shared, ...asked, ...limit, abortSignal: end.signal };
      const { text, finishReason } = await ai.generateText(request);
      const stopReason = stopReasons[finishReason] ?? finishReason;
      return { role: "assistant", content: { type: "text", text }, model: access.model, stopReason };
    } catch (error) {
      if (!end.signal.aborted) broken.abort(error);
      throw error;
    }
  }

  #offeredTools(): ReadonlyMap<string, OfferedTool> {
    const { context, spec } = this.#options;
    return offeredTools(context.sessions, { resources: spec.resources !== false });
  }

  /** Lists the tools again of servers that said that they changed. Where that fails, the model keeps those that it had. */
  async #listAgain(): Promise<void> {
    const { sessions, callTimeoutMs: timeoutMs, signal } = this.#options.context;
    const changed = sessions.filter(({ toolsMayDiffer }) => toolsMayDiffer);
    if (changed.length === 0) return;
    await Promise.allSettled(changed.map((session) => session.listTools({ timeoutMs, signal })));
    this.#tools = this.#offeredTools();
  }

  /** Tools without `execute`: the conversation makes the calls, so that the SDK does not swallow their errors. */
  #toolSet(): Partial<Request> {
    const { ai } = this.#options;
    const tools = [...this.#tools].map(([name, { definition }]) => [
      name,
      ai.dynamicTool({
        ...withoutUndefined({ description: definition.description }),
        // OpenAI refuses a schema without `type` or `properties`, which many servers leave out for tools without arguments.
        inputSchema: ai.jsonSchema({ type: "object", properties: {}, ...definition.inputSchema }),
      }),
    ]);
    return tools.length === 0 ? {} : { tools: Object.fromEntries(tools) as ToolSet };
  }

  /** Asks the model once and makes its calls; without calls, returns how the turn ended. */
  async #step(turn: number): Promise<TurnEnd | undefined> {
    const { ai, shared, own, context } = this.#options;
    context.signal.throwIfAborted();
    await this.#listAgain();
    const { signal } = context;
    const request = { ...shared, ...own, ...this.#toolSet(), abortSignal: signal, messages: this.#messages };
    const answer = await ai.generateText(request).catch(refuseUnlessOverflow);
    if (answer === undefined) return "context-overflow";
    if (answer.rawFinishReason === "error")
      throw new McpvalsError("model/invalid-response", "the model's response ended with an error");
    if (answer.text.trim() !== "") context.emit({ type: "agent.message", turn, text: answer.text });
    this.#messages.push(...answer.responseMessages.filter(({ role }) => role === "assistant"));
    if (answer.toolCalls.length === 0) return cutOffEnds[answer.finishReason] ?? "done";
    this.#messages.push({ role: "tool", content: await this.#callAll(answer) });
    return undefined;
  }

  /** Makes the calls of one response concurrently, as agents do; the first that throws ends the others. */
  async #callAll({ toolCalls, finishReason }: Answer): Promise<ToolResult[]> {
    const failed = new AbortController();
    const signal = AbortSignal.any([this.#options.context.signal, failed.signal]);
    const settled = await Promise.allSettled(
      toolCalls.map(async (call) => {
        const { toolCallId, toolName } = call;
        try {
          const output = await this.#answerCall(call, finishReason, signal);
          return { type: "tool-result" as const, toolCallId, toolName, output };
        } catch (error) {
          failed.abort(error);
          throw error;
        }
      }),
    );
    failed.signal.throwIfAborted();
    return settled.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  }

  async #answerCall(
    call: ToolCall,
    finish: FinishReason,
    signal: AbortSignal,
  ): Promise<ToolResult["output"]> {
    const { access, context } = this.#options;
    const tool = this.#tools.get(call.toolName);
    let rejected = rejectionOf(call, finish, this.#tools);
    if (tool !== undefined && rejected === undefined) {
      const options = { timeoutMs: context.callTimeoutMs, signal, progress: true };
      const outcome = await tool.call(call.input as JsonObject, options);
      // OpenAI's chat format has only text in tool results; an image would be sent as megabytes of base64 text.
      const images = !["openai-chat", "azure-chat", "openai-compatible"].includes(access.wire);
      if (!("rejected" in outcome)) return toolOutput(outcome, { images });
      ({ rejected } = outcome);
    }
    const name = tool?.definition.name ?? call.toolName;
    const reason = rejected ?? "";
    context.emit({
      type: "tool.rejected",
      tool: name,
      args: call.input as Json,
      reason,
      ...(tool === undefined ? {} : { known: true }),
      ...(tool?.server === undefined || wasCutOff(finish) ? {} : { server: tool.server }),
    });
    return { type: "error-text", value: `Error: ${reason}` };
  }
}

/** Why a call cannot be made; undefined when it can. */
function rejectionOf(
  call: ToolCall,
  finish: FinishReason,
  tools: ReadonlyMap<string, OfferedTool>,
): string | undefined {
  const { toolName, input, invalid } = call;
  if (!tools.has(toolName)) {
    const names = [...tools.keys()].join(", ") || "none";
    return `there is no tool called ${JSON.stringify(toolName)}; the tools are: ${names}`;
  }
  if (wasCutOff(finish)) return `the answer with this call was cut off (${finish}), so it was not made`;
  if (invalid === true || !isJsonObject(input as Json))
    return "the arguments of this call are not a JSON object";
  const key = repeatedKeyOf(call);
  return key === undefined ? undefined : `the arguments of this call have the key ${previewJson(key)} twice`;
}

function wasCutOff(finish: FinishReason): boolean {
  return ["length", "content-filter", "error"].includes(finish);
}

/** A refusal that the server gets as a JSON-RPC error. */
class SamplingRefusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.name = "SamplingRefusal";
    this.code = code;
  }
}

/** Errors that the client defines; the specification's own example for a refused sampling is -1. */
const refused = -1;
/** How often servers may ask the model in one trial: each time costs what a request to a model costs. */
const maxSampled = 1000;

/**
 * Reads the params of `sampling/createMessage`. Preferences for models and requests for context are ignored: the
 * specification leaves both to the client. Throws a refusal for a request without messages, or with tools, which this client
 * does not declare.
 */
function readSampling(params: JsonObject): Pick<
  Request,
  "maxOutputTokens" | "temperature" | "stopSequences"
> & {
  readonly instructions?: string;
  readonly messages: ModelMessage[];
} {
  const { tools, messages, systemPrompt, maxTokens, temperature, stopSequences } = params;
  if (Array.isArray(tools) && tools.length > 0)
    throw new SamplingRefusal(
      errorCodes.invalidParams,
      "this client does not declare sampling.tools: ask without tools",
    );
  const read = Array.isArray(messages) ? messages.filter(isJsonObject).map(messageOf) : [];
  if (read.length === 0)
    throw new SamplingRefusal(errorCodes.invalidParams, "there are no messages to answer");
  const stops = (Array.isArray(stopSequences) ? stopSequences : []) as readonly Json[];
  return {
    messages: read,
    ...(typeof systemPrompt === "string" ? { instructions: systemPrompt } : {}),
    ...(typeof maxTokens === "number" ? { maxOutputTokens: maxTokens } : {}),
    ...(typeof temperature === "number" ? { temperature } : {}),
    ...(stops.length === 0 ? {} : { stopSequences: stops.filter((stop) => typeof stop === "string") }),
  };
}

function messageOf({ role, content }: JsonObject): ModelMessage {
  const written = (Array.isArray(content) ? content : [content ?? ""]) as readonly Json[];
  const blocks = written.filter(isJsonObject);
  if (role === "assistant") return { role, content: blocks.map(describeBlock).join("\n") || "(nothing)" };
  return {
    role: "user",
    content: blocks.map(
      (block) => passableImage(block) ?? { type: "text", text: describeBlock(block) || "(nothing)" },
    ),
  };
}
