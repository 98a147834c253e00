import * as z from "zod";
import type { SourceLocation } from "../../../base/error.ts";
import { modelId, type ModelSpec, userModelOf, userModelSchema } from "../../../model/agent.ts";
import { namedAgentSchema, type ParsedAgent } from "../../../agents/declared-agents.ts";
import {
  closedObject,
  filledText,
  goDuration,
  nameKey,
  optional,
  texts,
  variableNames,
} from "../../../model/fields.ts";
import {
  assertedServers,
  assertionKinds,
  type Assertions,
  assertionsSchema,
} from "../../../graders/assertions.ts";
import { serverTableFields, spendingFields, userModelDescription } from "../../config/config-schema.ts";
import { withUsualTransports } from "../../config/server-tables.ts";
import { serverSchema, type ServerLifetime } from "../../../model/server.ts";
import { suggestion } from "../../../base/did-you-mean.ts";
import {
  extensionPackageProblems,
  extensionTableSchema,
  missingSandboxProblems,
  type ParsedExtensionTable,
} from "../../../model/extension.ts";
import { graderReader, gradersField, type GraderTypes, thresholdsField } from "../../../graders/declared.ts";
import {
  asObject,
  formatKeyPath,
  type KeyPath,
  memberOf,
  withoutUndefined,
  type Json,
  type JsonObject,
} from "../../../base/json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { SetFiles } from "../../read/read-files.ts";
import type { GraderSpec, UseLimits } from "../../../model/task.ts";
import { type Budget, type Thresholds, useLimitFields } from "../../../model/eval.ts";
import { type Locate, type ParseResult, type Problem, problem } from "../../../base/problem.ts";

/** Kinds of agents that an eval can refer to; those with `openai` in their name are old names of `builtin.llm-agent`. */
const agentTypes = [
  "file",
  "builtin.claude-code",
  "builtin.llm-agent",
  "builtin.openai-agent",
  "builtin.openai-acp",
] as const;

/** For the JSON Schema alone: agents of all but these types need a text under that key. */
function neededUnless(key: string, types: readonly string[]): object {
  const given = { properties: { [key]: { type: "string", minLength: 1 } }, required: [key] };
  return { anyOf: [{ properties: { type: { enum: types } } }, given] };
}

const agentRef = closedObject({
  type: z.enum(agentTypes).describe("`file`, or a built-in agent."),
  path: optional(z.string(), "The agent's file, relative to this file; for `type: file`."),
  model: optional(z.string(), "`PROVIDER:MODEL`; for `builtin.llm-agent`."),
}).meta({
  id: "AgentRef",
  title: "Agent",
  description: "An agent in its own file, or a built-in one.",
  allOf: [
    neededUnless(
      "path",
      agentTypes.filter((type) => type !== "file"),
    ),
    neededUnless("model", ["file", "builtin.claude-code"]),
  ],
});

const judge = closedObject({
  ref: optional(agentRef, "The model that judges, as an agent."),
  env: optional(
    closedObject({
      baseUrlKey: filledText.describe("Variable with the base URL of the provider's API."),
      apiKeyKey: filledText.describe("Variable with the API key."),
      modelNameKey: filledText.describe("Variable with the model: `PROVIDER:MODEL`, or one of OpenAI's."),
    }),
    "Names of environment variables with the judge's model; the older form of `ref`.",
  ),
  passThreshold: optional(z.number().min(0).max(1), "Lowest score that passes."),
}).meta({
  id: "Judge",
  title: "Judge",
  description: "The judge of `llmJudge` and `llm` steps. Without it, a task with such a step is an error.",
  anyOf: [{ required: ["ref"] }, { required: ["env"] }],
});

const source = closedObject({
  repo: filledText.describe("Address of a git repository."),
  ref: filledText.describe("Branch, tag or commit."),
  serverMapping: optional(texts, "Names of its servers, by the names that its tasks use."),
}).meta({
  id: "Source",
  title: "Source",
  description: "Tasks in a git repository. Validated but never fetched; a task set that uses one is refused.",
});

const skills = closedObject({
  sources: z
    .array(
      closedObject({
        type: z.literal("path").describe("A folder beside this file; the only kind."),
        path: filledText.describe(
          "Folder of one skill, or with one folder per skill, relative to this file.",
        ),
      }),
    )
    .describe("Where the skills are."),
}).meta({
  id: "Skills",
  title: "Skills",
  description: "Skills of agent programs, copied to where the program looks for them in its workspace.",
});

const taskSet = closedObject({
  path: optional(filledText, "One task file, relative to this file."),
  glob: optional(filledText, "Task files, relative to this file; files of other kinds are ignored."),
  source: z
    .string()
    .optional()
    .meta({ description: "Name of one of the `sources`. Refused: sources are never fetched.", maxLength: 0 }),
  labelSelector: optional(texts, "Labels that a task must all have."),
  assertions: optional(
    assertionsSchema,
    "Assertions about the agent's calls, in addition to the tasks' own steps.",
  ),
  graders: gradersField("the tasks of this set"),
}).meta({
  id: "TaskSet",
  title: "Task set",
  description: "Tasks, by `path` or by `glob`.",
  oneOf: [{ required: ["path"] }, { required: ["glob"] }],
});

const config = closedObject({
  agent: optional(agentRef, "The agent."),
  agentFile: optional(z.string(), "Older form of `agent: {type: file, path: …}`."),
  agents: optional(
    z.record(nameKey, namedAgentSchema),
    "Agents by name, as in a config: an agent, or a model id. All of them run.",
  ),
  mcpConfigFile: optional(z.string(), "File with `mcpServers`, as MCP clients use, relative to this file."),
  servers: optional(
    z.record(nameKey, serverSchema),
    "Servers by name, as in a config; they take precedence over those of `mcpConfigFile`.",
  ),
  ...serverTableFields,
  inheritEnv: optional(
    variableNames,
    "Environment variables that the tasks' processes get, by name; `true`: all.",
  ),
  llmJudge: judge.optional(),
  userModel: optional(userModelSchema, userModelDescription, "none"),
  extensions: optional(
    extensionTableSchema,
    "Extensions by the names that tasks use, and settings for all of them.",
  ),
  sources: optional(z.record(nameKey, source), "Repositories of tasks, by name."),
  skills: skills.optional(),
  defaultTaskLimits: optional(
    closedObject({
      timeout: goDuration.optional(),
      cleanupTimeout: goDuration.optional(),
      ...useLimitFields,
    }),
    "Limits of tasks that set none: of time, and of what the agent of one trial may use.",
  ),
  runs: optional(z.int().min(1).max(10_000), "Attempts of each task, by each agent."),
  parallel: optional(z.int().min(1).max(1024), "Trials at once, of tasks that are `parallel`."),
  graders: gradersField("every task"),
  thresholds: thresholdsField,
  ...spendingFields,
  taskSets: z.array(taskSet).optional().meta({ description: "Which tasks run.", minItems: 1 }),
}).meta({
  id: "EvalConfig",
  title: "Config",
  description: "Tasks, agent and settings.",
  required: ["taskSets"],
});

/** The eval format: the one source of its validation and its JSON Schema. */
export const evalSchema = closedObject({
  $schema: optional(z.string(), "Address of the JSON Schema, for editors."),
  apiVersion: optional(
    z.string(),
    "`mcp-eval/v1` refuses unknown keys; the older ones and none ignore them.",
  ),
  kind: z.literal("Eval").describe("The kind of file."),
  metadata: closedObject({
    name: optional(z.string(), "Name of the evaluation, for reports."),
    description: optional(z.string(), "For readers of the file."),
  }).optional(),
  config,
}).meta({ title: "mcpvals eval", description: "Which tasks run, with which agents, against which servers." });

/** An eval file as its schema gives it. */
export type ParsedEvalDocument = z.output<typeof evalSchema>;
/** A reference to an agent. */
export type ParsedAgentRef = z.output<typeof agentRef>;

/** A `kind: Eval` file. Paths are as written, relative to the file; durations are in milliseconds. */
export interface EvalFile {
  /** Absent when the file has none. */
  readonly name?: string;
  /** Absent when the file names none; `agents` may still have some. */
  readonly agent?: AgentRef;
  /** Agents that the file has itself, by name. */
  readonly agents: Readonly<Record<string, ParsedAgent>>;
  readonly mcpConfigFile?: string;
  /** What the file itself says of servers: `servers`, `mocks` and `variants`. */
  readonly tables: JsonObject;
  /** Lifetime of servers that set none. */
  readonly serverLifetime?: ServerLifetime;
  readonly seed?: number;
  readonly judge?: JudgeRef;
  /** Settings for extensions, and extensions by the names that tasks use. */
  readonly extensions: ParsedExtensionTable;
  /** For tasks that set none themselves. */
  readonly limits: UseLimits & { readonly timeoutMs?: number; readonly cleanupTimeoutMs?: number };
  readonly graders: readonly GraderSpec[];
  readonly taskSets: readonly TaskSet[];
  readonly runs?: number;
  readonly parallel?: number;
  readonly thresholds?: Thresholds;
  readonly budget?: Budget;
  /** Path of a file. */
  readonly prices?: string;
  readonly userModel?: ModelSpec;
  readonly inheritEnv: readonly string[] | true;
  /** Folders with skills for agents that are programs, as written; absent: it gives none. */
  readonly skills?: readonly string[];
}

/** Which agent is meant. */
export type AgentRef =
  | { readonly kind: "file"; readonly path: string }
  /** `model` is `PROVIDER/MODEL`. */
  | { readonly kind: "llm-agent"; readonly model: string }
  | { readonly kind: "claude-code" };

export type JudgeRef = { readonly passThreshold?: number } & (
  | { readonly kind: "agent"; readonly agent: AgentRef }
  /** Names of variables; the model that is found goes through `modelId` with `openai` as its usual provider. */
  | { readonly kind: "env"; readonly baseURL: string; readonly apiKey: string; readonly model: string }
);

/** Tasks by path or glob; of those, the ones that have all the labels. */
export interface TaskSet {
  readonly files: SetFiles;
  readonly labels: Readonly<Record<string, string>>;
  /** Absent when nothing is asserted. */
  readonly assertions?: Assertions;
  /** Graders of its tasks, besides those of the whole eval. */
  readonly graders: readonly GraderSpec[];
  readonly location?: SourceLocation;
}

export interface ParseEvalOptions {
  readonly locate: Locate;
  /** What graders can be; absent for an eval that declares none. */
  readonly graderTypes?: GraderTypes | undefined;
}

export type ParsedEvalFile = ParseResult<{ readonly eval: EvalFile; readonly notes: readonly string[] }>;

/**
 * Reads a `kind: Eval` file. With `apiVersion: mcp-eval/v1` strictly; else as leniently as the tool that the format comes
 * from, but it says what it ignores or puts right.
 *
 * On purpose not as in that tool, since there the verdict would rest on nothing:
 * - A task set without `path` and `glob`, one with both, and a file without task sets are refused.
 * - Assertions on skills are refused where the eval gives none.
 * - A task set with `source` is refused; there it reads the working folder instead.
 * - An invalid pattern is refused; there it never matches.
 * - A key of an extension that looks like a known one is refused: it may be the sandbox.
 */
export function parseEvalFile(document: unknown, options: ParseEvalOptions): ParsedEvalFile {
  const { locate } = options;
  const [versionKey, version = ""] = memberOf(document, "apiVersion");
  const reader = new LenientReader(locate, { strict: version === "mcp-eval/v1", refusesTypos: isExtension });
  if (version === "gevals/v1alpha1" || version === "gevals/v1alpha2")
    reader.note(`${version} is read as ${version.replace("gevals", "mcpchecker")}`, [versionKey]);
  else if (version !== "" && !versions.some((each) => each === version)) {
    const hint = suggestion(String(version), versions, "versions");
    reader.refuse("the apiVersion is not known", [versionKey], { hint });
  }
  const [key, config] = memberOf(document, "config");
  const usual =
    config === undefined ? document : { ...asObject(document), [key]: withUsualTransports(config as Json) };
  const parsed = reader.read(evalSchema, usual);
  const file = parsed === undefined ? undefined : buildFile(parsed, reader, options);
  if (file === undefined || reader.failed) return { ok: false, diagnostics: reader.diagnostics() };
  return { ok: true, eval: file, notes: reader.notes };
}

const versions = ["mcp-eval/v1", "mcpchecker/v1alpha1", "mcpchecker/v1alpha2"];

/** Whether a path leads to an extension's entry or into it: a sandbox that is misspelt must not be none at all. */
function isExtension([config, extensions, name]: KeyPath): boolean {
  return [config, extensions].join(".").toLowerCase() === "config.extensions" && name !== undefined;
}

/** Problems of assertions on servers that do not exist: such calls are never seen, and `toolsNotUsed` would always hold. */
export function unknownAssertedServers(
  assertions: Assertions,
  path: KeyPath,
  servers: readonly string[],
): Problem[] {
  const unknown = assertedServers(assertions).filter((server) => !servers.includes(server));
  return unknown.map((server) =>
    problem(path, `no server is named ${JSON.stringify(server)}`, {
      code: "config/unknown-reference",
      text: server,
      hint: suggestion(server, servers, "servers"),
    }),
  );
}

type Config = ParsedEvalDocument["config"];
type ParsedTaskSet = NonNullable<Config["taskSets"]>[number];

function buildFile(
  { metadata, config }: ParsedEvalDocument,
  reader: LenientReader,
  { locate, graderTypes }: ParseEvalOptions,
): EvalFile {
  const { taskSets = [], extensions = {}, defaultTaskLimits: limits = {}, skills } = config;
  const { servers, mocks, variants } = config;
  if (taskSets.length === 0)
    reader.refuse("the eval has no task sets", ["config"], {
      code: "config/nothing-to-run",
      at: "key",
      hint: "Name its tasks in config.taskSets, each with path or glob.",
    });
  const path = ["config", "extensions"];
  for (const check of [extensionPackageProblems, missingSandboxProblems])
    for (const found of check(extensions, path)) reader.problem(found);
  const readGraders = graderReader(graderTypes, (each) => reader.problem(each));
  const graders = readGraders(config.graders, ["config", "graders"]);
  return withoutUndefined({
    name: metadata?.name?.trim() || undefined,
    agent: readAgent(config, reader),
    agents: config.agents ?? {},
    mcpConfigFile: config.mcpConfigFile || undefined,
    // Once parsed, tables of servers are still as a config has them.
    tables: withoutUndefined({ servers, mocks, variants }) as JsonObject,
    serverLifetime: config.serverLifetime,
    seed: config.seed,
    judge: readJudge(config, reader),
    userModel: config.userModel === undefined ? undefined : userModelOf(config.userModel),
    extensions,
    limits: readLimits(limits),
    graders,
    taskSets: taskSets.flatMap((set, index) =>
      readTaskSet(set, index, config, reader, locate).map((each) => ({
        ...each,
        graders: readGraders(set.graders, ["config", "taskSets", index, "graders"], graders),
      })),
    ),
    runs: config.runs,
    parallel: config.parallel,
    thresholds: config.thresholds,
    budget: config.budget,
    prices: config.prices,
    inheritEnv: config.inheritEnv ?? [],
    skills: skills?.sources.map((source) => source.path),
  });
}

function readLimits({
  timeout: timeoutMs,
  cleanupTimeout: cleanupTimeoutMs,
  ...use
}: NonNullable<Config["defaultTaskLimits"]>): EvalFile["limits"] {
  return withoutUndefined({ timeoutMs, cleanupTimeoutMs, ...use });
}

function readAgent({ agent, agentFile }: Config, reader: LenientReader): AgentRef | undefined {
  const path = ["config", "agentFile"];
  if (agent !== undefined) {
    if (agentFile !== undefined) reader.note("agentFile has no effect: agent wins", path);
    return readAgentRef(agent, ["config", "agent"], reader);
  }
  if (!agentFile) return undefined;
  reader.note("agentFile is obsolete: write agent: {type: file, path: …}", path);
  return { kind: "file", path: agentFile };
}

function readJudge({ llmJudge }: Config, reader: LenientReader): JudgeRef | undefined {
  if (llmJudge === undefined) return undefined;
  const path: KeyPath = ["config", "llmJudge"];
  const { ref, env, passThreshold } = llmJudge;
  const common = passThreshold === undefined ? {} : { passThreshold };
  if (ref !== undefined) {
    if (env !== undefined) reader.note("env has no effect: ref wins", [...path, "env"]);
    const agent = readAgentRef(ref, [...path, "ref"], reader);
    return agent && { ...common, kind: "agent", agent };
  }
  if (env !== undefined) {
    const { baseUrlKey, apiKeyKey, modelNameKey } = env;
    return { ...common, kind: "env", baseURL: baseUrlKey, apiKey: apiKeyKey, model: modelNameKey };
  }
  reader.refuse("llmJudge does not say which model judges", path, {
    code: "config/missing-key",
    at: "key",
    hint: "Write ref: {type: builtin.llm-agent, model: PROVIDER:MODEL}.",
  });
  return undefined;
}

/** Reads a reference to an agent. Undefined for one that is wrong; why is among the reader's problems. */
function readAgentRef(
  { type, path: file, model }: ParsedAgentRef,
  path: KeyPath,
  reader: LenientReader,
): AgentRef | undefined {
  if (type === "builtin.claude-code") return { kind: "claude-code" };
  if (type === "file") {
    if (model !== undefined)
      reader.note("model has no effect: the agent's file says which", [...path, "model"]);
    if (file) return { kind: "file", path: file };
    reader.refuse('an agent with type "file" needs path', path, { code: "config/missing-key" });
    return undefined;
  }
  const isOld = type !== "builtin.llm-agent";
  if (isOld) reader.note(`${type} is the old name of builtin.llm-agent`, [...path, "type"]);
  const id = modelId(model ?? "", isOld ? "openai" : undefined);
  if (id !== undefined) return { kind: "llm-agent", model: id };
  reader.refuse("model must be PROVIDER:MODEL, such as anthropic:claude-sonnet-4-5", [...path, "model"]);
  return undefined;
}

function readTaskSet(
  { path, glob, source, labelSelector = {}, assertions }: ParsedTaskSet,
  index: number,
  config: Config,
  reader: LenientReader,
  locate: Locate,
): Omit<TaskSet, "graders">[] {
  const at: KeyPath = ["config", "taskSets", index];
  const { sources = {}, skills } = config;
  if (source && Object.hasOwn(sources, source))
    reader.refuse("tasks of a source are not fetched by this version", [...at, "source"], {
      hint: "Fetch the repository yourself, and name its task files with path or glob.",
    });
  else if (source)
    reader.refuse(`no source is named ${JSON.stringify(source)}`, [...at, "source"], {
      code: "config/unknown-reference",
      hint: suggestion(source, Object.keys(sources), "sources"),
    });
  const own = [...at, "assertions"];
  for (const key of ["skillsLoaded", "skillsNotLoaded"] as const)
    if (skills === undefined && assertions?.[key] !== undefined)
      reader.refuse(`${key} says nothing: the eval gives agents no skills`, [...own, key], {
        at: "key",
        hint: "Name their folder in config.skills: {sources: [{type: path, path: FOLDER}]}.",
      });
  if ((path === undefined) === (glob === undefined)) {
    const which = path === undefined ? "neither" : "both";
    reader.refuse(`a task set has either path or glob; this one has ${which}`, at);
    return [];
  }
  const files = path === undefined ? { glob: glob ?? "" } : { path };
  const set = assertions && readAssertions(assertions, own, reader);
  const location = locate({ path: at, at: "value" });
  return [withoutUndefined({ files, labels: labelSelector, assertions: set, location })];
}

/** The assertions of a task set; undefined when they say nothing, which a program or an empty variable may have left. */
function readAssertions(set: Assertions, path: KeyPath, reader: LenientReader): Assertions | undefined {
  if (assertionKinds(set).length === 0) {
    reader.checksNothing(`${formatKeyPath(path)} asserts nothing`, path);
    return undefined;
  }
  for (const [kind, value] of Object.entries(set)) {
    if (!Array.isArray(value)) continue;
    const list: readonly Readonly<Record<string, string | undefined>>[] = value;
    const at = [...path, kind];
    if (list.length === 0) reader.checksNothing(`${formatKeyPath(at)} is empty, so it asserts nothing`, at);
    for (const [index, entry] of list.entries()) {
      const place = [...at, index];
      // In the tool that the format comes from, either of the two suffices, which is unexpected.
      const pattern = Object.keys(entry).find((key) => key.endsWith("Pattern") && entry[key]);
      const name = pattern?.replace(/Pattern$/, "");
      if (pattern !== undefined && name !== undefined && entry[name]) {
        const message = `${formatKeyPath(place)} has ${name} and ${pattern}, of which only one would have to fit`;
        const hint = "Give one of them; two entries ask for both.";
        reader.misleads(message, [...place, pattern], { at: "key", hint });
      }
      const empty = Object.keys(entry).find((key) => entry[key] === "");
      if (empty === undefined) continue;
      const inner = [...place, empty];
      reader.checksNothing(`${formatKeyPath(inner)} is empty, as if it were not there`, inner);
    }
  }
  return set;
}
