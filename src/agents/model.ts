import type { generateText, ToolSet } from "ai";
import type { JsonObject, ModelAgentSpec } from "../core/formats/model.ts";
import { callSettings } from "../models/call-settings.ts";
import type { Environment } from "../models/language-model.ts";
import { loadAiSdk } from "../models/load-ai-sdk.ts";
import { locateModel, type ModelAccess } from "../models/locate-model.ts";
import { resolveModel } from "../models/resolve-model.ts";
import { createRetryingModel, type RetrySettings } from "../models/retrying-model.ts";
import { Conversation } from "./conversation.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { type OfferedTool, offeredTools } from "./offered-tools.ts";

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
 * are recorded as rejected and told to the model as errors.
 *
 * `prepare` throws `model/unknown-provider`, `model/no-key` or `config/invalid-value`; `run` throws these, the final
 * errors of the model (`model/unreachable`, `model/rejected`, `model/invalid-response`), what the sessions throw, and
 * the signal's reason.
 */
export function createModelAgent(spec: ModelAgentSpec, options: ModelAgentOptions): AgentDriver {
  return {
    reach: "sessions",
    prepare: async () => {
      locateModel(spec, options.env);
    },
    run: async (context) => {
      context.signal.throwIfAborted();
      const conversation = await startConversation(spec, options, context);
      context.emit({ type: "agent.started", agent: spec.name, kind: "model", model: spec.model });
      for (const [turn, { user }] of context.turns.entries()) await conversation.playTurn(turn, user);
    },
  };
}

type Request = Omit<Parameters<typeof generateText<ToolSet>>[0], "messages" | "prompt">;

async function startConversation(
  spec: ModelAgentSpec,
  options: ModelAgentOptions,
  context: AgentContext,
): Promise<Conversation> {
  const access = locateModel(spec, options.env);
  const ai = await loadAiSdk();
  const tools = offeredTools(context.sessions);
  const model = await createRetryingModel(await resolveModel(access), {
    access,
    purpose: "agent",
    emit: context.emit,
    requestTimeoutMs: options.modelMs,
    ...(options.retry === undefined ? {} : { retry: options.retry }),
  });
  const request: Request = {
    ...callSettings(spec, access),
    model,
    instructions: spec.system ?? defaultSystem,
    ...(tools.size === 0 ? {} : { tools: toolSet(ai, tools) }),
    stopWhen: ai.isStepCount(1),
    abortSignal: context.signal,
  };
  return new Conversation({
    ask: (messages) => ai.generateText({ ...request, messages }),
    context,
    tools,
    maxSteps: spec.maxSteps,
    images: takesImages(access),
  });
}

/** Tools without `execute`: the conversation makes the calls, so that nothing that a call throws is swallowed. */
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
