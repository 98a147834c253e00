import type { Diagnostic } from "../../base/error.ts";
import { type Expression, parseTemplate } from "../../templates/template.ts";
import { inVariable } from "../../templates/places.ts";
import {
  type DeclaredExtension,
  noExtensions,
  packageName,
  type ExtensionUse,
} from "../../model/extension.ts";
import { parsePackageRef } from "../../model/package-ref.ts";
import type { ExtensionSpec, PortableTask } from "../../model/task.ts";
import { type Json, type KeyPath, withoutUndefined } from "../../base/json.ts";
import { checkPlaces, checkText, type DeclaredOutputs, type TaskNames, textsIn } from "./check-texts.ts";
import { Findings, type ParseTaskOptions, type PlacedNote } from "./task-options.ts";

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
  /** Whether the eval says where an import comes from, so that its own package does not matter. */
  readonly isGiven: (entry: TaskImport) => boolean;
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
export function joinExtensions(
  imports: readonly TaskImport[],
  { dir, locate, extensions = noExtensions, inheritEnv: names, resolvePath = (path) => path }: Options,
): JoinedExtensions {
  const { declared: entries } = extensions;
  const isDeclared = (name: string): boolean => Object.hasOwn(entries, name);
  const nameOf = (written: string): string => packageName(written, resolvePath);
  const meaningOf = (name: string): Meaning | undefined => {
    if (isDeclared(name)) return { entry: name };
    const imported = imports.find(({ as }) => as === name);
    const written = imported?.package ?? name;
    if (isWord(written)) return isDeclared(written) ? { entry: written } : undefined;
    if (!parsePackageRef(written).ok) return undefined;
    // The eval's entry for the same package; none where several would do.
    const [same, ...others] = Object.keys(entries).filter((key) => entries[key]?.name === nameOf(written));
    return { entry: others.length === 0 ? same : undefined, own: { package: written, path: imported?.path } };
  };
  const entryOf: JoinedExtensions["entryOf"] = (alias) => {
    const name = meaningOf(alias)?.entry;
    const declared = name === undefined ? undefined : entries[name];
    return name === undefined || declared === undefined ? undefined : { name, declared };
  };
  return {
    specOf: (alias) => {
      const own = meaningOf(alias)?.own;
      const entry = entryOf(alias)?.declared;
      const { config = {}, env = {}, sandbox = extensions.sandbox } = entry ?? {};
      const inheritEnv = names === true || names.length > 0 ? names : undefined;
      const start = { alias, config, env, inheritEnv, sandbox };
      if (own !== undefined) {
        const location = own.path === undefined ? undefined : locate({ path: own.path, at: "value" });
        return withoutUndefined({ ...start, package: own.package, dir, location });
      }
      if (entry === undefined) return undefined;
      const { package: from, dir: folder, location } = entry;
      return withoutUndefined({ ...start, package: from, dir: folder, location });
    },
    entryOf,
    isGiven: ({ as, package: written }) => isDeclared(as) || (isWord(written) && isDeclared(written)),
    operationMs: (name) => entryOf(name)?.declared.timeoutMs ?? extensions.timeoutMs,
    notes: imports.flatMap(({ as, package: written, path }) => {
      const entry = isDeclared(as) && !isWord(written) ? entries[as] : undefined;
      if (entry === undefined) return [];
      const [own, other] = [parsePackageRef(written), parsePackageRef(entry.package)];
      const isSame =
        own.ok && other.ok
          ? versionOf(own.ref) === versionOf(other.ref) && nameOf(written) === entry.name
          : written === entry.package;
      const message = `the import ${JSON.stringify(as)} is ${entry.package}, as the eval says, not ${written}`;
      return isSame ? [] : [{ message, path: [...path, "package"] }];
    }),
  };
}

interface Meaning {
  /** Name of the eval's entry that says how it is started. */
  readonly entry?: string | undefined;
  /** The task's own package; absent: that of the entry. */
  readonly own?: { readonly package: string; readonly path: KeyPath | undefined };
}

function versionOf(ref: object): unknown {
  return "version" in ref ? ref.version : undefined;
}

/** A plain word is not a valid package, but may be the name of an extension of the eval, as in the older forms. */
export function isWord(text: string): boolean {
  return /^[\w-]+$/.test(text);
}

/** The extensions that steps use, by what they name them by; undefined without any. */
export function usedExtensions(
  uses: readonly ExtensionUse[],
  { specOf: find }: Pick<JoinedExtensions, "specOf">,
): Readonly<Record<string, ExtensionSpec>> | undefined {
  const specs = [...new Set(uses.map(({ extension }) => extension))].flatMap((name) => {
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
