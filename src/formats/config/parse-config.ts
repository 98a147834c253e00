import { countOf } from "../../base/visible-text.ts";
import * as z from "zod";
import type { ErrorCode } from "../../base/catalogue.ts";
import { type Diagnostic, McpvalsError } from "../../base/error.ts";
import { compilePattern, compileTextPattern } from "../../templates/pattern.ts";
import { selectJson } from "../../templates/select-json.ts";
import { suggestion } from "../../base/did-you-mean.ts";
import {
  extensionPackageProblems,
  missingSandboxProblems,
  type ParsedExtensionTable,
} from "../../model/extension.ts";
import { graderReader, type GraderTypes, type ReadGraders } from "../../graders/declared.ts";
import { exact, formatKeyPath, type Json, type KeyPath, withoutUndefined } from "../../base/json.ts";
import type { CheckSettings } from "../../model/check-settings.ts";
import type { Eval, JudgeSpec, Limits } from "../../model/eval.ts";
import {
  type GraderSpec,
  simulatedLast,
  simulatedUserOf,
  type Task,
  type Turn,
  userOf,
} from "../../model/task.ts";
import {
  type Locate,
  maxProblems,
  type NamePlace,
  type ParseResult,
  placeProblems,
  type Problem,
  repeatedNames,
  validate,
} from "../../base/problem.ts";
import {
  emptyObjectProblem,
  inexactNumbers,
  isContainedEverywhere,
  resultProblems,
  schemaProblems,
  strayKeys,
} from "../../expect/weak-expectations.ts";
import type { JsonExpectation, McpExpectation } from "../../model/step.ts";
import { problemsOfIssues } from "../../model/zod-problems.ts";
import {
  type AgentChoice,
  buildAgents,
  chooseAgents,
  type CompleteProgram,
  type DeclaredAgents,
} from "../../agents/declared-agents.ts";
import { configSchema, type ParsedConfig } from "./config-schema.ts";
import {
  type ConfigServers,
  noServers,
  type ProvidedServers,
  readConfigServers,
  type ServerTable,
  withUsualTransports,
} from "./server-tables.ts";
import {
  buildServer,
  type BuildServer,
  buildServers,
  type CompleteStdio,
  type ParsedServer,
} from "../../model/server.ts";
import { defaultJudgeModel, userModelOf } from "../../model/agent.ts";

export interface ParseConfigOptions {
  /** The eval's name unless the config has one. */
  readonly defaultName: string;
  /** Overrides `llmJudge`. */
  readonly judge?: boolean;
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
  /** What graders can be; absent for a config that declares none. */
  readonly graderTypes?: GraderTypes | undefined;
  /** Servers from outside. */
  readonly provided?: ServerTable | undefined;
  /** Whether only the servers are of interest, so that there may be nothing to run. */
  readonly serversOnly?: boolean | undefined;
  /** Tasks in the place of its own. */
  readonly sessions?: readonly Task[] | undefined;
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
  /** Path of a file of prices. */
  readonly prices: string | undefined;
  /** Folders of skills, as written. */
  readonly skills: readonly string[] | undefined;
}

/** Of what is refused, `parts` is there when only rules between them are broken. */
export type ParsedEval = ParseResult<
  ConfigParts,
  { readonly diagnostics: readonly Diagnostic[]; readonly parts?: ConfigParts }
>;

function checkSettings(
  { callTimeout: callMs, maxWarnings, snapshot, accepted, ...settings }: NonNullable<ParsedConfig["check"]>,
  resolvePath: ParseConfigOptions["resolvePath"],
): CheckSettings {
  const path = snapshot === undefined ? undefined : (resolvePath?.(snapshot) ?? snapshot);
  return { ...settings, accepted: exact(accepted), callMs, ...exact({ maxWarnings, snapshot: path }) };
}

export interface TaskFilesOfConfig {
  /** Paths and globs. */
  readonly patterns: readonly string[];
  /** Variables of the environment that their processes get. */
  readonly inheritEnv: readonly string[] | true;
  readonly graders: readonly GraderSpec[];
}

/**
 * Checks a config document, with variables already replaced, and turns it into an eval. Gives all problems with the schema; when
 * there are none, all broken rules between the parts. They are in the order of the file when `locate` knows lines.
 */
export function parseConfig(given: Json, options: ParseConfigOptions): ParsedEval {
  const { earlier = [], templates = new Map(), locate, agents: requested = [] } = options;
  const {
    provided: outside = noServers,
    completeStdio,
    resolvePath,
    serversOnly = false,
    sessions,
  } = options;
  const refusal = (problems: readonly Problem[]) =>
    ({ ok: false, diagnostics: placeProblems(problems.slice(0, maxProblems), locate) }) as const;

  const document = withUsualTransports(given);
  const { data, issues } = validate(configSchema, document);
  const servers = readConfigServers(document, { templates, provided: outside });
  const found = [
    ...(data === undefined ? problemsOfIssues(issues.slice(0, maxProblems), document, templates) : []),
    ...servers.problems,
  ];
  const isKnown = ({ path }: Problem): boolean =>
    earlier.some(({ path: outer }) => formatKeyPath(path.slice(0, outer.length)) === formatKeyPath(outer));
  const wrong = [...earlier, ...found.filter((problem) => !isKnown(problem))];
  if (wrong.length > 0 || data === undefined) return refusal(wrong);

  const { variants, problems: _, ...base } = servers;
  const lifetime = data.serverLifetime;
  const starting = { completeStdio, startupTimeoutMs: data.timeout, lifetime, resolvePath };
  const build: BuildServer = (name, server) => buildServer(name, server, starting);
  const provided = withoutUndefined({ base, variants, build, lifetime });
  const chosen = chooseAgents(data, requested);
  const judged = options.judge ?? (data.llmJudge || options.judgeModel !== undefined);
  const built = buildServers(base.servers, build);
  const ofGraders: Problem[] = [];
  const readGraders = graderReader(options.graderTypes, (each) => ofGraders.push(each));
  const graders = readGraders(data.graders, ["graders"]);
  const dir = resolvePath?.(".") ?? ".";
  const tasks =
    sessions?.map((session): BuiltTask => ({ named: [], task: { ...session, graders } })) ??
    buildTasks(data, Object.keys(built), { locate, dir, graders, readGraders });
  const declared = [graders, ...tasks.map(({ task }) => task.graders ?? [])].flat();
  const isAsked =
    data.tasks.length > 0 ||
    declared.some(({ type, config }) => options.graderTypes?.types[type]?.judge?.(config) !== undefined);
  const stepsOnly = !judged && data.judge !== undefined && isAsked;
  const parts: ConfigParts = {
    eval: {
      name: data.name ?? options.defaultName,
      servers: built,
      agents: buildAgents(chosen, options.completeProgram),
      tasks: tasks.map(({ task }) => task),
      ...(judged || stepsOnly ? { judge: buildJudge(data, options.judgeModel) } : {}),
      ...(stepsOnly ? { judgesStepsOnly: true } : {}),
      trials: data.trials,
      ...exact({
        concurrency: data.concurrency,
        seed: data.seed,
        thresholds: data.thresholds,
        budget: data.budget,
        userModel: data.userModel === undefined ? undefined : userModelOf(data.userModel),
      }),
      limits: limitsOf(data),
      reporters: data.reporters,
      ...(data.check === undefined ? {} : { check: checkSettings(data.check, resolvePath) }),
      ...(variants === undefined
        ? {}
        : {
            variants: variants.map(({ name, servers: own }) => ({
              name,
              servers: serversOfTasks(tasks, buildServers(own, build)),
            })),
          }),
    },
    notes: configNotes(data, { judged, isAsked: judged || isAsked }, servers.servers),
    taskFiles: { patterns: sessions === undefined ? data.tasks : [], inheritEnv: data.inheritEnv, graders },
    provided,
    extensions: data.extensions,
    agents: { agent: data.agent, agents: data.agents },
    skills: data.skills,
    prices: data.prices && (resolvePath?.(data.prices) ?? data.prices),
  };
  const hasProvided = Object.keys(outside.written).length > 0;
  const broken = [
    ...ofGraders,
    ...extensionPackageProblems(data.extensions, ["extensions"]),
    ...missingSandboxProblems(data.extensions, ["extensions"]),
    ...checkConfig({
      config: data,
      servers,
      hasProvided,
      serversOnly,
      isForSessions: sessions !== undefined,
      chosen,
      requested,
      judged,
      templates,
    }),
    // Tasks from files may have plans too, and are not known here.
    ...(data.tasks.length === 0 && sessions === undefined ? checkPlans(data, parts.eval) : []),
  ];
  return broken.length > 0 ? { ...refusal(broken), parts } : { ok: true, ...parts };
}

/** The settings of one model do not fit another, so a model from outside takes only the threshold. */
function limitsOf({ timeout, limits: { trial, modelCall, ...use } }: ParsedConfig): Limits {
  return { trialMs: trial, callMs: timeout, modelMs: modelCall, ...withoutUndefined(use) };
}

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

interface BuildContext {
  readonly locate: Locate;
  /** The folder that fixtures are relative to. */
  readonly dir: string;
  readonly graders: readonly GraderSpec[];
  readonly readGraders: ReadGraders;
}

/**
 * Makes a task of every workflow and of every tool test, tool tests first: whether tools work comes before
 * whether an agent can work with them.
 */
function buildTasks(
  { toolHealthSuites, workflows, timeout }: ParsedConfig,
  servers: readonly string[],
  { locate, dir, graders: shared, readGraders }: BuildContext,
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
        expect: expectationOf(test),
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
    const { name, description, servers: named, steps, elicitation, fixtures } = workflow;
    const location = locate({ path: ["workflows", index], at: "value" });
    const own = readGraders(workflow.graders, ["workflows", index, "graders"], shared);
    const graders = [...shared, ...own];
    return {
      named,
      task: {
        name,
        form: "workflow",
        servers: named ?? servers,
        turns: steps.map(({ expectTools: __, user, ...turn }): Turn =>
          exact({ user: userOf(user), ...turn }),
        ),
        expectTools: expectedTools(workflow),
        verify: [],
        parallel: false,
        ...(graders.length === 0 ? {} : { graders }),
        ...(fixtures.length === 0 ? {} : { workspace: { dir, fixtures } }),
        ...exact({ description, elicitation, location }),
      },
    };
  });
  return [...tests, ...conversations];
}

type ToolTest = ParsedConfig["toolHealthSuites"][number]["tests"][number];

/** What a test expects: the keys of the MCPVals specification are short for keys of `expect`. */
function expectationOf({ expect, expectedResult, expectedError, maxLatency }: ToolTest): McpExpectation {
  return {
    ...withoutUndefined({ result: expectedResult, error: expectedError, maxLatencyMs: maxLatency }),
    ...expect,
  };
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
  { judged, isAsked }: { readonly judged: boolean; readonly isAsked: boolean },
  servers: Readonly<Record<string, ParsedServer>>,
): string[] {
  const { judge, judgeModel } = config;
  const notes: string[] = [];
  for (const [name, server] of Object.entries(servers))
    if (server.transport === "sse")
      for (const key of ["reconnect", "reconnectInterval", "maxReconnectAttempts"] as const)
        if (server[key] !== undefined)
          notes.push(`server "${name}": ${key} has no effect; a lost connection is an error`);
  if (judge !== undefined && judged && judgeModel !== defaultJudgeModel)
    notes.push("judgeModel has no effect: judge.model wins");
  if (judge !== undefined && !isAsked) notes.push("judge is not asked: set llmJudge to true, or pass --llm");
  for (const workflow of config.workflows) {
    const { name, steps } = workflow;
    const ofSteps = steps.flatMap((step) => step.expectTools ?? []);
    if (ofSteps.length > 0 && JSON.stringify(ofSteps) !== JSON.stringify(expectedTools(workflow)))
      notes.push(`workflow "${name}": expectTools of its steps has no effect; the workflow's own list wins`);
  }
  return [...notes, ...weakNotes(config)];
}

/** Parts of a tool test that probably do not do what its author meant. */
function weakNotes({ toolHealthSuites }: ParsedConfig): string[] {
  const tests = toolHealthSuites.flatMap((suite, index) =>
    suite.tests.flatMap(({ args, expectedResult, expect }, test) => {
      const path = ["toolHealthSuites", index, "tests", test];
      const given = [...path, "args"];
      return [
        ...strayKeys(args, ["expectedResult", "expectedError", "expect", "maxLatency"], given),
        ...inexactNumbers(args, given),
        ...inexactNumbers(expectedResult, [...path, "expectedResult"]),
        ...inexactNumbers(expect.result, [...path, "expect", "result"]),
      ];
    }),
  );
  return tests.map(({ message }) => message);
}

/** A config that fits its schema, and what is decided about it from outside. */
interface CheckedConfig {
  readonly config: ParsedConfig;
  readonly servers: ConfigServers;
  /** Whether there are servers from outside. */
  readonly hasProvided: boolean;
  readonly serversOnly: boolean;
  /** Only its graders and its judge are of interest. */
  readonly isForSessions: boolean;
  /** The agents that run. */
  readonly chosen: readonly AgentChoice[];
  /** Agents that were asked for instead of the config's. */
  readonly requested: readonly string[];
  /** Whether a judge looks at every workflow. */
  readonly judged: boolean;
  /** Texts as written, by formatted path, of strings that variables went into. */
  readonly templates: ReadonlyMap<string, string>;
}

type Add = (code: ErrorCode, message: string, path: KeyPath, rest?: Partial<Problem>) => void;

interface Checks extends CheckedConfig {
  /** Adds a problem, of the value at the path unless `rest` says otherwise. */
  readonly add: Add;
  /** A text in quotes, as written in the file: never what a variable holds. */
  readonly quoted: (text: string, path: KeyPath) => string;
}

function collect(check: (add: Add) => void): Problem[] {
  const problems: Problem[] = [];
  check((code, message, path, rest = {}) => problems.push({ code, message, path, at: "value", ...rest }));
  return problems;
}

/** Everything that must hold between the parts of a config. */
function checkConfig(checked: CheckedConfig): Problem[] {
  const quoted = (text: string, path: KeyPath): string => {
    const written = checked.templates.get(formatKeyPath(path)) ?? text;
    return JSON.stringify(written.length > 80 ? `${written.slice(0, 80)}…` : written);
  };
  const rules = [
    checkServers,
    checkNames,
    checkServerReferences,
    checkTestsInVariants,
    checkAgents,
    checkExpectations,
    checkUsers,
    checkWorkflows,
  ];
  return collect((add) => {
    for (const rule of rules) rule({ ...checked, add, quoted });
  });
}

function checkServers({ config, servers, hasProvided, serversOnly, isForSessions, add }: Checks): void {
  if (isForSessions) return;
  const { server, mocks = {}, tasks, workflows, toolHealthSuites } = config;
  const hasTable = config.servers !== undefined || hasProvided;
  const hasMocks = Object.keys(mocks).length > 0;
  const runs = workflows.length + toolHealthSuites.length;
  if (server !== undefined && hasTable) {
    const hint = "Move the server of `server` into `servers`, under a name.";
    add("config/invalid-value", "server and servers cannot both be given", ["servers"], { at: "key", hint });
  } else if (server === undefined && !hasTable && !hasMocks && (runs > 0 || tasks.length === 0)) {
    const hint = "Add server: {transport, …}, or servers: {NAME: {transport, …}}; or pass --mcp-config FILE.";
    add("config/missing-key", 'missing key "server" or "servers"', [], { hint });
  } else if (hasTable && !hasMocks && Object.keys(servers.written).length === 0)
    add("config/invalid-value", "servers must have at least one server", ["servers"]);
  if (runs + tasks.length === 0 && !serversOnly)
    add("config/nothing-to-run", "there is nothing to run: no workflows, no toolHealthSuites, no tasks", [], {
      hint: "Add a tool test, a workflow or a task. To check the servers: npx mcpvals check",
    });
}

/** Refuses duplicate names; whether there are any. */
function checkUnique(places: readonly NamePlace[], kind: string, { add, quoted }: Checks): boolean {
  const repeated = repeatedNames(places);
  for (const { name, path, first } of repeated) {
    const message = `two ${kind} are named ${quoted(name, path)}: ${formatKeyPath(first)} and ${formatKeyPath(path)}`;
    add("config/duplicate-name", message, path, { alsoAt: first, hint: "Rename one of them." });
  }
  return repeated.length > 0;
}

function checkNames(checks: Checks): void {
  const { workflows, toolHealthSuites: suites } = checks.config;
  const flows = workflows.map(({ name }, index) => ({ name, path: ["workflows", index, "name"] }));
  checkUnique(flows, "workflows", checks);
  const suiteNames = suites.map(({ name }, index) => ({ name, path: ["toolHealthSuites", index, "name"] }));
  // Two suites of one name also make all of their tests duplicates.
  if (checkUnique(suiteNames, "suites", checks)) return;
  const tests = suites.flatMap((suite, index) =>
    testTitles(suite).map((title, test) => ({
      name: `${suite.name}/${title}`,
      path: ["toolHealthSuites", index, "tests", test],
    })),
  );
  const distinct = [...new Map(flows.map((flow) => [flow.name, flow])).values()];
  for (const { path, first } of repeatedNames([...distinct, ...tests])) {
    const message = `two tasks have one name: ${formatKeyPath(first)} and ${formatKeyPath(path)}`;
    const hint = "A test's task is named SUITE/TITLE. Rename one of them.";
    checks.add("config/duplicate-name", message, path, { alsoAt: first, hint });
  }
}

/** Names of all servers, those of variants included. */
function knownServers({ servers: { written, variants = [] } }: Checks): readonly string[] {
  return [...new Set([written, ...variants.map((each) => each.written)].flatMap(Object.keys))];
}

function checkServerReferences(checks: Checks): void {
  const { config, add, quoted } = checks;
  const known = knownServers(checks);
  const refer = (name: string | undefined, path: KeyPath): void => {
    if (name === undefined || known.includes(name)) return;
    const message = `no server is named ${quoted(name, path)}`;
    add("config/unknown-reference", message, path, { hint: suggestion(name, known, "servers") });
  };
  for (const [index, { servers = [], elicitation = [] }] of config.workflows.entries()) {
    const path = ["workflows", index];
    for (const [at, name] of servers.entries()) refer(name, [...path, "servers", at]);
    for (const [at, { server }] of elicitation.entries())
      refer(server, [...path, "elicitation", at, "server"]);
    checkUnique(
      servers.map((name, at) => ({ name, path: [...path, "servers", at] })),
      "servers",
      checks,
    );
  }
  for (const [index, { server, tests }] of config.toolHealthSuites.entries()) {
    const path = ["toolHealthSuites", index];
    refer(server, [...path, "server"]);
    for (const [at, test] of tests.entries()) refer(test.server, [...path, "tests", at, "server"]);
  }
  for (const { path, plan } of plansOf(config))
    for (const [name, actions] of Object.entries(plan))
      for (const [at, action] of actions.entries())
        if ("server" in action) refer(action.server, [...path, name, at, "server"]);
}

/** A tool test names its server itself, so it cannot run where a variant has no such server. */
function checkTestsInVariants(checks: Checks): void {
  const { written, variants = [] } = checks.servers;
  const [only, ...others] = Object.keys(written);
  const usual = others.length === 0 ? only : undefined;
  const called = checks.config.toolHealthSuites.flatMap((suite) =>
    suite.tests.flatMap((test) => test.server ?? suite.server ?? usual ?? []),
  );
  const known = knownServers(checks);
  for (const { name, written: own } of variants)
    for (const server of new Set(called)) {
      if (!known.includes(server) || Object.hasOwn(own, server)) continue;
      const path = ["variants", name];
      const message = `${formatKeyPath(path)} has no server ${JSON.stringify(server)}, which tool tests call`;
      const hint = `Keep it in ${JSON.stringify(name)}, or put those tests into a config of their own.`;
      checks.add("config/unknown-reference", message, path, { at: "key", hint });
    }
}

function checkAgents({ chosen, requested, add, quoted }: Checks): void {
  for (const choice of chosen) {
    if (choice.kind !== "unknown") continue;
    const { name, hint } = choice;
    const isRequested = requested.includes(name);
    const path = [isRequested ? "agents" : "agent"];
    const message = `no agent is named ${quoted(name, path)}`;
    add("config/unknown-reference", message, path, { at: isRequested ? "key" : "value", hint });
  }
}

/** Expectations of tool tests that cannot be evaluated, that always hold, or that contradict each other. */
function checkExpectations({ config, add }: Checks): void {
  const compile = (path: KeyPath, syntax: (text: string) => unknown, texts: readonly string[] = []): void => {
    for (const text of texts)
      try {
        syntax(text);
      } catch (error) {
        if (!(error instanceof McpvalsError)) throw error;
        const code = error.code === "config/checks-nothing" ? error.code : "config/invalid-value";
        add(code, `${formatKeyPath(path)}: ${error.message}`, path, exact({ hint: error.details.hint }));
      }
  };
  const report = (found: Problem): void => add(found.code, found.message, found.path, found);
  const compileJson = (path: KeyPath, expectations: readonly JsonExpectation[] = []): void => {
    for (const [index, { path: place, matches, contains, ignorePaths = [] }] of expectations.entries()) {
      if (isContainedEverywhere(contains))
        report(emptyObjectProblem([...path, index, "contains"], "Leave it out, or write type: object."));
      compile(path, (text) => selectJson(null, text), [place, ...ignorePaths]);
      compile(path, compilePattern, matches === undefined ? [] : [matches]);
    }
  };
  for (const [suite, { tests }] of config.toolHealthSuites.entries())
    for (const [index, test] of tests.entries()) {
      const outer = ["toolHealthSuites", suite, "tests", index];
      const path = [...outer, "expect"];
      const { isError, text, json, schema, result, error, maxLatencyMs } = test.expect;
      const { expectedResult, expectedError, maxLatency } = test;
      compile([...path, "text", "matches"], compileTextPattern, text?.matches);
      compileJson([...path, "text", "json"], text?.json);
      compileJson([...path, "json"], json);
      const ofResults = [
        ...resultProblems(expectedResult, [...outer, "expectedResult"]),
        ...resultProblems(result, [...path, "result"]),
        ...(schema === undefined ? [] : schemaProblems(schema, [...path, "schema"])),
      ];
      for (const problem of ofResults) report(problem);
      const spellings = [
        ["expectedResult", expectedResult, "result", result],
        ["expectedError", expectedError, "error", error],
        ["maxLatency", maxLatency, "maxLatency", maxLatencyMs],
      ] as const;
      for (const [short, value, key, other] of spellings) {
        if (value === undefined || other === undefined) continue;
        const message = `${formatKeyPath([...outer, short])} and expect.${key} cannot both be given`;
        add("config/invalid-value", message, [...outer, short], { at: "key", hint: "Remove one of them." });
      }
      const contradicted = isError === true ? expectedResult : isError === false ? expectedError : undefined;
      if (contradicted === undefined) continue;
      const key = isError === true ? "expectedResult" : "expectedError";
      const message = `${formatKeyPath([...path, "isError"])} is ${String(isError)}, which contradicts ${key}`;
      add("config/invalid-value", message, [...path, "isError"], { hint: "Remove one of them." });
    }
}

/** A simulated user plays all turns from its own on. */
function checkUsers({ config: { workflows }, add }: Checks): void {
  for (const [index, { steps }] of workflows.entries())
    for (const [at, { user }] of steps.slice(0, -1).entries())
      if (typeof user !== "string")
        add("config/invalid-value", simulatedLast, ["workflows", index, "steps", at, "user"]);
}

/** Workflows that expect nothing. */
function checkWorkflows({ config, judged, isForSessions, add, quoted }: Checks): void {
  if (judged && (config.judge?.passThreshold ?? config.passThreshold) !== 0) return;
  if (isForSessions) {
    if (config.graders.some(({ required }) => required)) return;
    const message = "the config has no required graders of its own, so an imported session could not fail";
    add("config/checks-nothing", message, [], {
      hint: "Add graders: [{type, config}] at its top, or pass --llm.",
    });
    return;
  }
  for (const [index, workflow] of config.workflows.entries()) {
    const { steps, name } = workflow;
    const path = ["workflows", index];
    if ([workflow, ...steps].some(({ expectTools = [] }) => expectTools.length > 0)) continue;
    if ([...config.graders, ...workflow.graders].some(({ required }) => required)) continue;
    if (steps.every((step) => (step.expectedState ?? step.expectedError) === undefined)) {
      const message = `${formatKeyPath(path)} (${quoted(name, [...path, "name"])}) expects nothing, so it could not fail`;
      const hasOptional = config.graders.length + workflow.graders.length > 0;
      const remedy =
        "Give it expectedState, expectedError, expectTools or graders, or turn on the judge with llmJudge or --llm (and a passThreshold over 0).";
      const hint = hasOptional
        ? `Its graders are not required, so that they decide nothing. ${remedy}`
        : remedy;
      add("config/checks-nothing", message, path, { hint });
    }
  }
}

function plansOf({ agent, agents = {} }: DeclaredAgents) {
  const all = [
    { name: "scripted", agent, path: ["agent", "plan"] },
    ...Object.entries(agents).map(([name, each]) => ({ name, agent: each, path: ["agents", name, "plan"] })),
  ];
  return all.flatMap(({ name, agent: each, path }) =>
    typeof each === "object" && each.type === "scripted" ? [{ name, path, plan: each.plan }] : [],
  );
}

/**
 * What is wrong with the plans of scripted agents, once all tasks are known: plans for no task, and, of agents that run, tasks
 * without a plan and plans with another number of turns than the workflow.
 */
export function checkPlans(declared: DeclaredAgents, { tasks, agents }: Eval): Problem[] {
  const played = new Map(tasks.filter(({ turns }) => turns.length > 0).map((task) => [task.name, task]));
  const hasFiles = tasks.some(({ portable }) => portable !== undefined);
  return collect((add) => {
    for (const { name: agent, path, plan } of plansOf(declared)) {
      for (const key of Object.keys(plan)) {
        if (played.has(key)) continue;
        const message = `no workflow ${hasFiles ? "or task " : ""}is named ${JSON.stringify(key)}`;
        const hint = suggestion(key, [...played.keys()], hasFiles ? "tasks" : "workflows");
        add("config/unknown-reference", message, [...path, key], { at: "key", hint });
      }
      if (!agents.some(({ type, name }) => type === "scripted" && name === agent)) continue;
      for (const { name, form, turns } of played.values()) {
        const actions = plan[name];
        if (actions === undefined) {
          const message = `${formatKeyPath(path)} has no plan for the ${form} ${JSON.stringify(name)}`;
          const hint = `Add a plan under that ${form}'s name, or choose another agent.`;
          add("agent/no-plan", message, path, { at: "key", hint });
          continue;
        }
        // Each `say` ends a turn; what follows the last one, or an empty plan, is a turn without words.
        const last = actions.at(-1);
        const ended = actions.filter((action) => "say" in action).length;
        const planned = last !== undefined && "say" in last ? ended : ended + 1;
        if (form !== "workflow" || planned === turns.length || simulatedUserOf({ turns })) continue;
        const counts = `has ${countOf(planned, "turn")}, the workflow has ${countOf(turns.length, "step")}`;
        const message = `the plan for ${JSON.stringify(name)} ${counts}: each \`say\` ends a turn`;
        const hint = 'End every turn but the last with a `say`; a turn without words ends with `say: ""`.';
        add("config/invalid-value", message, [...path, name], { at: "key", hint });
      }
    }
  });
}

/** Titles of a suite's tests: their descriptions, else the names of their tools, made unique. */
function testTitles({ tests }: ParsedConfig["toolHealthSuites"][number]): string[] {
  return uniqueTitles(
    tests.map(({ name, description = "" }) => (description.trim() === "" ? name : description)),
  );
}

/** Makes titles unique by adding ` (2)`, ` (3)` and so on to those that came before. */
export function uniqueTitles(titles: readonly string[]): string[] {
  const used = new Set<string>();
  const counts = new Map<string, number>();
  return titles.map((title) => {
    let count = counts.get(title) ?? 0;
    let unique: string;
    do {
      count += 1;
      unique = count === 1 ? title : `${title} (${count})`;
    } while (used.has(unique));
    counts.set(title, count);
    used.add(unique);
    return unique;
  });
}
