import type { LoadedConfig } from "../load/assemble-eval.ts";
import type { ValidateSchema } from "../core/checks/schema-check.ts";
import type { PrepareOptions } from "../extensions/prepare/prepare-extensions.ts";
import type { PreparedExtensions } from "../extensions/host/extension-process.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";

/** The parts of a loaded config that concern extensions. */
export type ExtensionsInput = Pick<
  LoadedConfig,
  "eval" | "env" | "overrides" | "dir" | "secrets" | "extensionUses"
>;

/** How a run gets its extensions. */
export interface ExtensionsOptions {
  /** Absolute path of the working folder. */
  readonly cwd: string;
  /** Whether extensions that the lock does not name are refused, and the lock is left as it is. */
  readonly frozen?: boolean;
  /** Base address of the API that lists releases; absent: what the eval, or the environment, says. */
  readonly releasesUrl?: string;
  /** Called before the first trial with notes about the extensions. */
  readonly onNote?: (note: string) => void;
  /** Called before the first trial when something slow begins. */
  readonly onProgress?: (message: string) => void;
}

interface Ports {
  readonly validateSchema: ValidateSchema;
  readonly signal: AbortSignal;
}

/** Prepares the extensions of an eval's tasks. Throws as `prepareExtensions` does. */
export async function extensionsOf(
  loaded: ExtensionsInput,
  { cwd, frozen = false, releasesUrl, onNote, onProgress }: ExtensionsOptions,
  ports: Ports,
): Promise<PreparedExtensions> {
  if (!usesExtensions(loaded)) return noExtensions;
  const { prepareExtensions } = await loadPreparing();
  const prepared = await prepareExtensions({
    ...(await partsOf(loaded, releasesUrl)),
    ...ports,
    cwd,
    frozen,
    ...(onProgress === undefined ? {} : { onProgress }),
  });
  for (const note of prepared.notes) onNote?.(note);
  return prepared;
}

/**
 * Checks the steps that use extensions, as far as that is possible without executing, fetching or writing anything.
 * Returns notes. Throws one McpvalsError of kind `usage` with everything that is wrong.
 */
export async function checkExtensions(loaded: ExtensionsInput, cwd: string): Promise<readonly string[]> {
  await using validator = new SchemaValidator();
  const { prepareExtensions } = await loadPreparing();
  const { notes } = await prepareExtensions({
    ...(await partsOf(loaded)),
    validateSchema: (schema, value) => validator.validate(schema, value),
    signal: new AbortController().signal,
    cwd,
    lookOnly: true,
  });
  return notes;
}

/** Loaded only by runs whose tasks use extensions, since loading it is slow. */
function loadPreparing(): Promise<typeof import("../extensions/prepare/prepare-extensions.ts")> {
  return import("../extensions/prepare/prepare-extensions.ts");
}

function usesExtensions({ eval: { tasks } }: ExtensionsInput): boolean {
  return tasks.some(({ portable }) => Object.keys(portable?.extensions ?? {}).length > 0);
}

const noExtensions: PreparedExtensions = {
  notes: [],
  of(spec) {
    throw new Error(`an extension was not prepared: ${spec.package}`);
  },
};

async function partsOf(
  { eval: spec, env, overrides, dir, secrets, extensionUses }: ExtensionsInput,
  releasesUrl?: string,
): Promise<Pick<PrepareOptions, "tasks" | "uses" | "dir" | "secrets" | "places" | "given">> {
  const { extensionPlaces } = await import("../extensions/resolve/resolver.ts");
  const { tasks, extensionSettings: settings } = spec;
  const places = extensionPlaces({ options: { releasesUrl }, settings, env });
  return { tasks, uses: extensionUses, dir, secrets, places, given: overrides };
}
