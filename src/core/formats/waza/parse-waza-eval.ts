import type { Diagnostic } from "../../errors/error.ts";
import type { DeclaredAgents } from "../config/agent.ts";
import { type Fixtures, mockServers } from "../config/mock.ts";
import {
  mergeServerTables,
  noServers,
  parseServers,
  readOverlay,
  type ServerOverlay,
  type ServerTable,
} from "../config/server-tables.ts";
import { asList, asText, isJsonObject, type KeyPath, withoutUndefined } from "../json.ts";
import { type LenientReader as Reader, LenientReader } from "../lenient-reader.ts";
import type { JsonObject, ServerLifetime } from "../model.ts";
import type { Locate, Problem } from "../problem.ts";
import {
  graderNames,
  type PlacedAssertions,
  readGraders,
  refuseUnsupported,
  saysSomething,
} from "./read-graders.ts";
import { type ParsedWazaEval, wazaEvalSchema } from "./waza-schema.ts";

/** An `eval.yaml` of waza that is valid by itself. */
export interface WazaEval {
  readonly name?: string;
  readonly trials: number;
  /** Longest that a trial may take. */
  readonly timeoutMs?: number;
  /** Trials at once; absent: one after the other. */
  readonly concurrency?: number;
  /** Globs and paths of task files, from the eval's folder. */
  readonly tasks: readonly string[];
  /** What its graders assert of every task. */
  readonly assertions: readonly PlacedAssertions[];
  /** Names of its graders. */
  readonly graderNames: ReadonlySet<string>;
  readonly servers: ServerTable;
  /** Absent when there are none. */
  readonly variants?: readonly WazaVariant[];
  /** Lifetime of servers that have none of their own; absent: `per_run`. */
  readonly lifetime?: ServerLifetime;
  /** Those that it declares; else the Copilot CLI, where its executor means that. */
  readonly agents: DeclaredAgents;
}

export interface WazaVariant {
  readonly name: string;
  readonly path: KeyPath;
  /** Absent: the servers stay as they are. */
  readonly overlay?: ServerOverlay;
}

export interface ParseWazaEvalOptions {
  readonly locate: Locate;
  /** Agents that were asked for instead of the eval's. */
  readonly requested: readonly string[];
  /** Reads a folder of a mock's fixtures. */
  readonly readFixtures: (path: string) => Fixtures;
  /** Texts as written, by formatted path, of strings that variables went into. */
  readonly templates: ReadonlyMap<string, string>;
}

export interface ParsedWazaEvalFile {
  /** As much of it as could be read, so that the tasks are checked even when it is invalid. */
  readonly eval: WazaEval;
  /** Whether everything of it could be read, be it refused or not. */
  readonly isWhole: boolean;
  /** What is wrong with it; none: it is valid. */
  readonly diagnostics: readonly Diagnostic[];
  readonly notes: readonly string[];
}

/**
 * Reads an `eval.yaml` of waza, strictly. What it asks for that this version cannot do is refused by name; what has no effect
 * in that tool either, or changes no verdict, becomes a note.
 */
export function parseWazaEval(document: JsonObject, options: ParseWazaEvalOptions): ParsedWazaEvalFile {
  const reader = new LenientReader(options.locate, { strict: true });
  const servers = readWazaServers(document, options, reader);
  const parsed = reader.read(wazaEvalSchema, document);
  const file = parsed === undefined ? outline(document) : readParsed(parsed, document, options, reader);
  return {
    eval: { ...file, ...servers },
    isWhole: parsed !== undefined,
    diagnostics: reader.diagnostics(),
    notes: reader.notes,
  };
}

type WithoutServers = Omit<WazaEval, "servers" | "variants">;

/** What a document that cannot be read still says: where its tasks are. */
function outline(document: JsonObject): WithoutServers {
  return {
    trials: 1,
    tasks: asList(document["tasks"]).flatMap((pattern) => asText(pattern) ?? []),
    assertions: [],
    graderNames: new Set(),
    agents: {},
  };
}

function readParsed(
  parsed: ParsedWazaEval,
  document: JsonObject,
  { requested }: ParseWazaEvalOptions,
  reader: Reader,
): WithoutServers {
  refuseUnsupported(wazaEvalSchema, document, [], reader);
  refuseOthers(parsed, reader);
  noteWithoutEffect(parsed, reader);
  const names = graderNames(parsed.graders, ["graders"], { taken: new Set(), reader });
  return withoutUndefined({
    name: parsed.name,
    trials: parsed.config.trials_per_task,
    timeoutMs: milliseconds(parsed.config.timeout_seconds),
    concurrency: readConcurrency(parsed, reader),
    tasks: readTasks(parsed, reader),
    assertions: readGraders(parsed.graders, ["graders"], { names, reader }),
    graderNames: new Set(names),
    lifetime: parsed.config.mcp_server_lifetime,
    agents: readWazaAgents(parsed, requested, reader),
  });
}

function milliseconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.ceil(seconds * 1000);
}

const usualWorkers = 4;

/** As in that tool without `parallel` the workers are not used. */
function readConcurrency({ config }: ParsedWazaEval, reader: Reader): number | undefined {
  const { parallel, workers, max_workers } = config;
  if (workers !== undefined && max_workers !== undefined && workers !== max_workers)
    reader.refuse(
      "workers and max_workers are the same setting, with two values",
      ["config", "max_workers"],
      {
        hint: "Keep one of them.",
      },
    );
  if (parallel) return workers ?? max_workers ?? usualWorkers;
  const key = workers === undefined ? "max_workers" : "workers";
  if (config[key] !== undefined) reader.note(`${key} has no effect without parallel: true`, ["config", key]);
  return undefined;
}

function readTasks({ tasks, tasks_from }: ParsedWazaEval, reader: Reader): readonly string[] {
  if (tasks.length === 0 && !saysSomething(tasks_from))
    reader.problem({
      code: "config/nothing-to-run",
      message: "the eval has no tasks",
      path: [],
      at: "value",
      hint: "Name its task files in tasks: paths or globs, from the eval's folder.",
    });
  return tasks;
}

function refuseOthers({ config, ...rest }: ParsedWazaEval, reader: Reader): void {
  if (config.max_attempts > 1)
    reader.refuse(
      "max_attempts over 1 is refused: trying again until it passes hides flakiness",
      ["config", "max_attempts"],
      {
        hint: "Leave it out, and raise trials_per_task: every trial counts.",
      },
    );
  if (rest.baseline)
    reader.refuse(
      "baseline is not known yet: it takes away skills, which this version gives no agent",
      ["baseline"],
      {
        at: "key",
        hint: "Compare sets of servers with variants: {with: {}, without: {mcp_servers: {NAME: null}}}.",
      },
    );
  for (const [index, metric] of rest.metrics.entries())
    if (metric.name === "trigger_accuracy" && metric.enabled)
      reader.refuse("the metric trigger_accuracy is not known yet", ["metrics", index, "name"], {
        hint: "Leave it out, or write enabled: false; trigger tests are not run.",
      });
}

function noteWithoutEffect({ config, metrics, inputs }: ParsedWazaEval, reader: Reader): void {
  const others = metrics.filter(({ name }) => name !== "trigger_accuracy").map(({ name }) => name);
  if (others.length > 0)
    reader.note(`metrics have no effect (${others.join(", ")}): verdicts come from graders and expected`, [
      "metrics",
    ]);
  if (saysSomething(inputs)) reader.note("inputs have no effect without tasks_from", ["inputs"]);
  if (config.fail_fast)
    reader.note("fail_fast has no effect; pass --bail to stop early", ["config", "fail_fast"]);
  if (config.group_by !== undefined) reader.note("group_by has no effect", ["config", "group_by"]);
  if (config.judge_model !== undefined)
    reader.note("judge_model has no effect: no grader that is known asks a judge", ["config", "judge_model"]);
}

/** Who plays: those asked for, else `agent` or `agents`, which that tool does not have, else what `executor` means. */
function readWazaAgents(
  { agent, agents, config }: ParsedWazaEval,
  requested: readonly string[],
  reader: LenientReader,
): DeclaredAgents {
  const { executor, model } = config;
  const isDeclared = agent !== undefined || Object.keys(agents).length > 0;
  if (isDeclared || requested.length > 0) {
    const winner = requested.length > 0 ? "--agent" : agent === undefined ? "agents" : "agent";
    if (executor !== undefined) reader.note(`executor has no effect: ${winner} wins`, ["config", "executor"]);
    if (model !== undefined) reader.note(`model has no effect: ${winner} wins`, ["config", "model"]);
    return { agent, agents };
  }
  if (executor === "copilot-sdk")
    return { agent: { type: "acp", preset: "copilot", env: {}, inheritEnv: [], model } };
  const hint =
    "Add agents: {NAME: {type: scripted, plan: …}} for a run without a model, or choose an agent with --agent.";
  if (executor === "mock") {
    const message = "the executor mock calls no tools, so its trials say nothing of a server";
    reader.refuse(message, ["config", "executor"], { hint });
    return {};
  }
  reader.problem({
    code: "config/missing-key",
    message: 'missing key "executor" in config: no agent plays the tasks',
    path: ["config"],
    at: "key",
    hint: `Write executor: copilot-sdk. ${hint}`,
  });
  return {};
}

export interface ReadServersContext {
  readonly readFixtures: (path: string) => Fixtures;
  readonly templates: ReadonlyMap<string, string>;
}

/**
 * The servers of an eval, and the sets of them that `variants` make. A mock stands in the place of a server of its name, as in
 * that tool.
 */
function readWazaServers(
  document: JsonObject,
  { readFixtures, templates }: ReadServersContext,
  reader: LenientReader,
): Pick<WazaEval, "servers" | "variants"> {
  const config = isJsonObject(document["config"]) ? document["config"] : {};
  const inConfig = readOverlay(pick(config), ["config"]);
  const atTop = readOverlay(pick(document), []);
  if (inConfig !== undefined && atTop !== undefined) reader.problem(twoTables);
  const overlay = atTop ?? inConfig;
  const declared =
    overlay === undefined ? { ...noServers, problems: [] } : mergeServerTables(undefined, overlay, templates);
  const mocks = mockServers({ mcp_mocks: document["mcp_mocks"] ?? [] }, { path: [], readFixtures });
  const written = { ...declared.written, ...mocks.servers };
  const servers: ServerTable = { written, servers: { ...declared.servers, ...parseServers(mocks.servers) } };
  addAll([...declared.problems, ...mocks.problems], reader);
  const variants = readVariants(document["variants"], reader, { servers, templates });
  return withoutUndefined({ servers, variants });
}

const twoTables: Problem = {
  code: "config/invalid-value",
  message: "mcp_servers is given both in config and at the top",
  path: ["mcp_servers"],
  at: "key",
  hint: "Keep one of them: either is the table of the eval's servers.",
};

/** Only this spelling is a table of servers here. */
function pick({ mcp_servers }: JsonObject): JsonObject {
  return mcp_servers === undefined || mcp_servers === null ? {} : { mcp_servers };
}

interface VariantContext {
  readonly servers: ServerTable;
  readonly templates: ReadonlyMap<string, string>;
}

function readVariants(
  variants: JsonObject[string] | undefined,
  reader: LenientReader,
  { servers, templates }: VariantContext,
): readonly WazaVariant[] | undefined {
  if (!isJsonObject(variants) || Object.keys(variants).length === 0) return undefined;
  const read = Object.entries(variants).map(([name, variant]): WazaVariant => {
    const path = ["variants", name];
    const overlay = isJsonObject(variant) ? readOverlay(pick(variant), path) : undefined;
    if (overlay === undefined) return { name, path };
    addAll(mergeServerTables(servers, overlay, templates).problems, reader);
    return { name, path, overlay };
  });
  if (read.every(({ overlay }) => overlay !== undefined))
    reader.note("only the variants run; to compare with the servers as they are, add NAME: {}", ["variants"]);
  return read;
}

function addAll(problems: readonly Problem[], reader: LenientReader): void {
  for (const problem of problems) reader.problem(problem);
}
