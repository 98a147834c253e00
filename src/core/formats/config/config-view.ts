import { type AgentChoice, chooseAgents } from "./agent.ts";
import type { ConfigServers, ServerTable } from "./server-tables.ts";
import { isContainedEverywhere } from "../cannot-fail.ts";
import { statesText } from "../contains-text.ts";
import { asList, asObject, asText, formatKeyPath, type KeyPath, withoutUndefined } from "../json.ts";

/** A name and where it stands. */
export interface Place {
  readonly name: string;
  readonly path: KeyPath;
}

interface WorkflowView {
  readonly path: KeyPath;
  readonly name?: Place;
  readonly servers: readonly Place[];
  /** Servers that its answers to questions are for. */
  readonly answering: readonly Place[];
  /** How many steps it has; absent when that cannot be told. */
  readonly steps?: number;
  /** Whether it expects a state, an error or tools. */
  readonly expectsSomething: boolean;
  readonly expectsTools: boolean;
  /** States that stand in what the user has said by then. */
  readonly echoes: readonly Echo[];
}

/** An expected state, and the user's turn that has it. */
interface Echo extends Place {
  readonly user: KeyPath;
}

interface SuiteView {
  readonly path: KeyPath;
  readonly name?: Place;
  readonly servers: readonly Place[];
  readonly tests: readonly TestView[];
}

interface TestView {
  readonly path: KeyPath;
  /** The tool's name. */
  readonly name?: string;
  readonly description?: string;
  readonly servers: readonly Place[];
  /** The key of `expectedResult: {$…: …}`. */
  readonly operator?: Place;
  /** Where `{}` is expected, which every object contains. */
  readonly empty?: KeyPath;
}

interface VariantView extends Place {
  /** Names of its servers. */
  readonly servers: readonly string[];
}

/** A plan's workflow. */
export interface PlannedWorkflow extends Place {
  /** How many turns the plan has; absent when that cannot be told. */
  readonly turns?: number;
}

/** A scripted agent's plans. */
export interface PlanView {
  readonly path: KeyPath;
  /** Workflow names that have a plan. */
  readonly workflows: readonly PlannedWorkflow[];
  /** Servers that its calls name. */
  readonly servers: readonly Place[];
  /** Whether this agent is among those that run. */
  readonly runs: boolean;
}

/**
 * The parts of a config that refer to one another, read from a document that may be wrong in other ways, so that
 * all problems of a file can be told at once.
 */
export interface ConfigView {
  readonly hasServer: boolean;
  /** Whether there is a table of servers, in either spelling or from outside. */
  readonly hasServers: boolean;
  readonly hasMocks: boolean;
  /** Names of the servers, without those that only variants have. */
  readonly servers: readonly string[];
  /** Names of all servers, those of variants included. */
  readonly knownServers: readonly string[];
  readonly variants: readonly VariantView[];
  readonly agents: readonly string[];
  /** The agents that run. */
  readonly chosen: readonly AgentChoice[];
  /** Agents that were asked for instead of the config's. */
  readonly requestedAgents: readonly string[];
  readonly plans: readonly PlanView[];
  /** Whether tasks come from files of their own. */
  readonly hasTaskFiles: boolean;
  /** Whether there is a workflow, a suite or a task, be it a wrong one. */
  readonly declaresTasks: boolean;
  readonly workflows: readonly WorkflowView[];
  readonly suites: readonly SuiteView[];
  /** Whether a judge is asked to look at every workflow. */
  readonly judged: boolean;
  /** Whether there is a score that the judge would not let pass. */
  readonly judgeCanFail: boolean;
  /** A name in quotes for a message, as written in the file: never what a variable holds. */
  readonly show: (place: Place) => string;
}

export interface ViewOptions {
  /** Overrides `llmJudge`. */
  readonly judge?: boolean;
  /** Model that judges, whatever the config says. */
  readonly judgeModel?: string;
  /** Agents asked for instead of the config's. */
  readonly agents?: readonly string[];
  /** Texts as written, by formatted path, of strings that variables went into. */
  readonly templates?: ReadonlyMap<string, string>;
  /** Servers from outside. */
  readonly provided?: ServerTable | undefined;
}

/** Reads the view. Never fails: what has the wrong type is as if it were not there. */
export function viewConfig(document: unknown, tables: ConfigServers, options: ViewOptions = {}): ConfigView {
  const root = asObject(document);
  const agents = Object.keys(asObject(root["agents"]));
  const chosen = chooseAgents(
    withoutUndefined({
      declared: agents,
      named: asText(root["agent"]),
      inline: inlineAgentName(root["agent"]),
      requested: options.agents,
    }),
  );
  const isProvided = Object.keys(options.provided?.written ?? {}).length > 0;
  return {
    hasServer: root["server"] !== undefined,
    hasServers: root["servers"] !== undefined || root["mcp_servers"] !== undefined || isProvided,
    hasMocks: !isEmpty(root["mcp_mocks"]) || Object.keys(asObject(root["mocks"])).length > 0,
    ...viewServers(tables),
    agents,
    chosen,
    requestedAgents: options.agents ?? [],
    plans: viewPlans(root, chosen),
    hasTaskFiles: !isEmpty(root["tasks"]),
    declaresTasks: ["workflows", "toolHealthSuites", "tasks"].some((key) => !isEmpty(root[key])),
    workflows: asList(root["workflows"]).map((item, index) => viewWorkflow(item, ["workflows", index])),
    suites: asList(root["toolHealthSuites"]).map((item, index) =>
      viewSuite(item, ["toolHealthSuites", index]),
    ),
    judged: options.judge ?? (root["llmJudge"] === true || options.judgeModel !== undefined),
    judgeCanFail: (asObject(root["judge"])["passThreshold"] ?? root["passThreshold"]) !== 0,
    show: (place) => quote(options.templates?.get(formatKeyPath(place.path)) ?? place.name),
  };
}

function viewServers({
  written,
  variants = [],
}: ConfigServers): Pick<ConfigView, "servers" | "knownServers" | "variants"> {
  const servers = Object.keys(written);
  const viewed = variants.map((variant) => ({
    name: variant.name,
    path: ["variants", variant.name],
    servers: Object.keys(variant.written),
  }));
  const known = [...servers, ...viewed.flatMap((variant) => variant.servers)];
  return { servers, knownServers: [...new Set(known)], variants: viewed };
}

/** The name that an agent written out in `agent` goes by: its preset, its model, its program, or "scripted". */
export function inlineAgentName(agent: unknown): string | undefined {
  if (typeof agent !== "object" || agent === null) return undefined;
  const { type, preset, model, command } = asObject(agent);
  const isProgram = type === "acp" || type === "command";
  const program = asText(preset) ?? asText(command)?.split(/[/\\]/).at(-1);
  return (isProgram ? program : asText(model)) ?? "scripted";
}

function viewWorkflow(item: unknown, path: KeyPath): WorkflowView {
  const workflow = asObject(item);
  const steps = asList(workflow["steps"]).map(asObject);
  const expects = (key: string) => steps.some((step) => asText(step[key]) !== undefined);
  const tools = [workflow, ...steps].some((part) => asList(part["expectTools"]).length > 0);
  return withoutUndefined({
    path,
    name: placeOf(workflow, "name", path),
    servers: asList(workflow["servers"]).flatMap((name, index) =>
      textPlace(name, [...path, "servers", index]),
    ),
    answering: asList(workflow["elicitation"]).flatMap((answer, index) =>
      textPlace(asObject(answer)["server"], [...path, "elicitation", index, "server"]),
    ),
    steps: steps.length === 0 ? undefined : steps.length,
    expectsSomething: tools || expects("expectedState") || expects("expectedError"),
    expectsTools: tools,
    echoes: echoesIn(steps, [...path, "steps"]),
  });
}

function echoesIn(steps: readonly Readonly<Record<string, unknown>>[], path: KeyPath): readonly Echo[] {
  return steps.flatMap((step, index) => {
    const state = asText(step["expectedState"]);
    if (state === undefined) return [];
    // The step's own user first: that is the likelier mistake.
    const told = steps
      .slice(0, index + 1)
      .findLastIndex((each) => statesText(asText(each["user"]) ?? "", state));
    if (told === -1) return [];
    return [{ name: state, path: [...path, index, "expectedState"], user: [...path, told, "user"] }];
  });
}

function viewSuite(item: unknown, path: KeyPath): SuiteView {
  const suite = asObject(item);
  return withoutUndefined({
    path,
    name: placeOf(suite, "name", path),
    servers: textPlace(suite["server"], [...path, "server"]),
    tests: asList(suite["tests"]).map((test, index) => viewTest(test, [...path, "tests", index])),
  });
}

function viewTest(item: unknown, path: KeyPath): TestView {
  const test = asObject(item);
  return withoutUndefined({
    path,
    name: asText(test["name"]),
    description: asText(test["description"]),
    servers: textPlace(test["server"], [...path, "server"]),
    operator: operatorOf(test["expectedResult"], [...path, "expectedResult"]),
    empty: emptyIn(test["expectedResult"], [...path, "expectedResult"]),
  });
}

function emptyIn(expected: unknown, path: KeyPath): KeyPath | undefined {
  if (isContainedEverywhere(expected)) return path;
  const { $contains, ...others } = asObject(expected);
  const isOperator = Object.keys(others).length === 0;
  return isOperator && isContainedEverywhere($contains) ? [...path, "$contains"] : undefined;
}

function operatorOf(expected: unknown, path: KeyPath): Place | undefined {
  const [name, ...others] = Object.keys(asObject(expected));
  if (name === undefined || others.length > 0 || !name.startsWith("$")) return undefined;
  return { name, path: [...path, name] };
}

function viewPlans(root: Readonly<Record<string, unknown>>, chosen: readonly AgentChoice[]): PlanView[] {
  const declared = Object.entries(asObject(root["agents"])).flatMap(([name, agent]) => {
    const runs = chosen.some((choice) => choice.kind === "declared" && choice.name === name);
    return viewPlan(agent, ["agents", name], runs);
  });
  const inline = chosen.some((choice) => choice.kind === "inline");
  return [...viewPlan(root["agent"], ["agent"], inline), ...declared];
}

function viewPlan(agent: unknown, agentPath: KeyPath, runs: boolean): PlanView[] {
  const plan = asObject(agent)["plan"];
  if (typeof plan !== "object" || plan === null || Array.isArray(plan)) return [];
  const path = [...agentPath, "plan"];
  return [
    {
      path,
      runs,
      workflows: Object.entries(plan).map(([name, actions]) =>
        withoutUndefined({ name, path: [...path, name], turns: turnsOf(actions) }),
      ),
      servers: Object.entries(plan).flatMap(([name, actions]) =>
        asList(actions).flatMap((action, index) =>
          textPlace(asObject(action)["server"], [...path, name, index, "server"]),
        ),
      ),
    },
  ];
}

/** Each `say` ends a turn; what follows the last one is a turn without words, and so is a plan without actions. */
function turnsOf(actions: unknown): number | undefined {
  if (!Array.isArray(actions)) return undefined;
  const says = actions.map((action) => "say" in asObject(action));
  const ended = says.filter(Boolean).length;
  return says.at(-1) === true ? ended : ended + 1;
}

function placeOf(item: Readonly<Record<string, unknown>>, key: string, path: KeyPath): Place | undefined {
  return textPlace(item[key], [...path, key])[0];
}

function textPlace(value: unknown, path: KeyPath): Place[] {
  const name = asText(value);
  return name === undefined ? [] : [{ name, path }];
}

function isEmpty(list: unknown): boolean {
  return list === undefined || list === null || (Array.isArray(list) && list.length === 0);
}

function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
