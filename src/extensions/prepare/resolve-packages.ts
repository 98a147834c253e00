import { existsSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { type Diagnostic, McpvalsError } from "../../core/errors/error.ts";
import type { LockedExtension, LockFile } from "../../core/formats/extension/lock-file.ts";
import { parsePackageRef } from "../../core/formats/extension/package-ref.ts";
import type { ExtensionSpec } from "../../core/formats/model.ts";
import { readLock, writeLock } from "../resolve/files.ts";
import type { ResolvedExtension } from "../resolve/program.ts";
import {
  checkSource,
  createResolver,
  type ExtensionPlaces,
  type ExtensionResolver,
} from "../resolve/resolver.ts";

export interface PackagesToResolve {
  readonly specs: readonly ExtensionSpec[];
  /** Absolute path of the eval's folder. */
  readonly dir: string;
  /** Absolute path of the working folder. */
  readonly cwd: string;
  readonly places: ExtensionPlaces;
  /** Use only what the lock names. */
  readonly frozen: boolean;
  /** Fetch and write nothing. */
  readonly offline: boolean;
  readonly signal: AbortSignal;
  readonly onProgress?: (message: string) => void;
}

export interface ResolvedPackages {
  /** Undefined for a package that is not at hand; only when offline. */
  readonly of: (spec: ExtensionSpec) => ResolvedExtension | undefined;
  readonly problems: readonly Diagnostic[];
  /** What caused the first problem. */
  readonly cause: unknown;
  readonly notes: readonly string[];
}

/**
 * Resolves each package once, and adds what was chosen to the lock. Throws what reading and writing the lock throws, and
 * the signal's reason; what is wrong with a package is a problem.
 */
export async function resolvePackages(work: PackagesToResolve): Promise<ResolvedPackages> {
  const { path, lock } = await findLock(work.dir, work.cwd);
  const resolver = createResolver({ ...work.places, ...work });
  const distinct = new Map(work.specs.map((spec) => [packageKey(spec), spec]));
  const ends = new Map<string, End>();
  await Promise.all(
    [...distinct].map(async ([key, spec]) => ends.set(key, await resolveOne(spec, { lock, resolver, work }))),
  );
  const ordered = [...distinct.keys()].flatMap((key) => ends.get(key) ?? []);
  const added = Object.assign({}, ...ordered.map(({ locked }) => locked)) as LockFile["extensions"];
  if (!work.frozen && !work.offline) await addToLock(path, added);
  return {
    of: (spec) => ends.get(packageKey(spec))?.extension,
    problems: ordered.flatMap(({ problem }) => problem ?? []),
    cause: ordered.find(({ cause }) => cause !== undefined)?.cause,
    notes: [
      ...(work.offline ? [] : lockNotes(added, relative(work.cwd, path))),
      ...ordered.flatMap(({ note }) => note ?? []),
    ],
  };
}

/** The same for all specs that name the same files. */
export function packageKey({ package: written, dir }: ExtensionSpec): string {
  const parsed = parsePackageRef(written);
  return parsed.ok && parsed.ref.kind !== "path" ? written : JSON.stringify([written, dir]);
}

/** How one package went. */
interface End {
  readonly extension?: ResolvedExtension;
  /** What is new for the lock. */
  readonly locked?: LockFile["extensions"];
  readonly problem?: Diagnostic;
  readonly cause?: unknown;
  readonly note?: string;
}

interface Resolving {
  readonly lock: LockFile;
  readonly resolver: ExtensionResolver;
  readonly work: PackagesToResolve;
}

async function resolveOne(spec: ExtensionSpec, { lock, resolver, work }: Resolving): Promise<End> {
  const { frozen, offline, signal } = work;
  const { package: written, dir } = spec;
  const before = Object.hasOwn(lock.extensions, written) ? lock.extensions[written] : undefined;
  try {
    const { extension, locked } = await resolver.resolve({ package: written, dir }, before, {
      frozen,
      offline,
    });
    const isNew = locked !== undefined && !isSame(locked, before);
    return { extension, ...(isNew ? { locked: { [written]: locked } } : {}) };
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof McpvalsError) || error.kind === "bug") throw error;
    const wasOnlyAbsent = offline && error.code === "extension/unreachable";
    return wasOnlyAbsent ? { note: notChecked(spec, error) } : failed(spec, error);
  }
}

function notChecked({ alias }: ExtensionSpec, { message, details }: McpvalsError): string {
  return [`not checked: steps of the extension ${alias}: ${message}`, details.hint ?? ""].join(" ").trimEnd();
}

function failed({ location }: ExtensionSpec, error: McpvalsError): End {
  const { code, message, details } = error;
  const { hint, detail } = details;
  const place = details.location ?? location;
  const problem: Diagnostic = {
    code,
    message: detail === undefined ? message : `${message}\n${detail}`,
    ...(hint === undefined ? {} : { hint }),
    ...(place === undefined ? {} : { location: place }),
  };
  return { problem, cause: error };
}

function isSame(a: LockedExtension, b: LockedExtension | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Another run may have written the lock in the meantime, so that it is read again. */
async function addToLock(path: string, added: LockFile["extensions"]): Promise<void> {
  if (Object.keys(added).length === 0) return;
  const { lock } = await readLock(dirname(path));
  await writeLock(path, { ...lock, extensions: { ...lock.extensions, ...added } });
}

function lockNotes(added: LockFile["extensions"], shown: string): string[] {
  return Object.entries(added).map(
    ([written, { version }]) => `${written} is now locked at ${version} in ${shown}`,
  );
}

/**
 * Reads the lock of an eval: the nearest one upwards from the eval's folder. Without one, gives where it is to be made: in
 * the working folder when the eval is inside of it, so that all evals of a project share one, else in the eval's folder.
 * Throws `extension/invalid-lock`.
 */
async function findLock(
  dir: string,
  cwd: string,
): Promise<{ readonly path: string; readonly lock: LockFile }> {
  const nearest = await readLock(dir);
  if (existsSync(nearest.path) || !isFoundFrom(dir, cwd)) return nearest;
  return { ...nearest, path: join(cwd, basename(nearest.path)) };
}

/** Whether a lock in the working folder would be found from a folder: it is above, in the same repository. */
function isFoundFrom(dir: string, cwd: string): boolean {
  for (let place = dir; place !== cwd; place = dirname(place)) {
    if (dirname(place) === place || existsSync(join(place, ".git"))) return false;
  }
  return true;
}

/** What is wrong with where extensions come from: packages that are not understood, and sources that are not allowed. */
export function checkSources(
  specs: readonly ExtensionSpec[],
  allowed: readonly string[] | undefined,
): readonly Diagnostic[] {
  return specs.flatMap((spec) => sourceProblem(spec, allowed));
}

function sourceProblem(
  { package: written, location }: ExtensionSpec,
  allowed: readonly string[] | undefined,
): Diagnostic[] {
  const place = location === undefined ? {} : { location };
  const parsed = parsePackageRef(written);
  if (!parsed.ok)
    return [{ code: "extension/invalid-package", message: parsed.message, hint: parsed.hint, ...place }];
  try {
    checkSource(parsed.ref, allowed);
    return [];
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details } = error;
    return [{ code, message, ...(details.hint === undefined ? {} : { hint: details.hint }), ...place }];
  }
}
