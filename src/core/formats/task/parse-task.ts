import type { Diagnostic } from "../../errors/error.ts";
import { suggestion } from "../did-you-mean.ts";
import { asList, asObject, asText, formatKeyPath, isJsonObject, type KeyPath, valueAt } from "../json.ts";
import { parseLegacyTask } from "../legacy-task/parse-legacy-task.ts";
import type { Json, JsonObject } from "../model.ts";
import { type Locate, mostProblems, placeProblems, type Problem, validate } from "../problem.ts";
import { readJson } from "../read-json.ts";
import {
  echoedArguments,
  inexactNumbers,
  looseSchemas,
  shortTexts,
  strayKeys,
} from "../weak-expectations.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { buildTask } from "./build-task.ts";
import { checkSettings, type SettingsContext } from "./check-settings.ts";
import { declaredOutputs } from "./check-templates.ts";
import { type ExtensionUse, extensionUses, usedExtensions } from "./extension-uses.ts";
import { joinExtensions } from "./join-extensions.ts";
import { layTaskServers } from "./lay-task-servers.ts";
import { readPrompt } from "./read-prompt.ts";
import { readSolution } from "./read-solution.ts";
import { readSteps } from "./read-steps.ts";
import {
  type ParsedTask,
  type ParseTaskOptions,
  type PlacedNote,
  placeNotes,
  taskNotes,
} from "./task-options.ts";
import { checkTask, namesOf } from "./task-rules.ts";
import { taskApiVersion, taskSchema } from "./task-schema.ts";
import type { StepView } from "./view-steps.ts";
import { stepPhases, type TaskView, viewTask, walkViews } from "./view-task.ts";

export type { ParsedTask, ParseTaskOptions, TaskFiles } from "./task-options.ts";

/**
 * Checks the document of a task's file and turns it into a task, whichever form it has. Gives every problem at once, in
 * the order of the file when `locate` knows lines.
 */
export function parseTask(document: unknown, options: ParseTaskOptions): ParsedTask {
  const problems: Problem[] = [];
  const json = readJson(document, { subject: "the task", problems, text: (text) => text });
  for (const problem of checkKeys(json)) problems.push(problem);
  if (problems.length > 0) return refusal(problems.slice(0, mostProblems), options);
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
  const view = viewTask(document, options);
  const { data, issues } = validate(taskSchema, withoutServers(document));
  const { steps } = view;
  const joined = joinExtensions(view.importEntries, options);
  const reading = { document, operationMs: joined.operationMs };
  const setup = readSteps(steps.setup, reading);
  const verify = readSteps(steps.verify, reading);
  const cleanup = readSteps(steps.cleanup, reading);
  const solution = readSolution(view.spec["solution"], {
    path: ["spec", "solution"],
    servers: view.servers.known,
    document,
  });
  const servers = layTaskServers(view.spec, options);
  const prompt = readPrompt(view.spec["prompt"], options.files);
  const wrong = [
    ...problemsOfIssues(issues.slice(0, mostProblems), document),
    ...view.problems,
    ...servers.problems,
    ...[setup, verify, cleanup, solution, prompt].flatMap(({ problems }) => problems),
  ];
  const checked = checkTask(view, { options, turns: prompt.turns, wrong });
  const found = [...wrong, ...checked.problems].slice(0, mostProblems);
  if (found.length > 0 || data === undefined) return refusal(found, options);
  const read = {
    setup: setup.steps,
    verify: verify.steps,
    cleanup: cleanup.steps,
    solution: solution.actions,
    turns: prompt.turns.map(({ text }) => text),
  };
  const extensions = extensionUses(view, options.locate);
  const diagnostics = settingsProblems(extensions, view, { task: data.metadata.name, joined, options });
  if (diagnostics.length > 0) return { ok: false, diagnostics };
  const task = buildTask(data, read, { view, options, extensions: usedExtensions(extensions, joined) });
  const notes = [
    ...taskNotes(view),
    ...placeNotes(
      [...checked.notes, ...joined.notes, ...nullNotes(view, options.locate), ...weakNotes(view)],
      options.locate,
    ),
  ];
  const { own, variants } = servers;
  return {
    ok: true,
    task,
    servers: own,
    ...(variants === undefined ? {} : { variants }),
    notes,
    extensions,
  };
}

/** What is wrong with what the extensions of a task are started with. */
function settingsProblems(
  uses: readonly ExtensionUse[],
  view: TaskView,
  { options, ...rest }: Pick<SettingsContext, "task" | "joined"> & { readonly options: ParseTaskOptions },
): readonly Diagnostic[] {
  const steps = stepPhases.flatMap((phase) => [...walkViews(view.steps[phase])]);
  const outputs = new Map(
    steps.flatMap((step) => (step.ownId === undefined ? [] : [[step.ownId, declaredOutputs(step)] as const])),
  );
  const found = checkSettings(uses, { ...rest, names: namesOf(view, options), outputs });
  return found.slice(0, mostProblems);
}

/** Servers are read by themselves, laid over those of the eval. */
function withoutServers(document: JsonObject): JsonObject {
  if (!isJsonObject(document["spec"])) return document;
  const { servers: _, mcp_servers: __, ...spec } = document["spec"];
  return { ...document, spec };
}

function refusal(problems: readonly Problem[], { locate }: ParseTaskOptions): ParsedTask {
  return { ok: false, diagnostics: placeProblems(problems, locate) };
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

/**
 * Notes on arguments of tools that are null and not written so, as far as `locate` can tell: YAML makes one of `name` in
 * `{ query: SELECT id, name }`.
 */
function nullNotes({ steps, spec }: TaskView, locate: Locate): PlacedNote[] {
  const calls = [...walkViews([...steps.setup, ...steps.verify, ...steps.cleanup])].filter(
    ({ kind }) => kind === "mcp" || kind === "call",
  );
  const notes = [
    ...calls.flatMap(({ body, bodyPath }) => inArgs(body, bodyPath)),
    ...inActions(spec["solution"], ["spec", "solution"]),
  ];
  return notes.filter(({ path }) => !isWritten(path, locate));
}

/** A null that nobody wrote has no place but that of its key. */
function isWritten(path: KeyPath, locate: Locate): boolean {
  const [key, value] = [locate({ path, at: "key" }), locate({ path, at: "value" })];
  return key?.line !== value?.line || key?.column !== value?.column;
}

function inActions(list: unknown, path: KeyPath): PlacedNote[] {
  return asList(list).flatMap((action, index) =>
    Object.entries(asObject(action)).flatMap(([key, body]) => {
      const at = [...path, index, key];
      return key === "foreach" ? inActions(asObject(body)["steps"], [...at, "steps"]) : inArgs(body, at);
    }),
  );
}

function inArgs(body: unknown, path: KeyPath): PlacedNote[] {
  return nullsIn(asObject(body)["args"], [...path, "args"]);
}

function nullsIn(value: unknown, path: KeyPath): PlacedNote[] {
  if (Array.isArray(value)) return value.flatMap((item: unknown, index) => nullsIn(item, [...path, index]));
  return Object.entries(asObject(value)).flatMap(([key, member]) => {
    const at = [...path, key];
    return member === null ? [noteAt(at)] : nullsIn(member, at);
  });
}

function noteAt(path: KeyPath): PlacedNote {
  const message = `${formatKeyPath(path)} is null: a text with a comma, or with braces, has to be in quotes`;
  return { message, path };
}

/** Notes on expectations of verify steps that say less than their author may think. */
function weakNotes({ steps }: TaskView): PlacedNote[] {
  const verify = [...walkViews(steps.verify)];
  const made = new Set([...walkViews([...steps.setup, ...verify, ...steps.cleanup])].flatMap(madeFile));
  return [
    ...verify.filter((step) => !made.has(fileOf(step))).flatMap(ownFiles),
    ...repeatedLooks(verify),
    ...verify.flatMap(weakIn),
  ];
}

function fileOf({ kind, body }: StepView): unknown {
  return kind === "file" ? asObject(body)["path"] : undefined;
}

/** The path of a file that a step makes or removes. */
function madeFile(step: StepView): readonly unknown[] {
  return asObject(step.body)["expect"] === undefined ? [fileOf(step)] : [];
}

/** Of a file beside the task that is looked at, and not only read: an agent works in the workspace. */
function ownFiles({ kind, body, bodyPath }: StepView): PlacedNote[] {
  const { path: file, expect, outputs } = asObject(body);
  const at = [...bodyPath, "path"];
  if (kind !== "file" || expect === undefined || outputs !== undefined) return [];
  if (typeof file !== "string" || /^(?:[/\\]|[A-Za-z]:)|\{/.test(file)) return [];
  const message = `${formatKeyPath(at)}: ${JSON.stringify(file)} is a file beside the task, which is the same in every trial unless an agent leaves its workspace; write {workspace}/… for one in it`;
  return [{ message, path: at }];
}

/** Of steps that compare what they find with what an earlier step found in the same way. */
function repeatedLooks(verify: readonly StepView[]): PlacedNote[] {
  return verify.flatMap((step, index) => {
    const expected = JSON.stringify(asObject(step.body)["expect"] ?? null);
    const same = verify
      .slice(0, index)
      .find(
        (other) =>
          other.ownId !== undefined &&
          expected.includes(`steps.${other.ownId}.`) &&
          lookOf(other) === lookOf(step),
      );
    if (same === undefined) return [];
    const path = [...step.bodyPath, "expect"];
    const message = `${formatKeyPath(path)}: the step ${same.ownId ?? ""} looks at the same in the same way, so that this is compared with itself unless a step between them changes it`;
    return [{ message, path }];
  });
}

/** What a step looks at, without what it expects there. */
function lookOf({ kind, first, rest, body }: StepView): string {
  const keys = ["id", "name", "outputs", "expect", "retry", "stableFor", "timeout", "if"];
  const look = Object.entries(asObject(body)).filter(([key]) => !keys.includes(key));
  return JSON.stringify([kind, kind === "call" ? [first, rest] : [], look]);
}

function weakIn({ kind, body, bodyPath }: StepView): PlacedNote[] {
  const expected = valueAt(body, ["expect"]);
  const at = [...bodyPath, "expect"];
  const texts = [[], ["stdout"], ["stderr"], ["body"], ["text"]].flatMap((keys) => {
    const contains = valueAt(expected, [...keys, "contains"]);
    const path = [...at, ...keys, "contains"];
    return Array.isArray(contains)
      ? asList(contains).flatMap((text, index) => shortTexts(text, [...path, index]))
      : shortTexts(contains, path);
  });
  const args = valueAt(body, ["args"]);
  const isCall = kind === "mcp" || kind === "call";
  return [
    ...texts,
    ...(isCall ? echoes(body, bodyPath) : []),
    ...(isCall ? strayKeys(args, ["expect"], [...bodyPath, "args"]) : []),
    ...(isCall ? looseSchemas(valueAt(body, ["expect", "schema"]), [...at, "schema"]) : []),
    ...inexactNumbers(args, [...bodyPath, "args"]),
    ...inexactNumbers(expected, at),
  ];
}

/** Of the texts that a call is to give. */
function echoes(body: unknown, bodyPath: KeyPath): PlacedNote[] {
  const tool = asText(valueAt(body, ["tool"])) ?? String(bodyPath.at(-1));
  const path = [...bodyPath, "expect", "text"];
  const text = valueAt(body, ["expect", "text"]);
  const { equals, contains } = asObject(text);
  const expected = typeof text === "string" ? text : [equals, contains];
  return echoedArguments(expected, { tool, args: valueAt(body, ["args"]) }, path);
}
