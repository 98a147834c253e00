import { suggestion } from "../did-you-mean.ts";
import {
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../json.ts";
import { parseLegacyTask } from "../legacy-task/parse-legacy-task.ts";
import type { PortableTask, Requirement, Task } from "../model.ts";
import { type Locate, mostProblems, placeProblems, type Problem } from "../problem.ts";
import { readJson } from "../read-json.ts";
import { checkFilePath } from "./check-paths.ts";
import { checkTask, namesOf } from "./check-task.ts";
import { declaredOutputs, type PromptTurn } from "./check-templates.ts";
import { allSteps, phasedSteps, readTask, type TaskSource } from "./read-task.ts";
import { checkSettings, extensionPorts, randomPorts, usedExtensions } from "./task-extensions.ts";
import { taskNotes } from "./task-notes.ts";
import type { ExtensionUse, ParsedTask, ParseTaskOptions, TaskFiles } from "./task-options.ts";
import { type ParsedTaskFile, taskApiVersion } from "./task-schema.ts";

export type { ParsedTask, ParseTaskOptions, TaskFiles } from "./task-options.ts";

/**
 * Checks the document of a task's file and turns it into a task, whichever form it has. Gives all problems with the schema,
 * or when there are none all others, in the order of the file when `locate` knows lines.
 */
export function parseTask(document: unknown, options: ParseTaskOptions): ParsedTask {
  const problems: Problem[] = [];
  const json = readJson(document, { subject: "the task", problems, text: (text) => text });
  for (const problem of checkKeys(json)) problems.push(problem);
  if (problems.length > 0) return refusal(problems, options);
  if (!isJsonObject(json)) {
    const message = "the task must be an object with apiVersion, kind, metadata and spec";
    return refusal([{ code: "config/invalid-value", message, path: [], at: "value" }], options);
  }
  // An empty one is as if it were absent.
  const version = json["apiVersion"] || undefined;
  if (version === taskApiVersion) return parsePortable(json, options);
  const isLegacy = version === undefined || legacyVersions.some((each) => each === version);
  return isLegacy ? parseLegacyTask(document, options) : refusal([unknownVersion(version)], options);
}

/** Those of the older forms. */
const legacyVersions = ["mcpchecker/v1alpha1", "mcpchecker/v1alpha2", "gevals/v1alpha1", "gevals/v1alpha2"];

function unknownVersion(version: unknown): Problem {
  const versions = [taskApiVersion, ...legacyVersions];
  const message = `apiVersion must be one of ${versions.join(", ")}`;
  const hint = typeof version === "string" ? { hint: suggestion(version, versions, "versions") } : {};
  return { code: "config/invalid-value", message, path: ["apiVersion"], at: "value", ...hint };
}

function parsePortable(document: JsonObject, options: ParseTaskOptions): ParsedTask {
  const source = readTask(document, options);
  if (!("file" in source)) return refusal(source, options);
  const { metadata, spec } = source.file;
  const prompt = readPrompt(spec.prompt, options.files);
  const checked = checkTask(source, prompt.turns, options);
  const problems = [...prompt.problems, ...checked.problems];
  if (problems.length > 0) return refusal(problems, options);
  const extensions = extensionUses(source, options.locate);
  const outputs = new Map(
    allSteps(source).flatMap((step) =>
      step.ownId === undefined ? [] : [[step.ownId, declaredOutputs(step)] as const],
    ),
  );
  const names = namesOf(source, options);
  const settings = { task: metadata.name, joined: source.extensions, names, outputs };
  const diagnostics = checkSettings(extensions, settings);
  if (diagnostics.length > 0) return { ok: false, diagnostics: diagnostics.slice(0, mostProblems) };
  const { own, variants } = source.servers;
  return {
    ok: true,
    task: buildTask(source, prompt.turns, {
      options,
      extensions: usedExtensions(extensions, source.extensions),
    }),
    servers: own,
    ...(variants === undefined ? {} : { variants }),
    notes: taskNotes(source, checked.notes, options.locate),
    extensions,
  };
}

/** The steps of a task, those inside others included, that are operations of extensions. */
function extensionUses(source: TaskSource, locate: Locate): readonly ExtensionUse[] {
  return phasedSteps(source).flatMap(({ placed: { step, bodyPath }, phase }) => {
    if (step.type !== "extension") return [];
    const { id, extension, operation, args } = step;
    const location = locate({ path: bodyPath, at: "key" });
    return [withoutUndefined({ step: id, phase, extension, operation, args, location })];
  });
}

function refusal(problems: readonly Problem[], { locate }: ParseTaskOptions): ParsedTask {
  return { ok: false, diagnostics: placeProblems(problems.slice(0, mostProblems), locate) };
}

/**
 * Refuses keys that could not be kept: a variable, a server or an argument named `__proto__` would be lost without a word.
 * The document is at most as deep as `readJson` lets it be.
 */
function checkKeys(value: Json, path: KeyPath = []): Problem[] {
  if (Array.isArray(value)) return value.flatMap((item: Json, index) => checkKeys(item, [...path, index]));
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([key, member]) => {
    const place = [...path, key];
    return key === "__proto__" ? [refused(place)] : checkKeys(member, place);
  });
}

function refused(path: KeyPath): Problem {
  return {
    code: "config/invalid-value",
    message: `${formatKeyPath(path)}: nothing can be named __proto__`,
    path,
    at: "key",
    hint: "Choose another name.",
  };
}

interface ReadPrompt {
  readonly turns: readonly PromptTurn[];
  readonly problems: readonly Problem[];
}

/** Reads what the agent is told: a text, a file, or a list of these. No prompt: no turns. */
function readPrompt(prompt: ParsedTaskFile["spec"]["prompt"], files: TaskFiles): ReadPrompt {
  const path = ["spec", "prompt"];
  const parts = Array.isArray(prompt)
    ? prompt.map((part, index) => readTurn(part, [...path, index], files))
    : [prompt === undefined ? { turns: [], problems: [] } : readTurn(prompt, path, files)];
  return {
    turns: parts.flatMap(({ turns }) => turns),
    problems: parts.flatMap(({ problems }) => problems),
  };
}

function readTurn(part: string | { readonly file: string }, at: KeyPath, files: TaskFiles): ReadPrompt {
  if (typeof part === "string") return { turns: [{ text: part, path: at }], problems: [] };
  const { file } = part;
  const path = [...at, "file"];
  const problems = checkFilePath(file, path, { files, wanted: "file" });
  if (problems.length > 0) return { turns: [], problems };
  const text = files.read(file);
  if (text !== undefined && text.trim() !== "")
    return { turns: [{ text: text.trimEnd(), path }], problems: [] };
  const what = text === undefined ? "cannot be read as text" : "is blank";
  const message = `${formatKeyPath(path)}: the file ${JSON.stringify(file)} ${what}`;
  return { turns: [], problems: [{ code: "config/invalid-value", message, path, at: "value" }] };
}

interface BuildContext {
  readonly options: ParseTaskOptions;
  /** Those that its steps use. */
  readonly extensions: PortableTask["extensions"] | undefined;
}

/** Makes a task of a file that is valid. */
function buildTask(source: TaskSource, turns: readonly PromptTurn[], context: BuildContext): Task {
  const { metadata, spec } = source.file;
  return withoutUndefined({
    name: metadata.name,
    form: "task" as const,
    description: metadata.description,
    servers: source.names.started,
    turns: turns.map(({ text }) => ({ user: text })),
    expectTools: [],
    verify: source.steps.verify.map(({ step }) => step),
    parallel: false,
    location: context.options.locate({ path: ["metadata", "name"], at: "value" }),
    elicitation: spec.elicitation?.map(withoutUndefined),
    portable: portablePart(source, turns, context),
  });
}

function portablePart(
  { document, file: { metadata, spec }, steps, solution }: TaskSource,
  turns: readonly PromptTurn[],
  { options, extensions }: BuildContext,
): PortableTask {
  const texts = [document, ...turns.map(({ text }) => text)];
  return withoutUndefined({
    format: "mcp-eval/v1" as const,
    file: options.file,
    dir: options.dir,
    env: spec.env,
    setup: steps.setup.map(({ step }) => step),
    cleanup: steps.cleanup.map(({ step }) => step),
    extensions,
    solution: spec.solution === undefined ? undefined : solution.map(({ action }) => action),
    fixtures: spec.fixtures,
    requires: spec.requires.flatMap(requirementOf),
    difficulty: metadata.difficulty,
    tags: metadata.tags,
    labels: metadata.labels,
    timeoutMs: metadata.timeout ?? spec.limits.timeout,
    cleanupTimeoutMs: spec.limits.cleanupTimeout,
    stateProbe: metadata.stateProbe,
    randomPorts: [...new Set([...randomPorts(texts), ...extensionPorts(extensions)])],
    assertions: [],
    inheritEnv: options.inheritEnv,
  });
}

function requirementOf(entry: ParsedTaskFile["spec"]["requires"][number]): Requirement[] {
  const { command, env, server, platform, judge } = entry;
  if (command !== undefined) return [{ kind: "command", name: command }];
  if (env !== undefined) return [{ kind: "env", name: env }];
  if (server !== undefined) return [{ kind: "server", name: server }];
  if (platform !== undefined) return [{ kind: "platform", name: platform }];
  return judge === undefined ? [] : [{ kind: "judge" }];
}
