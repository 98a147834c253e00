import { readOverlay } from "../config/server-tables.ts";
import { isJsonObject } from "../json.ts";
import type { Json, JsonObject } from "../model.ts";
import type { Problem } from "../problem.ts";
import { type ImportView, viewImports } from "./join-extensions.ts";
import { innerLists } from "./step-forms.ts";
import type { ParseTaskOptions } from "./task-options.ts";
import { type StepView, viewSteps } from "./view-steps.ts";

/** The phases that have steps, in the order in which they run. */
export const stepPhases = ["setup", "verify", "cleanup"] as const;
export type StepPhase = (typeof stepPhases)[number];

/** The parts of a task that refer to one another, read from a document that may be wrong in other ways. */
export interface TaskView {
  readonly document: JsonObject;
  readonly metadata: JsonObject;
  readonly spec: JsonObject;
  readonly servers: ServerNames;
  /** Servers that the eval provides. */
  readonly provided: readonly string[];
  /** Aliases of the task's imports. */
  readonly imports: readonly string[];
  /** The imports that have both of their texts. */
  readonly importEntries: readonly ImportView[];
  /** Those, and the eval's. */
  readonly aliases: readonly string[];
  readonly steps: Readonly<Record<StepPhase, readonly StepView[]>>;
  /** What is no step at all; references to it cannot be checked. */
  readonly problems: readonly Problem[];
}

/** Reads the view. Never fails: what has the wrong type is as if it were not there. */
export function viewTask(document: JsonObject, options: ParseTaskOptions): TaskView {
  const spec = objectIn(document, "spec");
  const servers = serverNames(spec, options.servers);
  const imports = aliasesOf(spec["imports"]);
  const declared = Object.keys(options.extensions?.declared ?? {});
  const aliases = [...new Set([...imports, ...declared])];
  const viewed = stepPhases.map((phase) => {
    const names = { aliases, servers: servers.known };
    return [phase, viewSteps(spec[phase], { ...names, path: ["spec", phase], place: phase })] as const;
  });
  return {
    document,
    metadata: objectIn(document, "metadata"),
    spec,
    servers,
    provided: options.servers,
    imports,
    importEntries: viewImports(spec["imports"]),
    aliases,
    steps: Object.fromEntries(viewed.map(([phase, { views }]) => [phase, views])) as TaskView["steps"],
    problems: viewed.flatMap(([, { problems }]) => problems),
  };
}

function aliasesOf(imports: Json | undefined): string[] {
  if (!Array.isArray(imports)) return [];
  return imports.flatMap((each: Json) => {
    const alias = isJsonObject(each) ? each["as"] : undefined;
    return typeof alias === "string" ? [alias] : [];
  });
}

function objectIn(parent: JsonObject, key: string): JsonObject {
  const value = parent[key];
  return isJsonObject(value) ? value : {};
}

/** Gives every step, those inside others included, in the order of the file. */
export function* walkViews(views: readonly StepView[]): Generator<StepView> {
  for (const view of views) {
    yield view;
    for (const role of innerLists) yield* walkViews(view.inner[role]);
  }
}

/** A step and the phase that it counts to. */
export interface PhasedView {
  readonly view: StepView;
  readonly phase: StepPhase;
}

/** Every step of a task. Setup and cleanup of a group are those phases, wherever the group stands. */
export function phasedViews({ steps }: Pick<TaskView, "steps">): readonly PhasedView[] {
  return stepPhases.flatMap((phase) => [...walkPhases(steps[phase], phase)]);
}

function* walkPhases(views: readonly StepView[], phase: StepPhase): Generator<PhasedView> {
  for (const view of views) {
    yield { view, phase };
    for (const role of innerLists) yield* walkPhases(view.inner[role], role === "steps" ? phase : role);
  }
}

/** How the servers of a task stand, read from a document that may be wrong. */
export interface ServerNames {
  /** Servers of its own. */
  readonly own: readonly string[];
  /** Those that a trial starts: the eval's and its own, without the ones taken away. */
  readonly started: readonly string[];
  /** Those that steps may name: also the ones that the eval must provide. */
  readonly known: readonly string[];
  /** Those that it `requires`. */
  readonly required: readonly string[];
}

/** Reads the names of a task's servers. */
export function serverNames(spec: JsonObject, provided: readonly string[]): ServerNames {
  const table = readOverlay(spec, ["spec"])?.table ?? {};
  const declared = Object.entries(table).filter(([, server]) => typeof server !== "boolean");
  const inherited = table["inherit"] === false ? [] : provided;
  const own = declared.filter(([, server]) => server !== null).map(([name]) => name);
  const removed = declared.filter(([, server]) => server === null).map(([name]) => name);
  const started = [...new Set([...inherited, ...own])].filter((name) => !removed.includes(name));
  const required = Array.isArray(spec["requires"]) ? spec["requires"].flatMap(requiredServer) : [];
  return { own, started, known: [...new Set([...started, ...required])], required };
}

function requiredServer(requirement: Json): string[] {
  const name = isJsonObject(requirement) ? requirement["server"] : undefined;
  return typeof name === "string" ? [name] : [];
}
