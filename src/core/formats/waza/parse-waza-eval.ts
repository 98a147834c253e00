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
import {
  asList,
  asText,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { ServerLifetime } from "../model.ts";
import type { Locate } from "../problem.ts";
import { type PlacedAssertions, readGraders, refuseUnsupported, saysSomething } from "./read-graders.ts";
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
  const servers = readServers(document, options, reader);
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

/** Trials at once where `parallel` says no number. */
const usualWorkers = 4;

function readParsed(
  parsed: ParsedWazaEval,
  document: JsonObject,
  { requested }: ParseWazaEvalOptions,
  reader: LenientReader,
): WithoutServers {
  const { config, tasks, metrics } = parsed;
  const { workers, max_workers, parallel } = config;
  refuseUnsupported(wazaEvalSchema, document, [], reader);
  if (config.max_attempts > 1)
    reader.refuse(
      "max_attempts over 1 is refused: trying again until it passes hides flakiness",
      ["config", "max_attempts"],
      { hint: "Leave it out, and raise trials_per_task: every trial counts." },
    );
  if (parsed.baseline)
    reader.refuse(
      "baseline is not known yet: it takes away skills, which this version gives no agent",
      ["baseline"],
      {
        at: "key",
        hint: "Compare sets of servers with variants: {with: {}, without: {mcp_servers: {NAME: null}}}.",
      },
    );
  for (const [index, { name, enabled }] of metrics.entries())
    if (name === "trigger_accuracy" && enabled)
      reader.refuse("the metric trigger_accuracy is not known yet", ["metrics", index, "name"], {
        hint: "Leave it out, or write enabled: false; trigger tests are not run.",
      });
  const others = metrics.map(({ name }) => name).filter((name) => name !== "trigger_accuracy");
  if (others.length > 0)
    reader.note(`metrics have no effect (${others.join(", ")}): verdicts come from graders and expected`, [
      "metrics",
    ]);
  if (saysSomething(parsed.inputs)) reader.note("inputs have no effect without tasks_from", ["inputs"]);
  if (config.fail_fast)
    reader.note("fail_fast has no effect; pass --bail to stop early", ["config", "fail_fast"]);
  if (config.group_by !== undefined) reader.note("group_by has no effect", ["config", "group_by"]);
  if (config.judge_model !== undefined)
    reader.note("judge_model has no effect: no grader that is known asks a judge", ["config", "judge_model"]);
  const { assertions, names } = readGraders(parsed.graders, new Set(), reader);
  if (workers !== undefined && max_workers !== undefined && workers !== max_workers)
    reader.refuse(
      "workers and max_workers are the same setting, with two values",
      ["config", "max_workers"],
      { hint: "Keep one of them." },
    );
  const count = workers ?? max_workers;
  const key = workers === undefined ? "max_workers" : "workers";
  // As in that tool without `parallel` the workers are not used.
  if (!parallel && count !== undefined)
    reader.note(`${key} has no effect without parallel: true`, ["config", key]);
  if (tasks.length === 0 && !saysSomething(parsed.tasks_from))
    reader.refuse("the eval has no tasks", [], {
      code: "config/nothing-to-run",
      hint: "Name its task files in tasks: paths or globs, from the eval's folder.",
    });
  return withoutUndefined({
    name: parsed.name,
    trials: config.trials_per_task,
    timeoutMs: config.timeout_seconds,
    concurrency: parallel ? (count ?? usualWorkers) : undefined,
    tasks,
    assertions,
    graderNames: new Set(names),
    lifetime: config.mcp_server_lifetime,
    agents: readAgents(parsed, requested, reader),
  });
}

/** Who plays: those asked for, else `agent` or `agents`, which that tool does not have, else what `executor` means. */
function readAgents(
  { agent, agents, config: { executor, model } }: ParsedWazaEval,
  requested: readonly string[],
  reader: LenientReader,
): DeclaredAgents {
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
  } else {
    const message = 'missing key "executor" in config: no agent plays the tasks';
    const more = `Write executor: copilot-sdk. ${hint}`;
    reader.refuse(message, ["config"], { code: "config/missing-key", at: "key", hint: more });
  }
  return {};
}

/**
 * The servers of an eval, and the sets of them that `variants` make. A mock replaces a server of its name, as in
 * that tool.
 */
function readServers(
  document: JsonObject,
  { readFixtures, templates }: ParseWazaEvalOptions,
  reader: LenientReader,
): Pick<WazaEval, "servers" | "variants"> {
  const { config, variants, mcp_mocks: list = [] } = document;
  const inConfig = overlayOf(config, ["config"]);
  const atTop = overlayOf(document, []);
  if (inConfig !== undefined && atTop !== undefined)
    reader.refuse("mcp_servers is given both in config and at the top", ["mcp_servers"], {
      at: "key",
      hint: "Keep one of them: either is the table of the eval's servers.",
    });
  const overlay = atTop ?? inConfig;
  const { problems, ...declared } =
    overlay === undefined ? { ...noServers, problems: [] } : mergeServerTables(undefined, overlay, templates);
  const mocks = mockServers({ mcp_mocks: list }, { path: [], readFixtures });
  const servers: ServerTable = {
    written: { ...declared.written, ...mocks.servers },
    servers: { ...declared.servers, ...parseServers(mocks.servers) },
  };
  for (const problem of [...problems, ...mocks.problems]) reader.problem(problem);
  if (!isJsonObject(variants) || Object.keys(variants).length === 0) return { servers };
  const read = Object.entries(variants).map(([name, variant]): WazaVariant => {
    const path = ["variants", name];
    const above = overlayOf(variant, path);
    if (above === undefined) return { name, path };
    for (const problem of mergeServerTables(servers, above, templates).problems) reader.problem(problem);
    return { name, path, overlay: above };
  });
  if (read.every((each) => each.overlay !== undefined))
    reader.note("only the variants run; to compare with the servers as they are, add NAME: {}", ["variants"]);
  return { servers, variants: read };
}

/** The servers of `mcp_servers`, the only spelling of such a table here. */
export function overlayOf(container: Json | undefined, path: KeyPath): ServerOverlay | undefined {
  const table = isJsonObject(container) ? container["mcp_servers"] : undefined;
  return table === undefined || table === null ? undefined : readOverlay({ mcp_servers: table }, path);
}
