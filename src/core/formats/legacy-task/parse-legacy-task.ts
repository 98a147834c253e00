import { suggestion } from "../did-you-mean.ts";
import { type KeyPath, memberOf, withoutUndefined } from "../json.ts";
import { LenientReader } from "../lenient-reader.ts";
import type { Turn } from "../model.ts";
import { checkFilePath } from "../task/check-texts.ts";
import { checkSettings, extensionPorts, joinExtensions, usedExtensions } from "../task/task-extensions.ts";
import type { ExtensionUse, ParsedTask, ParseTaskOptions } from "../task/task-options.ts";
import { mergeTaskServers } from "../task/task-servers.ts";
import { buildStep, Expressions } from "./build-step.ts";
import { type LegacyForm, type LegacyPhase, readScriptForm, readStepForm } from "./legacy-form.ts";

/**
 * Reads a task of the older forms: the script form (no apiVersion, or `mcpchecker/v1alpha1`) and the step form
 * (`mcpchecker/v1alpha2`). It reads as leniently as their own tool, but says what it ignores or puts right.
 *
 * On purpose not as in the older tool (see also `buildStep`):
 * - Cleanup runs always, also after a failed setup, and runs every step. It has a time limit, of 5 minutes unless given.
 * - A failed setup is an error of the trial, not a failure of the agent.
 * - A file that is not there, or lies outside the repository that the task is in, is refused when the task is loaded.
 * - A task without a name gets that of its file. Whether one without verify steps is accepted depends on the
 *   assertions that reach it; see `taskChecksNothing`.
 */
export function parseLegacyTask(document: unknown, options: ParseTaskOptions): ParsedTask {
  const { locate, variables, servers } = options;
  const reader = new LenientReader(locate, { notes: "line" });
  const form = readForm(document, reader);
  const task = form === undefined ? undefined : readTask(form, options, reader);
  if (form === undefined || task === undefined || reader.failed)
    return { ok: false, diagnostics: reader.diagnostics() };
  const { portable, verify } = task;
  const uses = [...portable.setup, ...verify, ...portable.cleanup].flatMap((step): ExtensionUse[] => {
    const raw = form.steps.find(({ id }) => id === step.id);
    if (step.type !== "extension" || raw === undefined) return [];
    const { extension, operation, args } = step;
    const location = locate({ path: raw.path, at: "key" });
    return [withoutUndefined({ step: step.id, phase: raw.phase, extension, operation, args, location })];
  });
  // These forms declare no variables, and the outputs of their steps are not known beforehand.
  const ids = form.steps.map(({ id }) => id);
  const wrong = checkSettings(uses, {
    task: task.name,
    joined: joinExtensions([], options),
    names: { env: new Set(), variables, urls: servers, local: [], ids, solutionIds: [] },
    outputs: new Map(ids.map((id) => [id, "any"])),
  });
  if (wrong.length > 0) return { ok: false, diagnostics: wrong };
  const extensions = usedExtensions(uses, joinExtensions([], { ...options, inheritEnv: inheritsAll }));
  const declared = Object.keys(options.extensions?.declared ?? {});
  const whole = withoutUndefined({
    ...portable,
    // Extensions that the eval declares are there.
    requires: portable.requires.filter((each) => each.kind !== "extension" || !declared.includes(each.name)),
    randomPorts: [...new Set([...portable.randomPorts, ...extensionPorts(extensions)])],
    extensions,
  });
  const { variants } = mergeTaskServers(undefined, options);
  return {
    ok: true,
    task: { ...task, portable: whole },
    servers: {},
    ...(variants === undefined ? {} : { variants }),
    notes: reader.notes,
    extensions: uses,
  };
}

const usualCleanupMs = 300_000;
/** In these forms every process has the whole of the shell's environment. */
const inheritsAll = true as const;

function readTask(form: LegacyForm, options: ParseTaskOptions, reader: LenientReader) {
  const { aliases, steps, metadata, limits } = form;
  const { file, dir, repository, servers, locate } = options;
  const expressions = new Expressions({ reader, steps, aliases });
  const checkFile = (path: string, at: KeyPath): boolean => {
    const problems = checkFilePath(path, at, { files: options.files, wanted: "file" });
    for (const problem of problems) reader.problem(problem);
    if (problems.length === 0 && options.files.leaves(path)) {
      const what = `${JSON.stringify(path)} lies outside the task's folder; the task needs it wherever it is taken`;
      reader.note(what, at);
    }
    return problems.length === 0;
  };
  const { operationMs } = joinExtensions([], options);
  const turn = readPrompt(form, expressions, { options, reader, checkFile });
  const built = steps.map((raw) => ({
    phase: raw.phase,
    step: buildStep(raw, { reader, expressions, aliases, checkFile, operationMs }),
  }));
  const stepsOf = (wanted: LegacyPhase) =>
    built.flatMap(({ phase, step }) => {
      if (phase !== wanted || step === undefined) return [];
      // The only output that MCP steps have in these forms.
      const outputs = { content: "{result | json $.content}" };
      return [step.type === "mcp" && expressions.used.has(step.id) ? { ...step, outputs } : step];
    });
  return withoutUndefined({
    name: nameOf(form, file, reader),
    form: "task" as const,
    description: metadata.description,
    servers,
    turns: turn === undefined ? [] : [turn],
    expectTools: [],
    verify: stepsOf("verify"),
    parallel: metadata.parallel ?? false,
    location: locate({ path: ["metadata", "name"], at: "value" }),
    portable: withoutUndefined({
      format: form.format,
      file,
      dir,
      repository,
      env: {},
      setup: stepsOf("setup"),
      // These forms clean up in the order of the file; ours is the reverse one.
      cleanup: stepsOf("cleanup").toReversed(),
      fixtures: [],
      requires: form.requires,
      difficulty: metadata.difficulty,
      tags: [],
      labels: metadata.labels ?? {},
      timeoutMs: limits.timeout,
      cleanupTimeoutMs: limits.cleanupTimeout ?? usualCleanupMs,
      runs: metadata.runs,
      stateProbe: [],
      randomPorts: expressions.usesPort ? [""] : [],
      assertions: [],
      inheritEnv: inheritsAll,
    }),
  });
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
  const has = (key: string): boolean => memberOf(document, key)[1] !== undefined;
  if (version === "" && has("spec") && !has("steps")) {
    const message = 'missing key "apiVersion": a task with spec says which version it is';
    const hint =
      "Write apiVersion: mcp-eval/v1, or mcpchecker/v1alpha2 for a task of mcpchecker; only tasks with steps have none.";
    reader.refuse(message, [versionKey], { code: "config/missing-key", hint });
    return undefined;
  }
  if (version.startsWith("gevals/"))
    reader.note(`${version} is read as ${version.replace("gevals", "mcpchecker")}`, [versionKey]);
  return version.endsWith("/v1alpha2") ? readStepForm(document, reader) : readScriptForm(document, reader);
}

function readPrompt(
  { prompt: { inline, file, path } }: LegacyForm,
  expressions: Expressions,
  {
    options,
    reader,
    checkFile,
  }: {
    readonly options: ParseTaskOptions;
    readonly reader: LenientReader;
    readonly checkFile: (file: string, path: KeyPath) => boolean;
  },
): Turn | undefined {
  if (inline) return { user: expressions.prompt(inline, [...path, "inline"]) };
  const at = [...path, "file"];
  if (!file) {
    const message = "the task has no prompt: give prompt.inline or prompt.file";
    reader.refuse(message, path, { code: "config/missing-key" });
  } else if (checkFile(file, at)) {
    const text = options.files.read(file);
    if (text !== undefined) return { user: expressions.prompt(text, at) };
    reader.refuse(`${file} cannot be read`, at);
  }
  return undefined;
}

/** A task kept as `FOLDER/task.yaml` is known by its folder. */
function nameOf({ metadata }: LegacyForm, file: string, reader: LenientReader): string {
  const given = metadata.name?.trim() ?? "";
  if (given !== "") return given;
  const [name = "", folder = ""] = file.split(/[\\/]/).toReversed();
  const stem = name.replace(/\.[^.]*$/, "");
  const found = stem === "task" && folder !== "" ? folder : stem;
  reader.note(`the task has no name and goes by that of its file, ${JSON.stringify(found)}`, ["metadata"]);
  return found;
}
