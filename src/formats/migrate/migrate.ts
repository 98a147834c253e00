import { basename, dirname, extname, resolve } from "node:path";
import { type Document, isMap, isSeq, YAMLMap } from "yaml";
import { McpvalsError } from "../../base/error.ts";
import { parseDuration, parseGoDuration } from "../../base/duration.ts";
import { parsePackageRef } from "../../model/package-ref.ts";
import {
  asList,
  asObject,
  asText,
  formatKeyPath,
  mapTexts,
  memberOf,
  withoutUndefined,
  type Json,
  type JsonObject,
} from "../../base/json.ts";
import {
  buildStep,
  Expressions,
  type OlderForm,
  type OlderPhase,
  type RawStep,
  readScriptForm,
  readStepForm,
} from "../convert/older-task.ts";
import { LenientReader } from "../convert/lenient-reader.ts";
import { taskApiVersion } from "../../model/task.ts";
import type {
  HttpStep,
  JsonExpectation,
  McpStep,
  ScriptStep,
  Step,
  TextExpectation,
} from "../../model/step.ts";
import { displayPath } from "../environment.ts";
import { documentKind, FileProblems, SourceText } from "../read/document.ts";
import { endingOf, readData, readDataText, tasksOfSet } from "../read/read-files.ts";
import { repositoryOf } from "../sources.ts";
import { parseOlderYaml } from "../../base/parse-yaml.ts";
import { parseTaskText, type TaskOptions } from "../tasks.ts";
import { literalText, shellVariables, withoutExpression, withoutNeedlessEscapes } from "./texts.ts";
import {
  bindComments,
  commentAt,
  keepComments,
  listOf,
  mapIn,
  mapOf,
  pairOf,
  plain,
  reconcile,
  remove,
  rename,
  unfold,
} from "./yaml-edit.ts";

interface MigrateOptions extends TaskOptions {
  /** Where extensions come from, by their names in an Eval. Default: that is not known. */
  readonly packages?: ReadonlyMap<string, string>;
}

export interface MigratedFile extends MigratedTask {
  /** Absolute. */
  readonly path: string;
  /** The file as messages name it. */
  readonly shown: string;
}

/**
 * Writes the task of a file in the new form, and makes sure that what comes of it loads. Throws McpvalsError of kind `usage`
 * for a file that is not a task, or a wrong one.
 */
export async function migrateFile(file: string, options: MigrateOptions): Promise<MigratedFile> {
  const path = resolve(options.cwd, file);
  const shown = displayPath(options.cwd, path);
  const source = readDataText(path, shown);
  const stem = basename(path, extname(path));
  const { files } = await parseTaskText(source, path, options);
  const migrated = migrateTask({
    text: source.text,
    shown,
    // A task kept as `FOLDER/task.yaml` is known by its folder.
    name: stem === "task" ? basename(dirname(path)) : stem,
    json: endingOf(path) === "json",
    read: (beside) => files.read(beside),
    ...(options.packages === undefined ? {} : { packages: options.packages }),
  });
  if (migrated.changed)
    await parseTaskText(new SourceText(`${shown} (migrated)`, migrated.text), path, options);
  return { ...migrated, path, shown };
}

/**
 * The files of tasks that a file means: of an Eval those that its task sets name, else the file itself. Throws McpvalsError of kind `usage`
 * for an Eval that names no task.
 */
export async function taskFiles(file: string, cwd: string): Promise<readonly string[]> {
  const path = resolve(cwd, file);
  const shown = displayPath(cwd, path);
  const { value, locate, source } = await readData(path, shown);
  if (documentKind(asObject(value)) !== "Eval") return [path];
  const [, config] = memberOf(value, "config");
  const [, sets] = memberOf(config, "taskSets");
  const dir = dirname(path);
  const problems = new FileProblems();
  const options = { cwd, repository: repositoryOf(dir), problems };
  const paths = new Set<string>();
  for (const [index, set] of asList(sets).entries()) {
    const [glob, one] = ["glob", "path"].map((key) => asText(memberOf(set, key)[1]));
    const files = glob !== undefined ? { glob } : one !== undefined ? { path: one } : undefined;
    if (files === undefined) continue;
    const { tasks } = await tasksOfSet(
      { files, index, dir, source, location: locate({ path: ["config", "taskSets", index], at: "value" }) },
      options,
    );
    for (const task of tasks) paths.add(task.path);
  }
  problems.throwIfAny();
  if (paths.size > 0) return [...paths];
  throw new McpvalsError("config/not-found", `the task sets of ${shown} name no file of kind Task`, {
    location: { file: shown },
  });
}

/**
 * Where the extensions of an Eval come from, by their names. Paths are left out: they start from the Eval's folder, and a
 * task may not leave its own. Throws McpvalsError of kind `usage` for a file that is not an Eval.
 */
export async function evalPackages(file: string, cwd: string): Promise<ReadonlyMap<string, string>> {
  const path = resolve(cwd, file);
  const shown = displayPath(cwd, path);
  const { value } = await readData(path, shown);
  if (documentKind(asObject(value)) !== "Eval") {
    throw new McpvalsError("config/invalid-value", `${shown} is not an Eval: its kind is not Eval`, {
      location: { file: shown },
    });
  }
  const [, config] = memberOf(value, "config");
  const [, extensions] = memberOf(config, "extensions");
  const named = Object.entries(asObject(extensions)).flatMap(([name, entry]) => {
    const from = asText(memberOf(entry, "package")[1]);
    const parsed = from === undefined ? undefined : parsePackageRef(from);
    const isFetched = parsed?.ok === true && parsed.ref.kind !== "path";
    return from !== undefined && isFetched ? [[name, from] as const] : [];
  });
  return new Map(named);
}

interface TaskSource {
  readonly text: string;
  /** The file as messages name it. */
  readonly shown: string;
  /** What a task without a name goes by. */
  readonly name: string;
  /** Whether the text is JSON, and what comes of it is to be. */
  readonly json: boolean;
  /** The text of a file beside the task; undefined when there is none. */
  readonly read: (file: string) => string | undefined;
  /** Where extensions come from, by their names in an Eval. Default: that is not known. */
  readonly packages?: ReadonlyMap<string, string>;
}

interface MigratedTask {
  readonly text: string;
  /** False for a task that has the new form already. */
  readonly changed: boolean;
  /** What could not be kept, or is to be looked at: one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Writes a task of the older forms, one that loads, as `mcp-eval/v1`, with its comments and the order of its keys. The task is
 * read as it is for a run; what was read is written as the new form has it, and the document is brought in line with that.
 * Throws McpvalsError: `config/syntax`, `config/invalid-value` for what is not a task, `config/checks-nothing`.
 */
export function migrateTask(source: TaskSource): MigratedTask {
  const { text, shown } = source;
  const document = parseOlderYaml(text);
  const failure = document.errors.find((error) => error.code !== "MULTIPLE_DOCS");
  if (failure !== undefined) throw new McpvalsError("config/syntax", `${shown}: ${failure.message}`);
  const hasMore = document.errors.length > 0;
  // Of several documents the older forms read the first; with errors a document cannot be written.
  document.errors = [];
  const root: unknown = document.contents;
  if (memberOf(plain(root), "apiVersion")[1] === taskApiVersion)
    return { text, changed: false, notes: [`${shown} has the form ${taskApiVersion} already`] };
  unfold(document);
  bindComments(document);
  if (!isMap(root) || memberOf(plain(root), "kind")[1] !== "Task")
    throw new McpvalsError("config/invalid-value", `${shown} is not a task: its kind is not Task`);
  const migration = new Migration(root, document, source);
  if (hasMore) migration.notes.push("only the first document of the file is a task; the others are left out");
  migration.run();
  document.setSchema("1.2");
  const written = source.json
    ? `${JSON.stringify(document.toJS(), undefined, 2)}\n`
    : document.toString({ lineWidth: 0 });
  return { text: written, changed: true, notes: migration.notes };
}

const phases: readonly OlderPhase[] = ["setup", "verify", "cleanup"];
const difficulties = ["easy", "medium", "hard"];
const metadataKeys = ["name", "description", "difficulty", "labels", "parallel", "runs"];

/** A text as the older forms take it: numbers and booleans are texts too. */
function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : "";
}

/** Rewrites the document of one task. */
class Migration {
  readonly notes: string[] = [];
  readonly #root: YAMLMap;
  readonly #document: Document;
  readonly #source: TaskSource;
  readonly #form: OlderForm;
  readonly #reader = new LenientReader(() => undefined);
  readonly #expressions: Expressions;
  readonly #comments: { readonly path: readonly (string | number)[]; readonly text: string }[] = [];
  /** The prompt, as a template of the new form. */
  #prompt = "";

  constructor(root: YAMLMap, document: Document, source: TaskSource) {
    this.#root = root;
    this.#document = document;
    this.#source = source;
    this.#form = this.#read();
    const { steps, aliases } = this.#form;
    this.#expressions = new Expressions({ reader: this.#reader, steps, aliases });
  }

  run(): void {
    const from = this.#form.format === "script-form" ? "steps" : "spec";
    remove(this.#root, pairOf(this.#root, from === "spec" ? "steps" : "spec"));
    rename(pairOf(this.#root, from), "spec");
    const spec = mapIn(this.#root, "spec") ?? new YAMLMap();
    const metadata = this.#metadata();
    const target = { kind: "Task", apiVersion: taskApiVersion, metadata, spec: this.#spec(spec) };
    reconcile(this.#document, this.#root, target);
    for (const note of this.#reader.notes)
      if (/^unknown key .* is ignored/.test(note) && !note.includes(" in metadata ")) this.notes.push(note);
    for (const { path, text } of this.#comments) commentAt(this.#root, path, `migrated: ${text}`);
  }

  #read(): OlderForm {
    const { shown } = this.#source;
    const document = asObject(plain(this.#root));
    const isStepForm = textOf(memberOf(document, "apiVersion")[1]).endsWith("/v1alpha2");
    const form = isStepForm ? readStepForm(document, this.#reader) : readScriptForm(document, this.#reader);
    if (form === undefined || this.#reader.failed) {
      const [first] = this.#reader.diagnostics();
      throw new McpvalsError("config/invalid-value", `${shown}: ${first?.message ?? "it is not a task"}`);
    }
    if (form.steps.some((step) => step.phase === "verify")) return form;
    throw new McpvalsError(
      "config/checks-nothing",
      `${shown} has no verify step, and ${taskApiVersion} wants one`,
      { hint: "Say in verify what must hold once the agent is done." },
    );
  }

  /** Adds a note, and the same as a comment in the file. */
  #report(place: string, text: string, path: readonly (string | number)[]): void {
    this.notes.push(`${place}: ${text}`);
    this.#comments.push({ path, text });
  }

  #metadata(): JsonObject {
    const written = asObject(plain(mapIn(this.#root, "metadata")));
    const { name = "", description, difficulty = "", labels, parallel, runs = 1 } = this.#form.metadata;
    const isKnown = difficulties.includes(difficulty);
    const own = {
      name: name.trim() || this.#source.name,
      description,
      difficulty: isKnown ? difficulty : undefined,
      labels: isKnown || difficulty === "" ? labels : { ...labels, difficulty },
    };
    const metadata = withoutUndefined(own);
    // Comments on what is gone stand before the first key.
    const order = Object.keys(written).map((key) => key.toLowerCase());
    const [first = "name"] = Object.keys(metadata).toSorted((a, b) => order.indexOf(a) - order.indexOf(b));
    const lose = (key: string, why: string): void => {
      const value = JSON.stringify(written[key])?.slice(0, 200) ?? "null";
      const text = `${key}: ${value} is left out; ${why}`;
      this.notes.push(`metadata.${text}`);
      this.#comments.push({ path: ["metadata", first], text });
    };
    for (const key of Object.keys(written))
      if (!metadataKeys.includes(key.toLowerCase())) lose(key, "nothing reads it");
    if (parallel === true) lose("parallel", "see --concurrency");
    if (runs > 1) lose("runs", "see --trials");
    if (!isKnown && difficulty !== "") {
      const text = `the difficulty is a label, as it is none of ${difficulties.join(", ")}`;
      this.#report("metadata.difficulty", text, ["metadata", "labels", "difficulty"]);
    }
    return metadata;
  }

  #spec(spec: YAMLMap): JsonObject {
    const prompt = this.#promptOf(spec);
    const { imports, requires } = this.#requirements(spec);
    const steps = this.#steps(spec);
    const limits = asObject(plain(mapIn(spec, "limits")));
    const durations = (["timeout", "cleanupTimeout"] as const).flatMap((key) => {
      const text = memberOf(limits, key)[1];
      const usual = key === "cleanupTimeout" && steps["cleanup"] !== undefined ? "5m" : undefined;
      const written = typeof text === "string" ? writtenDuration(text) : usual;
      return written === undefined ? [] : [[key, written] as const];
    });
    return withoutUndefined({
      imports,
      requires,
      env: this.#environment(),
      limits: durations.length === 0 ? undefined : Object.fromEntries(durations),
      setup: steps["setup"],
      prompt,
      verify: steps["verify"],
      cleanup: steps["cleanup"],
    });
  }

  #promptOf(spec: YAMLMap): Json {
    const { inline, file = "", path } = this.#form.prompt;
    if (inline) {
      this.#prompt = withoutNeedlessEscapes(this.#expressions.prompt(inline, [...path, "inline"]));
      return this.#prompt;
    }
    remove(mapIn(spec, "prompt") ?? new YAMLMap(), pairOf(mapIn(spec, "prompt") ?? new YAMLMap(), "inline"));
    const content = this.#source.read(file) ?? "";
    this.#prompt = content.trimEnd();
    if (literalText(content) !== content)
      this.#report(
        "spec.prompt",
        "braces in the prompt's file are templates now; double those that are text",
        ["spec", "prompt"],
      );
    return { file };
  }

  /** Servers and commands stay requirements, extensions become imports; their items are taken along. */
  #requirements(spec: YAMLMap): { readonly imports?: Json; readonly requires?: Json } {
    const pair = pairOf(spec, "requires");
    const items = isSeq(pair?.value) ? pair.value.items.filter((item) => isMap(item)) : [];
    const read = items.map((item) => ({ item, ...this.#requirement(plain(item)) }));
    const imports = read.filter(({ target }) => target !== undefined && Object.hasOwn(target, "package"));
    const requires = read.filter(({ target }) => target !== undefined && !Object.hasOwn(target, "package"));
    if (imports.length > 0) {
      const entry = this.#document.createPair("imports", listOf(imports.map(({ item }) => item)));
      if (requires.length === 0) keepComments(pair?.key, entry);
      spec.items.splice(pair === undefined ? 0 : spec.items.indexOf(pair), 0, entry);
    }
    if (pair !== undefined) pair.value = listOf(requires.map(({ item }) => item));
    for (const [index, { text }] of imports.entries())
      if (text !== undefined) this.#report("spec.imports", text, ["spec", "imports", index]);
    const targets = (list: typeof read): Json | undefined =>
      list.length === 0 ? undefined : list.flatMap(({ target }) => target ?? []);
    return withoutUndefined({ imports: targets(imports), requires: targets(requires) });
  }

  /** An import or a requirement, and what is not known of it; without a target for an item that says nothing. */
  #requirement(item: unknown): { readonly target?: JsonObject; readonly text?: string } {
    const read = (key: string): string => textOf(memberOf(item, key)[1]);
    const [extension, server, command] = [read("extension"), read("mcpServer"), read("command")];
    if (extension !== "") {
      const known = this.#source.packages?.get(extension);
      const target = { package: known ?? extension, as: read("as") || extension };
      if (known !== undefined) return { target };
      const text = `say where ${extension} comes from: github.com/ORG/REPO@VERSION, as in the Eval's config.extensions`;
      return { target, text };
    }
    if (server !== "") return { target: { server } };
    if (command !== "") return { target: { command } };
    this.notes.push("spec.requires: a requirement that nothing reads is left out");
    return {};
  }

  /** The steps by phase; their nodes are put where those of the new form stand. */
  #steps(spec: YAMLMap): Readonly<Record<string, readonly JsonObject[]>> {
    const { steps, aliases } = this.#form;
    const building = {
      reader: this.#reader,
      expressions: this.#expressions,
      aliases,
      checkFile: () => undefined,
      operationMs: () => 0,
    };
    const written = steps.map((raw) => {
      const step = buildStep(raw, building);
      if (step === undefined)
        throw new McpvalsError(
          "config/invalid-value",
          `${this.#source.shown}: ${formatKeyPath(raw.path)} cannot be read`,
        );
      return { raw, isCall: step.type === "mcp", ...writeStep(raw, step) };
    });
    const all = phases.map((phase) => {
      const own = written.filter(({ raw }) => raw.phase === phase);
      // The older forms clean up in the order of the file, the new one in the reverse order.
      const isReversed = phase === "cleanup" && own.length > 1;
      this.#moveNodes(spec, own, { phase, isReversed });
      if (isReversed) this.#comments.push({ path: ["spec", phase], text: "the last step is run first" });
      const ordered = isReversed ? own.toReversed() : own;
      for (const [index, { raw, losses }] of ordered.entries())
        for (const loss of losses) this.#report(formatKeyPath(raw.path), loss, ["spec", phase, index]);
      return [phase, ordered.map((each) => this.#target(each))] as const;
    });
    return Object.fromEntries(all.filter(([, list]) => list.length > 0));
  }

  #target({
    raw,
    key,
    body,
    isCall,
  }: WrittenStep & { readonly raw: RawStep; readonly isCall: boolean }): JsonObject {
    const isUsed = this.#expressions.used.has(raw.id);
    // The id beside the type, where the new form has such ids.
    const { given } = raw;
    const id = given !== undefined && /^[A-Za-z_][\w-]*$/.test(given) ? given : isUsed ? raw.id : undefined;
    const outputs = isUsed && isCall ? { outputs: { content: "{result | json $.content}" } } : {};
    const { continueOnError, ...rest } = mapTexts(body, (text) =>
      withoutExpression(withoutNeedlessEscapes(text), "{agent.prompt}", this.#prompt),
    );
    return {
      [key]: withoutUndefined({ id, ...rest, ...outputs, continueOnError }),
    };
  }

  #moveNodes(
    spec: YAMLMap,
    steps: readonly (WrittenStep & { readonly raw: RawStep })[],
    { phase, isReversed }: { readonly phase: OlderPhase; readonly isReversed: boolean },
  ): void {
    const pair = pairOf(spec, phase);
    if (pair === undefined) return;
    if (this.#form.format === "script-form") {
      const body = pair.value;
      const step = this.#document.createPair(steps[0]?.raw.type ?? "", body);
      keepComments(body, step);
      if (
        steps[0]?.raw.type === "script" &&
        ["contains", "exact"].some((key) => isMap(body) && pairOf(body, key) !== undefined)
      )
        this.notes.push("steps.verify: the judge is left out; it was not asked, since there is a script");
      pair.value = listOf([mapOf([step])]);
    }
    const items = isSeq(pair.value) ? pair.value.items.filter((item) => isMap(item)) : [];
    for (const [index, { raw, key, body }] of steps.entries()) {
      const place = items[index] === undefined ? undefined : pairOf(items[index], raw.type);
      if (place !== undefined && Object.hasOwn(body, "args") && key === "extension")
        place.value = mapOf([this.#document.createPair("args", place.value)]);
      rename(place, key);
    }
    pair.value = listOf(isReversed ? items.toReversed() : items);
  }

  /** Scripts had the whole environment of the shell; now they have what the task says. */
  #environment(): Json | undefined {
    const { steps, aliases } = this.#form;
    const scripts = steps
      .filter(({ type }) => type === "script")
      .map(({ body }) => {
        const [inline, file] = [memberOf(body, "inline")[1], memberOf(body, "file")[1]];
        const text = inline ?? (typeof file === "string" ? this.#source.read(file) : undefined);
        const own = Object.keys(asObject(memberOf(body, "env")[1]));
        const { needed, optional } = shellVariables(textOf(text));
        const others = (names: readonly string[]): string[] => names.filter((name) => !own.includes(name));
        return { needed: others(needed), optional: others(optional) };
      });
    const needed = [...new Set(scripts.flatMap((each) => each.needed))];
    const optional = [...new Set(scripts.flatMap((each) => each.optional))].filter(
      (name) => !needed.includes(name),
    );
    if (needed.length > 0) {
      this.notes.push(`spec.env: has what the scripts use of your shell: ${needed.join(", ")}`);
      const text = "what the scripts use of your shell; take out what they set themselves";
      this.#comments.push({ path: ["spec", "env"], text });
    }
    const isProcess = ({ type }: RawStep): boolean =>
      type === "script" || aliases.get(type.split(".")[0] ?? "")?.kind === "extension";
    if (steps.some(isProcess)) {
      const more = optional.length === 0 ? "" : `, such as ${optional.join(", ")}`;
      const text = `processes get spec.env, PATH, HOME, LANG and TMPDIR, no longer the whole environment of the shell; an Eval's inheritEnv passes more${more}`;
      this.#report("spec", text, ["spec"]);
    }
    return needed.length === 0
      ? undefined
      : Object.fromEntries(needed.map((name) => [name, `{env.${name}}`]));
  }
}

/** A step as the new form has it. Its texts are templates, still with every brace escaped that may be. */
interface WrittenStep {
  /** The key of the step, which says its type. */
  readonly key: string;
  readonly body: JsonObject;
  /** What of it means something else now. */
  readonly losses: readonly string[];
}

type Body = Omit<WrittenStep, "key">;

/** The limit that steps without one have in the older forms; it is written out where the new form has another one. */
const defaultTimeout = "5m";

/** Writes a step that was read from an older form; `alias` is the name that its task has for the extension. */
function writeStep(raw: RawStep, step: Step): WrittenStep {
  const isSetup = raw.phase === "setup";
  switch (step.type) {
    case "script":
      return { key: "script", ...script(raw, step) };
    case "http":
      return { key: "http", ...http(raw, step) };
    case "mcp":
      return tolerant(isSetup, toolCall(raw, step));
    case "extension":
      return tolerant(isSetup, operation(raw, step.args));
    case "llm": {
      const { contains, exact } = step;
      return { key: "llm", body: withoutUndefined({ contains, exact, timeout: defaultTimeout }), losses: [] };
    }
    default:
      throw new Error(`no older form has a step of type ${step.type}`);
  }
}

/** A loss where a condition holds. */
function lossIf(condition: boolean, loss: string): readonly string[] {
  return condition ? [loss] : [];
}

function script(raw: RawStep, { source, env }: ScriptStep): Body {
  const isTolerated = memberOf(raw.body, "continueOnError")[1] === true;
  const isKept = isTolerated && raw.phase === "setup";
  const file = "file" in source ? source.file.replace(/^\.\//, "") : "";
  const continueOnError = isKept ? true : undefined;
  return {
    body: withoutUndefined({ ...source, env: nonEmpty(env), timeout: durationOf(raw), continueOnError }),
    losses: [
      ...lossIf(isKept, tolerated),
      // In cleanup a failure never counts.
      ...lossIf(
        isTolerated && raw.phase === "verify",
        "continueOnError: true is left out: a failure counted all the same, only the steps after it still ran, as they always do now",
      ),
      ...lossIf(
        file.includes("/"),
        "the script runs in the task's folder, no longer in its own: check the relative paths in it",
      ),
    ],
  };
}

/** Every status: the older form takes any where none is asked for. */
const anyStatus = ["1xx", "2xx", "3xx", "4xx", "5xx"];

function http(raw: RawStep, { url, method, headers, body, expect }: HttpStep): Body {
  const written = asObject(memberOf(raw.body, "expect")[1]);
  const isSetup = raw.phase === "setup";
  const [status = anyStatus] = isSetup ? [] : expect.status;
  const content = isSetup ? undefined : expect.body;
  const all = {
    url,
    method: memberOf(raw.body, "method")[1] === undefined ? undefined : method,
    headers: nonEmpty(headers),
    body: body === undefined || "json" in body ? body : body.text,
    expect: withoutUndefined({ status, body: content === undefined ? undefined : textExpectation(content) }),
    timeout: durationOf(raw) ?? defaultTimeout,
  };
  const isLoose = content?.json?.some(({ equals }) => equals !== undefined && typeof equals !== "object");
  return {
    body: withoutUndefined(all),
    losses: [
      // A request in setup that could not be sent was an error, which continueOnError would hide too.
      ...lossIf(
        isSetup && Object.keys(written).length > 0,
        `in setup nothing depended on what was expected, so it is left out: ${JSON.stringify(written)}`,
      ),
      ...lossIf(
        isLoose === true,
        'equals compares JSON values, so that 5 and "5" differ; the older form took them as equal',
      ),
    ],
  };
}

function textExpectation({ matches, json }: TextExpectation): JsonObject {
  return withoutUndefined({ matches: oneOrMany(matches), json: json?.map(fieldExpectation) });
}

function fieldExpectation({ path, exists, type, matches, equals }: JsonExpectation): JsonObject {
  const plain = path.replace(/^\$\./, "");
  // Nothing else can be asked of a place that must not be.
  if (exists === false) return { path: plain, exists };
  return withoutUndefined({ path: plain, equals, type, matches, exists });
}

function oneOrMany<T>(values: readonly T[] | undefined): T | readonly T[] | undefined {
  return values?.length === 1 ? values[0] : values;
}

/** The path of the text of the first part, which is nearly always the only one. */
const firstText = "$[0].text";

/** What was asked of the list of content becomes what is asked of its text, as far as that is the same. */
function toolCall(raw: RawStep, { server = "", request, expect }: McpStep): WrittenStep {
  if (request.kind !== "tool") throw new Error("older forms only call tools");
  const { matches: whole = [], json = [] } = expect.content ?? {};
  const ofText = json.filter(({ path }) => path === firstText);
  const lost = json.filter(({ path }) => path !== firstText).map(({ path }) => path);
  const patterns = [...whole, ...ofText.flatMap(({ matches }) => matches ?? [])];
  const equals = ofText.find((each) => typeof each.equals === "string")?.equals;
  const text = nonEmpty(
    withoutUndefined({ equals, matches: patterns.length === 0 ? undefined : oneOrMany(patterns) }),
  );
  const body = {
    args: memberOf(raw.body, "args")[1] === undefined ? undefined : request.args,
    expect: nonEmpty(withoutUndefined({ isError: expect.isError, text })),
    timeout: defaultTimeout,
  };
  return {
    key: `${server}.${request.tool}`,
    body: withoutUndefined(body),
    losses: [
      ...lossIf(
        whole.length > 0,
        "the pattern is looked for in the text, no longer in the JSON of the list of content",
      ),
      ...lossIf(
        lost.length > 0,
        `what was expected of ${lost.join(", ")} in the list of content is left out`,
      ),
    ],
  };
}

/** Keys that an operation's short form has itself, so that no argument can go by them. */
const ownKeys = ["id", "timeout", "if", "continueOnError", "outputs", "retry", "stableFor"];

/** An operation whose arguments leave room for its short form keeps it. */
function operation({ type }: RawStep, args: JsonObject): WrittenStep {
  if (!ownKeys.some((key) => Object.hasOwn(args, key))) return { key: type, body: args, losses: [] };
  const dot = type.indexOf(".");
  const body = { package: type.slice(0, dot), action: type.slice(dot + 1), args };
  return { key: "extension", body, losses: [] };
}

const tolerated =
  "continueOnError lets a failure of this step pass, as before, but now also an error, such as a step that could not run";

/** In setup of the older form a failure of a step that is not a script changed nothing. */
function tolerant(isSetup: boolean, { key, body, losses }: WrittenStep): WrittenStep {
  if (!isSetup) return { key, body, losses };
  return { key, body: { ...body, continueOnError: true }, losses: [...losses, tolerated] };
}

function nonEmpty<T extends object>(value: T): T | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

function durationOf({ body }: RawStep): string | undefined {
  const text = memberOf(body, "timeout")[1];
  return typeof text === "string" ? writtenDuration(text) : undefined;
}

/** A duration as Go writes it, in another writing where only Go would read it. */
function writtenDuration(text: string): string {
  const ms = parseGoDuration(text);
  if (ms === undefined || parseDuration(text) === ms) return text;
  const units = Object.entries({ h: 3_600_000, m: 60_000, s: 1000 });
  const [unit, size] = units.find(([, each]) => ms % each === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}
