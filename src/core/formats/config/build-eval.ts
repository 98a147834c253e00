import { buildAgent, type CompleteProgram, modelAgent, presetAgent } from "./build-agent.ts";
import { buildServer, type BuildServer, buildServers, type CompleteStdio } from "./build-server.ts";
import { buildTasks } from "./build-tasks.ts";
import { buildVariant } from "./build-variant.ts";
import { type AgentChoice, chooseAgents, defaultAgent } from "./config-agents.ts";
import type { ConfigServers } from "./config-servers.ts";
import type { ParsedConfig } from "./config-schema.ts";
import { inlineAgentName } from "./config-view.ts";
import type { ProvidedServers } from "./provided-servers.ts";
import type { AgentSpec, Eval, JudgeSpec } from "../model.ts";
import type { Locate } from "../problem.ts";
import { withoutUndefined } from "../without-undefined.ts";

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
  readonly completeProgram: CompleteProgram;
  /** Makes the path of a file absolute. Default: it is left as written. */
  readonly resolvePath?: (path: string) => string;
  readonly locate: Locate;
}

/** What a config gives to tasks in files of their own. */
export function providedServers(
  config: ParsedConfig,
  { variants, ...base }: ConfigServers,
  { completeStdio, resolvePath }: BuildOptions,
): ProvidedServers {
  const lifetime = config.serverLifetime ?? config.mcp_server_lifetime;
  const starting = { completeStdio, startupTimeoutMs: config.timeout, lifetime, resolvePath };
  const build: BuildServer = (name, server) => buildServer(name, server, starting);
  return withoutUndefined({ base, variants, build, lifetime });
}

/** Turns a valid config into the model that every format parses to. */
export function buildEval(config: ParsedConfig, provided: ProvidedServers, options: BuildOptions): Eval {
  const { base, variants, build } = provided;
  const servers = buildServers(base.servers, build);
  const { tasks, serversOf } = buildTasks(config, { servers: Object.keys(servers), locate: options.locate });
  const judged = options.judge ?? (config.llmJudge || options.judgeModel !== undefined);
  const stepsOnly = !judged && config.judge !== undefined && config.tasks.length > 0;
  return withoutUndefined({
    name: config.name ?? options.defaultName,
    servers,
    agents: buildAgents(config, options),
    tasks,
    judge: judged || stepsOnly ? buildJudge(config, options.judgeModel) : undefined,
    judgesStepsOnly: stepsOnly ? (true as const) : undefined,
    trials: config.trials,
    concurrency: config.concurrency,
    limits: { trialMs: config.limits.trial, callMs: config.timeout, modelMs: config.limits.modelCall },
    reporters: config.reporters,
    variants: variants?.map((variant) => buildVariant(variant, { tasks, serversOf, build })),
    seed: config.seed,
  });
}

function buildAgents(
  config: ParsedConfig,
  { agents: requested, completeProgram }: BuildOptions,
): AgentSpec[] {
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
  return choices.map((choice) => buildChoice(choice, config, { inline, completeProgram }));
}

interface ChoiceOptions extends Pick<BuildOptions, "completeProgram"> {
  /** Name of the agent that is written out in `agent`. */
  readonly inline: string | undefined;
}

function buildChoice(
  choice: AgentChoice,
  config: ParsedConfig,
  { inline, completeProgram }: ChoiceOptions,
): AgentSpec {
  switch (choice.kind) {
    case "inline":
      return buildAgent(inline ?? "", config.agent ?? defaultAgent.model, completeProgram);
    case "declared":
      return buildAgent(choice.name, config.agents[choice.name] ?? choice.name, completeProgram);
    case "model":
      return modelAgent(choice.model, choice.model);
    case "preset":
      return presetAgent(choice.name, completeProgram);
    case "builtin":
      return { type: choice.name, name: choice.name };
    case "unknown":
      return modelAgent(choice.name, choice.name);
    case "default":
      return modelAgent(defaultAgent.name, defaultAgent.model);
  }
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
