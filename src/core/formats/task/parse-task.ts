import type { Diagnostic } from "../../errors/error.ts";
import { suggestion } from "../did-you-mean.ts";
import { isJsonObject } from "../json.ts";
import { parseLegacyTask } from "../legacy-task/parse-legacy-task.ts";
import type { JsonObject } from "../model.ts";
import { placeProblems, type Problem } from "../problem.ts";
import { readJson } from "../read-json.ts";
import { mostProblems, validate } from "../validate.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { type ExtensionUse, extensionUses, usedExtensions } from "./extension-uses.ts";
import { joinExtensions } from "./join-extensions.ts";
import { nullNotes } from "./null-notes.ts";
import { buildTask } from "./build-task.ts";
import { readPrompt } from "./read-prompt.ts";
import { readSolution } from "./read-solution.ts";
import { readSteps } from "./read-steps.ts";
import { checkKeys } from "./check-keys.ts";
import { checkSettings, type SettingsContext } from "./check-settings.ts";
import { declaredOutputs } from "./check-templates.ts";
import { checkTask, namesOf } from "./task-rules.ts";
import type { ParsedTask, ParseTaskOptions } from "./task-options.ts";
import { taskApiVersion, taskSchema } from "./task-schema.ts";
import { layTaskServers } from "./lay-task-servers.ts";
import { placeNotes, taskNotes } from "./task-notes.ts";
import { stepPhases, type TaskView, viewTask } from "./view-task.ts";
import { weakNotes } from "./weak-notes.ts";
import { walkViews } from "./walk-views.ts";

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
