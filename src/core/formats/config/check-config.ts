import type { ErrorCode } from "../../errors/catalogue.ts";
import { emptyObjectProblem, isContainedEverywhere } from "../cannot-fail.ts";
import { statesText } from "../contains-text.ts";
import { suggestion } from "../did-you-mean.ts";
import { asObject, formatKeyPath, type KeyPath } from "../json.ts";
import type { Eval } from "../model.ts";
import type { Problem } from "../problem.ts";
import type { AgentChoice, DeclaredAgents, ParsedAgent } from "./agent.ts";
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

/** Everything that must hold between the parts of a config. */
export function checkConfig(checked: CheckedConfig): Problem[] {
  return [
    ...checkServers(checked),
    ...checkSomethingRuns(checked),
    ...checkNames(checked),
    ...checkServerReferences(checked),
    ...checkTestsInVariants(checked),
    ...checkAgents(checked),
    ...checkResults(checked),
    ...checkWorkflows(checked),
  ];
}

function problem(code: ErrorCode, message: string, place: Omit<Problem, "code" | "message">): Problem {
  return { code, message, ...place };
}

/** A name and its place in the file. */
interface Place {
  readonly name: string;
  readonly path: KeyPath;
}

/** A name in quotes, as written in the file: never what a variable holds. */
function quoted({ name, path }: Place, { templates }: CheckedConfig): string {
  const text = templates.get(formatKeyPath(path)) ?? name;
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

function checkServers({ config, servers, hasProvided }: CheckedConfig): Problem[] {
  const { server, mocks = {}, mcp_mocks = [], tasks, workflows, toolHealthSuites } = config;
  const hasTable = config.servers !== undefined || config.mcp_servers !== undefined || hasProvided;
  const hasMocks = mcp_mocks.length + Object.keys(mocks).length > 0;
  if (server !== undefined && hasTable) {
    const hint = "Move the server of `server` into `servers`, under a name.";
    const place = { path: ["servers"], at: "key", hint } as const;
    return [problem("config/invalid-value", "server and servers cannot both be given", place)];
  }
  const needsServer = workflows.length + toolHealthSuites.length > 0 || tasks.length === 0;
  if (needsServer && server === undefined && !hasTable && !hasMocks) {
    const hint = "Add server: {transport, …}, or servers: {NAME: {transport, …}}; or pass --mcp-config FILE.";
    const place = { path: [], at: "value", hint } as const;
    return [problem("config/missing-key", 'missing key "server" or "servers"', place)];
  }
  if (!hasTable || hasMocks || Object.keys(servers.written).length > 0) return [];
  const place = { path: ["servers"], at: "value" } as const;
  return [problem("config/invalid-value", "servers must have at least one server", place)];
}

function checkSomethingRuns({ config }: CheckedConfig): Problem[] {
  if (config.workflows.length + config.toolHealthSuites.length + config.tasks.length > 0) return [];
  const message = "there is nothing to run: no workflows, no toolHealthSuites, no tasks";
  return [problem("config/nothing-to-run", message, { path: [], at: "value" })];
}

function checkNames(checked: CheckedConfig): Problem[] {
  const { workflows, toolHealthSuites } = checked.config;
  const flows = workflows.map(({ name }, index) => ({ name, path: ["workflows", index, "name"] }));
  const suites = toolHealthSuites.map(({ name }, index) => ({
    name,
    path: ["toolHealthSuites", index, "name"],
  }));
  const sameSuites = duplicates(suites, "suites", checked);
  // Two suites of one name would also make all of their tests duplicates.
  const sameTasks = sameSuites.length > 0 ? [] : taskClashes(flows, testPlaces(checked.config));
  return [...duplicates(flows, "workflows", checked), ...sameSuites, ...sameTasks];
}

/** Tests whose task, named `SUITE/TITLE`, has the name of another task. */
function taskClashes(workflows: readonly Place[], tests: readonly Place[]): Problem[] {
  const first = new Map(workflows.map((place) => [place.name, place.path]));
  return tests.flatMap(({ name, path }) => {
    const earlier = first.get(name);
    if (earlier === undefined) first.set(name, path);
    if (earlier === undefined) return [];
    const message = `two tasks have one name: ${formatKeyPath(earlier)} and ${formatKeyPath(path)}`;
    const hint = "A test's task is named SUITE/TITLE. Rename one of them.";
    return [problem("config/duplicate-name", message, { path, at: "value", alsoAt: earlier, hint })];
  });
}

/** Tool tests by the names of their tasks. */
function testPlaces({ toolHealthSuites }: ParsedConfig): Place[] {
  return toolHealthSuites.flatMap((suite, index) =>
    testTitles(suite).map((title, test) => ({
      name: `${suite.name}/${title}`,
      path: ["toolHealthSuites", index, "tests", test],
    })),
  );
}

function duplicates(places: readonly Place[], kind: string, checked: CheckedConfig): Problem[] {
  const first = new Map<string, KeyPath>();
  return places.flatMap((place) => {
    const { path } = place;
    const earlier = first.get(place.name);
    if (earlier === undefined) first.set(place.name, path);
    if (earlier === undefined) return [];
    const both = `${formatKeyPath(earlier)} and ${formatKeyPath(path)}`;
    const message = `two ${kind} are named ${quoted(place, checked)}: ${both}`;
    const hint = "Rename one of them.";
    return [problem("config/duplicate-name", message, { path, at: "value", alsoAt: earlier, hint })];
  });
}

function checkServerReferences(checked: CheckedConfig): Problem[] {
  const { config } = checked;
  const named = config.workflows.map(({ servers = [] }, workflow) =>
    servers.map((name, index): Place => ({ name, path: ["workflows", workflow, "servers", index] })),
  );
  const answering = config.workflows.flatMap(({ elicitation = [] }, workflow) =>
    elicitation.flatMap(({ server }, index) =>
      placeOf(server, ["workflows", workflow, "elicitation", index, "server"]),
    ),
  );
  const called = config.toolHealthSuites.flatMap(({ server, tests }, suite) => [
    ...placeOf(server, ["toolHealthSuites", suite, "server"]),
    ...tests.flatMap((test, index) =>
      placeOf(test.server, ["toolHealthSuites", suite, "tests", index, "server"]),
    ),
  ]);
  const planned = plansOf(config).flatMap(({ path, plan }) =>
    Object.entries(plan).flatMap(([name, actions]) =>
      actions.flatMap((action, index) =>
        placeOf("server" in action ? action.server : undefined, [...path, name, index, "server"]),
      ),
    ),
  );
  const known = knownServers(checked);
  const unknown = [...named.flat(), ...answering, ...called, ...planned]
    .filter(({ name }) => !known.includes(name))
    .map((place) =>
      problem("config/unknown-reference", `no server is named ${quoted(place, checked)}`, {
        path: place.path,
        at: "value",
        hint: suggestion(place.name, known, "servers"),
      }),
    );
  return [...unknown, ...named.flatMap((places) => duplicates(places, "servers", checked))];
}

function placeOf(name: string | undefined, path: KeyPath): Place[] {
  return name === undefined ? [] : [{ name, path }];
}

/** Names of all servers, those of variants included. */
function knownServers({ servers: { written, variants = [] } }: CheckedConfig): readonly string[] {
  return [...new Set([written, ...variants.map((each) => each.written)].flatMap(Object.keys))];
}

/** A tool test names its server itself, so it cannot run where a variant has no such server. */
function checkTestsInVariants(checked: CheckedConfig): Problem[] {
  const { written, variants = [] } = checked.servers;
  const [only, ...others] = Object.keys(written);
  const usual = others.length === 0 ? only : undefined;
  const called = checked.config.toolHealthSuites.flatMap((suite) =>
    suite.tests.flatMap((test) => test.server ?? suite.server ?? usual ?? []),
  );
  const known = knownServers(checked);
  return variants.flatMap((variant) => {
    const path = ["variants", variant.name];
    const lost = [...new Set(called)].filter(
      (server) => known.includes(server) && !Object.hasOwn(variant.written, server),
    );
    return lost.map((server) => {
      const message = `${formatKeyPath(path)} has no server ${JSON.stringify(server)}, which tool tests call`;
      const hint = `Keep it in ${JSON.stringify(variant.name)}, or put those tests into a config of their own.`;
      return problem("config/unknown-reference", message, { path, at: "key", hint });
    });
  });
}

function checkAgents(checked: CheckedConfig): Problem[] {
  return checked.chosen.flatMap((choice) => {
    if (choice.kind !== "unknown") return [];
    const { name, hint } = choice;
    const isRequested = checked.requested.includes(name);
    const path = [isRequested ? "agents" : "agent"];
    const message = `no agent is named ${quoted({ name, path }, checked)}`;
    return [problem("config/unknown-reference", message, { path, at: isRequested ? "key" : "value", hint })];
  });
}

const operators = ["$equals", "$contains"];

/** Expected results with an unknown operator, which would be taken for a key of the result, and those that always hold. */
function checkResults(checked: CheckedConfig): Problem[] {
  return checked.config.toolHealthSuites.flatMap(({ tests }, suite) =>
    tests.flatMap(({ expectedResult }, test) => {
      const path = ["toolHealthSuites", suite, "tests", test, "expectedResult"];
      const [name, ...others] = Object.keys(asObject(expectedResult));
      const operator = others.length === 0 && name?.startsWith("$") === true ? name : undefined;
      const empty = emptyIn(expectedResult, path);
      return [
        ...(operator === undefined || operators.includes(operator)
          ? []
          : [unknownOperator(operator, path, checked)]),
        ...(empty === undefined
          ? []
          : [
              emptyObjectProblem(
                empty,
                "Leave it out, or write {$equals: {}} for an object without members.",
              ),
            ]),
      ];
    }),
  );
}

function unknownOperator(name: string, parent: KeyPath, checked: CheckedConfig): Problem {
  const path = [...parent, name];
  const message = `unknown operator ${quoted({ name, path }, checked)} in ${formatKeyPath(parent)}`;
  const escape = "A result with that very key is expected with {$contains: {…}}.";
  const hint = `${suggestion(name, operators, "operators")} ${escape}`;
  return problem("config/unknown-key", message, { path, at: "key", hint });
}

/** Where `{}` is expected, which every object contains. */
function emptyIn(expected: unknown, path: KeyPath): KeyPath | undefined {
  if (isContainedEverywhere(expected)) return path;
  const { $contains, ...others } = asObject(expected);
  const isOperator = Object.keys(others).length === 0;
  return isOperator && isContainedEverywhere($contains) ? [...path, "$contains"] : undefined;
}

/** Workflows that expect nothing, or only what an agent would pass that repeats what the user says. */
function checkWorkflows(checked: CheckedConfig): Problem[] {
  const { config, judged } = checked;
  if (judged && (config.judge?.passThreshold ?? config.passThreshold) !== 0) return [];
  return config.workflows.flatMap((workflow, index) => {
    const { steps, name } = workflow;
    const path = ["workflows", index];
    if ([workflow, ...steps].some(({ expectTools = [] }) => expectTools.length > 0)) return [];
    if (steps.some((step) => (step.expectedState ?? step.expectedError) !== undefined))
      return echoes(workflow, path, checked);
    const shown = quoted({ name, path: [...path, "name"] }, checked);
    const message = `${formatKeyPath(path)} (${shown}) expects nothing, so it could not fail`;
    const hint =
      "Give it expectedState, expectedError or expectTools, or turn on the judge with llmJudge or --llm (and a passThreshold over 0).";
    return [problem("config/checks-nothing", message, { path, at: "value", hint })];
  });
}

function echoes(
  { steps }: ParsedConfig["workflows"][number],
  parent: KeyPath,
  checked: CheckedConfig,
): Problem[] {
  return steps.flatMap(({ expectedState: state }, index) => {
    if (state === undefined) return [];
    // The step's own user first: that is the likelier mistake.
    const said = steps.slice(0, index + 1).findLastIndex(({ user }) => statesText(user, state));
    if (said === -1) return [];
    const path = [...parent, "steps", index, "expectedState"];
    const user = [...parent, "steps", said, "user"];
    const shown = quoted({ name: state, path }, checked);
    const message = `${formatKeyPath(path)}: ${shown} is also in ${formatKeyPath(user)}, so an agent that repeats it would pass`;
    const hint =
      "Expect what only the work can give, or add expectTools, so that tools must have been called too.";
    return [problem("config/checks-nothing", message, { path, at: "value", alsoAt: user, hint })];
  });
}

interface DeclaredPlan {
  /** The agent's name. */
  readonly name: string;
  readonly path: KeyPath;
  readonly plan: Extract<ParsedAgent, { readonly type: "scripted" }>["plan"];
}

function plansOf({ agent, agents = {} }: DeclaredAgents): DeclaredPlan[] {
  const all = [
    { name: "scripted", agent, path: ["agent", "plan"] },
    ...Object.entries(agents).map(([name, each]) => ({
      name,
      agent: each,
      path: ["agents", name, "plan"],
    })),
  ];
  return all.flatMap(({ name, agent: each, path }) =>
    typeof each === "object" && each.type === "scripted" ? [{ name, path, plan: each.plan }] : [],
  );
}

/**
 * What is wrong with the plans of scripted agents, once all tasks are known: plans for no task, and, of agents that run, tasks
 * without a plan and plans whose turns are not as many as those of the workflow.
 */
export function checkPlans(declared: DeclaredAgents, { tasks, agents }: Eval): Problem[] {
  const played = new Map(tasks.filter(({ turns }) => turns.length > 0).map((task) => [task.name, task]));
  const hasFiles = tasks.some(({ portable }) => portable !== undefined);
  return plansOf(declared).flatMap(({ name, path, plan }) => {
    const unknown = Object.keys(plan).filter((key) => !played.has(key));
    const runs = agents.some((agent) => agent.type === "scripted" && agent.name === name);
    return [
      ...unknown.map((key) =>
        problem(
          "config/unknown-reference",
          `no workflow ${hasFiles ? "or task " : ""}is named ${JSON.stringify(key)}`,
          {
            path: [...path, key],
            at: "key",
            hint: suggestion(key, [...played.keys()], hasFiles ? "tasks" : "workflows"),
          },
        ),
      ),
      ...(runs
        ? [...played.values()].flatMap((task) => planProblem(task, { path, actions: plan[task.name] }))
        : []),
    ];
  });
}

type Actions = DeclaredPlan["plan"][string];

function planProblem(
  { name, form, turns }: Eval["tasks"][number],
  { path, actions }: { readonly path: KeyPath; readonly actions: Actions | undefined },
): Problem[] {
  const shown = JSON.stringify(name);
  if (actions === undefined) {
    const hint = `Add a plan under that ${form}'s name, or choose another agent.`;
    const message = `${formatKeyPath(path)} has no plan for the ${form} ${shown}`;
    return [problem("agent/no-plan", message, { path, at: "key", hint })];
  }
  const planned = turnsOf(actions);
  if (form !== "workflow" || planned === turns.length) return [];
  const counts = `has ${countOf(planned, "turn")}, the workflow has ${countOf(turns.length, "step")}`;
  const message = `the plan for ${shown} ${counts}: each \`say\` ends a turn`;
  const hint = 'End every turn but the last with a `say`; a turn without words ends with `say: ""`.';
  return [problem("config/invalid-value", message, { path: [...path, name], at: "key", hint })];
}

/** Each `say` ends a turn; what follows the last one is a turn without words, and so is a plan without actions. */
function turnsOf(actions: Actions): number {
  const ended = actions.filter((action) => "say" in action).length;
  const last = actions.at(-1);
  return last !== undefined && "say" in last ? ended : ended + 1;
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
