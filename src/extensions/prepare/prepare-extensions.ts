import { isAbsolute, relative } from "node:path";
import { errorKinds } from "../../core/errors/catalogue.ts";
import { type Diagnostic, McpvalsError } from "../../core/errors/error.ts";
import { formatLocation } from "../../core/errors/format-location.ts";
import { listNames } from "../../core/formats/did-you-mean.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { ExtensionSpec, Json, Task } from "../../core/formats/model.ts";
import type { ExtensionUse } from "../../core/formats/task/task-options.ts";
import { type Expander, expanderOf } from "../../core/templates/expand.ts";
import { parseTemplate } from "../../core/templates/parse-template.ts";
import { resolveNames, type Scope, taskRoots } from "../../core/templates/scope.ts";
import { createRedactor, type Secret } from "../../core/trace/redact.ts";
import { findProgram } from "../../process/environment.ts";
import { sandboxOf } from "../../sandbox/sandboxes.ts";
import { askManifest, extensionEnvironment } from "../host/ask-manifest.ts";
import type { PreparedExtension, PreparedExtensions } from "../prepared-extensions.ts";
import { checkUses, type ValidateSchema } from "./check-uses.ts";
import type { ExtensionPlaces } from "./extension-places.ts";
import { checkSources, packageKey, type ResolvedPackages, resolvePackages } from "./resolve-packages.ts";

export interface PrepareOptions {
  /** The tasks that are to be run. */
  readonly tasks: readonly Task[];
  /** Steps that need extensions, by the names of their tasks. */
  readonly uses: ReadonlyMap<string, readonly ExtensionUse[]>;
  /** Absolute path of the eval's folder, where the search for the lock begins. */
  readonly dir: string;
  /** Absolute path of the working folder. */
  readonly cwd: string;
  readonly places: ExtensionPlaces;
  /** Variables that were given for the run. */
  readonly given?: Readonly<Record<string, string>>;
  readonly validateSchema: ValidateSchema;
  /** Values that no message may have. */
  readonly secrets: readonly Secret[];
  readonly signal: AbortSignal;
  /** Use only what the lock names, and leave the lock as it is. */
  readonly frozen?: boolean;
  /** Execute, fetch and write nothing; what cannot be checked so is a note. */
  readonly lookOnly?: boolean;
  /** What is being done that takes time. */
  readonly onProgress?: (message: string) => void;
}

/**
 * Gets the extensions of tasks ready, and checks every step that uses them: sources, versions, files, sandboxes,
 * operations, phases, arguments. Throws one McpvalsError of kind `usage` with everything that is wrong,
 * `extension/unreachable` when a package cannot be fetched, and the signal's reason.
 */
export async function prepareExtensions(options: PrepareOptions): Promise<PreparedExtensions> {
  const { tasks, places, secrets, signal, lookOnly = false, frozen = false } = options;
  const specs = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const undeclared = lookOnly ? undeclaredNotes(options) : [];
  if (specs.length === 0) return prepared(undeclared, () => undefined);
  const redact = createRedactor(secrets);
  failWith(redact(checkSources(distinctPlaces(specs), places.allowedSources)));
  const packages = await resolvePackages({ ...options, specs, frozen, offline: lookOnly });
  failWith(redact(packages.problems), packages.cause);
  if (!lookOnly) await checkSandboxes(specs, signal);
  const ready = (spec: ExtensionSpec): PreparedExtension | undefined => prepareOne(spec, packages);
  const questions = { env: places.env, given: options.given, lookOnly, signal };
  if (!lookOnly) failWith(redact(await missingCommands(specs, { ready, ...questions })));
  const manifests = await readManifests(specs, { ready, key: packageKey, ...questions });
  const manifestOf = (spec: ExtensionSpec): ExtensionManifest | undefined =>
    manifests.byPackage.get(packageKey(spec));
  failWith(redact(await checkUses({ ...options, manifestOf })));
  const unconfined = lookOnly ? [] : unconfinedNotes(specs, packages);
  const open = openHomeNotes(tasks, places.home);
  const notes = [...undeclared, ...packages.notes, ...manifests.notes, ...unconfined, ...open];
  return prepared(notes.map(redact), ready);
}

function prepared(
  notes: readonly string[],
  ready: (spec: ExtensionSpec) => PreparedExtension | undefined,
): PreparedExtensions {
  return {
    notes,
    of(spec) {
      const extension = ready(spec);
      if (extension === undefined) throw new Error(`an extension was not prepared: ${spec.package}`);
      return extension;
    },
  };
}

/** What tasks of the older forms require, and their eval does not declare: they are skipped. */
function undeclaredNotes({ tasks, uses }: PrepareOptions): string[] {
  const names = tasks.flatMap(({ name, portable }) =>
    (uses.get(name) ?? [])
      .map(({ extension }) => extension)
      .filter((extension) => !Object.hasOwn(portable?.extensions ?? {}, extension)),
  );
  return [...new Set(names)].map(
    (name) =>
      `not checked: steps of the extension ${name}: no eval declares it, and tasks that lack it are skipped`,
  );
}

function prepareOne(spec: ExtensionSpec, packages: ResolvedPackages): PreparedExtension | undefined {
  const resolved = packages.of(spec);
  return resolved === undefined ? undefined : { spec, resolved, sandbox: sandboxOf(spec.sandbox.kind) };
}

/** An extension of the eval is there once for each task. */
function distinctPlaces(specs: readonly ExtensionSpec[]): readonly ExtensionSpec[] {
  const byPlace = new Map(
    specs.map((spec) => [JSON.stringify([spec.alias, spec.package, spec.location]), spec] as const),
  );
  return [...byPlace.values()];
}

/** Tries each sandbox that is asked for once. */
async function checkSandboxes(specs: readonly ExtensionSpec[], signal: AbortSignal): Promise<void> {
  const distinct = new Map(
    specs.map(({ sandbox, location }) => {
      const { kind, network, image, runtime } = sandbox;
      return [JSON.stringify([kind, network, image, runtime]), { sandbox, location }] as const;
    }),
  );
  for (const { sandbox, location } of distinct.values()) {
    try {
      await sandboxOf(sandbox.kind).check(sandbox, signal);
    } catch (error) {
      if (!(error instanceof McpvalsError) || location === undefined) throw error;
      throw new McpvalsError(error.code, error.message, { location, ...error.details, cause: error });
    }
  }
}

/** What was fetched from somebody else and may do what the user may. */
function unconfinedNotes(specs: readonly ExtensionSpec[], { of }: ResolvedPackages): string[] {
  const fetched = specs.filter((spec) => {
    const kind = of(spec)?.ref.kind;
    return spec.sandbox.kind === "none" && (kind === "release" || kind === "npm");
  });
  return [...new Set(fetched.map((spec) => spec.package))].map(
    (name) =>
      `${name} was fetched and runs without a sandbox: it can do what you can (sandbox: process confines it)`,
  );
}

/** A confined extension may read the task's folder; one that is the home folder, or above it, leaves nothing closed. */
export function openHomeNotes(tasks: readonly Task[], home: string): string[] {
  const inside = (dir: string): boolean =>
    !/^\.\.(?:[/\\]|$)/.test(relative(dir, home)) && !isAbsolute(relative(dir, home));
  return tasks.flatMap(({ name, portable }) => {
    const confined = Object.values(portable?.extensions ?? {}).some(({ sandbox }) => sandbox.kind !== "none");
    if (portable === undefined || !confined || !inside(portable.dir)) return [];
    return [
      `the folder of the task ${JSON.stringify(name)} holds your home folder, all of which its confined extensions can read: move the task into a folder of its own`,
    ];
  });
}

/**
 * Throws one McpvalsError for everything that is wrong, with the code of the first problem; returns when there is none.
 * What a user has to mend comes first, so that its code is theirs.
 */
export function failWith(diagnostics: readonly Diagnostic[], cause?: unknown): void {
  const ordered = diagnostics.toSorted((a, b) => rankOf(a) - rankOf(b));
  const [first] = ordered;
  if (first === undefined) return;
  const where = first.location === undefined ? "" : `${formatLocation(first.location)}: `;
  const more = ordered.length === 1 ? "" : ` (and ${ordered.length - 1} more)`;
  throw new McpvalsError(first.code, `${where}${first.message}${more}`, {
    diagnostics: ordered,
    ...(first.location === undefined ? {} : { location: first.location }),
    ...(first.hint === undefined ? {} : { hint: first.hint }),
    ...(cause === undefined ? {} : { cause }),
  });
}

function rankOf({ code }: Diagnostic): number {
  return errorKinds[code] === "usage" ? 0 : 1;
}

/**
 * The programs that extensions say they need (`requires` of their `extension.yaml`) and would not find. What is in the image of a
 * container nobody knows from here.
 */
export async function missingCommands(
  specs: readonly ExtensionSpec[],
  questions: Pick<ManifestQuestions, "ready" | "env" | "given">,
): Promise<readonly Diagnostic[]> {
  const found = await Promise.all(
    specs.map(async (spec) => {
      const extension = spec.sandbox.kind === "docker" ? undefined : questions.ready(spec);
      return extension === undefined ? [] : missingOf(extension, questions);
    }),
  );
  // An extension of the eval is there once for each task.
  return [...new Map(found.flat().map((problem) => [JSON.stringify(problem), problem])).values()];
}

async function missingOf(
  { spec, resolved }: PreparedExtension,
  { env, given = {} }: Pick<ManifestQuestions, "env" | "given">,
): Promise<readonly Diagnostic[]> {
  const expander = settingsExpander(spec, env);
  const own = extensionEnvironment(spec, { env, given }, (text) => expander?.text(text) ?? text);
  const problems: Diagnostic[] = [];
  for (const { command } of resolved.manifest?.requires ?? []) {
    if ((await findProgram(command, { env: own, cwd: resolved.folder })) !== undefined) continue;
    problems.push({
      code: "extension/missing-command",
      message: `the extension ${spec.alias} (${spec.package}) needs the program ${JSON.stringify(command)}, which is not on its PATH`,
      hint: "Install it, or name its folder in PATH, also in env of the extension.",
      ...(spec.location === undefined ? {} : { location: spec.location }),
    });
  }
  return problems;
}

export interface ManifestQuestions {
  readonly ready: (spec: ExtensionSpec) => PreparedExtension | undefined;
  /** The same for all specs that name the same files. */
  readonly key: (spec: ExtensionSpec) => string;
  /** The environment of mcpvals itself. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables that were given for the run. */
  readonly given?: Readonly<Record<string, string>> | undefined;
  /** Execute nothing. */
  readonly lookOnly: boolean;
  readonly signal: AbortSignal;
}

export interface Manifests {
  readonly byPackage: ReadonlyMap<string, ExtensionManifest>;
  /** Which steps are not checked, and why. */
  readonly notes: readonly string[];
}

/**
 * Finds what extensions say of themselves: from their `extension.yaml`, else by asking them, in their sandbox. One that
 * cannot be asked now is left to the trial. Throws McpvalsError of kind `usage`, and the signal's reason.
 */
export async function readManifests(
  specs: readonly ExtensionSpec[],
  questions: ManifestQuestions,
): Promise<Manifests> {
  const byPackage = new Map<string, ExtensionManifest>();
  const notes: string[] = [];
  const groups = Map.groupBy(specs, questions.key);
  await Promise.all(
    [...groups].map(async ([key, same]) => {
      const extension = askable(same, questions);
      if (extension === undefined) return;
      const found = await manifestOf(extension, questions);
      if (typeof found === "string") notes.push(`not checked: steps of ${named(same)}: ${found}`);
      else byPackage.set(key, found);
    }),
  );
  return { byPackage, notes: notes.toSorted() };
}

/** Of those that use the same files, one whose settings are known, if there is one. */
function askable(
  specs: readonly ExtensionSpec[],
  { ready, env }: ManifestQuestions,
): PreparedExtension | undefined {
  const spec = specs.find((each) => settingsExpander(each, env) !== undefined) ?? specs[0];
  return spec === undefined ? undefined : ready(spec);
}

function named(specs: readonly ExtensionSpec[]): string {
  const names = [...new Set(specs.map(({ alias }) => alias))];
  return `the extension${names.length === 1 ? "" : "s"} ${listNames(names)}`;
}

/** A text says why there is none. */
async function manifestOf(
  extension: PreparedExtension,
  { env, given = {}, lookOnly, signal }: ManifestQuestions,
): Promise<ExtensionManifest | string> {
  if (extension.resolved.manifest !== undefined) return extension.resolved.manifest;
  if (lookOnly) return "it has no extension.yaml, so that it would have to be started";
  const expander = settingsExpander(extension.spec, env);
  if (expander === undefined) return "its settings have templates that only a trial can replace";
  try {
    return await askManifest(extension, { env, given, expander, signal });
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof McpvalsError) || error.kind === "usage" || error.kind === "bug") throw error;
    return error.message;
  }
}

/**
 * Replaces the templates in the settings of an extension before there is a trial. Undefined when one of them has no
 * value yet.
 */
export function settingsExpander(
  { config, env }: Pick<ExtensionSpec, "config" | "env">,
  variables: Readonly<Record<string, string>>,
): Expander | undefined {
  const roots: ReadonlySet<string> = new Set(taskRoots);
  const known: Scope = new Map([["env", resolveNames(variables)]]);
  const isKnown = (text: string): boolean =>
    parseTemplate(text, (root) => roots.has(root)).every(
      (part) => typeof part === "string" || known.get(part.root)?.(part.names, part.variant) !== undefined,
    );
  return [config, env].flatMap(textsOf).every(isKnown) ? expanderOf(known) : undefined;
}

function textsOf(value: Json): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}
