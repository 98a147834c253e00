import { type Document, isMap, isSeq, YAMLMap } from "yaml";
import { McpvalsError } from "../../core/errors/error.ts";
import { asObject, isJsonObject, memberOf, withoutUndefined } from "../../core/formats/json.ts";
import { buildStep, Expressions } from "../../core/formats/legacy-task/build-step.ts";
import {
  type LegacyForm,
  type LegacyPhase,
  type RawStep,
  readScriptForm,
  readStepForm,
} from "../../core/formats/legacy-task/legacy-form.ts";
import { LenientReader } from "../../core/formats/lenient-reader.ts";
import type { Json, JsonObject } from "../../core/formats/model.ts";
import { taskApiVersion } from "../../core/formats/task/task-schema.ts";
import { parseOlderYaml } from "../read/yaml-document.ts";
import { placeOfStep, writeStep, writtenDuration, type WrittenStep } from "./migrate-step.ts";
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

export interface TaskSource {
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

export interface MigratedTask {
  readonly text: string;
  /** False for a task that has the new form already. */
  readonly changed: boolean;
  /** What could not be kept, or is to be looked at: one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Writes a task of the older forms, one that loads, as `mcp-eval/v1`, with its comments and the order of its keys. The task is
 * read as it is for a run; what was read is written as the new form has it, and the document is brought in line with that.
 * Throws McpvalsError: `config/syntax`, `config/invalid-value` for what is no task, `config/checks-nothing`.
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

const phases: readonly LegacyPhase[] = ["setup", "verify", "cleanup"];
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
  readonly #form: LegacyForm;
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

  #read(): LegacyForm {
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
          `${this.#source.shown}: ${placeOfStep(raw)} cannot be read`,
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
        for (const loss of losses) this.#report(placeOfStep(raw), loss, ["spec", phase, index]);
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
    // The id that stands beside the type, where the new form has such ids.
    const { given } = raw;
    const id = given !== undefined && /^[A-Za-z_][\w-]*$/.test(given) ? given : isUsed ? raw.id : undefined;
    const outputs = isUsed && isCall ? { outputs: { content: "{result | json $.content}" } } : {};
    const texts = (value: Json): Json => {
      if (typeof value === "string")
        return withoutExpression(withoutNeedlessEscapes(value), "{agent.prompt}", this.#prompt);
      if (Array.isArray(value)) return value.map((item: Json) => texts(item));
      if (!isJsonObject(value)) return value;
      return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, texts(member)]));
    };
    const { continueOnError, ...rest } = asObject(texts(body)) as JsonObject;
    return {
      [key]: withoutUndefined({ id, ...rest, ...outputs, continueOnError }),
    };
  }

  #moveNodes(
    spec: YAMLMap,
    steps: readonly (WrittenStep & { readonly raw: RawStep })[],
    { phase, isReversed }: { readonly phase: LegacyPhase; readonly isReversed: boolean },
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
