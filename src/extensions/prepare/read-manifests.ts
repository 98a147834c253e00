import { McpvalsError } from "../../core/errors/error.ts";
import { listNames } from "../../core/formats/did-you-mean.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import type { ExtensionSpec } from "../../core/formats/model.ts";
import { askManifest } from "../host/ask-manifest.ts";
import { settingsExpander } from "./settings-expander.ts";
import type { PreparedExtension } from "../prepared-extensions.ts";

export interface ManifestQuestions {
  readonly ready: (spec: ExtensionSpec) => PreparedExtension | undefined;
  /** The same for all specs that name the same files. */
  readonly key: (spec: ExtensionSpec) => string;
  /** The environment of mcpvals itself. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables that were given for the run. */
  readonly given?: Readonly<Record<string, string>> | undefined;
  /** Execute nothing. */
  readonly lookOnly: boolean;
  readonly signal: AbortSignal;
}

export interface Manifests {
  readonly byPackage: ReadonlyMap<string, ExtensionManifest>;
  /** Which steps are not checked, and why. */
  readonly notes: readonly string[];
}

/**
 * Finds what extensions say of themselves: from their `extension.yaml`, else by asking them, in their sandbox. One that
 * cannot be asked now is left to the trial. Throws McpvalsError of kind `usage`, and the signal's reason.
 */
export async function readManifests(
  specs: readonly ExtensionSpec[],
  questions: ManifestQuestions,
): Promise<Manifests> {
  const byPackage = new Map<string, ExtensionManifest>();
  const notes: string[] = [];
  const groups = Map.groupBy(specs, questions.key);
  await Promise.all(
    [...groups].map(async ([key, same]) => {
      const extension = askable(same, questions);
      if (extension === undefined) return;
      const found = await manifestOf(extension, questions);
      if (typeof found === "string") notes.push(`not checked: steps of ${named(same)}: ${found}`);
      else byPackage.set(key, found);
    }),
  );
  return { byPackage, notes: notes.toSorted() };
}

/** Of those that use the same files, one whose settings are known, if there is one. */
function askable(
  specs: readonly ExtensionSpec[],
  { ready, env }: ManifestQuestions,
): PreparedExtension | undefined {
  const spec = specs.find((each) => settingsExpander(each, env) !== undefined) ?? specs[0];
  return spec === undefined ? undefined : ready(spec);
}

function named(specs: readonly ExtensionSpec[]): string {
  const names = [...new Set(specs.map(({ alias }) => alias))];
  return `the extension${names.length === 1 ? "" : "s"} ${listNames(names)}`;
}

/** A text says why there is none. */
async function manifestOf(
  extension: PreparedExtension,
  { env, given = {}, lookOnly, signal }: ManifestQuestions,
): Promise<ExtensionManifest | string> {
  if (extension.resolved.manifest !== undefined) return extension.resolved.manifest;
  if (lookOnly) return "it has no extension.yaml, so that it would have to be started";
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
