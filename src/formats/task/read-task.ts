import type * as z from "zod";
import {
  mergeServerTables,
  noServers,
  readOverlay,
  saysKind,
  type ServerOverlay,
  type ServerTable,
} from "../config/server-tables.ts";
import { suggestion } from "../../base/did-you-mean.ts";
import {
  asList,
  asObject,
  asText,
  formatKeyPath,
  isJsonObject,
  type Json,
  type JsonObject,
  type KeyPath,
  withoutUndefined,
} from "../../base/json.ts";
import { type ServerSpec, buildServer, buildServers, type ParsedServer } from "../../model/server.ts";
import type { SolutionAction } from "../../model/task.ts";
import { maxProblems, type Problem, problem, problemAt, validate } from "../../base/problem.ts";
import {
  type InnerList,
  innerLists,
  kindOf,
  mcpRequest,
  type Step,
  type StepForm,
  type StepKind,
  stepTypes,
} from "../../model/step.ts";
import { problemsOfIssues } from "../../model/zod-problems.ts";
import { type JoinedExtensions, joinExtensions, type TaskImport } from "./task-extensions.ts";
import type { ParseTaskOptions } from "./task-options.ts";
import { type ParsedTaskFile, solutionSchemas, taskSchema } from "./task-schema.ts";
import { parseTemplate } from "../../templates/template.ts";

/** The phases that have steps, in the order in which they run. */
const stepPhases = ["setup", "verify", "cleanup"] as const;
type StepPhase = (typeof stepPhases)[number];

/** A task's file that fits its schema, with the places of its parts. */
export interface TaskSource {
  readonly document: JsonObject;
  readonly file: ParsedTaskFile;
  readonly steps: Readonly<Record<StepPhase, readonly PlacedStep[]>>;
  readonly solution: readonly PlacedAction[];
  readonly overlay: ServerOverlay | undefined;
  readonly names: ServerNames;
  readonly servers: TaskServers;
  readonly imports: readonly TaskImport[];
  readonly extensions: JoinedExtensions;
}

/** A step, and how and where it is written. */
export interface PlacedStep {
  readonly step: Step;
  readonly kind: StepKind;
  /** Of the whole step. */
  readonly path: KeyPath;
  /** Of the value of its key. */
  readonly bodyPath: KeyPath;
  /** The value of its key; a list of steps, or a step, became `{steps: […]}`. */
  readonly body: JsonObject;
  /** Whether the body was a list or a step. */
  readonly isShort: boolean;
  /** The author's id. */
  readonly ownId?: string;
  readonly inner: Readonly<Record<InnerList, readonly PlacedStep[]>>;
}

/** An action of the solution, and where it is written. */
export interface PlacedAction {
  readonly action: SolutionAction;
  /** Of the value of its key. */
  readonly path: KeyPath;
  /** The value of its key. */
  readonly body: Json;
  readonly inner: readonly PlacedAction[];
}

interface Reading {
  readonly document: JsonObject;
  readonly problems: Problem[];
  /** Names that a dotted step may begin with: of imports and of the eval's extensions. */
  readonly aliases: readonly string[];
  readonly servers: readonly string[];
  readonly operationMs: (extension: string) => number;
}

/** Reads the document of a task's file against its schema; gives the problems of one that does not fit. */
export function readTask(document: JsonObject, options: ParseTaskOptions): TaskSource | readonly Problem[] {
  const spec = asObject(document["spec"]) as JsonObject;
  const overlay = readOverlay(spec, ["spec"]);
  const names = serverNames(spec, overlay?.table, options.servers);
  const imports = asList(spec["imports"]).flatMap((each, index): TaskImport[] => {
    const { as, package: from } = asObject(each);
    const path = ["spec", "imports", index];
    return typeof as === "string" ? [{ as, package: typeof from === "string" ? from : "", path }] : [];
  });
  const extensions = joinExtensions(imports, options);
  const { data: file, issues } = validate(taskSchema, withoutServers(document));
  const servers = mergeTaskServers(overlay, options);
  const wrong = file === undefined ? problemsOfIssues(issues.slice(0, maxProblems), document) : [];
  const problems = [...wrong, ...servers.problems];
  const reading: Reading = {
    document,
    problems,
    aliases: [...imports.map(({ as }) => as), ...Object.keys(options.extensions?.declared ?? {})],
    servers: names.known,
    operationMs: extensions.operationMs,
  };
  const read = (phase: StepPhase): readonly PlacedStep[] =>
    readSteps(spec[phase], { path: ["spec", phase], place: phase, phase }, reading);
  const steps = { setup: read("setup"), verify: read("verify"), cleanup: read("cleanup") };
  const solution = readActions(spec["solution"], ["spec", "solution"], reading);
  if (file === undefined || problems.length > 0) return problems;
  return { document, file, steps, solution, overlay, names, servers, imports, extensions };
}

/** Servers are read by themselves, merged over those of the eval. */
function withoutServers(document: JsonObject): JsonObject {
  if (!isJsonObject(document["spec"])) return document;
  const { servers: _, ...spec } = document["spec"];
  return { ...document, spec };
}

interface ServerNames {
  /** Those that a trial starts: the eval's and its own, without the ones taken away. */
  readonly started: readonly string[];
  /** Those that steps may name: also the ones that the eval must provide. */
  readonly known: readonly string[];
  /** Those that it `requires`. */
  readonly required: readonly string[];
}

/** The names of a task's servers over those that an eval, or a variant of it, provides. */
export function serverNames(
  spec: JsonObject,
  table: JsonObject = {},
  provided: readonly string[],
): ServerNames {
  const declared = Object.entries(table).filter(([, server]) => typeof server !== "boolean");
  const inherited = table["inherit"] === false ? [] : provided;
  const started = [...new Set([...inherited, ...declared.map(([name]) => name)])].filter(
    (name) => !declared.some(([other, server]) => other === name && server === null),
  );
  const required = asList(spec["requires"]).flatMap((each) => asText(asObject(each)["server"]) ?? []);
  return { started, known: [...new Set([...started, ...required])], required };
}

interface ListPlace {
  readonly path: KeyPath;
  /** What ids made from places begin with. */
  readonly place: string;
  /** The phase that the steps count to. */
  readonly phase: StepPhase;
}

function readSteps(
  list: unknown,
  { path, place, phase }: ListPlace,
  reading: Reading,
): readonly PlacedStep[] {
  return asList(list).flatMap((item, index) =>
    readStep(item as Json, { path: [...path, index], place: `${place}[${index}]`, phase }, reading),
  );
}

/** The only key of an object. */
function onlyKey(item: Json): string | undefined {
  const [key, ...others] = isJsonObject(item) ? Object.keys(item) : [];
  return others.length === 0 ? key : undefined;
}

/** Reads one step; `place` is its id unless it has one of its own. */
function readStep(item: Json, { path, place, phase }: ListPlace, reading: Reading): readonly PlacedStep[] {
  const key = onlyKey(item);
  const found = key === undefined ? undefined : findForm(key, reading);
  if (key === undefined || found === undefined) {
    reading.problems.push(key === undefined ? notOneKey(item, path) : unknownStep(key, path, reading));
    return [];
  }
  const { type, form, names } = found;
  const kind = kindOf(type);
  const written = asObject(item)[key] as Json;
  const bodyPath = [...path, key];
  const isSingle = kind.shortBody === "list or step" && isOneStep(written);
  const isShort = isSingle || (kind.shortBody !== undefined && Array.isArray(written));
  const body = isShort ? { steps: isSingle ? [written] : written } : written;
  const ownId = asObject(body)["id"];
  const id = typeof ownId === "string" ? ownId : place;
  const { data, issues } = form.read(body, { id, names, operationMs: reading.operationMs });
  report(issues, (inner) => [...bodyPath, ...(isShort ? inner.slice(1) : inner)], reading);
  const inner = Object.fromEntries(
    innerLists.map((list) => {
      if (!kind.inner.includes(list)) return [list, []];
      const inPhase = list === "steps" ? phase : list;
      if (isSingle)
        return [list, readStep(written, { path: bodyPath, place: `${list}[0]`, phase: inPhase }, reading)];
      const at = { path: isShort ? bodyPath : [...bodyPath, list], place: list, phase: inPhase };
      return [list, readSteps(asObject(body)[list], at, reading)];
    }),
  ) as PlacedStep["inner"];
  if (data === undefined) return [];
  const steps = Object.fromEntries(kind.inner.map((list) => [list, inner[list].map(({ step }) => step)]));
  return [
    {
      // The kind of this type gave the fields, which the compiler cannot follow.
      step: {
        type,
        ...(phase === "verify" ? (kind.inVerify?.(data) ?? data) : data),
        ...steps,
      } as unknown as Step,
      kind,
      path,
      bodyPath,
      body: asObject(body) as JsonObject,
      isShort,
      ...(typeof ownId === "string" ? { ownId } : {}),
      inner,
    },
  ];
}

/** Adds the problems of a part of the document that does not fit its schema; `placeOf` gives the path of a path in the part. */
function report(
  issues: ReturnType<typeof validate>["issues"],
  placeOf: (inner: PropertyKey[]) => PropertyKey[],
  { document, problems }: Reading,
): void {
  const placed = issues.map((issue) => ({ ...issue, path: placeOf(issue.path) }));
  for (const each of problemsOfIssues(placed, document)) problems.push(each);
}

function isOneStep(body: Json): boolean {
  const key = onlyKey(body);
  return key !== undefined && (key.includes(".") || isStepType(key));
}

function isStepType(key: string): key is Step["type"] {
  return stepTypes.some((type) => type === key);
}

function findForm(
  key: string,
  { aliases, servers }: Reading,
): { type: Step["type"]; form: StepForm; names: [string, string] } | undefined {
  if (isStepType(key)) return { type: key, form: kindOf(key).form, names: ["", ""] };
  const alias = longestBefore(key, aliases);
  const first = alias ?? longestBefore(key, servers);
  const type = alias === undefined ? "mcp" : "extension";
  const form = kindOf(type).dotted;
  if (first === undefined || form === undefined) return undefined;
  return { type, form, names: [first, key.slice(first.length + 1)] };
}

/** The longest of some names that is followed by a dot and more; names may have dots of their own. */
function longestBefore(key: string, names: readonly string[]): string | undefined {
  return names
    .filter((name) => name !== "" && key.startsWith(`${name}.`) && key.length > name.length + 1)
    .toSorted((a, b) => b.length - a.length)[0];
}

function notOneKey(item: Json, path: KeyPath): Problem {
  if (!isJsonObject(item)) return problemAt(path, "must be a step: an object with one key, its type");
  const keys = Object.keys(item);
  const [type, second] = keys.filter((key) => isStepType(key) || key.includes("."));
  const hint =
    type === undefined
      ? `Steps are ${stepTypes.join(", ")}.`
      : second === undefined
        ? `Indent the other keys under ${type}.`
        : `${type} and ${second} are two steps: begin a new item with "-" before ${second}.`;
  const given = keys.length === 0 ? "none" : keys.join(", ");
  return problemAt(path, `must have exactly one key, the type of the step, not ${given}`, { hint });
}

function unknownStep(key: string, path: KeyPath, { aliases, servers }: Reading): Problem {
  const unknown = (
    message: string,
    hint: string,
    code: Problem["code"] = "config/unknown-reference",
  ): Problem => problem([...path, key], message, { code, at: "key", hint });
  const shown = JSON.stringify(key.slice(0, 80));
  if (!key.includes("."))
    return unknown(
      `unknown step ${shown} in ${formatKeyPath(path)}`,
      suggestion(key, stepTypes, "steps"),
      "config/unknown-key",
    );
  const known = [...new Set([...aliases, ...servers])];
  if (known.includes(key.slice(0, -1)))
    return unknown(`${shown} names no operation or tool`, `Write it after the dot: ${key}NAME.`);
  const first = key.slice(0, key.indexOf("."));
  return unknown(
    `no import and no server is named ${JSON.stringify(first.slice(0, 80))}`,
    suggestion(first, known, "imports and servers"),
  );
}

function readActions(list: unknown, path: KeyPath, reading: Reading): readonly PlacedAction[] {
  return asList(list).flatMap((item, index) => readAction(item as Json, [...path, index], reading));
}

function readAction(item: Json, at: KeyPath, reading: Reading): readonly PlacedAction[] {
  const key = onlyKey(item);
  if (key === undefined) {
    const wanted = "an object with exactly one key, mcp, SERVER.TOOL, say or foreach";
    reading.problems.push(problemAt(at, `must be an action: ${wanted}`));
    return [];
  }
  const body = asObject(item)[key] as Json;
  const path = [...at, key];
  const inner = key === "foreach" ? readActions(asObject(body)["steps"], [...path, "steps"], reading) : [];
  const read = actionOf(key, body, inner, reading);
  if (read === undefined) reading.problems.push(unknownAction(key, at, reading));
  else if ("issues" in read) report(read.issues, (within) => [...path, ...within], reading);
  else return [{ action: read, path, body, inner }];
  return [];
}

/** Undefined for a key that is not an action. */
function actionOf(
  key: string,
  body: Json,
  inner: readonly PlacedAction[],
  { servers }: Reading,
): SolutionAction | Pick<ReturnType<typeof validate>, "issues"> | undefined {
  const valid = <S extends z.ZodType>(schema: S, build: (data: z.output<S>) => SolutionAction) => {
    const { data, issues } = validate(schema, body);
    return data === undefined ? { issues } : build(data);
  };
  if (key === "say") return valid(solutionSchemas.say, (text) => ({ kind: "say", text }));
  if (key === "foreach")
    return valid(solutionSchemas.foreach, ({ var: variable, in: items }) => {
      return { kind: "foreach", variable, in: items, actions: inner.map(({ action }) => action) };
    });
  if (key === "mcp")
    return valid(solutionSchemas.mcp, ({ id, server, outputs, ...asked }) =>
      withoutUndefined({ ...mcpRequest(asked), id, server, outputs }),
    );
  const server = longestBefore(key, servers);
  if (server === undefined) return undefined;
  const tool = key.slice(server.length + 1);
  return valid(solutionSchemas.call, ({ id, outputs, args }) =>
    withoutUndefined({ kind: "tool", tool, args, id, server, outputs }),
  );
}

function unknownAction(key: string, at: KeyPath, { servers }: Reading): Problem {
  const [first = ""] = key.split(".");
  const shown = JSON.stringify(first.slice(0, 80));
  const unknown = (message: string, code: Problem["code"], hint: string): Problem =>
    problem([...at, key], message, { code, at: "key", hint });
  return key.includes(".")
    ? unknown(
        `no server is named ${shown}`,
        "config/unknown-reference",
        suggestion(first, servers, "servers"),
      )
    : unknown(
        `a solution cannot have the step ${shown}: it does only what an agent can do`,
        "config/unknown-key",
        suggestion(key, ["mcp", "say", "foreach"], "actions"),
      );
}

/** Every step of a task, those inside others included, in the order of the file. */
export function allSteps({ steps }: Pick<TaskSource, "steps">): readonly PlacedStep[] {
  return phasedSteps({ steps }).map(({ placed }) => placed);
}

/** Steps with those inside them. */
export function walkPlaced(steps: readonly PlacedStep[]): readonly PlacedStep[] {
  return inPhase(steps, "verify").map(({ placed }) => placed);
}

interface PhasedStep {
  readonly placed: PlacedStep;
  readonly phase: StepPhase;
}

/** Every step with the phase that it counts to. Setup and cleanup of a group are those phases, wherever the group stands. */
export function phasedSteps({ steps }: Pick<TaskSource, "steps">): readonly PhasedStep[] {
  return stepPhases.flatMap((phase) => inPhase(steps[phase], phase));
}

function inPhase(steps: readonly PlacedStep[], phase: StepPhase): readonly PhasedStep[] {
  return steps.flatMap((placed) => [
    { placed, phase },
    ...innerLists.flatMap((list) => inPhase(placed.inner[list], list === "steps" ? phase : list)),
  ]);
}

/** Every action of a solution, those inside others included. */
export function allActions(actions: readonly PlacedAction[]): readonly PlacedAction[] {
  return actions.flatMap((action) => [action, ...allActions(action.inner)]);
}

type Servers = Readonly<Record<string, ServerSpec>>;

export interface TaskServers {
  /** Those that the task declares, or that it changes. */
  readonly own: Servers;
  /** All servers that it starts, by variant of the eval; absent when there are none. */
  readonly variants?: Readonly<Record<string, Servers>>;
  readonly problems: readonly Problem[];
}

/**
 * Merges the `servers` of a task over those of the eval, and over those of each of its variants. An entry that says what it is
 * (`command`, `url`, `mock`) is a server of the task's own; another one changes the eval's server of that name, and none where
 * a variant lacks that server.
 */
export function mergeTaskServers(overlay: ServerOverlay | undefined, options: ParseTaskOptions): TaskServers {
  const { provided } = options;
  const base = mergeOver(provided?.base ?? noServers, overlay, options);
  const variants = provided?.variants?.map(
    ({ name, ...table }) => [name, mergeOver(table, overlay, options)] as const,
  );
  const problems = [...base.problems, ...(variants ?? []).flatMap(([, variant]) => variant.problems)];
  return withoutUndefined({
    own: base.own,
    variants: variants && Object.fromEntries(variants.map(([name, { all }]) => [name, all])),
    problems: [...new Map(problems.map((problem) => [problem.message, problem])).values()],
  });
}

interface Merged {
  /** Those that the overlay touches. */
  readonly own: Servers;
  readonly all: Servers;
  readonly problems: readonly Problem[];
}

function mergeOver(base: ServerTable, overlay: ServerOverlay | undefined, options: ParseTaskOptions): Merged {
  const { provided } = options;
  const inherited = provided === undefined ? {} : buildServers(base.servers, provided.build);
  if (overlay === undefined) return { own: {}, all: inherited, problems: [] };
  // What is removed or changed has to be there.
  const isThere = (name: string): boolean => Object.hasOwn(base.written, name);
  const entries = Object.entries(overlay.table).filter(
    ([name, entry]) => typeof entry === "boolean" || saysKind(entry) || isThere(name),
  );
  const changes = new Map(
    entries.flatMap(([name, entry]) => (isJsonObject(entry) ? [[name, entry] as const] : [])),
  );
  const table = Object.fromEntries(
    entries.map(([name, entry]) => [name, isJsonObject(entry) ? checkable(entry) : entry]),
  );
  const { servers, problems } = mergeServerTables(base, { ...overlay, table });
  const all = Object.entries(servers).map(([name, server]): readonly [string, ServerSpec] => {
    const entry = changes.get(name);
    const below = entry === undefined ? inherited[name] : undefined;
    return [name, below ?? buildOwn(name, server, entry ?? {}, options)];
  });
  const own = all.filter(([name]) => changes.has(name));
  return { own: Object.fromEntries(own), all: Object.fromEntries(all), problems };
}

/** Paths of the task's own start from its folder, others from the eval's. */
function buildOwn(
  name: string,
  server: ParsedServer,
  entry: JsonObject,
  { completeStdio, resolvePath, provided }: ParseTaskOptions,
): ServerSpec {
  if (saysKind(entry)) {
    const lifetime = provided?.lifetime;
    const starting = { completeStdio, startupTimeoutMs: 30_000, lifetime, resolvePath };
    const spec = buildServer(name, server, starting);
    const { url } = entry;
    return "url" in spec && typeof url === "string" ? { ...spec, url } : spec;
  }
  if (provided === undefined) throw new Error(`nothing is known of the server that is changed: ${name}`);
  if (server.transport === "mock" || typeof entry["cwd"] !== "string") return provided.build(name, server);
  const { cwd } = completeStdio({ env: {}, inheritEnv: [], cwd: entry["cwd"] }, name);
  return provided.build(name, { ...server, cwd });
}

/** An entry of a server with a valid address in place of one with templates. */
function checkable(entry: JsonObject): JsonObject {
  const { url } = entry;
  const own = saysKind(entry) ? { inherit: false } : {};
  if (typeof url !== "string") return { ...entry, ...own };
  const parts = parseTemplate(url);
  const sample =
    typeof parts[0] === "object"
      ? "http://127.0.0.1/"
      : parts.map((part) => (typeof part === "string" ? part : "1")).join("");
  return { ...entry, url: parts.every((part) => typeof part === "string") ? url : sample, ...own };
}
