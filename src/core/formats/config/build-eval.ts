import { type KeyPath, withoutUndefined } from "../json.ts";
import type { Eval, JudgeSpec, ServerSpec, Task, Variant } from "../model.ts";
import type { Locate } from "../problem.ts";
import type { McpExpectation, McpStep } from "../step.ts";
import { type AgentChoice, buildAgents, type CompleteProgram } from "./agent.ts";
import { buildServer, type BuildServer, buildServers, type CompleteStdio } from "./server.ts";
import { testTitles } from "./check-config.ts";
import type { ParsedConfig } from "./config-schema.ts";
import type { ConfigServers, ProvidedServers, VariantTable } from "./server-tables.ts";

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
export function buildEval(
  config: ParsedConfig,
  {
    provided,
    chosen,
    judged,
  }: {
    readonly provided: ProvidedServers;
    /** The agents that run. */
    readonly chosen: readonly AgentChoice[];
    /** Whether a judge looks at every workflow. */
    readonly judged: boolean;
  },
  options: BuildOptions,
): Eval {
  const { base, variants, build } = provided;
  const servers = buildServers(base.servers, build);
  const { tasks, serversOf } = buildTasks(config, { servers: Object.keys(servers), locate: options.locate });
  const stepsOnly = !judged && config.judge !== undefined && config.tasks.length > 0;
  return withoutUndefined({
    name: config.name ?? options.defaultName,
    servers,
    agents: buildAgents(chosen, options.completeProgram),
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

type Workflow = ParsedConfig["workflows"][number];
type Suite = ParsedConfig["toolHealthSuites"][number];
type ToolTest = Suite["tests"][number];

interface Context {
  /** Names of the config's servers. */
  readonly servers: readonly string[];
  readonly locate: Locate;
  /** The config's time limit for a call. */
  readonly timeoutMs: number;
}

export interface BuiltTasks {
  readonly tasks: readonly Task[];
  /** Servers by the tasks that name them; other tasks have all servers. */
  readonly serversOf: ReadonlyMap<string, readonly string[]>;
}

/**
 * Makes a task of every workflow and of every tool test, tool tests first: whether tools work comes before
 * whether an agent can work with them.
 */
function buildTasks(config: ParsedConfig, context: Pick<Context, "servers" | "locate">): BuiltTasks {
  const full = { ...context, timeoutMs: config.timeout };
  const tests = config.toolHealthSuites.flatMap((suite, index) =>
    suiteTasks(suite, ["toolHealthSuites", index], full),
  );
  const workflows = config.workflows.map((workflow, index) =>
    workflowTask(workflow, ["workflows", index], full),
  );
  const named = config.workflows.flatMap(({ name, servers }): (readonly [string, readonly string[]])[] =>
    servers === undefined ? [] : [[name, servers]],
  );
  const called = tests.flatMap(({ name, verify: [step] }): (readonly [string, readonly string[]])[] =>
    step?.type === "mcp" && step.server !== undefined ? [[name, [step.server]]] : [],
  );
  return { tasks: [...tests, ...workflows], serversOf: new Map([...called, ...named]) };
}

/** The tools that a workflow expects: its own list, or those of its steps joined when it has none. */
export function expectedTools(workflow: Workflow): readonly string[] {
  const own = workflow.expectTools ?? [];
  return own.length > 0 ? own : workflow.steps.flatMap((step) => step.expectTools ?? []);
}

function workflowTask(workflow: Workflow, path: KeyPath, context: Context): Task {
  return withoutUndefined({
    name: workflow.name,
    form: "workflow" as const,
    description: workflow.description,
    servers: workflow.servers ?? context.servers,
    turns: workflow.steps.map(({ user, expectedState, expectedError }) =>
      withoutUndefined({ user, expectedState, expectedError }),
    ),
    expectTools: expectedTools(workflow),
    verify: [],
    parallel: false,
    elicitation: workflow.elicitation?.map(withoutUndefined),
    location: context.locate({ path, at: "value" }),
  });
}

function suiteTasks(suite: Suite, path: KeyPath, context: Context): Task[] {
  const titles = testTitles(suite);
  return suite.tests.map((test, index): Task => {
    const server = test.server ?? suite.server ?? onlyOne(context.servers);
    const timeoutMs = test.timeout ?? suite.timeout ?? context.timeoutMs;
    return withoutUndefined({
      name: `${suite.name}/${titles[index] ?? test.name}`,
      form: "tool-test" as const,
      description: test.description,
      suite: suite.name,
      servers: server === undefined ? context.servers : [server],
      turns: [],
      expectTools: [],
      verify: [testStep(test, { server, timeoutMs })],
      parallel: suite.parallel,
      location: context.locate({ path: [...path, "tests", index], at: "value" }),
    });
  });
}

function onlyOne(servers: readonly string[]): string | undefined {
  return servers.length === 1 ? servers[0] : undefined;
}

function testStep(test: ToolTest, given: { server: string | undefined; timeoutMs: number }): McpStep {
  const expect: McpExpectation = withoutUndefined({
    result: test.expectedResult,
    error: test.expectedError,
    maxLatencyMs: test.maxLatency,
  });
  return withoutUndefined({
    type: "mcp" as const,
    id: "call",
    server: given.server,
    request: { kind: "tool" as const, tool: test.name, args: test.args },
    expect,
    timeoutMs: given.timeoutMs,
    retries: test.retries,
  });
}

export interface BuildVariantOptions {
  readonly tasks: readonly Task[];
  /** Servers by the tasks that name them; other tasks have all servers. */
  readonly serversOf: ReadonlyMap<string, readonly string[]>;
  readonly build: BuildServer;
}

/** A variant with the servers of each task: those that the task names and the variant has. */
function buildVariant(
  { name, servers }: VariantTable,
  { tasks, serversOf, build }: BuildVariantOptions,
): Variant {
  const built = Object.entries(buildServers(servers, build));
  const tables = tasks.map((task): readonly [string, Readonly<Record<string, ServerSpec>>] => {
    const named = serversOf.get(task.name);
    return [task.name, Object.fromEntries(built.filter(([server]) => named?.includes(server) !== false))];
  });
  return { name, servers: Object.fromEntries(tables) };
}
