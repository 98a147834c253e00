import { asObject, isJsonObject, type Json, type JsonObject, withoutUndefined } from "../base/json.ts";
import { measure } from "../graders/measurements/measure.ts";
import {
  type Routed,
  routeOf,
  type RoutingConfig,
  triggered,
  type TriggerTest,
} from "../graders/tool-routing.ts";
import type { AgentSummary } from "../model/agent.ts";
import { withoutModel } from "../model/without-model.ts";
import { sumOf, theseTasks } from "../statistics/rates.ts";
import { eventsOf } from "../model/event.ts";
import { quantile } from "../trace/agent-acts.ts";
import { type Exchange, hasFailed, type Outcome, outcomeOf, type Trajectory } from "../trace/trajectory.ts";
import type {
  Coverage,
  CoverageKind,
  Covered,
  Routing,
  RunMeasurements,
  RunResult,
  TrialResult,
} from "../model/result.ts";

/** Collects how long calls of servers' tools take, by agents and tool tests; those of other steps and of checks are not what is tested. */
export class LatencyCounter {
  readonly #times: number[] = [];
  #unanswered = 0;

  add({ task: { form }, calls }: Pick<Trajectory, "task" | "calls">): void {
    if (form === "check") return;
    for (const { server, turn, latencyMs } of calls) {
      if (server === null || (turn === undefined && form !== "tool-test")) continue;
      if (latencyMs === undefined) this.#unanswered += 1;
      else this.#times.push(latencyMs);
    }
  }

  result(): NonNullable<RunResult["latency"]> {
    const unanswered = this.#unanswered;
    const sorted = [...this.#times.toSorted((a, b) => a - b), ...Array<number>(unanswered).fill(Infinity)];
    const p95Ms = quantile(sorted, 0.95);
    const known = p95Ms !== undefined && Number.isFinite(p95Ms) ? { p95Ms } : {};
    return { calls: sorted.length, unanswered, ...known };
  }
}

/** In the order of reports. */
const coverageKinds = [
  "tools",
  "parameters",
  "resources",
  "prompts",
] as const satisfies readonly CoverageKind[];

/** Items of one kind that are counted for one server: what a server lists may change without end. */
const maxItems = 10_000;

/** What one server has of a kind, by name. */
interface Names {
  readonly listed: Set<string>;
  /** Also what was not listed, or not yet. */
  readonly used: Set<string>;
}

function noNames(): Names {
  return { listed: new Set(), used: new Set() };
}

type Items = Readonly<Record<CoverageKind | "errors", Names>>;

/**
 * Counts what servers list and what of it trials use, from the messages on record. A tool is used when it is called, a parameter when a
 * call has it, a resource when it is read, a prompt when it is got. The error path of a tool is used when a call of it fails by
 * itself. Mocks and checks do not count.
 */
export class CoverageCounter {
  readonly #servers = new Map<string, Items>();

  add({ task, events, exchanges }: Pick<Trajectory, "task" | "events" | "exchanges">): void {
    if (task.form === "check") return;
    const mocks = new Set(
      eventsOf(events, "server.started").flatMap(({ server, transport }) =>
        transport === "mock" ? [server] : [],
      ),
    );
    for (const exchange of exchanges) {
      const { server, message } = exchange.request;
      if (mocks.has(server)) continue;
      const items = this.#itemsOf(server);
      addListed(items, exchange);
      if (message["id"] !== undefined && exchange.refused === undefined) addUsed(items, exchange);
    }
  }

  /** Undefined when no trial used a server. */
  result(): Coverage | undefined {
    const servers = [...this.#servers].map(([server, items]) => {
      const covered = (kind: keyof Items): Covered => ({
        total: items[kind].listed.size,
        unused: unusedOf(items[kind]),
      });
      const whereListed = (kind: CoverageKind): Covered | undefined =>
        items[kind].listed.size === 0 ? undefined : covered(kind);
      const coverage = withoutUndefined({
        tools: covered("tools"),
        parameters: covered("parameters"),
        errors: covered("errors"),
        resources: whereListed("resources"),
        prompts: whereListed("prompts"),
      });
      return [server, coverage] as const;
    });
    return servers.length === 0 ? undefined : Object.fromEntries(servers);
  }

  #itemsOf(server: string): Items {
    const known = this.#servers.get(server);
    if (known !== undefined) return known;
    const items = {
      tools: noNames(),
      parameters: noNames(),
      errors: noNames(),
      resources: noNames(),
      prompts: noNames(),
    };
    this.#servers.set(server, items);
    return items;
  }
}

/** What was listed and not used; a resource that is not listed itself may be one of a template. */
function unusedOf({ listed, used }: Names): readonly string[] {
  const others = [...used].filter((name) => !listed.has(name));
  return [...listed].filter(
    (name) => !used.has(name) && !(name.includes("{") && others.some((other) => fitsTemplate(other, name))),
  );
}

function addListed(items: Items, { request, answer }: Exchange): void {
  const result = answer?.message["result"];
  if (!isJsonObject(result)) return;
  const list = (key: string): readonly JsonObject[] => {
    const listed = result[key];
    return Array.isArray(listed) ? listed.filter(isJsonObject) : [];
  };
  switch (request.message["method"]) {
    case "tools/list":
      for (const { name, inputSchema } of list("tools")) {
        if (typeof name !== "string") continue;
        addItem(items.tools, name);
        addItem(items.errors, name);
        const { properties } = asObject(inputSchema);
        for (const parameter of Object.keys(asObject(properties)))
          addItem(items.parameters, parameterName(name, parameter));
      }
      break;
    case "resources/list":
      for (const { uri } of list("resources")) addItem(items.resources, uri);
      break;
    case "resources/templates/list":
      for (const { uriTemplate } of list("resourceTemplates")) addItem(items.resources, uriTemplate);
      break;
    case "prompts/list":
      for (const { name } of list("prompts")) addItem(items.prompts, name);
      break;
    default:
      break;
  }
}

function addItem({ listed }: Names, name: Json | undefined): void {
  if (typeof name === "string" && listed.size < maxItems) listed.add(name);
}

function parameterName(tool: string, parameter: string): string {
  return `${tool}.${parameter}`;
}

function addUsed(items: Items, exchange: Exchange): void {
  const { request, params, fault } = exchange;
  const { name, uri } = params;
  switch (request.message["method"]) {
    case "tools/call":
      if (typeof name !== "string") break;
      markUsed(items.tools, name);
      if (fault === undefined && saysFailed(outcomeOf(exchange))) markUsed(items.errors, name);
      for (const parameter of Object.keys(asObject(params["arguments"])))
        markUsed(items.parameters, parameterName(name, parameter));
      break;
    case "resources/read":
    case "resources/subscribe":
      markUsed(items.resources, uri);
      break;
    case "prompts/get":
      markUsed(items.prompts, name);
      break;
    default:
      break;
  }
}

/** Whether a server says that a call failed. */
function saysFailed(outcome: Outcome): boolean {
  return hasFailed(outcome) && outcome.error?.kind !== "no-response";
}

function markUsed({ listed, used }: Names, name: Json | undefined): void {
  if (typeof name === "string" && (listed.has(name) || used.size < maxItems)) used.add(name);
}

/** Whether a URI has the literal parts of a URI template (RFC 6570), in their order, with anything in place of its expressions. */
export function fitsTemplate(uri: string, template: string): boolean {
  const parts = template.split(/\{[^{}]*\}/);
  const [first = "", ...rest] = parts;
  const last = rest.pop();
  if (last === undefined) return uri === template;
  if (!uri.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = uri.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return uri.length - last.length >= at && uri.endsWith(last);
}

/** How much of one kind was used, over all servers. */
export interface CoverageTotal {
  readonly kind: CoverageKind;
  readonly used: number;
  readonly total: number;
}

export function coverageTotals(coverage: Coverage): readonly CoverageTotal[] {
  const servers = Object.values(coverage);
  return coverageKinds.flatMap((kind) => {
    const listed = servers.flatMap((items) => items[kind] ?? []);
    const total = listed.reduce((sum, items) => sum + items.total, 0);
    const unused = listed.reduce((sum, items) => sum + items.unused.length, 0);
    return total === 0 ? [] : [{ kind, used: total - unused, total }];
  });
}

interface CoverageGaps {
  readonly server: string;
  /** Whether a trial used the server at all. */
  readonly isUsed: boolean;
  readonly gaps: readonly { readonly what: string; readonly names: readonly string[] }[];
}

/** The servers of which something was not used. What a tool has that was not called goes without saying. */
export function coverageGaps({
  coverage = {},
  environment,
}: Pick<RunResult, "coverage" | "environment">): readonly CoverageGaps[] {
  const declared = Object.entries(environment.servers).filter(
    ([, server]) => asObject(server)["transport"] !== "mock",
  );
  const servers = new Set([...declared.map(([name]) => name), ...Object.keys(coverage)]);
  return [...servers].flatMap((server): CoverageGaps[] => {
    const items = coverage[server];
    if (items === undefined) return [{ server, isUsed: false, gaps: [] }];
    const tools = new Set(items.tools.unused);
    const unused = coverageKinds.map((kind) => {
      const names = items[kind]?.unused ?? [];
      const isKnown = (name: string): boolean => kind === "parameters" && isParameterOf(name, tools);
      return { what: kind, names: names.filter((name) => !isKnown(name)) };
    });
    const failing = items.errors.unused.filter((name) => !tools.has(name)) ?? [];
    const gaps = [...unused, { what: "tools whose errors no test expects", names: failing }].filter(
      ({ names }) => names.length > 0,
    );
    return gaps.length === 0 ? [] : [{ server, isUsed: true, gaps }];
  });
}

function isParameterOf(name: string, tools: ReadonlySet<string>): boolean {
  return [...name.matchAll(/\./g)].some(({ index }) => tools.has(name.slice(0, index)));
}

/** Tools whose definitions are counted: what a server lists may change without end. */
const maxTools = 10_000;

const sums = [
  "calls",
  "unknownTools",
  "invalidCalls",
  "redundantCalls",
  "errors",
  "recoveredErrors",
  "identicalRetries",
] as const;

const counts = [
  ...sums,
  "trials",
  "passed",
  "unsupportedClaims",
  "ignoredErrors",
  "read",
  "reading",
] as const;

interface MeasuredTool {
  readonly tokens: number;
  readonly isCalled: boolean;
}

/** Adds up the measurements of the trials of a run. */
export class MeasurementCounter {
  /**
   * `read`: tokens of definitions that models read with all of their requests. `reading`, `passed`: trials in which a model may have
   * read them, and those of them that passed.
   */
  readonly #counts = Object.fromEntries(counts.map((name) => [name, 0])) as Record<
    (typeof counts)[number],
    number
  >;
  readonly #causes = new Map<string, number>();
  /** By server and tool. */
  readonly #tools = new Map<string, Map<string, MeasuredTool>>();
  readonly #withoutModel: ReadonlySet<string>;
  #size = 0;
  /** Of a trial it is unknown which tools there were. */
  #isUnknown = false;

  /** Takes the agents of the plan. */
  constructor(agents: readonly AgentSummary[]) {
    this.#withoutModel = new Set(agents.flatMap(({ name, type }) => (type in withoutModel ? [name] : [])));
  }

  add(trajectory: Trajectory, { verdict }: Pick<TrialResult, "verdict">): void {
    const found = measure(trajectory);
    if (found === undefined) return;
    const { row, definitions } = found;
    const { invalidCauses = {}, unsupportedClaims = [], definitionTokens } = row;
    this.#isUnknown ||= definitionTokens === undefined;
    for (const name of sums) this.#counts[name] += row[name] ?? 0;
    for (const [cause, number] of Object.entries(invalidCauses)) this.#addCause(cause, number);
    this.#counts.trials += 1;
    if (unsupportedClaims.length > 0) this.#counts.unsupportedClaims += 1;
    if (row.ignoredErrors.length > 0) this.#counts.ignoredErrors += 1;
    if (!this.#withoutModel.has(trajectory.trial.agent ?? "")) {
      this.#counts.reading += 1;
      if (verdict === "pass") this.#counts.passed += 1;
      this.#counts.read += (definitionTokens ?? 0) * (trajectory.usage?.requests ?? 1);
    }
    for (const { server, tool, tokens, isCalled } of definitions)
      this.#addTool(server, tool, { tokens, isCalled });
  }

  #addCause(cause: string, number: number): void {
    this.#causes.set(cause, (this.#causes.get(cause) ?? 0) + number);
  }

  #addTool(server: string, tool: string, { tokens, isCalled }: MeasuredTool): void {
    const tools = this.#tools.get(server) ?? new Map<string, MeasuredTool>();
    this.#tools.set(server, tools);
    const known = tools.get(tool);
    if (known === undefined && this.#size >= maxTools) return;
    if (known === undefined) this.#size += 1;
    tools.set(tool, { tokens, isCalled: isCalled || known?.isCalled === true });
  }

  /** Undefined when no trial was measured. */
  result(): RunMeasurements | undefined {
    const { passed, read, reading, unknownTools, invalidCalls, unsupportedClaims, ...reported } =
      this.#counts;
    const perPassedTrial = passed === 0 ? null : Math.round(read / passed);
    if (reported.trials === 0) return undefined;
    if (this.#isUnknown) return reported;
    const all = [...this.#tools.values()].flatMap((tools) => [...tools.values()]);
    const tokensOf = (tools: typeof all): number => tools.reduce((sum, { tokens }) => sum + tokens, 0);
    const byServer = [...this.#tools].map(([server, tools]) => {
      return [server, Object.fromEntries([...tools].map(([tool, { tokens }]) => [tool, tokens]))] as const;
    });
    return {
      ...reported,
      unknownTools,
      invalidCalls,
      unsupportedClaims,
      invalidCauses: Object.fromEntries(this.#causes),
      definitions: withoutUndefined({
        tokens: tokensOf(all),
        unused: tokensOf(all.filter(({ isCalled }) => !isCalled)),
        perPassedTrial: reading === 0 ? undefined : perPassedTrial,
        tools: Object.fromEntries(byServer),
      }),
    };
  }
}

/** Different cells of a matrix that are counted: a model may call tools by names without end. */
const maxCells = 10_000;

type Matrix = NonNullable<Routing["tools"]>;

/** Where a prompt led, by what the matrix counts. */
type Led = Partial<Record<"tools" | "servers" | "skills", Routed | undefined>> & { readonly later?: unknown };

/** Counts where the prompts of a run led, and where they should have. */
export class RoutingCounter {
  readonly #tools = new Cells();
  readonly #servers = new Cells();
  readonly #skills = new Cells();
  #nearMisses = 0;

  add(trajectory: Trajectory, { grades }: Pick<TrialResult, "grades">): void {
    for (const { type, name, config } of trajectory.task.graders ?? []) {
      if (type !== "tool_routing" && type !== "trigger") continue;
      const grade = grades.find(({ grader }) => grader === name);
      if (grade?.verdict !== "pass" && grade?.verdict !== "fail") continue;
      // The settings in a plan fit the schema of their type.
      const { tools, servers, skills, later }: Led =
        type === "trigger"
          ? triggered(config as unknown as TriggerTest, grade, trajectory)
          : routeOf(config as unknown as RoutingConfig, trajectory);
      if (tools !== undefined) this.#tools.add(tools, trajectory.task.name);
      if (servers !== undefined) this.#servers.add(servers, trajectory.task.name);
      if (skills !== undefined) this.#skills.add(skills, trajectory.task.name);
      if (later !== undefined) this.#nearMisses += 1;
    }
  }

  /** Undefined when nothing was counted. */
  result(): Routing | undefined {
    const found = withoutUndefined({
      tools: this.#tools.result(),
      servers: this.#servers.result(),
      skills: this.#skills.result(),
    });
    return Object.keys(found).length === 0 ? undefined : { nearMisses: this.#nearMisses, ...found };
  }
}

/** Trials of one expectation that led to one place. */
interface Cell extends Routed {
  readonly byTask: Map<string, number>;
}

class Cells {
  readonly #cells = new Map<string, Cell>();

  add({ expected, called }: Routed, task: string): void {
    const key = JSON.stringify([expected, called]);
    const cell = this.#cells.get(key) ?? { expected, called, byTask: new Map<string, number>() };
    if (!this.#cells.has(key) && this.#cells.size >= maxCells) return;
    this.#cells.set(key, cell);
    cell.byTask.set(task, (cell.byTask.get(task) ?? 0) + 1);
  }

  result(): Matrix | undefined {
    const cells = [...this.#cells.values()];
    const correct = shareOf(cells);
    if (correct === undefined) return undefined;
    const shares = (by: "expected" | "called"): Matrix["recall"] =>
      Object.fromEntries(
        [...Map.groupBy(cells, (cell) => cell[by])].flatMap(([name, group]) => {
          const share = shareOf(group);
          return share === undefined ? [] : [[name, share]];
        }),
      );
    return {
      correct,
      matrix: cells.map(({ expected, called, byTask }) => ({
        expected,
        called,
        trials: sumOf([...byTask.values()]),
      })),
      precision: shares("called"),
      recall: shares("expected"),
    };
  }
}

/** The share of trials that led to what was expected, as the mean of the tasks' shares; undefined for no trials. */
function shareOf(cells: readonly Cell[]): Matrix["correct"] | undefined {
  const tasks = new Map<string, { passed: number; scored: number }>();
  for (const { expected, called, byTask } of cells)
    for (const [task, trials] of byTask) {
      const count = tasks.get(task) ?? { passed: 0, scored: 0 };
      count.scored += trials;
      if (expected === called) count.passed += trials;
      tasks.set(task, count);
    }
  const counts = [...tasks.values()];
  const rate = theseTasks(counts);
  return rate && { ...rate, trials: sumOf(counts.map(({ scored }) => scored)) };
}
