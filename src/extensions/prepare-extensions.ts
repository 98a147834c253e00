import { existsSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative } from "node:path";
import type { ValidateSchema } from "../expect/tool-result.ts";
import { errorKinds } from "../base/catalogue.ts";
import { type Diagnostic, formatLocation, McpvalsError } from "../base/error.ts";
import { listNames } from "../base/did-you-mean.ts";
import type { LockFile } from "./lock-file.ts";
import type { ExtensionManifest } from "./manifest.ts";
import { parsePackageRef } from "../model/package-ref.ts";
import { withoutUndefined, type Json } from "../base/json.ts";
import type { ExtensionSpec, Task } from "../model/task.ts";
import { type Expander, expanderOf } from "../templates/expand.ts";
import { parseTemplate, resolveNames, type Scope } from "../templates/template.ts";
import { createRedactor, type Secret } from "../trace/redact.ts";
import { findProgram } from "../process/environment.ts";
import { sandboxOf } from "../sandbox/sandboxes.ts";
import type { PreparedExtension, PreparedExtensions } from "./host/extension-process.ts";
import { askManifest, extensionEnvironment } from "./host/trial-extensions.ts";
import { readLock, writeLock } from "./resolve/files.ts";
import type { ResolvedExtension } from "./resolve/program.ts";
import { createResolver, type ExtensionPlaces, openPackage } from "./resolve/resolver.ts";
import { checkUses } from "./check-uses.ts";
import type { ExtensionUse } from "../model/extension.ts";

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
  /** Values that messages must not contain. */
  readonly secrets: readonly Secret[];
  readonly signal: AbortSignal;
  /** Use only what the lock names, and leave the lock as it is. */
  readonly frozen?: boolean;
  /** Execute, fetch and write nothing; notes say what cannot be checked without that. */
  readonly lookOnly?: boolean;
  /** Called when work begins that takes time. */
  readonly onProgress?: (message: string) => void;
}

/**
 * Resolves the extensions of tasks, and checks every step that uses them: sources, versions, files, sandboxes, operations,
 * phases, arguments. Throws one McpvalsError of kind `usage` with all problems, `extension/unreachable` when a package
 * cannot be fetched, and the signal's reason.
 */
export async function prepareExtensions(options: PrepareOptions): Promise<PreparedExtensions> {
  const { tasks, uses, places, secrets, signal, validateSchema, lookOnly = false } = options;
  const specs = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const undeclared = lookOnly ? undeclaredNotes(options) : [];
  const redact = createRedactor(secrets);
  failWith(redact(specs.flatMap((spec) => sourceProblems(spec, places.allowedSources))));
  const packages = await resolvePackages(specs, options);
  failWith(redact(packages.problems), packages.cause);
  if (!lookOnly) await checkSandboxes(specs, signal);
  const ready = (spec: ExtensionSpec): PreparedExtension | undefined => {
    const resolved = packages.of(spec);
    return resolved && { spec, resolved, sandbox: sandboxOf(spec.sandbox.kind) };
  };
  const extensions = specs.flatMap((spec) => ready(spec) ?? []);
  if (!lookOnly) failWith(redact(await missingCommands(extensions, options)));
  const manifests = await readManifests(extensions, options);
  const manifestOf = (spec: ExtensionSpec): ExtensionManifest | undefined =>
    manifests.byPackage.get(packageKey(spec));
  const problems = await Promise.all(
    tasks.map((task) => checkUses(task, uses.get(task.name) ?? [], manifestOf, validateSchema)),
  );
  failWith(redact(problems.flat()));
  const unconfined = lookOnly ? [] : unconfinedNotes(extensions);
  const open = openHomeNotes(tasks, places.home);
  const notes = [...undeclared, ...packages.notes, ...manifests.notes, ...unconfined, ...open];
  return {
    notes: notes.map(redact),
    of(spec) {
      const extension = ready(spec);
      if (extension === undefined) throw new Error(`an extension was not prepared: ${spec.package}`);
      return extension;
    },
  };
}

/** Tasks of the older forms that require an extension which their eval does not declare are skipped. */
function undeclaredNotes({ tasks, uses }: PrepareOptions): string[] {
  const names = tasks.flatMap(({ name, portable }) =>
    (uses.get(name) ?? [])
      .map(({ extension }) => extension)
      .filter((extension) => !Object.hasOwn(portable?.extensions ?? {}, extension)),
  );
  return [...new Set(names)].map(
    (name) =>
      `not checked: steps of the extension ${name}: the eval does not declare it, so tasks that need it are skipped`,
  );
}

/** Packages that are not understood, and sources that are not allowed. */
function sourceProblems(spec: ExtensionSpec, allowed: readonly string[] | undefined): readonly Diagnostic[] {
  try {
    openPackage(spec.package, allowed);
    return [];
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    return [problemOf(spec, error)];
  }
}

/** What is wrong with a package. */
function problemOf(spec: ExtensionSpec, { code, message, details }: McpvalsError): Diagnostic {
  return {
    code,
    message: details.detail === undefined ? message : `${message}\n${details.detail}`,
    ...withoutUndefined({ hint: details.hint, location: details.location ?? spec.location }),
  };
}

/** The same for all specs that name the same files. */
function packageKey({ package: written, dir }: ExtensionSpec): string {
  const parsed = parsePackageRef(written);
  const isAnywhere = parsed.ok && (parsed.ref.kind === "release" || parsed.ref.kind === "bundled");
  return isAnywhere ? written : JSON.stringify([written, dir]);
}

/**
 * Resolves each package once, and adds what was chosen to the lock. Throws what reading and writing the lock throws, and
 * the signal's reason; what is wrong with a package is a problem.
 */
async function resolvePackages(
  specs: readonly ExtensionSpec[],
  { dir, cwd, places, signal, onProgress, frozen = false, lookOnly: offline = false }: PrepareOptions,
) {
  const distinct = new Map(specs.map((spec) => [packageKey(spec), spec]));
  const found = new Map<string, ResolvedExtension>();
  const added: Record<string, LockFile["extensions"][string]> = {};
  const failures: { readonly spec: ExtensionSpec; readonly error: McpvalsError }[] = [];
  const of = (spec: ExtensionSpec): ResolvedExtension | undefined => found.get(packageKey(spec));
  if (distinct.size === 0) return { of, problems: [], cause: undefined, notes: [] };
  const { path, lock } = await findLock(dir, cwd);
  const resolver = createResolver({ ...places, signal, ...withoutUndefined({ onProgress }) });
  await Promise.all(
    [...distinct].map(async ([key, spec]) => {
      const before = Object.hasOwn(lock.extensions, spec.package) ? lock.extensions[spec.package] : undefined;
      try {
        const { extension, locked } = await resolver.resolve(spec, before, { frozen, offline });
        found.set(key, extension);
        if (locked !== undefined && JSON.stringify(locked) !== JSON.stringify(before))
          added[spec.package] = locked;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof McpvalsError) || error.kind === "bug") throw error;
        failures.push({ spec, error });
      }
    }),
  );
  const order = [...distinct.values()];
  failures.sort((a, b) => order.indexOf(a.spec) - order.indexOf(b.spec));
  const isOnlyAbsent = ({ code }: McpvalsError): boolean => offline && code === "extension/unreachable";
  const faults = failures.filter(({ error }) => !isOnlyAbsent(error));
  if (!frozen && !offline && Object.keys(added).length > 0) {
    // Another run may have written the lock in the meantime.
    const { lock } = await readLock(dirname(path));
    await writeLock(path, { ...lock, extensions: { ...lock.extensions, ...added } });
  }
  const shown = relative(cwd, path);
  const locked = order.flatMap(({ package: written }) => {
    const entry = Object.hasOwn(added, written) && !offline ? added[written] : undefined;
    return entry === undefined ? [] : [`${written} is now locked at ${entry.version} in ${shown}`];
  });
  const absent = failures
    .filter(({ error }) => isOnlyAbsent(error))
    .map(({ spec, error: { message, details } }) =>
      `not checked: steps of the extension ${spec.alias}: ${message} ${details.hint ?? ""}`.trimEnd(),
    );
  return {
    of,
    problems: faults.map(({ spec, error }) => problemOf(spec, error)),
    cause: faults[0]?.error,
    notes: [...new Set(locked), ...absent],
  };
}

/**
 * Reads the lock of an eval: the nearest one upwards from the eval's folder. Without one, gives where it is to be made: in
 * the working folder when a lock there would be found from the eval's folder, so that all evals of a project share one, else in
 * the eval's folder. Throws `extension/invalid-lock`.
 */
async function findLock(
  dir: string,
  cwd: string,
): Promise<{ readonly path: string; readonly lock: LockFile }> {
  const nearest = await readLock(dir);
  if (existsSync(nearest.path)) return nearest;
  for (let place = dir; place !== cwd; place = dirname(place)) {
    if (dirname(place) === place || existsSync(join(place, ".git"))) return nearest;
  }
  return { ...nearest, path: join(cwd, basename(nearest.path)) };
}

/** Tries each distinct sandbox once. */
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

/** Packages that were fetched and run with the user's own permissions. */
function unconfinedNotes(extensions: readonly PreparedExtension[]): string[] {
  const fetched = extensions.filter(
    ({ spec, resolved: { ref } }) => spec.sandbox.kind === "none" && ref.kind === "release",
  );
  return [...new Set(fetched.map(({ spec }) => spec.package))].map(
    (name) =>
      `${name} was fetched and runs without a sandbox: it can do what you can (sandbox: process confines it)`,
  );
}

/** A confined extension may read the task's folder, which must not contain the home folder. */
export function openHomeNotes(tasks: readonly Task[], home: string): string[] {
  const containsHome = (dir: string): boolean =>
    !/^\.\.(?:[/\\]|$)/.test(relative(dir, home)) && !isAbsolute(relative(dir, home));
  return tasks.flatMap(({ name, portable }) => {
    const confined = Object.values(portable?.extensions ?? {}).some(({ sandbox }) => sandbox.kind !== "none");
    if (portable === undefined || !confined || !containsHome(portable.dir)) return [];
    return [
      `the folder of the task ${JSON.stringify(name)} contains your home folder, which its confined extensions can read: move the task into a folder of its own`,
    ];
  });
}

/**
 * Throws one McpvalsError for all problems, if there are any. Those that the user has to fix come first; the first one gives
 * the code.
 */
function failWith(problems: readonly Diagnostic[], cause?: unknown): void {
  // An extension of the eval appears once for each task.
  const distinct = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  const isUsage = Map.groupBy(distinct.values(), ({ code }) => errorKinds[code] === "usage");
  const diagnostics = [...(isUsage.get(true) ?? []), ...(isUsage.get(false) ?? [])];
  const [first] = diagnostics;
  if (first === undefined) return;
  const where = first.location === undefined ? "" : `${formatLocation(first.location)}: `;
  const more = diagnostics.length === 1 ? "" : ` (and ${diagnostics.length - 1} more)`;
  throw new McpvalsError(first.code, `${where}${first.message}${more}`, {
    diagnostics,
    ...withoutUndefined({ location: first.location, hint: first.hint }),
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Programs that extensions require (`requires` of `extension.yaml`) and would not find on their PATH, images excepted. */
async function missingCommands(
  extensions: readonly PreparedExtension[],
  { places: { env }, given = {} }: PrepareOptions,
): Promise<readonly Diagnostic[]> {
  const checks = extensions.map(async ({ spec, resolved }): Promise<readonly Diagnostic[]> => {
    if (spec.sandbox.kind === "docker") return [];
    const expander = settingsExpander(spec, env);
    const own = extensionEnvironment(spec, { env, given }, (text) => expander?.text(text) ?? text);
    const commands = (resolved.manifest?.requires ?? []).map(({ command }) => command);
    const paths = await Promise.all(
      commands.map((command) => findProgram(command, { env: own, cwd: resolved.folder })),
    );
    const missing = commands.filter((_, index) => paths[index] === undefined);
    return missing.map((command) => ({
      code: "extension/missing-command",
      message: `the extension ${spec.alias} (${spec.package}) needs the program ${JSON.stringify(command)}, which is not on its PATH`,
      hint: "Install it, or add its folder to PATH, also in env of the extension.",
      ...withoutUndefined({ location: spec.location }),
    }));
  });
  return (await Promise.all(checks)).flat();
}

/**
 * Reads the manifests of extensions, by the key of their packages: from `extension.yaml`, else by asking the program, in its
 * sandbox. One that cannot be asked now is left to the trial; a note says why. Throws McpvalsError of kind `usage`, and the
 * signal's reason.
 */
async function readManifests(extensions: readonly PreparedExtension[], options: PrepareOptions) {
  const byPackage = new Map<string, ExtensionManifest>();
  const notes: string[] = [];
  const groups = Map.groupBy(extensions, ({ spec }) => packageKey(spec));
  await Promise.all(
    [...groups].map(async ([key, same]) => {
      const { env } = options.places;
      const extension = same.find(({ spec }) => settingsExpander(spec, env) !== undefined) ?? same[0];
      if (extension === undefined) return;
      const found = await readManifest(extension, options);
      if (typeof found !== "string") return byPackage.set(key, found);
      const names = [...new Set(same.map(({ spec }) => spec.alias))];
      const named = `the extension${names.length === 1 ? "" : "s"} ${listNames(names)}`;
      notes.push(`not checked: steps of ${named}: ${found}`);
    }),
  );
  return { byPackage, notes: notes.toSorted() };
}

/** The manifest, or why it is unavailable. */
async function readManifest(
  extension: PreparedExtension,
  { places: { env }, given = {}, lookOnly = false, signal }: PrepareOptions,
): Promise<ExtensionManifest | string> {
  if (extension.resolved.manifest !== undefined) return extension.resolved.manifest;
  if (lookOnly) return "it has no extension.yaml, so it would have to be started";
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

/** Replaces the templates in the settings of an extension before a trial; undefined when one of them has no value yet. */
export function settingsExpander(
  { config, env }: Pick<ExtensionSpec, "config" | "env">,
  variables: Readonly<Record<string, string>>,
): Expander | undefined {
  const known: Scope = new Map([["env", resolveNames(variables)]]);
  const isKnown = (text: string): boolean =>
    parseTemplate(text).every(
      (part) => typeof part === "string" || known.get(part.root)?.(part.names, part.variant) !== undefined,
    );
  return [config, env].flatMap(textsOf).every(isKnown) ? expanderOf(known) : undefined;
}

function textsOf(value: Json): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}
