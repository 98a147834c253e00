import type { ErrorCode } from "../../errors/catalogue.ts";
import { emptyObjectProblem, isContainedEverywhere } from "../weak-expectations.ts";
import { statesText } from "../contains-text.ts";
import { suggestion } from "../did-you-mean.ts";
import { asObject, formatKeyPath, type KeyPath } from "../json.ts";
import type { Eval } from "../model.ts";
import type { Problem } from "../problem.ts";
import type { AgentChoice, DeclaredAgents } from "./agent.ts";
import type { ParsedConfig } from "./config-schema.ts";
import type { ConfigServers } from "./server-tables.ts";

/** A config that fits its schema, and what is decided about it from outside. */
export interface CheckedConfig {
  readonly config: ParsedConfig;
  readonly servers: ConfigServers;
  /** Whether there are servers from outside. */
  readonly hasProvided: boolean;
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
export function checkConfig(checked: CheckedConfig): Problem[] {
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
    checkResults,
    checkWorkflows,
  ];
  return collect((add) => {
    for (const rule of rules) rule({ ...checked, add, quoted });
  });
}

function checkServers({ config, servers, hasProvided, add }: Checks): void {
  const { server, mocks = {}, mcp_mocks = [], tasks, workflows, toolHealthSuites } = config;
  const hasTable = config.servers !== undefined || config.mcp_servers !== undefined || hasProvided;
  const hasMocks = mcp_mocks.length + Object.keys(mocks).length > 0;
  const runs = workflows.length + toolHealthSuites.length;
  if (server !== undefined && hasTable) {
    const hint = "Move the server of `server` into `servers`, under a name.";
    add("config/invalid-value", "server and servers cannot both be given", ["servers"], { at: "key", hint });
  } else if (server === undefined && !hasTable && !hasMocks && (runs > 0 || tasks.length === 0)) {
    const hint = "Add server: {transport, …}, or servers: {NAME: {transport, …}}; or pass --mcp-config FILE.";
    add("config/missing-key", 'missing key "server" or "servers"', [], { hint });
  } else if (hasTable && !hasMocks && Object.keys(servers.written).length === 0)
    add("config/invalid-value", "servers must have at least one server", ["servers"]);
  if (runs + tasks.length === 0)
    add("config/nothing-to-run", "there is nothing to run: no workflows, no toolHealthSuites, no tasks", []);
}

/** Refuses duplicate names; whether there are any. */
function checkUnique(
  names: readonly string[],
  kind: string,
  pathOf: (index: number) => KeyPath,
  { add, quoted }: Checks,
): boolean {
  const paths = new Map<string, KeyPath>();
  for (const [index, name] of names.entries()) {
    const path = pathOf(index);
    const first = paths.get(name);
    if (first === undefined) paths.set(name, path);
    else {
      const message = `two ${kind} are named ${quoted(name, path)}: ${formatKeyPath(first)} and ${formatKeyPath(path)}`;
      add("config/duplicate-name", message, path, { alsoAt: first, hint: "Rename one of them." });
    }
  }
  return paths.size < names.length;
}

function checkNames(checks: Checks): void {
  const { workflows, toolHealthSuites: suites } = checks.config;
  const paths = new Map<string, KeyPath>(
    workflows.map(({ name }, index) => [name, ["workflows", index, "name"]]),
  );
  const flows = workflows.map(({ name }) => name);
  checkUnique(flows, "workflows", (index) => ["workflows", index, "name"], checks);
  const suiteNames = suites.map(({ name }) => name);
  // Two suites of one name also make all of their tests duplicates.
  if (checkUnique(suiteNames, "suites", (index) => ["toolHealthSuites", index, "name"], checks)) return;
  for (const [index, suite] of suites.entries())
    for (const [test, title] of testTitles(suite).entries()) {
      const path = ["toolHealthSuites", index, "tests", test];
      const name = `${suite.name}/${title}`;
      const first = paths.get(name);
      if (first === undefined) paths.set(name, path);
      else {
        const message = `two tasks have one name: ${formatKeyPath(first)} and ${formatKeyPath(path)}`;
        const hint = "A test's task is named SUITE/TITLE. Rename one of them.";
        checks.add("config/duplicate-name", message, path, { alsoAt: first, hint });
      }
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
    checkUnique(servers, "servers", (at) => [...path, "servers", at], checks);
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

const operators = ["$equals", "$contains"];

/** Expected results with an unknown operator, which would be taken for a key of the result, and those that always hold. */
function checkResults({ config, add, quoted }: Checks): void {
  for (const [suite, { tests }] of config.toolHealthSuites.entries())
    for (const [test, { expectedResult }] of tests.entries()) {
      const path = ["toolHealthSuites", suite, "tests", test, "expectedResult"];
      const [[operator, operand] = ["", undefined], ...others] = Object.entries(asObject(expectedResult));
      const isOperator = others.length === 0 && operator.startsWith("$");
      const inner = [...path, operator];
      if (isOperator && !operators.includes(operator)) {
        const message = `unknown operator ${quoted(operator, inner)} in ${formatKeyPath(path)}`;
        const escape = "A result with that very key is expected with {$contains: {…}}.";
        const hint = `${suggestion(operator, operators, "operators")} ${escape}`;
        add("config/unknown-key", message, inner, { at: "key", hint });
      }
      const isEmpty = isContainedEverywhere(expectedResult);
      if (!isEmpty && !(operator === "$contains" && isOperator && isContainedEverywhere(operand))) continue;
      const hint = "Leave it out, or write {$equals: {}} for an object without members.";
      const problem = emptyObjectProblem(isEmpty ? path : inner, hint);
      add(problem.code, problem.message, problem.path, problem);
    }
}

/** Workflows that expect nothing, or only what an agent would pass that repeats what the user says. */
function checkWorkflows({ config, judged, add, quoted }: Checks): void {
  if (judged && (config.judge?.passThreshold ?? config.passThreshold) !== 0) return;
  for (const [index, workflow] of config.workflows.entries()) {
    const { steps, name } = workflow;
    const path = ["workflows", index];
    if ([workflow, ...steps].some(({ expectTools = [] }) => expectTools.length > 0)) continue;
    if (steps.every((step) => (step.expectedState ?? step.expectedError) === undefined)) {
      const message = `${formatKeyPath(path)} (${quoted(name, [...path, "name"])}) expects nothing, so it could not fail`;
      const hint =
        "Give it expectedState, expectedError or expectTools, or turn on the judge with llmJudge or --llm (and a passThreshold over 0).";
      add("config/checks-nothing", message, path, { hint });
    }
    for (const [at, { expectedState }] of steps.entries()) {
      if (expectedState === undefined) continue;
      // The step's own user first: that is the likelier mistake.
      const said = steps.slice(0, at + 1).findLastIndex(({ user }) => statesText(user, expectedState));
      if (said === -1) continue;
      const place = [...path, "steps", at, "expectedState"];
      const user = [...path, "steps", said, "user"];
      const message = `${formatKeyPath(place)}: ${quoted(expectedState, place)} is also in ${formatKeyPath(user)}, so an agent that repeats it would pass`;
      const hint =
        "Expect what only the work can give, or add expectTools, so that tools must have been called too.";
      add("config/checks-nothing", message, place, { alsoAt: user, hint });
    }
  }
}

/** The plans of scripted agents, with their agents' names. */
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
        if (form !== "workflow" || planned === turns.length) continue;
        const counts = `has ${countOf(planned, "turn")}, the workflow has ${countOf(turns.length, "step")}`;
        const message = `the plan for ${JSON.stringify(name)} ${counts}: each \`say\` ends a turn`;
        const hint = 'End every turn but the last with a `say`; a turn without words ends with `say: ""`.';
        add("config/invalid-value", message, [...path, name], { at: "key", hint });
      }
    }
  });
}

function countOf(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** Titles of a suite's tests: their descriptions, else the names of their tools, made unique. */
export function testTitles({ tests }: ParsedConfig["toolHealthSuites"][number]): string[] {
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
