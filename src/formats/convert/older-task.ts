import * as z from "zod";
import { escapeTemplate } from "../../templates/template.ts";
import { anyJson, anyObject, closedObject, goDuration, patternText, texts } from "../../model/fields.ts";
import { suggestion } from "../../base/did-you-mean.ts";
import { exact, type KeyPath, mapTexts, mapValues, memberOf, withoutUndefined } from "../../base/json.ts";
import { LenientReader } from "./lenient-reader.ts";
import { olderTaskVersions, type PortableTask, type Requirement, type Turn } from "../../model/task.ts";
import type { JsonExpectation, Step, TextExpectation } from "../../model/step.ts";
import { checkFilePath } from "../task/check-texts.ts";
import { checkSettings, extensionPorts, joinExtensions, usedExtensions } from "../task/task-extensions.ts";
import type { ParsedTask, ParseTaskOptions } from "../task/task-options.ts";
import { mergeTaskServers } from "../task/read-task.ts";
import type { ExtensionUse } from "../../model/extension.ts";

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
export function parseOlderTask(document: unknown, options: ParseTaskOptions): ParsedTask {
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

const defaultCleanupMs = 300_000;
/** In these forms every process has the whole of the shell's environment. */
const inheritsAll = true as const;

function readTask(form: OlderForm, options: ParseTaskOptions, reader: LenientReader) {
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
  const stepsOf = (wanted: OlderPhase) =>
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
      cleanupTimeoutMs: limits.cleanupTimeout ?? defaultCleanupMs,
      runs: metadata.runs,
      stateProbe: [],
      randomPorts: expressions.usesPort ? [""] : [],
      assertions: [],
      inheritEnv: inheritsAll,
    }),
  });
}

function readForm(document: unknown, reader: LenientReader): OlderForm | undefined {
  const [kindKey, kind] = memberOf(document, "kind");
  if (kind !== "Task") reader.refuse('kind must be "Task"', [kindKey]);
  const [versionKey, version = ""] = memberOf(document, "apiVersion");
  const known = version === "" || olderTaskVersions.some((each) => each === version);
  if (!known || typeof version !== "string") {
    const hint = suggestion(String(version), ["mcp-eval/v1", ...olderTaskVersions], "versions");
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
  { prompt: { inline, file, path } }: OlderForm,
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
function nameOf({ metadata }: OlderForm, file: string, reader: LenientReader): string {
  const given = metadata.name?.trim() ?? "";
  if (given !== "") return given;
  const [name = "", folder = ""] = file.split(/[\\/]/).toReversed();
  const stem = name.replace(/\.[^.]*$/, "");
  const found = stem === "task" && folder !== "" ? folder : stem;
  reader.note(`the task has no name; it is named after its file, ${JSON.stringify(found)}`, ["metadata"]);
  return found;
}

const text = z.string().optional();

const metadata = closedObject({
  name: text,
  description: text,
  difficulty: text,
  labels: texts.optional(),
  parallel: z.boolean().optional(),
  runs: z.int().min(1).optional(),
}).prefault({});

const head = { apiVersion: text, kind: text, metadata };
const source = closedObject({ file: text, inline: text });

/** A task without apiVersion, or with `…/v1alpha1`. */
const scriptFormSchema = closedObject({
  ...head,
  steps: closedObject({
    setup: source.optional(),
    prompt: source.optional(),
    verify: closedObject({ file: text, inline: text, contains: text, exact: text }).prefault({}),
    cleanup: source.optional(),
  }),
});

const stepList = z.array(z.record(z.string(), z.unknown())).prefault([]);
const limits = closedObject({ timeout: goDuration.optional(), cleanupTimeout: goDuration.optional() });

/** A task with `…/v1alpha2`; the bodies of its steps have schemas of their own. */
const stepFormSchema = closedObject({
  ...head,
  spec: closedObject({
    requires: z.array(z.unknown()).prefault([]),
    limits: limits.prefault({}),
    setup: stepList,
    prompt: source.optional(),
    verify: stepList,
    cleanup: stepList,
  }),
});

/** One entry of `requires`; which of the keys are there decides. */
const requirementSchema = closedObject({ extension: text, mcpServer: text, command: text, as: text });

/** The parts of a task whose steps are lists. */
export type OlderPhase = "setup" | "verify" | "cleanup";

/** A step as its file has it, before its body is read. */
export interface RawStep {
  readonly phase: OlderPhase;
  /** Its name in templates that use its outputs. */
  readonly id: string;
  /** The id as written. */
  readonly given?: string;
  readonly type: string;
  readonly body: unknown;
  /** Path of the body. */
  readonly path: KeyPath;
}

/** What an alias in a step's type stands for. */
export interface Alias {
  readonly kind: "extension" | "server";
  /** Its name in the eval. */
  readonly name: string;
}

/** A task of either form, read as far as both are alike. */
export interface OlderForm {
  readonly format: Exclude<PortableTask["format"], "mcp-eval/v1">;
  readonly metadata: z.output<typeof metadata>;
  /** In milliseconds. */
  readonly limits: z.output<typeof limits>;
  readonly requires: readonly Requirement[];
  readonly aliases: ReadonlyMap<string, Alias>;
  readonly prompt: z.output<typeof source> & { readonly path: KeyPath };
  /** Of all phases, in the order of the file. */
  readonly steps: readonly RawStep[];
}

/** Reads a task of the step form. Undefined for one that is wrong; why is among the reader's problems. */
export function readStepForm(document: unknown, reader: LenientReader): OlderForm | undefined {
  const task = reader.read(stepFormSchema, document);
  if (task === undefined) return undefined;
  const { metadata, spec } = task;
  const ids = new Set<string>();
  const steps = (["setup", "verify", "cleanup"] as const).flatMap((phase) =>
    spec[phase].flatMap((item, index): RawStep[] => {
      const path = ["spec", phase, index];
      const { id: given, ...bodies } = item;
      const [type, ...others] = Object.keys(bodies);
      if (type === undefined || others.length > 0) {
        const found = type === undefined ? "it has none" : `it has ${Object.keys(bodies).join(", ")}`;
        reader.refuse(`a step has one key that says its type, and may have an id; ${found}`, path);
        return [];
      }
      // The author's id where templates can name it, else the one that the older tool gives.
      const isName = typeof given === "string" && /^[\w-]+$/.test(given) && !ids.has(given);
      let id = isName ? given : `${phase}_${index}`;
      while (ids.has(id)) id += "_";
      ids.add(id);
      const step = { phase, id, type, body: item[type], path: [...path, type] };
      return [typeof given === "string" ? { ...step, given } : step];
    }),
  );
  return {
    format: "step-form",
    metadata,
    limits: spec.limits,
    ...readRequires(spec.requires, reader),
    prompt: { ...spec.prompt, path: ["spec", "prompt"] },
    steps,
  };
}

function readRequires(
  list: readonly unknown[],
  reader: LenientReader,
): Pick<OlderForm, "requires" | "aliases"> {
  const requires: Requirement[] = [];
  const aliases = new Map<string, Alias>();
  for (const [index, item] of list.entries()) {
    const path = ["spec", "requires", index];
    const entry = reader.read(requirementSchema, item, path);
    if (entry === undefined) continue;
    const { extension, mcpServer, command, as } = entry;
    const name = extension || mcpServer;
    if (extension && mcpServer) reader.refuse("a requirement has extension or mcpServer, not both", path);
    else if (name) {
      const kind = extension ? "extension" : "server";
      const alias = as ?? name;
      requires.push({ kind, name });
      if (alias.includes(".")) reader.refuse(`the alias ${JSON.stringify(alias)} must have no dots`, path);
      else if (aliases.has(alias)) {
        const message = `two requirements go by the name ${JSON.stringify(alias)}`;
        const hint = "Give one of them another name with as.";
        reader.refuse(message, path, { code: "config/duplicate-name", hint });
      } else aliases.set(alias, { kind, name });
    } else if (command) requires.push({ kind: "command", name: command });
    else reader.note("unknown requirement; ignored", path);
  }
  return { requires, aliases };
}

function onlyStep(phase: OlderPhase, type: string, body: unknown): RawStep[] {
  return [{ phase, id: `${phase}_0`, type, body, path: ["steps", phase] }];
}

/**
 * Reads a task of the script form: each part is one script, or one question to the judge. Undefined for one that is wrong;
 * why is among the reader's problems.
 */
export function readScriptForm(document: unknown, reader: LenientReader): OlderForm | undefined {
  const task = reader.read(scriptFormSchema, document);
  if (task === undefined) return undefined;
  const { setup = {}, verify, cleanup = {}, prompt } = task.steps;
  const { contains, exact, ...script } = verify;
  const scripts = (phase: OlderPhase, body: z.output<typeof source>): RawStep[] =>
    body.file || body.inline ? onlyStep(phase, "script", body) : [];
  const isJudged = Boolean(contains || exact);
  const verifying = scripts("verify", script);
  if (isJudged && verifying.length > 0) {
    const message = "the judge is not asked, since verify has a script: remove contains and exact";
    reader.note(message, ["steps", "verify"]);
  }
  return {
    format: "script-form",
    metadata: task.metadata,
    limits: {},
    requires: [],
    aliases: new Map(),
    prompt: { ...prompt, path: ["steps", "prompt"] },
    steps: [
      ...scripts("setup", setup),
      ...(isJudged && verifying.length === 0
        ? onlyStep("verify", "llmJudge", { contains, exact })
        : verifying),
      ...scripts("cleanup", cleanup),
    ],
  };
}

const scriptSchema = closedObject({
  file: text,
  inline: text,
  env: texts.prefault({}),
  timeout: goDuration.optional(),
  continueOnError: z.boolean().default(false),
});

const fieldSchema = closedObject({
  path: z.string().default(""),
  equals: anyJson.optional(),
  type: z.enum(["string", "number", "bool", "array", "object", "null"]).optional(),
  match: patternText.optional(),
  exists: z.boolean().optional(),
});

/** What a JSON text is to be: the same for HTTP bodies and for the content of MCP results. */
const contentSchema = closedObject({
  match: patternText.optional(),
  fields: z.array(fieldSchema).prefault([]),
});

const httpSchema = closedObject({
  url: z.string(),
  method: z.string().default("GET"),
  headers: texts.prefault({}),
  body: closedObject({ raw: text, json: anyObject.optional() }).prefault({}),
  timeout: goDuration.optional(),
  expect: closedObject({ status: z.int().optional(), body: contentSchema.optional() }).prefault({}),
});

const judgeSchema = closedObject({ contains: text, exact: text });

/** Body of a `SERVER.TOOL` step. */
const toolSchema = closedObject({
  args: anyObject.prefault({}),
  expect: closedObject({ isError: z.boolean().optional(), content: contentSchema.optional() }).prefault({}),
});

/** What steps are built with. */
export interface StepBuilding {
  readonly reader: LenientReader;
  readonly expressions: Expressions;
  readonly aliases: ReadonlyMap<string, Alias>;
  /** Refuses a file that the task does not have. */
  readonly checkFile: (file: string, path: KeyPath) => void;
  /** How long operations of an extension may take, in milliseconds. */
  readonly operationMs: (extension: string) => number;
}

/** The older tool's limit for scripts and HTTP; what has none there gets it too. */
const defaultTimeoutMs = 300_000;

/**
 * Builds one step of the older forms. Undefined for one that is wrong; why is among the reader's problems.
 *
 * On purpose not as in the older tool:
 * - `expect: {isError: true}` fails when the tool succeeds; there it does not.
 * - A step that could not act (a script past its time, a refused connection, a judge without verdict) makes the trial an
 *   error, also under `continueOnError`; there it is a failure of the agent, or none at all.
 * - A script that is not there is refused when the task is loaded.
 * - Without a judge, a task that asks one is an error; there every such step passes.
 * - A template that names a step means the last one of that type before it, not the last one that succeeded.
 * - A field without any expectation has to exist; there it is ignored.
 */
export function buildStep(raw: RawStep, building: StepBuilding): Step | undefined {
  const { reader, expressions } = building;
  const { id, phase, path } = raw;
  const read = <S extends z.ZodType>(schema: S) => reader.read(schema, raw.body ?? {}, path);
  const replaced = (written: string, key: string, steps = false): string =>
    expressions.text(written, { step: raw, path: [...path, key], steps });
  const replacedAll = (written: Readonly<Record<string, string>>, key: string, steps = false) =>
    mapValues(written, (value, name) =>
      expressions.text(value, { step: raw, path: [...path, key, name], steps }),
    );
  switch (raw.type) {
    case "script": {
      const body = read(scriptSchema);
      if (body === undefined) return undefined;
      const { file, inline, env, timeout: timeoutMs = defaultTimeoutMs, continueOnError } = body;
      if (!file && !inline) {
        const message = "a script needs either file or inline";
        reader.refuse(message, path, { code: "config/missing-key" });
        return undefined;
      }
      if (file && inline) reader.refuse("a script has file or inline, not both", path);
      if (file) building.checkFile(file, [...path, "file"]);
      return {
        id,
        timeoutMs,
        type: "script",
        failure: continueOnError ? "soft" : "hard",
        source: file ? { file: escapeTemplate(file) } : { inline: escapeTemplate(inline ?? "") },
        args: [],
        env: replacedAll(env, "env", true),
        protocol: "exit-code",
        workdir: file ? "script" : "task",
      };
    }
    case "http": {
      const request = read(httpSchema);
      if (request === undefined) return undefined;
      const { url, method, headers, body, timeout: timeoutMs = defaultTimeoutMs, expect } = request;
      if (body.raw !== undefined && body.json !== undefined)
        reader.refuse("a body has raw or json, not both", [...path, "body"]);
      const content = body.raw === undefined ? undefined : { text: escapeTemplate(body.raw) };
      return {
        id,
        timeoutMs,
        type: "http",
        failure: "soft",
        url: replaced(url, "url"),
        method: replaced(method, "method"),
        headers: replacedAll(headers, "headers"),
        ...exact({ body: body.json === undefined ? content : { json: mapTexts(body.json, escapeTemplate) } }),
        expect: {
          status: expect.status === undefined ? [] : [expect.status],
          ...exact({ body: readContent(expect.body, [...path, "expect", "body"], reader) }),
        },
      };
    }
    case "llmJudge": {
      const body = read(judgeSchema);
      if (body === undefined) return undefined;
      const { contains, exact: wanted } = body;
      if (Boolean(contains) === Boolean(wanted)) {
        reader.refuse("llmJudge has either contains or exact", path);
        return undefined;
      }
      if (phase === "setup") reader.refuse("llmJudge is used in setup, before the agent has run", path);
      const step = { id, timeoutMs: defaultTimeoutMs, type: "llm", failure: "soft" } as const;
      return contains
        ? { ...step, contains: replaced(contains, "contains", true) }
        : { ...step, exact: replaced(wanted ?? "", "exact", true) };
    }
    default:
      return namedStep(raw, building);
  }
}

/** `ALIAS.OPERATION` or `ALIAS.TOOL`; what stands after the first dot may have dots of its own. */
function namedStep(
  { id, type, path, body }: RawStep,
  { reader, aliases, operationMs }: StepBuilding,
): Step | undefined {
  const [alias = "", ...rest] = type.split(".");
  const name = rest.join(".");
  const meant = aliases.get(alias);
  if (meant === undefined || name === "") {
    const hasDot = type.includes(".");
    const known = hasDot ? [...aliases.keys()] : ["http", "script", "llmJudge"];
    const what = hasDot ? "extensions and servers of this task's requires" : "types of steps";
    const isNewer = /^(command|file|llm|mcp|foreach|anyOf|allOf|not|group|extension)$/.test(type);
    const newer = isNewer ? "It belongs to tasks with apiVersion: mcp-eval/v1. " : "";
    const hint = newer + suggestion(hasDot ? alias : type, known, what);
    const message = `${JSON.stringify(type)} is not a type of step here`;
    reader.refuse(message, path, { code: "config/unknown-key", at: "key", hint });
    return undefined;
  }
  if (meant.kind === "extension") {
    const args = reader.read(anyObject, body ?? {}, path);
    return (
      args && {
        id,
        timeoutMs: operationMs(meant.name),
        type: "extension",
        failure: "soft",
        extension: meant.name,
        operation: name,
        args: mapTexts(args, escapeTemplate),
      }
    );
  }
  const call = reader.read(toolSchema, body ?? {}, path);
  if (call === undefined) return undefined;
  const content = readContent(call.expect.content, [...path, "expect", "content"], reader);
  return {
    id,
    timeoutMs: defaultTimeoutMs,
    type: "mcp",
    failure: "soft",
    server: meant.name,
    request: { kind: "tool", tool: name, args: mapTexts(call.args, escapeTemplate) },
    expect: { ...(call.expect.isError === true ? { isError: true } : {}), ...exact({ content }) },
  };
}

function readContent(
  content: z.output<typeof contentSchema> | undefined,
  at: KeyPath,
  reader: LenientReader,
): TextExpectation | undefined {
  const { match, fields = [] } = content ?? {};
  if (match === undefined && fields.length === 0) return undefined;
  const json = fields.map((field, index): JsonExpectation => {
    const path = translateFieldPath(field.path);
    if (path === undefined)
      reader.refuse(`${JSON.stringify(field.path)} is not a valid path`, [...at, "fields", index, "path"], {
        hint: "Write keys with dots and positions in brackets, such as items[0].name.",
      });
    const { equals, type, match: pattern, exists } = field;
    return {
      path: escapeTemplate(path ?? "$"),
      ...exact({
        exists,
        type: type === "bool" ? ("boolean" as const) : type,
        matches: pattern === undefined ? undefined : escapeTemplate(pattern),
      }),
      ...(equals === undefined || equals === null
        ? {}
        : { equals: mapTexts(equals, escapeTemplate), loose: true }),
    };
  });
  return {
    ...(match === undefined ? {} : { matches: [escapeTemplate(match)] }),
    ...(json.length === 0 ? {} : { json }),
  };
}

/** A text that may be a template: its step, its place, and whether outputs of earlier steps can be used in it. */
interface TextPlace {
  readonly step: RawStep;
  readonly path: KeyPath;
  readonly steps: boolean;
}

interface ExpressionOptions {
  readonly reader: LenientReader;
  readonly steps: readonly RawStep[];
  readonly aliases: ReadonlyMap<string, Alias>;
}

/** Rewrites the templates of one task, and remembers what they use. Lives while the task is read. */
export class Expressions {
  /** Ids of steps whose outputs some template uses. */
  readonly used = new Set<string>();
  /** Whether a random port is used. */
  usesPort = false;
  readonly #options: ExpressionOptions;

  constructor(options: ExpressionOptions) {
    this.#options = options;
  }

  /** Rewrites a text that the older tool reads as a template. */
  text(written: string, place: TextPlace): string {
    const { template, hasText } = translateTemplate(written, (expression) =>
      this.#expression(expression, place),
    );
    const message = "braces that are not an expression are taken as text; mcpchecker refuses such a text";
    if (hasText) this.#options.reader.note(message, place.path);
    return template;
  }

  /** Rewrites a prompt: it may use outputs of setup steps, and nothing else. */
  prompt(written: string, path: KeyPath): string {
    const { reader } = this.#options;
    return translateTemplate(written, (expression) => {
      const ours = this.#output(expression, this.#steps("setup"));
      if (ours === undefined && expression.startsWith("steps."))
        reader.note(`{${expression}} means no output of a setup step and is taken as text`, path);
      return ours;
    }).template;
  }

  #steps(phase: OlderPhase): readonly RawStep[] {
    return this.#options.steps.filter((step) => step.phase === phase);
  }

  #expression(expression: string, { step, path, steps }: TextPlace): string | undefined {
    if (/^env\.\w+$/.test(expression) || expression === "random.id") return expression;
    if (expression === "random.port") {
      this.usesPort = true;
      return expression;
    }
    if (expression === "agent.output" || expression === "agent.prompt") {
      const message = `{${expression}} is used in setup, before the agent has run`;
      if (step.phase === "setup")
        this.#options.reader.refuse(message, path, { hint: "Use it in verify or cleanup." });
      return expression;
    }
    if (!steps) return undefined;
    // Outputs of earlier steps of its phase can be used, in cleanup also those of setup.
    const own = this.#steps(step.phase);
    const earlier = own.slice(0, own.indexOf(step));
    return this.#output(
      expression,
      step.phase === "cleanup" ? [...this.#steps("setup"), ...earlier] : earlier,
    );
  }

  #output(expression: string, steps: readonly RawStep[]): string | undefined {
    const [, named = "", output = ""] = /^steps\.(.+)\.([\w-]+)$/.exec(expression) ?? [];
    const step = steps.findLast(({ id, type }) => {
      const [alias = "", ...rest] = type.split(".");
      const name = this.#options.aliases.get(alias)?.name;
      // Its type is named as the eval does, or as the task.
      const types = name === undefined ? [] : [[name, ...rest].join("."), type];
      return named === id || types.includes(named);
    });
    if (step === undefined || output === "") return undefined;
    this.used.add(step.id);
    return `steps.${step.id}.outputs.${output}`;
  }
}

/**
 * Rewrites a template of the older forms: `{…}` as `translate` says, `${NAME}` as `env.NAME`; all other braces become text.
 * `hasText` says whether there are such braces: the older tool refuses such a text.
 */
export function translateTemplate(
  written: string,
  translate: (expression: string) => string | undefined,
): { readonly template: string; readonly hasText: boolean } {
  let template = "";
  let hasText = false;
  let open = 0;
  const addText = (part: string): void => {
    for (const character of part) {
      const doubled = character === "{" || (character === "}" && open > 0);
      if (doubled) open += character === "{" ? 1 : -1;
      hasText ||= character === "{" || character === "}";
      template += doubled ? character + character : character;
    }
  };
  let end = 0;
  for (const { 0: whole, 1: variable, 2: inner = "", index } of written.matchAll(
    /\$\{(\w+)\}|\{([^{}]*)\}/g,
  )) {
    addText(written.slice(end, index));
    const ours = translate(variable === undefined ? inner.trim() : `env.${variable}`);
    // After a `$` braces are always text.
    if (ours === undefined || template.endsWith("$")) addText(whole);
    else template += `{${ours}}`;
    end = index + whole.length;
  }
  addText(written.slice(end));
  return { template, hasText };
}

/**
 * Turns a path of the older forms into RFC 9535. Dots separate object keys, `[n]` indexes lists, a number after a dot is a
 * key, an empty path is the whole document: `items[0].name`. Undefined for an invalid path.
 */
export function translateFieldPath(path: string): string | undefined {
  const trimmed = path.trim();
  const segments = trimmed.replace(/^(?:\$(?=[.[]|$))?\.?/, "");
  if (segments === "") return "$";
  if (!/^(?:[^.[\]]+|\[\d+\])(?:\.[^.[\]]+|\[\d+\])*$/.test(segments)) return undefined;
  const parts = [...segments.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([key, index]) => {
    if (index !== undefined) return `[${Number(index)}]`;
    return /^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
  });
  return `$${parts.join("")}`;
}
