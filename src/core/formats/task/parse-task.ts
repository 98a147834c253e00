import { suggestion } from "../did-you-mean.ts";
import { graderReader } from "../graders.ts";
import { isJsonObject, type Json, type JsonObject, type KeyPath, withoutUndefined } from "../json.ts";
import { parseLegacyTask } from "../legacy-task/parse-legacy-task.ts";
import { type PortableTask, type Requirement, type Task, taskApiVersion } from "../model.ts";
import { mostProblems, placeProblems, type Problem, problem, problemAt } from "../problem.ts";
import { readJson } from "../read-json.ts";
import { declaredOutputs, type PromptTurn } from "./check-steps.ts";
import { checkTask, namesOf } from "./check-task.ts";
import { checkFilePath } from "./check-texts.ts";
import { taskNotes } from "./check-verify.ts";
import { allSteps, phasedSteps, readTask, type TaskSource } from "./read-task.ts";
import { checkSettings, extensionPorts, randomPorts, usedExtensions } from "./task-extensions.ts";
import { Findings, type ParsedTask, type ParseTaskOptions, type TaskFiles } from "./task-options.ts";
import type { ParsedTaskFile } from "./task-schema.ts";

export type { ParsedTask, ParseTaskOptions, TaskFiles } from "./task-options.ts";

/** Values of `apiVersion` in the older forms. */
const legacyVersions = ["mcpchecker/v1alpha1", "mcpchecker/v1alpha2", "gevals/v1alpha1", "gevals/v1alpha2"];

/**
 * Checks the document of a task's file and turns it into a task, whichever form it has. Gives all problems with the schema,
 * or when there are none all others, in the order of the file when `locate` knows lines.
 */
export function parseTask(document: unknown, options: ParseTaskOptions): ParsedTask {
  const problems: Problem[] = [];
  const json = readJson(document, { subject: "the task", problems, text: (text) => text });
  refuseProto(json, [], problems);
  if (problems.length > 0) return refusal(problems, options);
  if (!isJsonObject(json))
    return refusal(
      [problem([], "the task must be an object with apiVersion, kind, metadata and spec")],
      options,
    );
  // An empty one is as if it were absent.
  const version = json["apiVersion"] || undefined;
  if (version === taskApiVersion) return parsePortable(json, options);
  if (version === undefined || legacyVersions.some((each) => each === version))
    return parseLegacyTask(document, options);
  const versions = [taskApiVersion, ...legacyVersions];
  const hint = typeof version === "string" ? suggestion(version, versions, "versions") : undefined;
  return refusal([problemAt(["apiVersion"], `must be one of ${versions.join(", ")}`, { hint })], options);
}

function refusal(problems: readonly Problem[], { locate }: ParseTaskOptions): ParsedTask {
  return { ok: false, diagnostics: placeProblems(problems.slice(0, mostProblems), locate) };
}

/** Refuses keys that could not be kept: a variable, a server or an argument named `__proto__` would be lost without a word. */
function refuseProto(value: Json, path: KeyPath, problems: Problem[]): void {
  if (typeof value !== "object" || value === null) return;
  const members: Iterable<[string | number, Json]> = Array.isArray(value)
    ? value.entries()
    : Object.entries(value);
  for (const [key, member] of members) {
    const place = [...path, key];
    if (key !== "__proto__") refuseProto(member, place, problems);
    else
      problems.push(
        problemAt(place, ": nothing can be named __proto__", { at: "key", hint: "Choose another name." }),
      );
  }
}

function parsePortable(document: JsonObject, options: ParseTaskOptions): ParsedTask {
  const source = readTask(document, options);
  if (!("file" in source)) return refusal(source, options);
  const { metadata, spec } = source.file;
  const found = new Findings();
  const turns = readPrompt(spec.prompt, options.files, found);
  const checked = checkTask(source, turns, options);
  found.add(checked.problems);
  const { graders: shared = [], graderTypes } = options;
  const readGraders = graderReader(graderTypes, (each) => found.add([each]));
  const graders = readGraders(spec.graders, ["spec", "graders"], shared);
  if (found.problems.length > 0) return refusal(found.problems, options);
  const extensions = phasedSteps(source).flatMap(({ placed: { step, bodyPath }, phase }) => {
    if (step.type !== "extension") return [];
    const { id, extension, operation, args } = step;
    const location = options.locate({ path: bodyPath, at: "key" });
    return [withoutUndefined({ step: id, phase, extension, operation, args, location })];
  });
  const diagnostics = checkSettings(extensions, {
    task: metadata.name,
    joined: source.extensions,
    names: namesOf(source, options),
    outputs: new Map(
      allSteps(source).flatMap((step) =>
        step.ownId === undefined ? [] : [[step.ownId, declaredOutputs(step)] as const],
      ),
    ),
  });
  if (diagnostics.length > 0) return { ok: false, diagnostics: diagnostics.slice(0, mostProblems) };
  const task: Task = withoutUndefined({
    name: metadata.name,
    form: "task" as const,
    description: metadata.description,
    servers: source.names.started,
    turns: turns.map(({ text }) => ({ user: text })),
    expectTools: [],
    verify: source.steps.verify.map(({ step }) => step),
    parallel: false,
    location: options.locate({ path: ["metadata", "name"], at: "value" }),
    elicitation: spec.elicitation?.map(withoutUndefined),
    graders: graders.length === 0 ? undefined : graders,
    portable: portablePart(source, turns, {
      options,
      extensions: usedExtensions(extensions, source.extensions),
    }),
  });
  const { own, variants } = source.servers;
  const notes = taskNotes(source, checked.notes, options.locate);
  return withoutUndefined({ ok: true as const, task, servers: own, variants, notes, extensions });
}

/** Reads the prompts: a text, a file, or a list of these. No prompt: no turns. */
function readPrompt(
  prompt: ParsedTaskFile["spec"]["prompt"] = [],
  files: TaskFiles,
  found: Findings,
): readonly PromptTurn[] {
  const at = ["spec", "prompt"];
  const parts = Array.isArray(prompt)
    ? prompt.map((part, index) => ({ part, path: [...at, index] }))
    : [{ part: prompt, path: at }];
  return parts.flatMap(({ part, path: own }): readonly PromptTurn[] => {
    if (typeof part === "string") return [{ text: part, path: own }];
    const path = [...own, "file"];
    const wrong = checkFilePath(part.file, path, { files, wanted: "file" });
    found.add(wrong);
    if (wrong.length > 0) return [];
    const text = files.read(part.file);
    if (text !== undefined && text.trim() !== "") return [{ text: text.trimEnd(), path }];
    const what = text === undefined ? "cannot be read as text" : "is blank";
    found.refuse(path, `: the file ${JSON.stringify(part.file)} ${what}`);
    return [];
  });
}

function portablePart(
  { document, file: { metadata, spec }, steps, solution }: TaskSource,
  turns: readonly PromptTurn[],
  {
    options,
    extensions,
  }: { readonly options: ParseTaskOptions; readonly extensions: PortableTask["extensions"] | undefined },
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

/** The only key of a requirement says its kind; the value of `judge` is `true`. */
function requirementOf(entry: ParsedTaskFile["spec"]["requires"][number]): Requirement[] {
  const { judge, ...named } = entry;
  if (judge !== undefined) return [{ kind: "judge" }];
  return (Object.entries(named) as [keyof typeof named, string][]).map(([kind, name]) => ({ kind, name }));
}
