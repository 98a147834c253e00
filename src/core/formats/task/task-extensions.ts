import type { Diagnostic } from "../../errors/error.ts";
import { type Expression, parseTemplate } from "../../templates/template.ts";
import { inVariable } from "../../templates/places.ts";
import {
  type DeclaredExtension,
  type EvalExtensions,
  noExtensions,
  packageName,
} from "../extension/extension-table-schema.ts";
import { parsePackageRef } from "../extension/package-ref.ts";
import type { ExtensionSpec, PortableTask } from "../model.ts";
import { type Json, type KeyPath, withoutUndefined } from "../json.ts";
import { checkPlaces, checkText, type DeclaredOutputs, type TaskNames, textsIn } from "./check-texts.ts";
import { type ExtensionUse, Findings, type ParseTaskOptions, type PlacedNote } from "./task-options.ts";

/** An import of a task; the package of one that is not valid is empty. */
export interface TaskImport {
  readonly as: string;
  readonly package: string;
  /** Of the entry. */
  readonly path: KeyPath;
}

/** What the names that steps use for extensions mean, from a task's imports and its eval. */
export interface JoinedExtensions {
  /** Undefined for one of unknown origin. */
  readonly specOf: (name: string) => ExtensionSpec | undefined;
  /** The eval's entry that says how it is started, with its name there. */
  readonly entryOf: (
    name: string,
  ) => { readonly name: string; readonly declared: DeclaredExtension } | undefined;
  /** How long an operation may take whose step says nothing, in milliseconds. */
  readonly operationMs: (name: string) => number;
  /** Of imports whose package is replaced by that of the eval. */
  readonly notes: readonly PlacedNote[];
}

type Options = Pick<ParseTaskOptions, "dir" | "locate" | "resolvePath" | "extensions" | "inheritEnv">;

/**
 * Joins a task's imports with the extensions of its eval. Of an alias that both have, the eval says everything. Else an entry of the
 * eval for the same package says how it is started and confined; else the task's extension is started without
 * settings and confined as the eval says of all.
 */
export function joinExtensions(imports: readonly TaskImport[], options: Options): JoinedExtensions {
  const { extensions = noExtensions } = options;
  const entryOf: JoinedExtensions["entryOf"] = (alias) => {
    const name = meaningOf(alias, imports, options)?.entry;
    const declared = name === undefined ? undefined : extensions.declared[name];
    return name === undefined || declared === undefined ? undefined : { name, declared };
  };
  return {
    specOf: (name) => {
      const meaning = meaningOf(name, imports, options);
      return meaning === undefined ? undefined : specOf(name, meaning, options);
    },
    entryOf,
    operationMs: (name) => entryOf(name)?.declared.timeoutMs ?? extensions.timeoutMs,
    notes: imports.flatMap((each) => overridden(each, options)),
  };
}

/** Whether the eval says where an import comes from, so that its own package does not matter. */
export function isGivenByEval(
  { as, package: written }: TaskImport,
  { extensions }: Pick<Options, "extensions">,
): boolean {
  return [as, ...(isWord(written) ? [written] : [])].some((name) => declares(extensions, name));
}

interface Meaning {
  /** Name of the eval's entry that says how it is started. */
  readonly entry?: string | undefined;
  /** The task's own package; absent: that of the entry. */
  readonly own?: { readonly package: string; readonly path?: KeyPath };
}

function meaningOf(name: string, imports: readonly TaskImport[], options: Options): Meaning | undefined {
  const { extensions } = options;
  const imported = imports.find(({ as }) => as === name);
  if (declares(extensions, name)) return { entry: name };
  const written = imported?.package ?? name;
  if (isWord(written)) return declares(extensions, written) ? { entry: written } : undefined;
  if (!parsePackageRef(written).ok) return undefined;
  const path = imported === undefined ? {} : { path: imported.path };
  return { entry: entryOfPackage(written, options), own: { package: written, ...path } };
}

/** The eval's entry for a package; none where several would do. */
function entryOfPackage(written: string, options: Options): string | undefined {
  const name = absoluteName(written, options);
  const { declared } = options.extensions ?? noExtensions;
  const same = Object.entries(declared).filter(([, entry]) => entry.name === name);
  return same.length === 1 ? same[0]?.[0] : undefined;
}

function absoluteName(written: string, { resolvePath }: Options): string {
  return packageName(written, resolvePath ?? ((path) => path));
}

function specOf(alias: string, { entry, own }: Meaning, options: Options): ExtensionSpec | undefined {
  const { dir, locate, extensions = noExtensions, inheritEnv: names } = options;
  const declared = entry === undefined ? undefined : extensions.declared[entry];
  const { config = {}, env = {}, sandbox = extensions.sandbox } = declared ?? {};
  const inheritEnv = names === true || names.length > 0 ? names : undefined;
  const start = { config, env, inheritEnv, sandbox };
  if (own !== undefined) {
    const location = own.path === undefined ? undefined : locate({ path: own.path, at: "value" });
    return withoutUndefined({ alias, package: own.package, dir, ...start, location });
  }
  if (declared === undefined) return undefined;
  const { package: from, location } = declared;
  return withoutUndefined({ alias, package: from, dir: declared.dir, ...start, location });
}

function overridden({ as, package: written, path }: TaskImport, options: Options): PlacedNote[] {
  const entry = options.extensions?.declared[as];
  if (entry === undefined || !declares(options.extensions, as) || isWord(written)) return [];
  if (isSame(written, entry, options)) return [];
  const message = `the import ${JSON.stringify(as)} is ${entry.package}, as the eval says, not ${written}`;
  return [{ message, path: [...path, "package"] }];
}

/** Whether a package is that of an entry of the eval, its version included. */
function isSame(written: string, entry: DeclaredExtension, options: Options): boolean {
  const [first, second] = [parsePackageRef(written), parsePackageRef(entry.package)];
  if (!first.ok || !second.ok) return written === entry.package;
  const [version, declared] = [first, second].map(({ ref }) => ("version" in ref ? ref.version : ""));
  return version === declared && absoluteName(written, options) === entry.name;
}

/** A plain word is not a valid package, but may be the name of an extension of the eval, as in the older forms. */
export function isWord(text: string): boolean {
  return /^[\w-]+$/.test(text);
}

function declares(extensions: EvalExtensions | undefined, name: string): boolean {
  return extensions !== undefined && Object.hasOwn(extensions.declared, name);
}

/** The extensions that steps use, by what they name them by; undefined without any. */
export function usedExtensions(
  uses: readonly ExtensionUse[],
  { specOf: find }: Pick<JoinedExtensions, "specOf">,
): Readonly<Record<string, ExtensionSpec>> | undefined {
  const names = [...new Set(uses.map(({ extension }) => extension))];
  const specs = names.flatMap((name) => {
    const spec = find(name);
    return spec === undefined ? [] : [[name, spec] as const];
  });
  return specs.length === 0 ? undefined : Object.fromEntries(specs);
}

export interface SettingsContext {
  /** Of the task, for messages. */
  readonly task: string;
  readonly joined: Pick<JoinedExtensions, "entryOf">;
  readonly names: TaskNames;
  /** What steps give, by their ids. */
  readonly outputs: ReadonlyMap<string, DeclaredOutputs>;
}

/**
 * Checks the templates in the eval's settings for the extensions of a task: which names exist depends on the task. A
 * process is started by the first operation, so that the agent's output does not exist for one of setup.
 */
export function checkSettings(
  uses: readonly ExtensionUse[],
  { task, joined, names, outputs }: SettingsContext,
): Diagnostic[] {
  const early = new Set(
    uses.flatMap(({ phase, extension }) => (phase === "setup" ? [joined.entryOf(extension)?.name] : [])),
  );
  const entries = new Map(
    uses.flatMap(({ extension }) => {
      const entry = joined.entryOf(extension);
      return entry === undefined ? [] : [[entry.name, entry.declared] as const];
    }),
  );
  return [...entries].flatMap(([name, { config, env, location }]) => {
    const absent = early.has(name) ? { agent: beforeAgent } : {};
    const scope = { names, absent, earlier: outputs, locals: new Map() };
    const found = new Findings();
    for (const text of textsIn({ config, env }, ["extensions", name])) {
      checkText(text.text, text.path, scope, found);
      const [, , part, variable] = text.path;
      if (part === "env") checkPlaces(text, scope.locals, { findPlace: inVariable(String(variable)), found });
    }
    const user = `Used by the task ${JSON.stringify(task)}.`;
    return found.problems.map(({ code, message, hint }) =>
      withoutUndefined({ code, message, hint: hint === undefined ? user : `${user} ${hint}`, location }),
    );
  });
}

const beforeAgent = "is not there when an operation of setup starts the extension";

/** Names that `{random.port}` is used with in the settings of extensions. */
export function extensionPorts(extensions: PortableTask["extensions"] = {}): readonly string[] {
  return randomPorts(Object.values(extensions).flatMap(({ config, env }) => [config, env]));
}

/** The names that `{random.port}` is used with anywhere in the values; "" for the plain form. */
export function randomPorts(values: readonly Json[]): string[] {
  const names = values
    .flatMap((value) => textsIn(value, []))
    .filter(({ text }) => text.includes("random"))
    .flatMap(({ text }) => parseTemplate(text, (root) => root === "random"))
    .filter((part): part is Expression => typeof part === "object" && part.names.join(".") === "port")
    .map(({ variant = "" }) => variant);
  return [...new Set(names)];
}
