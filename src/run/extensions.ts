import type { LoadedConfig } from "../load/assemble-eval.ts";
import { withoutUndefined } from "../core/formats/json.ts";
import type { ValidateSchema } from "../core/checks/tool-result.ts";
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
  /** Base URL of the API that lists releases; default: from the eval or the environment. */
  readonly releasesUrl?: string;
  /** Called before the first trial with notes about the extensions. */
  readonly onNote?: (note: string) => void;
  /** Called before the first trial when something slow begins. */
  readonly onProgress?: (message: string) => void;
}

/** Prepares the extensions of an eval's tasks. Throws as `prepareExtensions` does. */
export async function extensionsOf(
  loaded: ExtensionsInput,
  { cwd, frozen = false, releasesUrl, onNote, onProgress }: ExtensionsOptions,
  parts: Pick<PrepareOptions, "validateSchema" | "signal">,
): Promise<PreparedExtensions> {
  const prepared = await prepare(
    loaded,
    { ...parts, cwd, frozen, ...withoutUndefined({ onProgress }) },
    releasesUrl,
  );
  for (const note of prepared.notes) onNote?.(note);
  return prepared;
}

/**
 * Checks the steps that use extensions, as far as that is possible without executing, fetching or writing anything.
 * Returns notes. Throws one McpvalsError of kind `usage` with everything that is wrong.
 */
export async function checkExtensions(loaded: ExtensionsInput, cwd: string): Promise<readonly string[]> {
  await using validator = new SchemaValidator();
  const validateSchema: ValidateSchema = (schema, value) => validator.validate(schema, value);
  const { signal } = new AbortController();
  return (await prepare(loaded, { validateSchema, signal, cwd, lookOnly: true })).notes;
}

/** Loads the code only for runs whose tasks use extensions, since that is slow. */
async function prepare(
  {
    eval: { tasks, extensionSettings: settings },
    env,
    overrides,
    dir,
    secrets,
    extensionUses,
  }: ExtensionsInput,
  options: Omit<PrepareOptions, "tasks" | "uses" | "dir" | "secrets" | "places" | "given">,
  releasesUrl?: string,
): Promise<PreparedExtensions> {
  const { prepareExtensions } = await import("../extensions/prepare/prepare-extensions.ts");
  const { extensionPlaces } = await import("../extensions/resolve/resolver.ts");
  const places = extensionPlaces({ options: { releasesUrl }, settings, env });
  return prepareExtensions({
    ...options,
    tasks,
    uses: extensionUses,
    dir,
    secrets,
    places,
    given: overrides,
  });
}
