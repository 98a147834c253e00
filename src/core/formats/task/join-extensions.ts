import { type DeclaredExtension, type EvalExtensions, noExtensions } from "../extension/eval-extensions.ts";
import { parsePackageRef } from "../extension/package-ref.ts";
import { packageName } from "../extension/extension-table-schema.ts";
import type { ExtensionSpec } from "../extension-model.ts";
import { isJsonObject, type KeyPath, withoutUndefined } from "../json.ts";
import type { Json } from "../model.ts";
import type { ParseTaskOptions, PlacedNote } from "./task-options.ts";

/** An import of a task, read from a document that may be wrong in other ways. */
export interface ImportView {
  readonly as: string;
  readonly package: string;
  /** Of the entry. */
  readonly path: KeyPath;
}

/** The imports that have both of their texts. */
export function viewImports(imports: Json | undefined): readonly ImportView[] {
  if (!Array.isArray(imports)) return [];
  return imports.flatMap((each: Json, index) => {
    const { as, package: from } = isJsonObject(each) ? each : {};
    if (typeof as !== "string" || typeof from !== "string") return [];
    return [{ as, package: from, path: ["spec", "imports", index] }];
  });
}

/** What the names that steps use for extensions mean, out of a task's imports and of what its eval says. */
export interface JoinedExtensions {
  /** Undefined for what nobody says where it comes from. */
  readonly specOf: (name: string) => ExtensionSpec | undefined;
  /** The eval's entry that says how it is started, with its name there. */
  readonly entryOf: (
    name: string,
  ) => { readonly name: string; readonly declared: DeclaredExtension } | undefined;
  /** How long an operation may take whose step says nothing, in milliseconds. */
  readonly operationMs: (name: string) => number;
  /** Of imports whose package gives way to that of the eval. */
  readonly notes: readonly PlacedNote[];
}

type Options = Pick<ParseTaskOptions, "dir" | "locate" | "resolvePath" | "extensions" | "inheritEnv">;

/**
 * Joins a task's imports with the extensions of its eval. Of an alias that both have, the eval says everything. Else an entry of the
 * eval for the same package says how it is started and confined; else the task's extension is started with no
 * settings and confined as the eval says of all.
 */
export function joinExtensions(imports: readonly ImportView[], options: Options): JoinedExtensions {
  const { extensions = noExtensions } = options;
  const found = (name: string): Meaning | undefined => meaningOf(name, imports, options);
  const entryOf: JoinedExtensions["entryOf"] = (alias) => {
    const name = found(alias)?.entry;
    const declared = name === undefined ? undefined : extensions.declared[name];
    return name === undefined || declared === undefined ? undefined : { name, declared };
  };
  return {
    specOf: (name) => {
      const meaning = found(name);
      return meaning === undefined ? undefined : specOf(name, meaning, options);
    },
    entryOf,
    operationMs: (name) => entryOf(name)?.declared.timeoutMs ?? extensions.timeoutMs,
    notes: imports.flatMap((each) => overridden(each, options)),
  };
}

/** Whether the eval says where an import comes from, so that its own package does not matter. */
export function isGivenByEval(
  { as, package: written }: ImportView,
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

function meaningOf(name: string, imports: readonly ImportView[], options: Options): Meaning | undefined {
  const { extensions } = options;
  const imported = imports.find(({ as }) => as === name);
  if (declares(extensions, name)) return { entry: name };
  const written = imported?.package ?? name;
  if (isWord(written)) return declares(extensions, written) ? { entry: written } : undefined;
  if (!parsePackageRef(written).ok) return undefined;
  const path = imported === undefined ? {} : { path: imported.path };
  return { entry: sameName(written, options), own: { package: written, ...path } };
}

/** The eval's entry for a package; none where several would do, since nobody says which. */
function sameName(written: string, { extensions = noExtensions, resolvePath }: Options): string | undefined {
  const name = packageName(written, resolvePath ?? ((path) => path));
  const same = Object.entries(extensions.declared).filter(([, entry]) => entry.name === name);
  return same.length === 1 ? same[0]?.[0] : undefined;
}

function specOf(alias: string, { entry, own }: Meaning, options: Options): ExtensionSpec | undefined {
  const { dir, locate, extensions = noExtensions } = options;
  const declared = entry === undefined ? undefined : extensions.declared[entry];
  const { config = {}, env = {}, sandbox = extensions.sandbox } = declared ?? {};
  const { inheritEnv: names } = options;
  const inheritEnv = names === true || names.length > 0 ? names : undefined;
  const start = { config, env, inheritEnv, sandbox };
  if (own === undefined) {
    if (declared === undefined) return undefined;
    const { package: from, location } = declared;
    return withoutUndefined({ alias, package: from, dir: declared.dir, ...start, location });
  }
  const location = own.path === undefined ? undefined : locate({ path: own.path, at: "value" });
  return withoutUndefined({ alias, package: own.package, dir, ...start, location });
}

function overridden({ as, package: written, path }: ImportView, options: Options): PlacedNote[] {
  const entry = options.extensions?.declared[as];
  if (entry === undefined || !declares(options.extensions, as) || isWord(written)) return [];
  if (
    isSame(
      written,
      entry.package,
      packageName(written, options.resolvePath ?? ((each) => each)) === entry.name,
    )
  ) {
    return [];
  }
  const message = `the import ${JSON.stringify(as)} is ${entry.package}, as the eval says, not ${written}`;
  return [{ message, path: [...path, "package"] }];
}

/** Whether two packages are the same, their versions included. */
function isSame(a: string, b: string, sameNames: boolean): boolean {
  const [first, second] = [parsePackageRef(a), parsePackageRef(b)];
  if (!first.ok || !second.ok) return a === b;
  return sameNames && versionOf(first.ref) === versionOf(second.ref);
}

function versionOf(ref: Extract<ReturnType<typeof parsePackageRef>, { ok: true }>["ref"]): string {
  return "version" in ref ? ref.version : "";
}

/** A plain word is no package, but may be the name of an extension of the eval, as the older forms have it. */
export function isWord(text: string): boolean {
  return /^[\w-]+$/.test(text);
}

function declares(extensions: EvalExtensions | undefined, name: string): boolean {
  return extensions !== undefined && Object.hasOwn(extensions.declared, name);
}
