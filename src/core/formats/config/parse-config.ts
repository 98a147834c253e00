import * as z from "zod";
import type { Diagnostic } from "../../errors/error.ts";
import {
  extensionPackageProblems,
  missingSandboxProblems,
  type ParsedExtensionTable,
} from "../extension/extension-table-schema.ts";
import { exact, formatKeyPath, type Json, type KeyPath, withoutUndefined } from "../json.ts";
import type { Eval, JudgeSpec, Task } from "../model.ts";
import { type Locate, mostProblems, placeProblems, type Problem, validate } from "../problem.ts";
import { echoedArguments, inexactNumbers, shortTexts, strayKeys } from "../weak-expectations.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { buildAgents, chooseAgents, type CompleteProgram, type DeclaredAgents } from "./agent.ts";
import { checkConfig, checkPlans, testTitles } from "./check-config.ts";
import { configSchema, type ParsedConfig } from "./config-schema.ts";
import type { Fixtures } from "./mock.ts";
import {
  buildServer,
  type BuildServer,
  buildServers,
  type CompleteStdio,
  type ParsedServer,
} from "./server.ts";
import {
  noServers,
  type ProvidedServers,
  readConfigServers,
  type ServerTable,
  withUsualTransports,
} from "./server-tables.ts";

export interface ParseConfigOptions {
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
  /** Texts as written, by formatted key path, of strings that variables went into; messages show these. */
  readonly templates?: ReadonlyMap<string, string>;
  /** Problems found before the document was parsed. */
  readonly earlier?: readonly Problem[];
  /** Reads a folder of fixtures of mocks. Absent: they are refused. */
  readonly readFixtures?: (path: string) => Fixtures;
  /** Servers from outside. */
  readonly provided?: ServerTable | undefined;
}

/** A config that fits its schema. */
export interface ConfigParts {
  /** Without the tasks from files. */
  readonly eval: Eval;
  readonly notes: readonly string[];
  /** Settings for tasks from files. */
  readonly taskFiles: TaskFilesOfConfig;
  /** The servers over which those of the tasks are merged. */
  readonly provided: ProvidedServers;
  readonly extensions: ParsedExtensionTable | undefined;
  readonly agents: DeclaredAgents;
}

export type ParsedEval =
  | ({ readonly ok: true } & ConfigParts)
  | {
      readonly ok: false;
      readonly diagnostics: readonly Diagnostic[];
      /** Present when only rules between its parts are broken. */
      readonly parts?: ConfigParts;
    };

export interface TaskFilesOfConfig {
  /** Paths and globs. */
  readonly patterns: readonly string[];
  /** Variables of the environment that their processes get. */
  readonly inheritEnv: readonly string[] | true;
}

/**
 * Checks a config document, with variables already replaced, and turns it into an eval. Gives all problems with the schema; when
 * there are none, all broken rules between the parts. They are in the order of the file when `locate` knows lines.
 */
export function parseConfig(given: Json, options: ParseConfigOptions): ParsedEval {
  const { earlier = [], templates = new Map(), readFixtures, locate, agents: requested = [] } = options;
  const { provided: outside = noServers, completeStdio, resolvePath } = options;
  const refusal = (problems: readonly Problem[]) =>
    ({ ok: false, diagnostics: placeProblems(problems.slice(0, mostProblems), locate) }) as const;

  const document = withUsualTransports(given);
  const { data, issues } = validate(configSchema, document);
  const servers = readConfigServers(document, { templates, readFixtures, provided: outside });
  const found = [
    ...problemsOfIssues(issues.slice(0, mostProblems), document, templates),
    ...servers.problems,
  ];
  const isKnown = ({ path }: Problem): boolean =>
    earlier.some(({ path: outer }) => formatKeyPath(path.slice(0, outer.length)) === formatKeyPath(outer));
  const wrong = [...earlier, ...found.filter((problem) => !isKnown(problem))];
  if (wrong.length > 0 || data === undefined) return refusal(wrong);

  const { variants, problems: _, ...base } = servers;
  const lifetime = data.serverLifetime ?? data.mcp_server_lifetime;
  const starting = { completeStdio, startupTimeoutMs: data.timeout, lifetime, resolvePath };
  const build: BuildServer = (name, server) => buildServer(name, server, starting);
  const provided = withoutUndefined({ base, variants, build, lifetime });
  const chosen = chooseAgents(data, requested);
  const judged = options.judge ?? (data.llmJudge || options.judgeModel !== undefined);
  const stepsOnly = !judged && data.judge !== undefined && data.tasks.length > 0;
  const built = buildServers(base.servers, build);
  const tasks = buildTasks(data, Object.keys(built), locate);
  const parts: ConfigParts = {
    eval: {
      name: data.name ?? options.defaultName,
      servers: built,
      agents: buildAgents(chosen, options.completeProgram),
      tasks: tasks.map(({ task }) => task),
      ...(judged || stepsOnly ? { judge: buildJudge(data, options.judgeModel) } : {}),
      ...(stepsOnly ? { judgesStepsOnly: true } : {}),
      trials: data.trials,
      ...exact({ concurrency: data.concurrency, seed: data.seed }),
      limits: { trialMs: data.limits.trial, callMs: data.timeout, modelMs: data.limits.modelCall },
      reporters: data.reporters,
      ...(variants === undefined
        ? {}
        : {
            variants: variants.map(({ name, servers: own }) => ({
              name,
              servers: serversOfTasks(tasks, buildServers(own, build)),
            })),
          }),
    },
    notes: configNotes(data, judged, servers.servers),
    taskFiles: { patterns: data.tasks, inheritEnv: data.inheritEnv },
    provided,
    extensions: data.extensions,
    agents: { agent: data.agent, agents: data.agents },
  };
  const hasProvided = Object.keys(outside.written).length > 0;
  const broken = [
    ...extensionPackageProblems(data.extensions, ["extensions"]),
    ...missingSandboxProblems(data.extensions, ["extensions"]),
    ...checkConfig({ config: data, servers, hasProvided, chosen, requested, judged, templates }),
    // Tasks from files may have plans too, and are not known here.
    ...(data.tasks.length === 0 ? checkPlans(data, parts.eval) : []),
  ];
  return broken.length > 0 ? { ...refusal(broken), parts } : { ok: true, ...parts };
}

/** The settings of one model do not fit another, so a model from outside takes only the threshold. */
function buildJudge(config: ParsedConfig, override: string | undefined): JudgeSpec {
  const { judgeModel, openaiKey } = config;
  const judge = override === undefined ? config.judge : undefined;
  const named = override ?? judge?.model ?? judgeModel;
  const model = judge !== undefined || named.includes("/") ? named : `openai/${named}`;
  const isOpenAI = model.startsWith("openai/") && judge?.baseURL === undefined;
  return {
    ...exact({ ...judge, apiKey: judge?.apiKey ?? (isOpenAI ? openaiKey : undefined) }),
    model,
    passThreshold: config.judge?.passThreshold ?? config.passThreshold,
  };
}

interface BuiltTask {
  readonly task: Task;
  /** The servers that it names; absent: all. */
  readonly named: readonly string[] | undefined;
}

/**
 * Makes a task of every workflow and of every tool test, tool tests first: whether tools work comes before
 * whether an agent can work with them.
 */
function buildTasks(
  { toolHealthSuites, workflows, timeout }: ParsedConfig,
  servers: readonly string[],
  locate: Locate,
): readonly BuiltTask[] {
  const usual = servers.length === 1 ? servers[0] : undefined;
  const tests = toolHealthSuites.flatMap((suite, index) => {
    const titles = testTitles(suite);
    return suite.tests.map((test, at): BuiltTask => {
      const server = test.server ?? suite.server ?? usual;
      const named = server === undefined ? undefined : [server];
      const path = ["toolHealthSuites", index, "tests", at];
      const step = {
        type: "mcp" as const,
        id: "call",
        server,
        request: { kind: "tool" as const, tool: test.name, args: test.args },
        expect: { result: test.expectedResult, error: test.expectedError, maxLatencyMs: test.maxLatency },
        timeoutMs: test.timeout ?? suite.timeout ?? timeout,
        retries: test.retries,
      };
      return {
        named,
        task: {
          name: `${suite.name}/${titles[at] ?? test.name}`,
          form: "tool-test",
          suite: suite.name,
          servers: named ?? servers,
          turns: [],
          expectTools: [],
          verify: [exact(step)],
          parallel: suite.parallel,
          ...exact({ description: test.description, location: locate({ path, at: "value" }) }),
        },
      };
    });
  });
  const conversations = workflows.map((workflow, index): BuiltTask => {
    const { name, description, servers: named, steps, elicitation } = workflow;
    const location = locate({ path: ["workflows", index], at: "value" });
    return {
      named,
      task: {
        name,
        form: "workflow",
        servers: named ?? servers,
        turns: steps.map(({ expectTools: __, ...turn }) => exact(turn)),
        expectTools: expectedTools(workflow),
        verify: [],
        parallel: false,
        ...exact({ description, elicitation, location }),
      },
    };
  });
  return [...tests, ...conversations];
}

/** The tools that a workflow expects: its own list, or those of its steps joined when it has none. */
function expectedTools({ expectTools = [], steps }: ParsedConfig["workflows"][number]): readonly string[] {
  return expectTools.length > 0 ? expectTools : steps.flatMap((step) => step.expectTools ?? []);
}

/** By task, those of the servers that the task names. */
function serversOfTasks(
  tasks: readonly BuiltTask[],
  servers: Eval["servers"],
): Record<string, Eval["servers"]> {
  const entries = Object.entries(servers);
  return Object.fromEntries(
    tasks.map(({ task, named }) => [
      task.name,
      Object.fromEntries(entries.filter(([name]) => named?.includes(name) ?? true)),
    ]),
  );
}

/**
 * Whether a path of a config leads to a key that the format itself names, outside of what is tested: written as undefined
 * by a program, it counts as absent. Names of the author's own (of servers, variables, headers), arguments and everything in
 * workflows and tests must be there: an expectation that turned out as undefined would be none.
 */
export function isSettingOfConfig(path: KeyPath): boolean {
  const [first] = path;
  return first !== "workflows" && first !== "toolHealthSuites" && isNamedBy(configSchema, path);
}

function isNamedBy(schema: z.core.$ZodType, path: KeyPath): boolean {
  const [key, ...rest] = path;
  if (key === undefined) return true;
  if (schema instanceof z.ZodObject) {
    const member = Object.entries(schema.shape).find(([name]) => name === key)?.[1];
    return member !== undefined && isNamedBy(member, rest);
  }
  // A key of a table is a name of the author's own, so that it cannot end the path.
  if (schema instanceof z.ZodRecord) return rest.length > 0 && isNamedBy(schema.valueType, rest);
  if (schema instanceof z.ZodArray) return rest.length > 0 && isNamedBy(schema.element, rest);
  if (schema instanceof z.ZodUnion) return schema.options.some((each) => isNamedBy(each, path));
  if (schema instanceof z.ZodPipe) return isNamedBy(schema.in, path);
  if (schema instanceof z.ZodLazy) return isNamedBy(schema.unwrap(), path);
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodNullable
  )
    return isNamedBy(schema.unwrap(), path);
  return false;
}

/** Notes on what is valid but may not do what its author expects: one sentence each. */
function configNotes(
  config: ParsedConfig,
  judged: boolean,
  servers: Readonly<Record<string, ParsedServer>>,
): string[] {
  const { judge, judgeModel, tasks, serverLifetime, mcp_server_lifetime: lifetime } = config;
  const notes: string[] = [];
  for (const [name, server] of Object.entries(servers))
    if (server.transport === "sse")
      for (const key of ["reconnect", "reconnectInterval", "maxReconnectAttempts"] as const)
        if (server[key] !== undefined)
          notes.push(`server "${name}": ${key} has no effect; a lost connection is an error`);
  if (serverLifetime !== undefined && lifetime !== undefined)
    notes.push("mcp_server_lifetime has no effect: serverLifetime wins");
  if (judge !== undefined && judged && judgeModel !== "gpt-4o")
    notes.push("judgeModel has no effect: judge.model wins");
  if (judge !== undefined && !judged && tasks.length === 0)
    notes.push("judge is not asked: set llmJudge to true, or pass --llm");
  for (const workflow of config.workflows) {
    const { name, steps } = workflow;
    const ofSteps = steps.flatMap((step) => step.expectTools ?? []);
    if (ofSteps.length > 0 && JSON.stringify(ofSteps) !== JSON.stringify(expectedTools(workflow)))
      notes.push(`workflow "${name}": expectTools of its steps has no effect; the workflow's own list wins`);
  }
  return [...notes, ...weakNotes(config)];
}

/** Expectations that check less than their author may expect. */
function weakNotes({ workflows, toolHealthSuites }: ParsedConfig): string[] {
  const steps = workflows.flatMap(({ steps: turns }, workflow) =>
    turns.flatMap(({ expectedState, expectedError }, index) => {
      const path = ["workflows", workflow, "steps", index];
      return [
        ...shortTexts(expectedState, [...path, "expectedState"]),
        ...shortTexts(expectedError, [...path, "expectedError"]),
      ];
    }),
  );
  const tests = toolHealthSuites.flatMap((suite, index) =>
    suite.tests.flatMap(({ name: tool, args, expectedResult, expectedError }, test) => {
      const path = ["toolHealthSuites", index, "tests", test];
      const given = [...path, "args"];
      const result = [...path, "expectedResult"];
      return [
        ...shortTexts(expectedResult, result),
        ...shortTexts(expectedError, [...path, "expectedError"]),
        ...echoedArguments(expectedResult, { tool, args }, result),
        ...strayKeys(args, ["expectedResult", "expectedError", "maxLatency"], given),
        ...inexactNumbers(args, given),
        ...inexactNumbers(expectedResult, result),
      ];
    }),
  );
  return [...steps, ...tests].map(({ message }) => message);
}
