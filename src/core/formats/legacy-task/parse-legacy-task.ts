import { suggestion } from "../did-you-mean.ts";
import { type KeyPath, memberOf, withoutUndefined } from "../json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { PortableTask, Task, Turn } from "../model.ts";
import type { Step } from "../step.ts";
import { checkFilePath } from "../task/check-texts.ts";
import {
  checkSettings,
  extensionPorts,
  joinExtensions,
  type SettingsContext,
  usedExtensions,
} from "../task/task-extensions.ts";
import type { ExtensionUse, ParsedTask, ParseTaskOptions } from "../task/task-options.ts";
import { mergeTaskServers } from "../task/task-servers.ts";
import { buildStep } from "./build-step.ts";
import { Expressions } from "./expressions.ts";
import { type LegacyForm, type LegacyPhase, readScriptForm, readStepForm } from "./legacy-form.ts";

/**
 * Reads a task of the older forms: the script form (no apiVersion, or `mcpchecker/v1alpha1`) and the step form
 * (`mcpchecker/v1alpha2`). It reads as leniently as their own tool, but says what it ignores or puts right.
 *
 * On purpose not as in the older tool (see also `buildStep`):
 * - Cleanup runs always, also after a failed setup, and runs every step. It has a time limit, of 5 minutes unless given.
 * - A failed setup is an error of the trial, not a failure of the agent.
 * - A file that is not there, or lies outside the repository that the task is in, is refused when the task is loaded.
 * - A task without a name goes by the name of its file. Whether one without verify steps is accepted depends on the
 *   assertions that reach it; see `taskChecksNothing`.
 */
export function parseLegacyTask(document: unknown, options: ParseTaskOptions): ParsedTask {
  const reader = new LenientReader(options.locate, { notes: "line" });
  const form = readForm(document, reader);
  const task = form === undefined ? undefined : readTask(form, options, reader);
  if (form === undefined || task === undefined || reader.failed)
    return { ok: false, diagnostics: reader.diagnostics() };
  const uses = operationsOf(form, task, options);
  const wrong = checkSettings(uses, settingsContext(form, task, options));
  if (wrong.length > 0) return { ok: false, diagnostics: wrong };
  const { variants } = mergeTaskServers(undefined, options);
  const all = variants === undefined ? {} : { variants };
  const whole = withExtensions(task, uses, options);
  return { ok: true, task: whole, servers: {}, ...all, notes: reader.notes, extensions: uses };
}

/** The steps of extensions, with the places of their types. */
function operationsOf(
  form: LegacyForm,
  { verify, portable }: Task,
  { locate }: ParseTaskOptions,
): ExtensionUse[] {
  const steps = [...(portable?.setup ?? []), ...verify, ...(portable?.cleanup ?? [])];
  return steps.flatMap((step) => {
    const raw = form.steps.find(({ id }) => id === step.id);
    if (step.type !== "extension" || raw === undefined) return [];
    const { extension, operation, args } = step;
    const location = locate({ path: raw.path, at: "key" });
    return [withoutUndefined({ step: step.id, phase: raw.phase, extension, operation, args, location })];
  });
}

/** These forms declare no variables, and the outputs of their steps are not known beforehand. */
function settingsContext({ steps }: LegacyForm, { name }: Task, options: ParseTaskOptions): SettingsContext {
  const ids = steps.map(({ id }) => id);
  const { variables, servers } = options;
  return {
    task: name,
    joined: joinExtensions([], options),
    names: { env: new Set(), variables, urls: servers, local: [], ids, solutionIds: [] },
    outputs: new Map(ids.map((id) => [id, "any"])),
  };
}

/** The task with the extensions that it uses; those that the eval declares are no longer asked for. */
function withExtensions(task: Task, uses: readonly ExtensionUse[], options: ParseTaskOptions): Task {
  const { portable } = task;
  const joined = joinExtensions([], { ...options, inheritEnv: inheritsAll });
  const extensions = usedExtensions(uses, joined);
  if (portable === undefined) return task;
  const declared = Object.keys(options.extensions?.declared ?? {});
  const requires = portable.requires.filter(
    (each) => each.kind !== "extension" || !declared.includes(each.name),
  );
  const randomPorts = [...new Set([...portable.randomPorts, ...extensionPorts(extensions)])];
  return {
    ...task,
    portable: withoutUndefined({ ...portable, requires, randomPorts, extensions }),
  };
}

function readTask(form: LegacyForm, options: ParseTaskOptions, reader: LenientReader): Task {
  const { aliases, steps } = form;
  const expressions = new Expressions({ reader, steps, aliases });
  const building = {
    reader,
    expressions,
    aliases,
    checkFile: (file: string, path: KeyPath) => checkFile(file, path, { options, reader }),
    operationMs: joinExtensions([], options).operationMs,
  };
  const turn = readPrompt(form, expressions, { options, reader });
  const built = steps.map((raw) => ({ phase: raw.phase, step: buildStep(raw, building) }));
  const phase = (wanted: LegacyPhase) =>
    built.flatMap(({ phase, step }) =>
      phase === wanted && step !== undefined ? [withContent(step, expressions)] : [],
    );
  const { metadata } = form;
  return withoutUndefined({
    name: nameOf(form, options, reader),
    form: "task" as const,
    description: metadata.description,
    servers: options.servers,
    turns: turn === undefined ? [] : [turn],
    expectTools: [],
    verify: phase("verify"),
    parallel: metadata.parallel ?? false,
    location: options.locate({ path: ["metadata", "name"], at: "value" }),
    portable: portablePart(form, options, { phase, usesPort: expressions.usesPort }),
  });
}

const usualCleanupMs = 300_000;
/** In these forms every process has the whole of the shell's environment. */
const inheritsAll = true;

function portablePart(
  { format, metadata, limits, requires }: LegacyForm,
  { file, dir, repository }: ParseTaskOptions,
  built: { readonly phase: (phase: LegacyPhase) => readonly Step[]; readonly usesPort: boolean },
): PortableTask {
  return withoutUndefined({
    format,
    file,
    dir,
    repository,
    env: {},
    setup: built.phase("setup"),
    // These forms clean up in the order of the file; ours is the reverse one.
    cleanup: built.phase("cleanup").toReversed(),
    fixtures: [],
    requires,
    difficulty: metadata.difficulty,
    tags: [],
    labels: metadata.labels ?? {},
    timeoutMs: limits.timeout,
    cleanupTimeoutMs: limits.cleanupTimeout ?? usualCleanupMs,
    runs: metadata.runs,
    stateProbe: [],
    randomPorts: built.usesPort ? [""] : [],
    assertions: [],
    inheritEnv: inheritsAll,
  });
}

/** The only output that MCP steps have in these forms. */
function withContent(step: Step, { used }: Expressions): Step {
  if (step.type !== "mcp" || !used.has(step.id)) return step;
  return { ...step, outputs: { content: "{result | json $.content}" } };
}

const versions = [
  "mcpchecker/v1alpha1",
  "mcpchecker/v1alpha2",
  "gevals/v1alpha1",
  "gevals/v1alpha2",
] as const;

function readForm(document: unknown, reader: LenientReader): LegacyForm | undefined {
  const [kindKey, kind] = memberOf(document, "kind");
  if (kind !== "Task") reader.refuse('kind must be "Task"', [kindKey]);
  const [versionKey, version = ""] = memberOf(document, "apiVersion");
  const known = version === "" || versions.some((each) => each === version);
  if (!known || typeof version !== "string") {
    const hint = suggestion(String(version), ["mcp-eval/v1", ...versions], "versions");
    reader.refuse("the apiVersion is not known", [versionKey], { hint });
    return undefined;
  }
  if (version === "" && lacksVersion(document)) {
    const message = 'missing key "apiVersion": a task with spec says which version it is';
    const hint =
      "Write apiVersion: mcp-eval/v1, or mcpchecker/v1alpha2 for a task of mcpchecker; only tasks with steps have none.";
    reader.problem({ code: "config/missing-key", message, path: [versionKey], at: "value", hint });
    return undefined;
  }
  if (version.startsWith("gevals/"))
    reader.note(`${version} is read as ${version.replace("gevals", "mcpchecker")}`, [versionKey]);
  return version.endsWith("/v1alpha2") ? readStepForm(document, reader) : readScriptForm(document, reader);
}

/** Whether a document without a version has what only those with one have. */
function lacksVersion(document: unknown): boolean {
  return memberOf(document, "spec")[1] !== undefined && memberOf(document, "steps")[1] === undefined;
}

interface FileReading {
  readonly options: ParseTaskOptions;
  readonly reader: LenientReader;
}

function readPrompt(
  { prompt }: LegacyForm,
  expressions: Expressions,
  reading: FileReading,
): Turn | undefined {
  const { inline, file, path } = prompt;
  if (inline) return { user: expressions.prompt(inline, [...path, "inline"]) };
  if (!file) {
    const message = "the task has no prompt: give prompt.inline or prompt.file";
    reading.reader.problem({ code: "config/missing-key", message, path, at: "value" });
    return undefined;
  }
  const at = [...path, "file"];
  if (!checkFile(file, at, reading)) return undefined;
  const text = reading.options.files.read(file);
  if (text === undefined) reading.reader.refuse(`${file} cannot be read`, at);
  return text === undefined ? undefined : { user: expressions.prompt(text, at) };
}

function checkFile(file: string, path: KeyPath, { options, reader }: FileReading): boolean {
  const problems = checkFilePath(file, path, { files: options.files, wanted: "file" });
  for (const problem of problems) reader.problem(problem);
  if (problems.length === 0 && options.files.leaves(file)) {
    const what = `${JSON.stringify(file)} lies outside the task's folder; the task needs it wherever it is taken`;
    reader.note(what, path);
  }
  return problems.length === 0;
}

/** A task kept as `FOLDER/task.yaml` is known by its folder. */
function nameOf({ metadata }: LegacyForm, { file }: ParseTaskOptions, reader: LenientReader): string {
  const given = metadata.name?.trim() ?? "";
  if (given !== "") return given;
  const [name = "", folder = ""] = file.split(/[\\/]/).toReversed();
  const stem = name.replace(/\.[^.]*$/, "");
  const found = stem === "task" && folder !== "" ? folder : stem;
  reader.note(`the task has no name and goes by that of its file, ${JSON.stringify(found)}`, ["metadata"]);
  return found;
}
