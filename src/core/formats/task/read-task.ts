import { readOverlay, type ServerOverlay } from "../config/server-tables.ts";
import { suggestion } from "../did-you-mean.ts";
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
} from "../json.ts";
import type { SolutionAction } from "../model.ts";
import { mostProblems, type Problem, validate } from "../problem.ts";
import {
  type InnerList,
  innerLists,
  kindOf,
  mcpRequest,
  type StepForm,
  type StepKind,
  stepTypes,
} from "../step-kinds.ts";
import type { Step } from "../step.ts";
import { problemsOfIssues } from "../zod-problems.ts";
import { joinExtensions, type JoinedExtensions, type TaskImport } from "./task-extensions.ts";
import type { ParseTaskOptions } from "./task-options.ts";
import { type ParsedTaskFile, solutionSchemas, taskSchema } from "./task-schema.ts";
import { layTaskServers, type TaskServers } from "./task-servers.ts";

/** The phases that have steps, in the order in which they run. */
export const stepPhases = ["setup", "verify", "cleanup"] as const;
export type StepPhase = (typeof stepPhases)[number];

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

interface Read<T> {
  readonly items: readonly T[];
  readonly problems: readonly Problem[];
}

interface ReadContext {
  readonly document: JsonObject;
  /** Names that a dotted step may begin with: of imports and of the eval's extensions. */
  readonly aliases: readonly string[];
  readonly servers: readonly string[];
  readonly operationMs: (extension: string) => number;
}

/** Reads the document of a task's file against its schema. */
export function readTask(document: JsonObject, options: ParseTaskOptions): TaskSource | readonly Problem[] {
  const spec = asObject(document["spec"]) as JsonObject;
  const overlay = readOverlay(spec, ["spec"]);
  const names = serverNames(spec, overlay?.table, options.servers);
  const imports = importsOf(spec["imports"]);
  const extensions = joinExtensions(imports, options);
  const aliases = [...imports.map(({ as }) => as), ...Object.keys(options.extensions?.declared ?? {})];
  const context = { document, aliases, servers: names.known, operationMs: extensions.operationMs };
  const { data: file, issues } = validate(taskSchema, withoutServers(document));
  const read = (phase: StepPhase): Read<PlacedStep> =>
    readSteps(spec[phase], { path: ["spec", phase], place: phase }, context);
  const steps = { setup: read("setup"), verify: read("verify"), cleanup: read("cleanup") };
  const solution = readActions(spec["solution"], ["spec", "solution"], context);
  const servers = layTaskServers(overlay, options);
  const problems = [
    ...problemsOfIssues(issues.slice(0, mostProblems), document),
    ...servers.problems,
    ...[steps.setup, steps.verify, steps.cleanup, solution].flatMap((part) => part.problems),
  ];
  if (file === undefined || problems.length > 0) return problems;
  return {
    document,
    file,
    steps: { setup: steps.setup.items, verify: steps.verify.items, cleanup: steps.cleanup.items },
    solution: solution.items,
    overlay,
    names,
    servers,
    imports,
    extensions,
  };
}

/** Servers are read by themselves, laid over those of the eval. */
function withoutServers(document: JsonObject): JsonObject {
  if (!isJsonObject(document["spec"])) return document;
  const { servers: _, mcp_servers: __, ...spec } = document["spec"];
  return { ...document, spec };
}

function importsOf(imports: Json | undefined): readonly TaskImport[] {
  return asList(imports).flatMap((each, index): TaskImport[] => {
    const { as, package: from } = asObject(each);
    const path = ["spec", "imports", index];
    return typeof as === "string" ? [{ as, package: typeof from === "string" ? from : "", path }] : [];
  });
}

/** The names of the servers of a task. */
export interface ServerNames {
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
  const own = declared.filter(([, server]) => server !== null).map(([name]) => name);
  const removed = declared.filter(([, server]) => server === null).map(([name]) => name);
  const started = [...new Set([...inherited, ...own])].filter((name) => !removed.includes(name));
  const required = asList(spec["requires"]).flatMap((each) => asText(asObject(each)["server"]) ?? []);
  return { started, known: [...new Set([...started, ...required])], required };
}

interface ListPlace {
  /** Of the list. */
  readonly path: KeyPath;
  /** What ids made from places begin with. */
  readonly place: string;
}

function readSteps(list: unknown, { path, place }: ListPlace, context: ReadContext): Read<PlacedStep> {
  const read = asList(list).map((item, index) =>
    readStep(item as Json, { path: [...path, index], place: `${place}[${index}]` }, context),
  );
  return joined(read);
}

function joined<T>(read: readonly Read<T>[]): Read<T> {
  return { items: read.flatMap(({ items }) => items), problems: read.flatMap(({ problems }) => problems) };
}

function refused(problem: Problem): Read<never> {
  return { items: [], problems: [problem] };
}

/** Reads one step; `place` is its id unless it has one of its own. */
function readStep(item: Json, { path, place }: ListPlace, context: ReadContext): Read<PlacedStep> {
  const [key, ...others] = Object.keys(asObject(item));
  if (!isJsonObject(item) || key === undefined || others.length > 0) return refused(notOneKey(item, path));
  const found = findForm(key, context);
  if (found === undefined) return refused(unknownStep(key, path, context));
  const { type, form, names } = found;
  const kind = kindOf(type);
  const written = item[key] ?? null;
  const bodyPath = [...path, key];
  const isSingle = kind.shortBody === "list or step" && isOneStep(written);
  const isShort = isSingle || (kind.shortBody !== undefined && Array.isArray(written));
  const body = isShort ? { steps: isSingle ? [written] : written } : written;
  const ownId = asObject(body)["id"];
  const lists = innerLists.map((list): readonly [InnerList, Read<PlacedStep>] => {
    if (!kind.inner.includes(list)) return [list, { items: [], problems: [] }];
    if (isSingle) return [list, readStep(written, { path: bodyPath, place: `${list}[0]` }, context)];
    const at = { path: isShort ? bodyPath : [...bodyPath, list], place: list };
    return [list, readSteps(asObject(body)[list], at, context)];
  });
  const inside = lists.flatMap(([, { problems }]) => problems);
  const id = typeof ownId === "string" ? ownId : place;
  const read = form.read(body, { id, names, operationMs: context.operationMs });
  if (read.fields === undefined) {
    const issues = read.issues.map((issue) => ({
      ...issue,
      path: [...bodyPath, ...(isShort ? issue.path.slice(1) : issue.path)],
    }));
    return { items: [], problems: [...problemsOfIssues(issues, context.document), ...inside] };
  }
  const steps = lists
    .filter(([list]) => kind.inner.includes(list))
    .map(([list, { items }]) => [list, items.map(({ step }) => step)] as const);
  const placed = {
    // The kind of this type gave the fields, which the compiler cannot follow.
    step: { type, ...read.fields, ...Object.fromEntries(steps) } as unknown as Step,
    kind,
    path,
    bodyPath,
    body: asObject(body) as JsonObject,
    isShort,
    ...(typeof ownId === "string" ? { ownId } : {}),
    inner: Object.fromEntries(lists.map(([list, { items }]) => [list, items])) as PlacedStep["inner"],
  };
  return { items: [placed], problems: inside };
}

function isOneStep(body: Json): boolean {
  const [key = "", ...others] = isJsonObject(body) ? Object.keys(body) : [];
  return others.length === 0 && (key.includes(".") || isStepType(key));
}

function isStepType(key: string): key is Step["type"] {
  return stepTypes.some((type) => type === key);
}

interface FoundForm {
  readonly type: Step["type"];
  readonly form: StepForm;
  readonly names: readonly [string, string];
}

function findForm(key: string, { aliases, servers }: ReadContext): FoundForm | undefined {
  if (isStepType(key)) return { type: key, form: kindOf(key).form, names: ["", ""] };
  const dotted = (type: Step["type"], first: string): FoundForm | undefined => {
    const form = kindOf(type).dotted;
    return form === undefined ? undefined : { type, form, names: [first, key.slice(first.length + 1)] };
  };
  const alias = longestBefore(key, aliases);
  if (alias !== undefined) return dotted("extension", alias);
  const server = longestBefore(key, servers);
  return server === undefined ? undefined : dotted("mcp", server);
}

/** The longest of some names that is followed by a dot and more; names may have dots of their own. */
function longestBefore(key: string, names: readonly string[]): string | undefined {
  return names
    .filter((name) => name !== "" && key.startsWith(`${name}.`) && key.length > name.length + 1)
    .toSorted((a, b) => b.length - a.length)[0];
}

function notOneKey(item: Json, path: KeyPath): Problem {
  const where = formatKeyPath(path);
  if (!isJsonObject(item)) {
    const message = `${where} must be a step: an object with one key, its type`;
    return { code: "config/invalid-value", message, path, at: "value" };
  }
  const keys = Object.keys(item);
  const message = `${where} must have exactly one key, the type of the step, not ${keys.length === 0 ? "none" : keys.join(", ")}`;
  const types = keys.filter((key) => isStepType(key) || key.includes("."));
  return { code: "config/invalid-value", message, path, at: "value", hint: oneKeyHint(types) };
}

function oneKeyHint([type, second]: readonly string[]): string {
  if (type === undefined) return `Steps are ${stepTypes.join(", ")}.`;
  return second === undefined
    ? `Indent the other keys under ${type}.`
    : `${type} and ${second} are two steps: begin a new item with "-" before ${second}.`;
}

function unknownStep(key: string, path: KeyPath, { aliases, servers }: ReadContext): Problem {
  const place = { path: [...path, key], at: "key" } as const;
  const shown = JSON.stringify(key.slice(0, 80));
  const dot = key.indexOf(".");
  if (dot === -1) {
    const message = `unknown step ${shown} in ${formatKeyPath(path)}`;
    return { code: "config/unknown-key", message, ...place, hint: suggestion(key, stepTypes, "steps") };
  }
  const first = key.slice(0, dot);
  const known = [...new Set([...aliases, ...servers])];
  if (known.includes(key.slice(0, -1))) {
    const message = `${shown} names no operation or tool`;
    const hint = `Write it after the dot: ${key}NAME.`;
    return { code: "config/unknown-reference", message, ...place, hint };
  }
  const message = `no import and no server is named ${JSON.stringify(first.slice(0, 80))}`;
  const hint = suggestion(first, known, "imports and servers");
  return { code: "config/unknown-reference", message, ...place, hint };
}

function readActions(list: unknown, path: KeyPath, context: ReadContext): Read<PlacedAction> {
  return joined(asList(list).map((item, index) => readAction(item as Json, [...path, index], context)));
}

function readAction(item: Json, at: KeyPath, context: ReadContext): Read<PlacedAction> {
  const [key, ...others] = Object.keys(asObject(item));
  if (!isJsonObject(item) || key === undefined || others.length > 0) {
    const message = `${formatKeyPath(at)} must be an action: an object with exactly one key, mcp, SERVER.TOOL, say or foreach`;
    return refused({ code: "config/invalid-value", message, path: at, at: "value" });
  }
  const body = item[key] ?? null;
  const path = [...at, key];
  const inner =
    key === "foreach"
      ? readActions(asObject(body)["steps"], [...path, "steps"], context)
      : { items: [], problems: [] };
  const read = actionOf(key, body, inner, context);
  if (read === undefined) return refused(unknownAction(key, at, context));
  if ("action" in read)
    return { items: [{ action: read.action, path, body, inner: inner.items }], problems: inner.problems };
  const issues = read.issues.map((issue) => ({ ...issue, path: [...path, ...issue.path] }));
  return { items: [], problems: [...problemsOfIssues(issues, context.document), ...inner.problems] };
}

type ReadAction = { readonly action: SolutionAction } | Pick<ReturnType<typeof validate>, "issues">;

/** Undefined for a key that is no action. */
function actionOf(
  key: string,
  body: Json,
  inner: Read<PlacedAction>,
  { servers }: ReadContext,
): ReadAction | undefined {
  switch (key) {
    case "say": {
      const { data: said, issues } = validate(solutionSchemas.say, body);
      return said === undefined ? { issues } : { action: { kind: "say", text: said } };
    }
    case "foreach": {
      const { data, issues } = validate(solutionSchemas.foreach, body);
      if (data === undefined) return { issues };
      const actions = inner.items.map(({ action }) => action);
      return { action: { kind: "foreach", variable: data.var, in: data.in, actions } };
    }
    case "mcp": {
      const { data, issues } = validate(solutionSchemas.mcp, body);
      if (data === undefined) return { issues };
      const { id, server, outputs } = data;
      return { action: withoutUndefined({ ...mcpRequest(data), id, server, outputs }) };
    }
    default: {
      const server = longestBefore(key, servers);
      if (server === undefined) return undefined;
      const { data, issues } = validate(solutionSchemas.call, body);
      if (data === undefined) return { issues };
      const { id, outputs, args } = data;
      const call = { kind: "tool" as const, tool: key.slice(server.length + 1), args };
      return { action: withoutUndefined({ ...call, id, server, outputs }) };
    }
  }
}

function unknownAction(key: string, at: KeyPath, { servers }: ReadContext): Problem {
  const place = { path: [...at, key], at: "key" } as const;
  const dot = key.indexOf(".");
  if (dot === -1) {
    const message = `a solution cannot have the step ${JSON.stringify(key.slice(0, 80))}: it does only what an agent can do`;
    const hint = suggestion(key, ["mcp", "say", "foreach"], "actions");
    return { code: "config/unknown-key", message, ...place, hint };
  }
  const first = key.slice(0, dot);
  const message = `no server is named ${JSON.stringify(first.slice(0, 80))}`;
  const hint = suggestion(first, servers, "servers");
  return { code: "config/unknown-reference", message, ...place, hint };
}

/** Every step of a task, those inside others included, in the order of the file. */
export function allSteps({ steps }: Pick<TaskSource, "steps">): readonly PlacedStep[] {
  return phasedSteps({ steps }).map(({ placed }) => placed);
}

/** Steps with those inside them. */
export function* walkPlaced(steps: readonly PlacedStep[]): Generator<PlacedStep> {
  for (const step of steps) {
    yield step;
    for (const list of innerLists) yield* walkPlaced(step.inner[list]);
  }
}

/** Every step with the phase that it counts to. Setup and cleanup of a group are those phases, wherever the group stands. */
export function phasedSteps({
  steps,
}: Pick<TaskSource, "steps">): readonly { readonly placed: PlacedStep; readonly phase: StepPhase }[] {
  return stepPhases.flatMap((phase) => [...inPhase(steps[phase], phase)]);
}

function* inPhase(
  steps: readonly PlacedStep[],
  phase: StepPhase,
): Generator<{ readonly placed: PlacedStep; readonly phase: StepPhase }> {
  for (const placed of steps) {
    yield { placed, phase };
    for (const list of innerLists) yield* inPhase(placed.inner[list], list === "steps" ? phase : list);
  }
}

/** Every action of a solution, those inside others included. */
export function allActions(actions: readonly PlacedAction[]): readonly PlacedAction[] {
  return actions.flatMap((action) => [action, ...allActions(action.inner)]);
}
