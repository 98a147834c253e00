import { buildServer, type CompleteStdio } from "./build-server.ts";
import { buildTasks } from "./build-tasks.ts";
import { type AgentChoice, chooseAgents, defaultAgent } from "./config-agents.ts";
import type { ParsedConfig } from "./config-schema.ts";
import { inlineAgentName } from "./config-view.ts";
import type { AgentSpec, Eval, JudgeSpec, ModelAgentSpec } from "../model.ts";
import type { Locate } from "../problem.ts";
import { withoutUndefined } from "../without-undefined.ts";

type ParsedAgent = ParsedConfig["agents"][string];

export interface BuildOptions {
  /** The eval's name unless the config has one. */
  readonly defaultName: string;
  /** Overrides `llmJudge`. */
  readonly judge?: boolean;
  /** Model that judges, whatever the config says. */
  readonly judgeModel?: string;
  /** Agents, or model ids, instead of the config's choice. */
  readonly agents?: readonly string[];
  readonly completeStdio: CompleteStdio;
  readonly locate: Locate;
}

/** Turns a valid config into the model that every format parses to. */
export function buildEval(config: ParsedConfig, options: BuildOptions): Eval {
  const declared = config.server === undefined ? (config.servers ?? {}) : { default: config.server };
  const starting = { completeStdio: options.completeStdio, startupTimeoutMs: config.timeout };
  const servers = Object.fromEntries(
    Object.entries(declared).map(([name, server]) => [name, buildServer(name, server, starting)]),
  );
  const judged = options.judge ?? (config.llmJudge || options.judgeModel !== undefined);
  const stepsOnly = !judged && config.judge !== undefined && config.tasks.length > 0;
  return withoutUndefined({
    name: config.name ?? options.defaultName,
    servers,
    agents: buildAgents(config, options.agents),
    tasks: buildTasks(config, { servers: Object.keys(servers), locate: options.locate }),
    judge: judged || stepsOnly ? buildJudge(config, options.judgeModel) : undefined,
    judgesStepsOnly: stepsOnly ? (true as const) : undefined,
    trials: config.trials,
    concurrency: config.concurrency,
    limits: { trialMs: config.limits.trial, callMs: config.timeout, modelMs: config.limits.modelCall },
    reporters: config.reporters,
  });
}

function buildAgents(config: ParsedConfig, requested: readonly string[] | undefined): AgentSpec[] {
  const { agent, agents } = config;
  const inline = inlineAgentName(agent);
  const choices = chooseAgents(
    withoutUndefined({
      declared: Object.keys(agents),
      named: typeof agent === "string" ? agent : undefined,
      inline,
      requested,
    }),
  );
  return choices.map((choice) => buildChoice(choice, config, inline));
}

function buildChoice(choice: AgentChoice, config: ParsedConfig, inline: string | undefined): AgentSpec {
  switch (choice.kind) {
    case "inline":
      return buildAgent(inline ?? "", config.agent ?? defaultAgent.model);
    case "declared":
      return buildAgent(choice.name, config.agents[choice.name] ?? choice.name);
    case "model":
      return buildAgent(choice.model, choice.model);
    case "builtin":
      return { type: choice.name, name: choice.name };
    case "unknown":
      return buildAgent(choice.name, choice.name);
    case "default":
      return buildAgent(defaultAgent.name, defaultAgent.model);
  }
}

const defaultMaxSteps = 20;

/** An agent of which nothing is known but its model. */
export function modelAgent(name: string, model: string): ModelAgentSpec {
  return { type: "model", name, model, maxSteps: defaultMaxSteps };
}

/** Builds one agent of a config. */
export function buildAgent(name: string, agent: ParsedAgent): AgentSpec {
  if (typeof agent === "string") return modelAgent(name, agent);
  if (agent.type !== "scripted") {
    const spec: ModelAgentSpec = withoutUndefined({ ...agent, type: "model" as const, name });
    return spec;
  }
  const plan = Object.entries(agent.plan).map(
    ([workflow, actions]) => [workflow, actions.map(withoutUndefined)] as const,
  );
  return { type: "scripted", name, plan: Object.fromEntries(plan) };
}

/** What a config says of one model says nothing of another, so a model from outside takes only the threshold. */
function buildJudge(config: ParsedConfig, override: string | undefined): JudgeSpec {
  const { judgeModel, openaiKey } = config;
  const judge = override === undefined ? config.judge : undefined;
  const named = override ?? judge?.model ?? judgeModel;
  const model = judge !== undefined || named.includes("/") ? named : `openai/${named}`;
  const isOpenAI = model.startsWith("openai/") && judge?.baseURL === undefined;
  return withoutUndefined({
    ...judge,
    model,
    apiKey: judge?.apiKey ?? (isOpenAI ? openaiKey : undefined),
    passThreshold: config.judge?.passThreshold ?? config.passThreshold,
  });
}
