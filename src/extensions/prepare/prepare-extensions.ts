import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { ExtensionSpec, Task } from "../../core/formats/model.ts";
import type { ExtensionUse } from "../../core/formats/task/extension-uses.ts";
import { createRedactor, type Secret } from "../../core/trace/redact.ts";
import type { PreparedExtension, PreparedExtensions } from "../prepared-extensions.ts";
import { sandboxOf } from "../../sandbox/sandboxes.ts";
import type { ValidateSchema } from "./check-arguments.ts";
import { checkSources } from "./check-sources.ts";
import { checkUses } from "./check-uses.ts";
import type { ExtensionPlaces } from "./extension-places.ts";
import { failWith } from "./fail-with.ts";
import { missingCommands } from "./missing-commands.ts";
import { openHomeNotes } from "./open-home-notes.ts";
import { readManifests } from "./read-manifests.ts";
import { packageKey, type ResolvedPackages, resolvePackages } from "./resolve-packages.ts";

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
