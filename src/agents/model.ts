import type { generateText, ToolSet } from "ai";
import type { JsonObject, ModelAgentSpec } from "../core/formats/model.ts";
import type { Emit } from "../core/trace/events.ts";
import { callSettings } from "../models/call-settings.ts";
import type { Environment, LanguageModelV4 } from "../models/language-model.ts";
import { loadAiSdk } from "../models/load-ai-sdk.ts";
import { locateModel, type ModelAccess } from "../models/locate-model.ts";
import { resolveModel } from "../models/resolve-model.ts";
import { createRetryingModel, type RetrySettings } from "../models/retrying-model.ts";
import { abortWithAny } from "../process/deadline.ts";
import { answersOf, writtenAnswers } from "./client-side.ts";
import { Conversation } from "./conversation.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { type OfferedTool, offeredTools } from "./offered-tools.ts";
import { askedTooOften, mostSampled, nobodyActs, readSampling, samplingResult } from "./sampling.ts";

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
      // A user is there all the time, even if there is nothing that this one agrees to.
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
  /** Aborted when the model could not be asked for a server: whatever the server makes of it proves nothing. */
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
