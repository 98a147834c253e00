import type { Diagnostic } from "../../errors/error.ts";
import type { Fixtures } from "../config/mock-tables.ts";
import type { LenientReader as Reader } from "../lenient-reader.ts";
import { LenientReader } from "../lenient-reader.ts";
import { asList, asText } from "../lenient.ts";
import type { JsonObject } from "../model.ts";
import type { Locate } from "../problem.ts";
import { withoutUndefined } from "../without-undefined.ts";
import { readWazaAgents } from "./read-agents.ts";
import { graderNames } from "./grader-names.ts";
import { readGraders } from "./read-graders.ts";
import { readWazaServers } from "./read-servers.ts";
import { refuseParts, saysSomething } from "./refuse-parts.ts";
import type { WazaEval } from "./waza-eval.ts";
import { type ParsedWazaEval, wazaEvalSchema } from "./waza-schema.ts";

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
  /** What can be told of it, so that the tasks can be looked at even when it is wrong. */
  readonly eval: WazaEval;
  /** Whether everything of it could be read, be it refused or not. */
  readonly isWhole: boolean;
  /** What is wrong with it; none: it is valid. */
  readonly diagnostics: readonly Diagnostic[];
  readonly notes: readonly string[];
}

/**
 * Reads an `eval.yaml` of waza, strictly. What it asks for that this version cannot do is refused by name; what has no effect
 * in that tool either, or changes no verdict, is told as a note.
 */
export function parseWazaEval(document: JsonObject, options: ParseWazaEvalOptions): ParsedWazaEvalFile {
  const reader = new LenientReader(options.locate, { strict: true });
  const servers = readWazaServers(document, options, reader);
  const parsed = reader.read(wazaEvalSchema, document);
  const file = parsed === undefined ? outline(document) : readParsed(parsed, options, reader);
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
    agents: { kind: "requested" },
  };
}

function readParsed(
  parsed: ParsedWazaEval,
  { requested }: ParseWazaEvalOptions,
  reader: Reader,
): WithoutServers {
  refuseWhatIsUnknown(parsed, reader);
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

function refuseWhatIsUnknown(
  { config, hooks, tasks_from, range, ...rest }: ParsedWazaEval,
  reader: Reader,
): void {
  refuseParts({ hooks, tasks_from, range }, [], reader);
  const { skill_directories, required_skills, max_attempts } = config;
  refuseParts({ skill_directories, required_skills }, ["config"], reader);
  if (max_attempts > 1)
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
