import type { ErrorCode } from "../../errors/catalogue.ts";
import { defaultSandbox, type SandboxSpec } from "../extension-model.ts";
import { formatKeyPath, type KeyPath } from "../key-path.ts";
import { asObject } from "../lenient.ts";
import type { Locate, Problem } from "../problem.ts";
import { withoutUndefined } from "../without-undefined.ts";
import { type DeclaredExtension, type EvalExtensions, usualOperationMs } from "./eval-extensions.ts";
import {
  isExtensionEntry,
  type ParsedExtension,
  type ParsedExtensionTable,
  type ParsedSandbox,
} from "./extension-table-schema.ts";
import { parsePackageRef } from "./parse-package-ref.ts";

export interface ExtensionPlaces {
  /** Absolute folder that relative paths of the table start from. */
  readonly dir: string;
  /** Makes such a path absolute. One that begins with `~/` stays. */
  readonly resolvePath: (path: string) => string;
  /** Path of the table in its document. */
  readonly path: KeyPath;
  readonly locate: Locate;
}

/** Makes what tasks are given of a table that is valid. */
export function readExtensionTable(
  table: ParsedExtensionTable | undefined = {},
  places: ExtensionPlaces,
): EvalExtensions {
  const { cacheDir, timeout, allowedSources, releasesUrl } = settingsOf(table);
  const sandbox = generalSandbox(table, places);
  return {
    declared: Object.fromEntries(
      Object.entries(table).flatMap(([name, entry]) =>
        isExtensionEntry(entry) ? [[name, declared(name, entry, { sandbox, places })] as const] : [],
      ),
    ),
    sandbox,
    timeoutMs: timeout ?? usualOperationMs,
    settings: withoutUndefined({
      cacheDir: cacheDir === undefined ? undefined : absolute(cacheDir, places),
      allowedSources,
      releasesUrl,
    }),
  };
}

/** Entries whose package cannot be understood, in a table that may be wrong in other ways too. */
export function extensionPackageProblems(table: unknown, path: KeyPath): Problem[] {
  return Object.entries(asObject(table)).flatMap(([name, entry]) => {
    const { package: written } = asObject(entry);
    if (typeof written !== "string" || written.trim() === "") return [];
    return packageProblem(written, [...path, name, "package"]);
  });
}

/** What only a sandbox heeds. */
const sandboxKeys = ["network", "read", "memory", "processes", "image", "runtime"];

/**
 * Entries and settings that say how something is confined, while nothing says that it is: they would be started without
 * any sandbox. Whoever wants that writes `sandbox: none`.
 */
export function missingSandboxProblems(table: unknown, path: KeyPath): Problem[] {
  const root = asObject(table);
  const entries = Object.entries(root).filter(([, entry]) => asObject(entry)["package"] !== undefined);
  const names = new Set(entries.map(([name]) => name));
  const general = names.has("sandbox") ? undefined : root["sandbox"];
  const all = isChosen(general) ? [] : unheeded(names.has("network") ? [] : root["network"], general);
  const own = entries.flatMap(([name, entry]) => {
    const { sandbox, ...rest } = asObject(entry);
    if (isChosen(general) || isChosen(sandbox)) return [];
    const keys = [...sandboxKeys.filter((key) => rest[key] !== undefined), ...unheeded([], sandbox)];
    return keys.slice(0, 1).map((key) => noSandbox(key, [...path, name]));
  });
  return [...all.slice(0, 1).map((key) => noSandbox(key, path)), ...own];
}

function isChosen(sandbox: unknown): boolean {
  return typeof sandbox === "string" || asObject(sandbox)["kind"] !== undefined;
}

function unheeded(network: unknown, sandbox: unknown): string[] {
  const isListed = Array.isArray(network) && network.length > 0;
  return [...(isListed ? ["network"] : []), ...Object.keys(asObject(sandbox))];
}

function noSandbox(key: string, path: KeyPath): Problem {
  return {
    code: "config/missing-key",
    message: `${formatKeyPath(path)} has ${JSON.stringify(key)}, but nothing says which sandbox confines it`,
    path,
    at: "key",
    hint: "Write sandbox: process, or kind: process in an object; sandbox: none starts it without one.",
  };
}

/** What is wrong with a package at a place. */
export function packageProblem(written: string, path: KeyPath): Problem[] {
  const parsed = parsePackageRef(written);
  if (parsed.ok) return [];
  const code: ErrorCode = "extension/invalid-package";
  const message = `${formatKeyPath(path)}: ${parsed.message}`;
  return [{ code, message, path, at: "value", hint: parsed.hint }];
}

type Settings = {
  readonly [K in "cacheDir" | "timeout" | "sandbox" | "network" | "allowedSources" | "releasesUrl"]?: Exclude<
    ParsedExtensionTable[K],
    ParsedExtension
  >;
};

function settingsOf(table: ParsedExtensionTable): Settings {
  const members = Object.entries(table).filter(([, value]) => !isExtensionEntry(value));
  return Object.fromEntries(members);
}

function generalSandbox(table: ParsedExtensionTable, places: ExtensionPlaces): SandboxSpec {
  const { sandbox, network } = settingsOf(table);
  const all = laid(defaultSandbox, sandbox, places);
  return network === undefined ? all : laid(all, { network }, places);
}

interface Around {
  readonly sandbox: SandboxSpec;
  readonly places: ExtensionPlaces;
}

function declared(name: string, entry: ParsedExtension, { sandbox, places }: Around): DeclaredExtension {
  const { network, read, memory, processes, image } = entry;
  const own = laid(sandbox, entry.sandbox, places);
  return withoutUndefined({
    package: entry.package,
    dir: places.dir,
    name: packageName(entry.package, places.resolvePath),
    config: entry.config ?? {},
    env: entry.env ?? {},
    sandbox: laid(own, { network, read, memory, processes, image }, places),
    timeoutMs: entry.timeout,
    location: places.locate({ path: [...places.path, name], at: "key" }),
  });
}

/** The package without its version; of a path the absolute one. What is no package is itself. */
export function packageName(written: string, resolvePath: (path: string) => string): string {
  const parsed = parsePackageRef(written);
  if (!parsed.ok) return written;
  const { ref } = parsed;
  return ref.kind === "path" && !isHome(ref.path) ? resolvePath(ref.path) : ref.name;
}

/** A sandbox with what is said of it laid over another. */
function laid(base: SandboxSpec, said: ParsedSandbox | undefined, places: ExtensionPlaces): SandboxSpec {
  if (said === undefined) return base;
  if (typeof said === "string") return { ...base, kind: said };
  const { kind, network, read, memory, processes, image, runtime } = said;
  return {
    ...base,
    ...withoutUndefined({
      kind,
      network:
        network === undefined ? undefined : network.length === 0 ? ("none" as const) : ("host" as const),
      read: read?.map((path) => absolute(path, places)),
      memoryBytes: memory,
      processes,
      image,
      runtime: typeof runtime === "string" ? [runtime] : runtime,
    }),
  };
}

function absolute(path: string, { resolvePath }: ExtensionPlaces): string {
  return isHome(path) ? path : resolvePath(path);
}

function isHome(path: string): boolean {
  return /^~(?:[/\\]|$)/.test(path);
}
