import * as z from "zod";
import type { SourceLocation } from "../base/error.ts";
import { anyObject, closedObject, duration, filledText, httpUrl, named, optional, texts } from "./fields.ts";
import { asObject, type JsonObject, type KeyPath, withoutUndefined } from "../base/json.ts";
import { type Locate, type Problem, problemAt } from "../base/problem.ts";
import {
  defaultSandbox,
  fromFile,
  isHome,
  mergeSandbox,
  networkSchema as network,
  sandboxKind as kind,
  sandboxLimits as limits,
  sandboxParts,
  sandboxSchema as sandbox,
  type SandboxSpec,
  saysSandbox,
  unconfined,
} from "./sandbox.ts";
import { parsePackageRef } from "./package-ref.ts";

/** Phases of a task in which an operation can be used. */
export const extensionPhases = ["setup", "verify", "cleanup"] as const;
export type ExtensionPhase = (typeof extensionPhases)[number];

/** A step that needs an extension. */
export interface ExtensionUse {
  /** The step's id. */
  readonly step: string;
  readonly phase: ExtensionPhase;
  /** Name of the extension among those of the task. */
  readonly extension: string;
  readonly operation: string;
  /** As written, with templates. */
  readonly args: JsonObject;
  /** Where its type stands. */
  readonly location?: SourceLocation;
  /** The lines around it, without anything secret. */
  readonly frame?: string;
}

/** How the extensions of an eval are fetched. */
export interface ExtensionSettings {
  /** Absolute folder; absent: `~/.mcpvals/extensions`. */
  readonly cacheDir?: string;
  /** Globs of packages without their version, of which one must fit; absent: any source. */
  readonly allowedSources?: readonly string[];
  /** Base address of the API that lists releases; absent: GitHub's. */
  readonly releasesUrl?: string;
}

/** What an eval says of extensions, and so gives to its tasks. */
export interface EvalExtensions {
  /** By the names that tasks use. */
  readonly declared: Readonly<Record<string, DeclaredExtension>>;
  /** For those that the eval does not declare. */
  readonly sandbox: SandboxSpec;
  /** Time limit of an operation whose step sets none, in milliseconds. */
  readonly timeoutMs: number;
  /** How all of them are fetched. */
  readonly settings: ExtensionSettings;
}

/** An extension of an eval. */
export interface DeclaredExtension {
  readonly package: string;
  /** Absolute folder that a relative package starts from. */
  readonly dir: string;
  /** The package without its version; of a path, the absolute one as far as that is known. */
  readonly name: string;
  readonly config: JsonObject;
  readonly env: Readonly<Record<string, string>>;
  readonly sandbox: SandboxSpec;
  /** Absent: that of all. */
  readonly timeoutMs?: number;
  readonly location?: SourceLocation;
}

/** Longest that an operation may take where no limit is given. */
const defaultOperationMs = 300_000;

/** Without an eval, or with one that does not mention extensions. */
export const noExtensions: EvalExtensions = {
  declared: {},
  sandbox: defaultSandbox,
  timeoutMs: defaultOperationMs,
  settings: {},
};

/** The settings, when there are any. */
export function settingsOf({ settings } = noExtensions): ExtensionSettings | undefined {
  return Object.keys(settings).length === 0 ? undefined : settings;
}

const alias = closedObject({
  package: filledText.describe(
    "Where it comes from: `github.com/ORG/REPO@VERSION`, `npm:NAME@VERSION`, `mcpvals:NAME`, or a path relative to this file.",
  ),
  config: optional(
    anyObject,
    "Settings that are passed to it at start; texts may contain templates of tasks.",
    "none",
  ),
  env: optional(texts, "Environment variables of its process; texts may contain templates of tasks.", "none"),
  sandbox: optional(sandbox, "The sandbox of this extension.", "the setting for all extensions"),
  ...limits("that of all"),
  timeout: optional(
    duration,
    "Time limit of one operation, for steps without `timeout`.",
    "the setting for all extensions",
  ),
}).meta(named("Extension", "Extension", "A program that adds steps to tasks: `ALIAS.OPERATION`."));

/** A setting, or an extension of that name. */
function settingOr<S extends z.ZodType>(setting: S) {
  return z.union([setting, alias]).optional();
}

/** The settings, each of which may also be an extension of that name. */
const settingFields = {
  cacheDir: settingOr(filledText).meta({
    description: "Folder of downloaded extensions, relative to this file; `~/` is your home folder.",
    defaultText: "`~/.mcpvals/extensions`",
  }),
  timeout: settingOr(duration).meta({
    description: "Time limit of one operation, for steps without `timeout`.",
    defaultText: "`5m`",
  }),
  sandbox: optional(z.union([kind, sandboxParts, alias]), "The sandbox of all extensions.", "`none`"),
  network: settingOr(network).meta({
    description: "`[host]`: sandboxed extensions use the network of this machine.",
    defaultText: "no network at all",
  }),
  allowedSources: settingOr(z.array(filledText)).meta({
    description: "Globs of packages without their versions, such as `github.com/ORG/*`; others are refused.",
    defaultText: "any source",
  }),
  releasesUrl: settingOr(httpUrl).meta({
    description: "Base URL of the releases API, such as a mirror.",
    defaultText: "GitHub's",
  }),
};

/** The keys of the table that are settings for all extensions. */
export const extensionSettings: readonly string[] = Object.keys(settingFields);

type Shape = z.ZodObject<typeof settingFields>;

/** TypeScript requires that the values of all keys include those of the settings. */
type AnyEntry = z.ZodType<
  z.output<typeof alias> | z.output<Shape>[keyof typeof settingFields],
  z.input<typeof alias> | z.input<Shape>[keyof typeof settingFields]
>;

/** The table `extensions` of an eval or a config: settings for all extensions, and extensions by the names that tasks use. */
export const extensionTableSchema = closedObject(settingFields).catchall<AnyEntry>(alias).meta({
  id: "Extensions",
  title: "Extensions",
  description:
    "The keys listed here are settings for all extensions. Every other key, and any key whose value has a `package`, is the name of an extension.",
});

export type ParsedExtensionTable = z.output<typeof extensionTableSchema>;
export type ParsedExtension = z.output<typeof alias>;

/** Whether an entry of the table is an extension, whatever its key. */
function isExtensionEntry(value: unknown): value is ParsedExtension {
  return Object.hasOwn(asObject(value), "package");
}

export interface ExtensionPlaces {
  /** Absolute folder that relative paths of the table start from. */
  readonly dir: string;
  /** Makes such a path absolute. One that begins with `~/` stays. */
  readonly resolvePath: (path: string) => string;
  /** Path of the table in its document. */
  readonly path: KeyPath;
  readonly locate: Locate;
}

type Settings = {
  readonly [K in keyof z.output<Shape>]?: Exclude<ParsedExtensionTable[K], ParsedExtension>;
};

/** What a valid table gives to tasks. */
export function readExtensionTable(
  table: ParsedExtensionTable | undefined = {},
  { dir, resolvePath, path, locate }: ExtensionPlaces,
): EvalExtensions {
  const entries = Object.entries(table);
  const settings: Settings = Object.fromEntries(entries.filter(([, entry]) => !isExtensionEntry(entry)));
  const { cacheDir, timeout, allowedSources, releasesUrl, network } = settings;
  const general = mergeSandbox(defaultSandbox, settings.sandbox, resolvePath);
  const sandbox = mergeSandbox(general, { network }, resolvePath);
  const declared = entries.flatMap(([name, entry]): [string, DeclaredExtension][] => {
    if (!isExtensionEntry(entry)) return [];
    const { package: written, config = {}, env = {}, sandbox: own, timeout: timeoutMs, ...confined } = entry;
    const location = locate({ path: [...path, name], at: "key" });
    const extension = {
      package: written,
      dir,
      name: packageName(written, resolvePath),
      config,
      env,
      sandbox: mergeSandbox(mergeSandbox(sandbox, own, resolvePath), confined, resolvePath),
      timeoutMs,
      location,
    };
    return [[name, withoutUndefined(extension)]];
  });
  return {
    declared: Object.fromEntries(declared),
    sandbox,
    timeoutMs: timeout ?? defaultOperationMs,
    settings: withoutUndefined({
      cacheDir: cacheDir === undefined ? undefined : fromFile(cacheDir, resolvePath),
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

/**
 * Entries and settings that say how something is confined, while nothing says that it is: they would be started without
 * any sandbox. `sandbox: none` allows that.
 */
export function missingSandboxProblems(table: unknown, path: KeyPath): Problem[] {
  const root = asObject(table);
  const entries = Object.entries(root).filter(([, entry]) => asObject(entry)["package"] !== undefined);
  const names = new Set(entries.map(([name]) => name));
  const general = names.has("sandbox") ? undefined : root["sandbox"];
  const network = names.has("network") ? undefined : root["network"];
  const all = saysSandbox(general) ? [] : unconfined({ network, sandbox: general });
  const own = entries.flatMap(([name, entry]) => {
    if (saysSandbox(general)) return [];
    return unconfined(asObject(entry))
      .slice(0, 1)
      .map((key) => noSandbox(key, [...path, name]));
  });
  return [...all.slice(0, 1).map((key) => noSandbox(key, path)), ...own];
}

function noSandbox(key: string, path: KeyPath): Problem {
  const hint = "Write sandbox: process, or kind: process in an object; sandbox: none starts it without one.";
  return problemAt(path, `has ${JSON.stringify(key)}, but nothing says which sandbox confines it`, {
    code: "config/missing-key",
    at: "key",
    hint,
  });
}

/** What is wrong with a package at a place. */
export function packageProblem(written: string, path: KeyPath): Problem[] {
  const parsed = parsePackageRef(written);
  if (parsed.ok) return [];
  return [problemAt(path, `: ${parsed.message}`, { code: "extension/invalid-package", hint: parsed.hint })];
}

/** The package without its version; of a path the absolute one. What is not a valid package is itself. */
export function packageName(written: string, resolvePath: (path: string) => string): string {
  const parsed = parsePackageRef(written);
  if (!parsed.ok) return written;
  const { ref } = parsed;
  return ref.kind === "path" && !isHome(ref.path) ? resolvePath(ref.path) : ref.name;
}
