import { buildTasks } from "./build-tasks.ts";
import { type AgentChoice, chooseAgents, defaultAgent } from "./config-agents.ts";
import type { ParsedConfig } from "./config-schema.ts";
import { inlineAgentName } from "./config-view.ts";
import type { AgentSpec, Eval, JudgeSpec, ModelAgentSpec, ServerSpec, StdioServerSpec } from "../model.ts";
import type { Locate } from "../problem.ts";
import { withoutUndefined } from "../without-undefined.ts";

type ParsedServer = NonNullable<ParsedConfig["server"]>;
type ParsedAgent = ParsedConfig["agents"][string];

/** A local server as the config gives it. */
export type ParsedStdioServer = Extract<ParsedServer, { transport: "stdio" }>;

/** What the world adds to a local server: where it starts, and in which environment. */
type CompleteStdio = (server: ParsedStdioServer, name: string) => Pick<StdioServerSpec, "cwd" | "env">;

export interface BuildOptions {
  /** The eval's name unless the config has one. */
  readonly defaultName: string;
  /** Overrides `llmJudge`. */
  readonly judge?: boolean;
  /** Agents, or model ids, instead of the config's choice. */
  readonly agents?: readonly string[];
  readonly completeStdio: CompleteStdio;
  readonly locate: Locate;
}

/** Turns a valid config into the model that every format parses to. */
export function buildEval(config: ParsedConfig, options: BuildOptions): Eval {
  const declared = config.server === undefined ? (config.servers ?? {}) : { default: config.server };
  const servers = Object.fromEntries(
    Object.entries(declared).map(([name, server]) => [name, buildServer(name, server, { config, options })]),
  );
  const judged = options.judge ?? config.llmJudge;
  return withoutUndefined({
    name: config.name ?? options.defaultName,
    servers,
    agents: buildAgents(config, options.agents),
    tasks: buildTasks(config, { servers: Object.keys(servers), locate: options.locate }),
    judge: judged ? buildJudge(config) : undefined,
    trials: config.trials,
    concurrency: config.concurrency,
    limits: { trialMs: config.limits.trial, callMs: config.timeout, modelMs: config.limits.modelCall },
    reporters: config.reporters,
  });
}

function buildServer(
  name: string,
  server: ParsedServer,
  { config, options }: { readonly config: ParsedConfig; readonly options: BuildOptions },
): ServerSpec {
  const common = {
    startupTimeoutMs: server.startupTimeout ?? config.timeout,
    maxMessageBytes: server.maxMessageBytes,
  };
  if (server.transport !== "stdio") {
    return { transport: server.transport, url: server.url, headers: server.headers, ...common };
  }
  const { command, args } = server;
  return { transport: "stdio", command, args, ...options.completeStdio(server, name), ...common };
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
    case "unknown":
      return buildAgent(choice.name, choice.name);
    case "default":
      return buildAgent(defaultAgent.name, defaultAgent.model);
  }
}

const defaultMaxSteps = 20;

function buildAgent(name: string, agent: ParsedAgent): AgentSpec {
  if (typeof agent === "string") return { type: "model", name, model: agent, maxSteps: defaultMaxSteps };
  if (agent.type !== "scripted") {
    const spec: ModelAgentSpec = withoutUndefined({ ...agent, type: "model" as const, name });
    return spec;
  }
  const plan = Object.entries(agent.plan).map(
    ([workflow, actions]) => [workflow, actions.map(withoutUndefined)] as const,
  );
  return { type: "scripted", name, plan: Object.fromEntries(plan) };
}

function buildJudge(config: ParsedConfig): JudgeSpec {
  const { judge, judgeModel, openaiKey } = config;
  const model = judge?.model ?? (judgeModel.includes("/") ? judgeModel : `openai/${judgeModel}`);
  const isOpenAI = model.startsWith("openai/") && judge?.baseURL === undefined;
  return withoutUndefined({
    ...judge,
    model,
    apiKey: judge?.apiKey ?? (isOpenAI ? openaiKey : undefined),
    passThreshold: judge?.passThreshold ?? config.passThreshold,
  });
}
