import * as z from "zod";
import { type Diagnostic, messageOf } from "../../errors/error.ts";
import { compilePattern } from "../../templates/pattern.ts";
import { escapeTemplate } from "../../templates/template.ts";
import type { DeclaredAgents } from "../config/agent.ts";
import {
  mergeServerTables,
  noServers,
  parseServers,
  readOverlay,
  type ServerOverlay,
  type ServerTable,
} from "../config/server-tables.ts";
import { type Fixtures, mockServers } from "../config/server.ts";
import { suggestion } from "../did-you-mean.ts";
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
} from "../json.ts";
import { LenientReader } from "../lenient-reader.ts";
import {
  assertionKinds,
  type AssertionSet,
  type CallPattern,
  type ServerLifetime,
  type Task,
} from "../model.ts";
import type { Locate } from "../problem.ts";
import type { FileStep } from "../step.ts";
import type { TaskFiles } from "../task/task-options.ts";
import {
  behaviorSchema,
  type ParsedWazaEval,
  type ParsedWazaTask,
  toolCallsSchema,
  toolConstraintSchema,
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
    if (above === undefined) return { name };
    for (const problem of mergeServerTables(servers, above, templates).problems) reader.problem(problem);
    return { name, overlay: above };
  });
  if (read.every((each) => each.overlay !== undefined))
    reader.note("only the variants run; to compare with the servers as they are, add NAME: {}", ["variants"]);
  return { servers, variants: read };
}

/** The servers of `mcp_servers`, the only spelling of such a table here. */
function overlayOf(container: Json | undefined, path: KeyPath): ServerOverlay | undefined {
  const table = isJsonObject(container) ? container["mcp_servers"] : undefined;
  return table === undefined || table === null ? undefined : readOverlay({ mcp_servers: table }, path);
}

export interface ParseWazaTaskOptions {
  readonly locate: Locate;
  /** Absolute path of the task's file. */
  readonly file: string;
  /** The eval that the task belongs to. */
  readonly eval: Pick<WazaEval, "assertions" | "graderNames" | "concurrency">;
  /** Absolute path of the folder that `inputs.files` start from; `contextDir` is the task's own. */
  readonly contextFolder: (contextDir: string | undefined) => string;
  /** Whether the graders of the eval are all known; a task that has none else can then be refused. */
  readonly isEvalWhole: boolean;
  /** What a path in `inputs.files` leads to. */
  readonly lookAt: (folder: string, path: string) => ReturnType<TaskFiles["look"]>;
}

/** A task, before its servers are known. */
export interface WazaTask {
  readonly task: Omit<Task, "servers">;
  readonly enabled: boolean;
  /** Absent: the servers of the eval. */
  readonly overlay?: ServerOverlay;
  /** What its own graders and expectations assert. */
  readonly assertions: readonly PlacedAssertions[];
}

export type ParsedWazaTaskFile =
  | { readonly ok: true; readonly read: WazaTask; readonly notes: readonly string[] }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

/** Reads a task file of waza, strictly. Its texts are taken as they are: nothing in braces is replaced. */
export function parseWazaTask(document: Json, options: ParseWazaTaskOptions): ParsedWazaTaskFile {
  const reader = new LenientReader(options.locate, { strict: true });
  const overlay = overlayOf(document, []);
  for (const problem of overlay?.problems ?? []) reader.problem(problem);
  const parsed = reader.read(wazaTaskSchema, document);
  if (parsed === undefined) return { ok: false, diagnostics: reader.diagnostics() };
  const graders = readGraders(parsed.graders, options.eval.graderNames, reader);
  const assertions = [...readExpected(parsed.expected), ...graders.assertions];
  for (const key of ["context", "environment"] as const)
    if (saysSomething(parsed.inputs[key])) reader.note(`inputs.${key} has no effect`, ["inputs", key]);
  refuseUnsupported(wazaTaskSchema, document, [], reader);
  const task = buildTask(parsed, assertions, options, reader);
  if (!reader.failed && options.isEvalWhole && task.portable?.assertions.length === 0)
    reader.refuse(`the task ${JSON.stringify(task.name)} checks nothing, so it could not fail`, ["id"], {
      code: "config/checks-nothing",
      hint: "Give it expected.tool_calls, expected.behavior, or a grader of type behavior, tool_calls or tool_constraint.",
    });
  if (reader.failed) return { ok: false, diagnostics: reader.diagnostics() };
  const read = withoutUndefined({ task, enabled: parsed.enabled, overlay, assertions });
  return { ok: true, read, notes: reader.notes };
}

const cleanupTimeoutMs = 60_000;

function buildTask(
  parsed: ParsedWazaTask,
  assertions: readonly PlacedAssertions[],
  options: ParseWazaTaskOptions,
  reader: LenientReader,
): WazaTask["task"] {
  const { id, name, description, inputs, timeout_seconds: timeoutMs, tags } = parsed;
  const dir = options.contextFolder(parsed.context_dir);
  const titles = [name, description].filter((text) => text !== undefined && text !== id);
  return withoutUndefined({
    name: id,
    form: "task" as const,
    description: titles.join(": ") || undefined,
    turns: [{ user: escapeTemplate(inputs.prompt) }],
    expectTools: [],
    verify: [],
    parallel: options.eval.concurrency !== undefined,
    location: options.locate({ path: ["id"], at: "value" }),
    portable: withoutUndefined({
      format: "waza" as const,
      file: options.file,
      dir,
      env: {},
      ...readFiles(inputs.files, dir, options, reader),
      cleanup: [],
      requires: [],
      tags,
      labels: {},
      timeoutMs,
      cleanupTimeoutMs,
      stateProbe: [],
      randomPorts: [],
      assertions: [...options.eval.assertions, ...assertions]
        .map(({ set }) => set)
        .filter((set) => assertionKinds(set).length > 0),
      inheritEnv: [],
    }),
  });
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
  return isFile ? undefined : "is no path of a file";
}

/** What a grader or an expectation asserts, and its place. */
export interface PlacedAssertions {
  readonly set: AssertionSet;
  readonly path: KeyPath;
}

/** Types of graders of that tool that this version does not have. */
const laterTypes =
  "text file diff program code json_schema action_sequence skill_invocation prompt mcp_compliance trigger script llm llm_comparison human human_calibration".split(
    " ",
  );

/** Reads the `config` of a grader by its type. Undefined for one that is wrong; why is among the reader's problems. */
type ReadConfig = (config: unknown, path: KeyPath, reader: LenientReader) => AssertionSet | undefined;

function readerOf<S extends z.ZodType>(
  schema: S,
  read: (config: z.output<S>, path: KeyPath, reader: LenientReader) => AssertionSet,
): ReadConfig {
  return (config, path, reader) => {
    const parsed = reader.read(schema, config, path);
    if (parsed === undefined) return undefined;
    refuseUnsupported(schema, config, path, reader);
    return read(parsed, path, reader);
  };
}

const graderTypes: ReadonlyMap<string, ReadConfig> = new Map([
  ["behavior", readerOf(behaviorSchema, readBehavior)],
  ["tool_constraint", readerOf(toolConstraintSchema, readConstraint)],
  ["tool_calls", readerOf(toolCallsSchema, readCalls)],
]);

/**
 * Reads graders as assertions on the agent's calls. What is not supported is refused by name. A grader without a name has its
 * type's; a duplicate name, also of those that are `taken`, is refused: in that tool the later grader would replace the earlier.
 */
export function readGraders(
  graders: ParsedWazaTask["graders"],
  taken: ReadonlySet<string>,
  reader: LenientReader,
): { readonly assertions: readonly PlacedAssertions[]; readonly names: readonly string[] } {
  const names = new Set([...taken, ...graders.flatMap(({ name }) => name ?? [])]);
  const seen = new Set(taken);
  const assertions: PlacedAssertions[] = [];
  const own = graders.map(({ type, name, weight, config = {} }, index) => {
    const path = ["graders", index];
    const grader = name ?? unusedName(type, names);
    if (name !== undefined && seen.has(name)) {
      const at = [...path, "name"];
      const hint = "Rename one of them; those of the eval grade every task.";
      const message = `${formatKeyPath(at)}: another grader has this name`;
      reader.refuse(message, at, { code: "config/duplicate-name", hint });
    }
    seen.add(grader);
    const readConfig = graderTypes.get(type);
    if (readConfig === undefined) refuseType(type, [...path, "type"], reader);
    else if (weight !== undefined)
      reader.note("weight has no effect: every grader has to pass", [...path, "weight"]);
    const set = readConfig?.(config, [...path, "config"], reader);
    if (set === undefined) return grader;
    if (assertionKinds(set).length === 0) {
      const message = `the grader ${formatKeyPath(path)} checks nothing, so it could not fail`;
      const hint = "Give it the tools or limits to look at in config.";
      reader.refuse(message, path, { code: "config/checks-nothing", hint });
    }
    assertions.push({ set: { ...set, grader }, path });
    return grader;
  });
  return { assertions, names: own };
}

function unusedName(type: string, names: Set<string>): string {
  let name = type;
  for (let number = 2; names.has(name); number++) name = `${type} ${number}`;
  names.add(name);
  return name;
}

function refuseType(type: string, path: KeyPath, reader: LenientReader): void {
  const known = [...graderTypes.keys()];
  if (laterTypes.includes(type)) {
    const hint = `This version grades by ${known.join(", ")}.`;
    reader.refuse(`graders of type ${type} are not known yet`, path, { hint });
  } else {
    const hint = suggestion(type, [...known, ...laterTypes], "types");
    reader.refuse(`${JSON.stringify(type.slice(0, 80))} is not a type of grader`, path, { hint });
  }
}

/** Reads `expected` of a task. */
function readExpected({
  tool_calls: calls,
  behavior,
}: ParsedWazaTask["expected"]): readonly PlacedAssertions[] {
  const sets = {
    tool_calls: calls && readCalls(calls),
    behavior: behavior && readBehavior({ ...behavior, required_mcp_servers: [], forbidden_mcp_servers: [] }),
  };
  return Object.entries(sets).flatMap(([key, set]) => {
    const path = ["expected", key];
    return set === undefined ? [] : [{ path, set: { ...set, grader: formatKeyPath(path) } }];
  });
}

function readBehavior(config: z.output<typeof behaviorSchema>): AssertionSet {
  const limits = [config.max_tool_calls, config.max_mcp_calls].filter((each) => each !== undefined);
  return assertionsOf(
    [...named(config.required_tools), ...config.required_mcp_servers.map((server) => ({ server }))],
    [...named(config.forbidden_tools), ...config.forbidden_mcp_servers.map((server) => ({ server }))],
    { maxToolCalls: limits.length === 0 ? undefined : Math.min(...limits) },
  );
}

function readCalls(config: z.output<typeof toolCallsSchema>): AssertionSet {
  const limits = { minToolCalls: config.min_calls, maxToolCalls: config.max_calls };
  return assertionsOf(named(config.required_tools), named(config.forbidden_tools), limits);
}

function named(tools: readonly string[]): readonly CallPattern[] {
  return tools.map((name) => ({ name }));
}

function assertionsOf(
  used: readonly CallPattern[],
  unused: readonly CallPattern[],
  limits: { readonly minToolCalls?: number | undefined; readonly maxToolCalls?: number | undefined } = {},
): AssertionSet {
  return withoutUndefined({
    toolsUsed: used.length === 0 ? undefined : used,
    toolsNotUsed: unused.length === 0 ? undefined : unused,
    ...limits,
  });
}

type Constraint = z.output<typeof toolConstraintSchema>;

function readConstraint(
  { expect_tools, reject_tools }: Constraint,
  path: KeyPath,
  reader: LenientReader,
): AssertionSet {
  if (reject_tools.some(({ tool }) => tool !== undefined && isName(tool)))
    reader.note("tools are rejected by their whole names; write .*NAME.* for a part of one", path);
  const read = (specs: Constraint["expect_tools"], key: string): readonly CallPattern[] =>
    specs.flatMap((spec, index) => readSpec(spec, [...path, key, index], reader));
  return assertionsOf(read(expect_tools, "expect_tools"), read(reject_tools, "reject_tools"));
}

function readSpec(
  { tool, source }: Constraint["expect_tools"][number],
  path: KeyPath,
  reader: LenientReader,
): CallPattern[] {
  if (tool === undefined && source === undefined)
    reader.refuse(`missing key "tool" in ${formatKeyPath(path)}: a string`, path, {
      code: "config/missing-key",
    });
  const from = source === undefined ? {} : readSource(source, [...path, "source"], reader);
  const wanted = tool === undefined ? {} : readTool(tool, [...path, "tool"], reader);
  return from === undefined || wanted === undefined ? [] : [{ ...from, ...wanted }];
}

/** Of letters, digits and `_ - . /` it is a name; anything else is a pattern for whole names. */
function readTool(tool: string, path: KeyPath, reader: LenientReader): CallPattern | undefined {
  if (isName(tool)) return { name: tool };
  const pattern = `(?i)^(?:${tool})$`;
  try {
    compilePattern(pattern);
    return { pattern };
  } catch (error) {
    reader.refuse(`${formatKeyPath(path)} is not a valid RE2 pattern`, path, {
      hint: messageOf(error),
    });
    return undefined;
  }
}

function isName(tool: string): boolean {
  return /^[\w./-]+$/.test(tool);
}

function readSource(source: string, path: KeyPath, reader: LenientReader): CallPattern | undefined {
  if (source === "builtin" || source === "skill") return { source };
  const server = /^mcp:(.+)$/.exec(source)?.[1];
  if (server !== undefined) return { server };
  reader.refuse(`${formatKeyPath(path)} must be mcp:SERVER, builtin or skill`, path, {
    hint: "Without source the tools of all servers, and the agent's own, are meant.",
  });
  return undefined;
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
      const isRefused = member instanceof z.ZodType && member.meta()?.["refused"] === true;
      if (!isRefused) refuseUnsupported(member, members[key], [...path, key], reader);
      else if (saysSomething(members[key])) {
        const hint = `Leave ${key} out; nothing that this version cannot look at is ignored.`;
        reader.refuse(`${key} is not known yet`, [...path, key], { at: "key", hint });
      }
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

/** Whether a part is more than empty. */
function saysSomething(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}
