import * as z from "zod";
import type { Diagnostic } from "../../../base/error.ts";
import { escapeTemplate } from "../../../templates/template.ts";
import type { DeclaredAgents } from "../../../agents/declared-agents.ts";
import {
  mergeServerTables,
  noServers,
  parseServers,
  type ServerOverlay,
  type ServerTable,
} from "../../config/server-tables.ts";
import {
  asList,
  asObject,
  asText,
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../../../base/json.ts";
import { LenientReader } from "../lenient-reader.ts";
import { type GraderTypes, placesOf, readSettings } from "../../../graders/declared.ts";
import type { GraderSpec, Task } from "../../../model/task.ts";
import type { ServerLifetime } from "../../../model/server.ts";
import type { Locate, ParseResult } from "../../../base/problem.ts";
import type { CommandStep, FileStep } from "../../../model/step.ts";
import type { TaskFiles } from "../../task/task-options.ts";
import { type Fixtures, readMcpMocks, readMcpServers } from "./mcp-servers.ts";
import { fillPrompt } from "./task-rows.ts";
import {
  type ParsedWazaEval,
  type ParsedWazaTask,
  readConfig,
  readGraders,
  wazaEvalSchema,
  wazaTaskSchema,
} from "./waza-schema.ts";

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
  /** CSV file with tasks, from the eval's folder, and the rows that are chosen; absent: none. */
  readonly rows?: {
    readonly file: string;
    readonly range?: readonly [first: number, last: number] | undefined;
  };
  /** Variables of prompts; absent: prompts are taken as they are. */
  readonly inputs?: Readonly<Record<string, string>>;
  /** Commands around the run, and around each trial of every task. */
  readonly hooks: ParsedWazaEval["hooks"];
  readonly metrics: readonly Metric[];
  /** Folders of skills for agents, from the eval's folder. */
  readonly skillFolders: readonly string[];
  /** Skills that must be in those folders. */
  readonly requiredSkills: readonly string[];
  /** The skill that `should_trigger` means. */
  readonly skill?: string;
  /** Whether the first trial that does not pass ends the run. */
  readonly bail?: true;
  readonly judgeModel?: string;
  readonly graders: readonly GraderSpec[];
  readonly servers: ServerTable;
  /** Absent when there are none. */
  readonly variants?: readonly WazaVariant[];
  /** Lifetime of servers that have none of their own; absent: `per_run`. */
  readonly lifetime?: ServerLifetime;
  /** Those that it declares; else the Copilot CLI, where its executor means that. */
  readonly agents: DeclaredAgents;
}

/** A metric: what measures it, and what it has to be at least. */
export interface Metric {
  /** `passRate`, `score`, or the name of a grader, whose weight it multiplies. */
  readonly name: string;
  readonly weight: number;
  readonly threshold?: number | undefined;
  readonly path: KeyPath;
}

interface WazaVariant {
  readonly name: string;
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
  readonly graderTypes: GraderTypes;
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
    graders: [],
    hooks: { before_run: [], after_run: [], before_task: [], after_task: [] },
    metrics: [],
    skillFolders: [],
    requiredSkills: [],
    agents: {},
  };
}

/** Trials at once where `parallel` says no number. */
const defaultWorkers = 4;

function readParsed(
  parsed: ParsedWazaEval,
  document: JsonObject,
  { requested, graderTypes }: ParseWazaEvalOptions,
  reader: LenientReader,
): WithoutServers {
  const { config, tasks } = parsed;
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
      "baseline is refused: every trial counts, so that the run would fail where skills make a difference",
      ["baseline"],
      {
        at: "key",
        hint: "Compare two runs in mcpvals dashboard, one without skill_directories; or sets of servers, with variants: {with: {}, without: {mcp_servers: {NAME: null}}}.",
      },
    );
  const isFromRows = parsed.tasks_from !== undefined;
  if (isFromRows && tasks.length > 0) reader.note("tasks has no effect beside tasks_from", ["tasks"]);
  if (parsed.range !== undefined && !isFromRows)
    reader.refuse("range has no effect without tasks_from", ["range"], { at: "key", hint: "Leave it out." });
  if (parsed.range !== undefined && parsed.range[0] > parsed.range[1])
    reader.refuse("range begins after its end", ["range"], {
      hint: "Write [FIRST, LAST]; the first row is 1.",
    });
  if (workers !== undefined && max_workers !== undefined && workers !== max_workers)
    reader.refuse(
      "workers and max_workers are the same setting, with two values",
      ["config", "max_workers"],
      { hint: "Keep one of them." },
    );
  const count = workers || max_workers || undefined;
  const key = workers ? "workers" : "max_workers";
  // As in that tool without `parallel` the workers are not used.
  if (!parallel && count !== undefined)
    reader.note(`${key} has no effect without parallel: true`, ["config", key]);
  if (tasks.length === 0 && !isFromRows)
    reader.refuse("the eval has no tasks", [], {
      code: "config/nothing-to-run",
      hint: "Name its task files in tasks: paths or globs, from the eval's folder.",
    });
  return withoutUndefined({
    name: parsed.name,
    trials: config.trials_per_task,
    timeoutMs: config.timeout_seconds,
    concurrency: parallel ? (count ?? defaultWorkers) : undefined,
    tasks: isFromRows ? [] : tasks,
    rows: parsed.tasks_from === undefined ? undefined : { file: parsed.tasks_from, range: parsed.range },
    inputs: isFromRows || Object.keys(parsed.inputs).length > 0 ? parsed.inputs : undefined,
    hooks: parsed.hooks,
    metrics: readMetrics(parsed.metrics, reader),
    skillFolders: config.skill_directories,
    requiredSkills: config.required_skills,
    skill: parsed.skill,
    bail: config.fail_fast ? true : undefined,
    judgeModel: config.judge_model,
    graders: readGraders(parsed.graders, [], graderTypes, reader),
    lifetime: config.mcp_server_lifetime,
    agents: readAgents(parsed, requested, reader),
  });
}

/** The metrics that count. That tool's `task_completion` is the pass rate. */
function readMetrics(metrics: ParsedWazaEval["metrics"], reader: LenientReader): readonly Metric[] {
  const seen = new Set<string>();
  return metrics.flatMap(({ name: written, weight, threshold, enabled }, index): Metric[] => {
    const path = ["metrics", index, "name"];
    const name = written === "task_completion" ? "passRate" : written;
    if (!enabled) return [];
    if (seen.has(name))
      reader.refuse(`two metrics are named ${JSON.stringify(written)}`, path, {
        code: "config/duplicate-name",
      });
    seen.add(name);
    return [{ name, weight, threshold, path }];
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
  if (executor === "mock") {
    const message = "the executor mock calls no tools, so its trials say nothing of a server";
    const hint =
      "Add agents: {NAME: {type: scripted, plan: …}} for a run without a model, or choose an agent with --agent.";
    reader.refuse(message, ["config", "executor"], { hint });
    return {};
  }
  return { agent: { type: "acp", preset: "copilot", env: {}, inheritEnv: [], model } };
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
  const { config, variants, mcp_mocks: list } = document;
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
  const mocks = readMcpMocks(list, readFixtures);
  const servers: ServerTable = {
    written: { ...declared.written, ...mocks.servers },
    servers: { ...declared.servers, ...parseServers(mocks.servers) },
  };
  for (const problem of [...problems, ...mocks.problems]) reader.problem(problem);
  if (!isJsonObject(variants) || Object.keys(variants).length === 0) return { servers };
  const read = Object.entries(variants).map(([name, variant]): WazaVariant => {
    const path = ["variants", name];
    const above = overlayOf(variant, path);
    if (above === undefined) return { name };
    for (const problem of mergeServerTables(servers, above, templates).problems) reader.problem(problem);
    return { name, overlay: above };
  });
  if (read.every((each) => each.overlay !== undefined))
    reader.note("only the variants run; to compare with the servers as they are, add NAME: {}", ["variants"]);
  return { servers, variants: read };
}

/** The servers of `mcp_servers`. */
function overlayOf(container: Json | undefined, path: KeyPath): ServerOverlay | undefined {
  const table = isJsonObject(container) ? container["mcp_servers"] : undefined;
  return table === undefined || table === null ? undefined : readMcpServers(table, [...path, "mcp_servers"]);
}

export interface ParseWazaTaskOptions {
  readonly locate: Locate;
  /** Absolute path of the task's file. */
  readonly file: string;
  /** The eval that the task belongs to. */
  readonly eval: Pick<WazaEval, "graders" | "concurrency" | "hooks" | "skill">;
  /** Absolute path of the eval's folder. */
  readonly evalDir: string;
  /** What its prompt may name; absent: the prompt is taken as it is. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
  readonly graderTypes: GraderTypes;
  /** Absolute path of the folder that `inputs.files` start from; `contextDir` is the task's own. */
  readonly contextFolder: (contextDir: string | undefined) => string;
  /** Reads a text beside the task's file; undefined where no such file is. */
  readonly readPromptFile: (path: string) => string | undefined;
  /** Whether the graders of the eval are all known; a task that has none else can then be refused. */
  readonly isEvalWhole: boolean;
  /** What its workspace has of that folder besides `inputs.files`; absent: nothing. */
  readonly fixtures?: readonly string[] | undefined;
  /** What a path in `inputs.files` leads to. */
  readonly lookAt: (folder: string, path: string) => ReturnType<TaskFiles["look"]>;
}

/** A task, before its servers are known. */
export interface WazaTask {
  readonly task: Omit<Task, "servers">;
  readonly enabled: boolean;
  /** Absent: the servers of the eval. */
  readonly overlay?: ServerOverlay;
}

export type ParsedWazaTaskFile = ParseResult<{ readonly read: WazaTask; readonly notes: readonly string[] }>;

/** Reads a task file of waza, strictly. Its texts are taken as they are, but for the prompt where there are variables. */
export function parseWazaTask(document: Json, options: ParseWazaTaskOptions): ParsedWazaTaskFile {
  const reader = new LenientReader(options.locate, { strict: true });
  const overlay = overlayOf(document, []);
  for (const problem of overlay?.problems ?? []) reader.problem(problem);
  const parsed = reader.read(wazaTaskSchema, document);
  if (parsed === undefined) return { ok: false, diagnostics: reader.diagnostics() };
  const { graders: shared } = options.eval;
  const graders = [
    ...shared,
    ...readExpected(parsed.expected, options, reader),
    ...readGraders(parsed.graders, shared, options.graderTypes, reader),
  ];
  refuseUnsupported(wazaTaskSchema, document, [], reader);
  const task = buildTask(parsed, graders, options, reader);
  if (!reader.failed && options.isEvalWhole && !graders.some(({ required }) => required))
    reader.refuse(`the task ${JSON.stringify(task.name)} checks nothing, so it could not fail`, ["id"], {
      code: "config/checks-nothing",
      hint: "Give it expected.tool_calls, expected.behavior, or graders.",
    });
  if (reader.failed) return { ok: false, diagnostics: reader.diagnostics() };
  const read = withoutUndefined({ task, enabled: parsed.enabled, overlay });
  return { ok: true, read, notes: reader.notes };
}

const cleanupTimeoutMs = 60_000;

function buildTask(
  parsed: ParsedWazaTask,
  graders: readonly GraderSpec[],
  options: ParseWazaTaskOptions,
  reader: LenientReader,
): WazaTask["task"] {
  const { id, name, description, inputs, timeout_seconds: timeoutMs, tags } = parsed;
  const dir = options.contextFolder(parsed.context_dir);
  const { before_task: before, after_task: after } = options.eval.hooks;
  const files = readFiles(inputs.files, dir, options, reader);
  const titles = [name, description].filter((text) => text !== undefined && text !== id);
  return withoutUndefined({
    name: id,
    form: "task" as const,
    description: titles.join(": ") || undefined,
    turns: readPrompts(parsed, options, reader).map((user) => ({ user: escapeTemplate(user) })),
    expectTools: [],
    verify: [],
    parallel: options.eval.concurrency !== undefined,
    graders,
    location: options.locate({ path: ["id"], at: "value" }),
    portable: withoutUndefined({
      format: "waza" as const,
      file: options.file,
      dir,
      env: {},
      fixtures: [...(options.fixtures ?? []), ...files.fixtures],
      setup: [...hookSteps("before_task", before, options.evalDir), ...files.setup],
      cleanup: hookSteps("after_task", after, options.evalDir).toReversed(),
      requires: [],
      tags,
      labels: {},
      timeoutMs,
      cleanupTimeoutMs,
      stateProbe: [],
      randomPorts: [],
      assertions: [],
      inheritEnv: [],
    }),
  });
}

/** What the user says, turn by turn. */
function readPrompts(
  { id, name: taskName = id, inputs }: ParsedWazaTask,
  { variables, readPromptFile }: ParseWazaTaskOptions,
  reader: LenientReader,
): readonly string[] {
  const { prompt_file: file, follow_up_prompts: others } = inputs;
  const key = file === undefined ? "prompt" : "prompt_file";
  const first = file === undefined ? inputs.prompt : readPromptFile(file);
  if (first === undefined) {
    const message = `inputs.prompt_file: there is no file ${JSON.stringify(file)} in the task's folder`;
    reader.refuse(message, ["inputs", key], { code: "config/not-found" });
  }
  const prompts = [
    { text: first ?? "", path: ["inputs", key] },
    ...others.map((text, index) => ({ text, path: ["inputs", "follow_up_prompts", index] })),
  ];
  return prompts.map(({ text, path }) => {
    const filled = variables === undefined ? { text } : fillPrompt(text, { taskName, variables });
    if ("text" in filled) return filled.text;
    reader.refuse(`${formatKeyPath(path)}: ${filled.wrong}`, path, { hint: filled.hint });
    return text;
  });
}

/** Hooks as steps, which run in the eval's folder. A failure counts only where the hook says so. */
function hookSteps(
  key: string,
  hooks: WazaEval["hooks"]["before_task"],
  evalDir: string,
): readonly CommandStep[] {
  return hooks.map(({ command, working_directory: folder = ".", exit_codes, error_on_fail }, index) => {
    const goes = [evalDir, folder].map((path) => `cd ${quoted(path)} || exit 1\n`).join("");
    const isUsual = exit_codes.join() === "0";
    const run = isUsual
      ? command
      : `(${command}\n)\ncase $? in ${exit_codes.join("|")}) exit 0;; *) exit 1;; esac`;
    return {
      id: `${key}[${index}]`,
      type: "command",
      run: escapeTemplate(`${goes}${run}`),
      shell: "sh",
      env: {},
      timeoutMs: 60_000,
      expect: { exitCode: 0 },
      ...(error_on_fail ? {} : { continueOnError: true }),
    };
  });
}

function quoted(path: string): string {
  return `'${path.replaceAll("'", String.raw`'\''`)}'`;
}

/** Files of the context folder that are copied (`fixtures`), and steps that write those with contents of their own. */
function readFiles(
  files: ParsedWazaTask["inputs"]["files"],
  folder: string,
  options: ParseWazaTaskOptions,
  reader: LenientReader,
): { readonly fixtures: readonly string[]; readonly setup: readonly FileStep[] } {
  const fixtures: string[] = [];
  const setup: FileStep[] = [];
  const seen = new Set<string>();
  for (const [index, { path, content }] of files.entries()) {
    const at = ["inputs", "files", index, "path"];
    const plain = path.replace(/^(?:\.\/)+/, "");
    const found = content === undefined ? options.lookAt(folder, plain) : "file";
    const reason =
      reasonAgainst(plain) ??
      (seen.has(plain) ? "is a duplicate" : undefined) ??
      (found === "outside" ? "leads out of its folder, through a link" : undefined);
    seen.add(plain);
    if (reason !== undefined) reader.refuse(`${formatKeyPath(at)} ${reason}`, at);
    else if (content !== undefined)
      setup.push({
        id: `files[${index}]`,
        type: "file",
        path: `{workspace}/${escapeTemplate(plain)}`,
        timeoutMs: 30_000,
        action: { kind: "create", content: escapeTemplate(content), mode: 0o644 },
      });
    else if (found === "file") fixtures.push(plain);
    else {
      const message = `${formatKeyPath(at)}: there is no file ${JSON.stringify(path)} in ${folder}`;
      const hint =
        "Files are taken from context_dir, else from the folder fixtures beside the eval; or give content.";
      reader.refuse(message, at, { code: "config/not-found", hint });
    }
  }
  return { fixtures, setup };
}

function reasonAgainst(path: string): string | undefined {
  const parts = path.split(/[\\/]/);
  if (parts[0] === "" || /^[A-Za-z]:/.test(path) || parts.includes(".."))
    return "must stay inside the workspace: relative, and without ..";
  const isFile = path !== "" && path !== "." && !path.includes("\0") && !path.endsWith("/");
  return isFile ? undefined : "is not a path of a file";
}

/** Reads `expected` of a task: each of its parts is graded as a grader of its type would. */
function readExpected(
  {
    tool_calls,
    behavior,
    output_contains,
    output_contains_any,
    output_not_contains,
    should_trigger: isTriggered,
    outcomes,
  }: ParsedWazaTask["expected"],
  { graderTypes: { types, dir, locate, ...disk }, eval: { skill } }: ParseWazaTaskOptions,
  reader: LenientReader,
): readonly GraderSpec[] {
  const output = {
    contains: output_contains,
    contains_any: output_contains_any,
    not_contains: output_not_contains,
  };
  const hasOutput = Object.values(output).some((texts) => texts !== undefined);
  if (isTriggered !== undefined && skill === undefined)
    reader.refuse("should_trigger has no skill to look for", ["expected", "should_trigger"], {
      at: "key",
      hint: "Write skill: NAME in the eval.",
    });
  const called = outcomes.flatMap((outcome, index) => {
    const { type, tool_name: name, value, condition } = outcome;
    if (type === "task_completed" && (name ?? value ?? condition) === undefined) return [];
    const tool = name ?? asText(value);
    if (type === "tool_called" && tool !== undefined && condition === undefined) return [tool];
    reader.refuse(
      `outcomes[${index}] is refused: nothing says how it is recognised`,
      ["expected", "outcomes", index],
      {
        hint: "Write type: task_completed, or tool_called with tool_name; else output_contains, tool_calls or a grader.",
      },
    );
    return [];
  });
  const parts = [
    {
      key: "outcomes",
      type: "tool_calls",
      config: called.length === 0 ? undefined : { required_tools: called },
    },
    {
      key: "tool_calls",
      type: "tool_calls",
      config: tool_calls && readConfig("tool_calls", tool_calls, ["expected", "tool_calls"], reader),
    },
    {
      key: "behavior",
      type: "behavior",
      config: behavior && readConfig("behavior", behavior, ["expected", "behavior"], reader),
    },
    { key: "output", type: "text", config: hasOutput ? withoutUndefined(output) : undefined },
    {
      key: "should_trigger",
      type: "trigger",
      config:
        isTriggered === undefined || skill === undefined
          ? undefined
          : { skill, mode: isTriggered ? "positive" : "negative" },
    },
  ];
  return parts.flatMap(({ key, type, config }): GraderSpec[] => {
    const settings = types[type];
    if (config === undefined || settings === undefined) return [];
    const read = readSettings(settings, config, ["expected", key], disk, (each) => reader.problem(each));
    const common = { name: `expected.${key}`, weight: 1, required: true, dir };
    const location = locate?.({ path: ["expected", key], at: "value" });
    const places = locate && placesOf(config, ["expected", key], locate);
    return read === undefined ? [] : [withoutUndefined({ type, ...common, ...read, location, places })];
  });
}

/** Refuses by name the parts of a value that its schema marks as `refused` and that are more than empty. */
function refuseUnsupported(
  schema: z.core.$ZodType,
  value: unknown,
  path: KeyPath,
  reader: LenientReader,
): void {
  if (schema instanceof z.ZodObject) {
    const members = asObject(value);
    for (const [key, member] of Object.entries(schema.shape)) {
      const refusal = refusalOf(member);
      if (refusal === undefined) refuseUnsupported(member, members[key], [...path, key], reader);
      else if (saysSomething(members[key]))
        reader.refuse(`${key} is refused: ${refusal.why}`, [...path, key], { at: "key", hint: refusal.hint });
    }
  } else if (schema instanceof z.ZodArray) {
    for (const [index, item] of asList(value).entries())
      refuseUnsupported(schema.element, item, [...path, index], reader);
  } else if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  )
    refuseUnsupported(schema.unwrap(), value, path, reader);
}

function refusalOf(schema: z.core.$ZodType): { readonly why: string; readonly hint: string } | undefined {
  const refusal = asObject(schema instanceof z.ZodType ? schema.meta()?.["refused"] : undefined);
  const [why, hint] = [asText(refusal["why"]), asText(refusal["hint"])];
  return why === undefined || hint === undefined ? undefined : { why, hint };
}

/** Whether a part is more than empty. */
function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === 0 || value === false) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
