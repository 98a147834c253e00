import { homedir } from "node:os";
import { resolve } from "node:path";
import {
  type EvalExtensions,
  type ExtensionPlaces,
  packageName,
  type ParsedExtensionTable,
  readExtensionTable,
} from "../core/formats/extension/extension-table-schema.ts";
import { asText } from "../core/formats/json.ts";
import type { ExtensionSpec, Task } from "../core/formats/model.ts";
import type { ExtensionUse } from "../core/formats/task/task-options.ts";
import type { Secret } from "../core/trace/redact.ts";
import type { EnvironmentVariables } from "./environment.ts";
import { maskSecrets } from "./secrets/secret-names.ts";

export interface PlacingOptions extends Omit<ExtensionPlaces, "resolvePath"> {
  /** The environment of this process. */
  readonly environment: EnvironmentVariables;
}

/** What an eval's table of extensions gives to its tasks, with absolute paths. */
export function placeExtensions(
  table: ParsedExtensionTable | undefined,
  { environment, ...places }: PlacingOptions,
): EvalExtensions {
  const read = readExtensionTable(table, {
    ...places,
    resolvePath: (path) => resolve(places.dir, path),
  });
  const { cacheDir, ...settings } = read.settings;
  if (cacheDir === undefined) return read;
  return { ...read, settings: { ...settings, cacheDir: withHome(cacheDir, environment) } };
}

function withHome(path: string, environment: EnvironmentVariables): string {
  if (!/^~(?:[/\\]|$)/.test(path)) return path;
  const home = environment["HOME"] || environment["USERPROFILE"] || homedir();
  return resolve(home, `.${path.slice(1)}`);
}

/** Extensions of an eval that no step of its tasks uses: what such an entry says, a sandbox included, confines nothing. */
export function unusedExtensionNotes({ declared }: EvalExtensions, tasks: readonly Task[]): string[] {
  const specs = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const used = new Set(
    specs.flatMap((spec) => [spec.alias, packageName(spec.package, (path) => resolve(spec.dir, path))]),
  );
  return Object.entries(declared)
    .filter(([name, entry]) => !used.has(name) && !used.has(entry.name))
    .map(
      ([name]) =>
        `no step uses the extension ${JSON.stringify(name)}, so that what is said of it has no effect`,
    );
}

/** What extensions are started with. */
export type ExtensionStart = Pick<ExtensionSpec, "config" | "env">;

/** Texts that an extension is started with and that may be secret, by their names; a name may come more than once. */
export function extensionVariables({ config, env }: ExtensionStart): readonly EnvironmentVariables[] {
  return [env, ...textsIn("config", config)];
}

function textsIn(name: string, value: unknown): EnvironmentVariables[] {
  const text = asText(value);
  if (text !== undefined) return [{ [name]: text }];
  if (typeof value !== "object" || value === null) return [];
  // The items of a list go by the name of the list.
  return Object.entries(value).flatMap(([key, member]) => textsIn(Array.isArray(value) ? name : key, member));
}

/** Steps that need extensions, by task; tasks without any are left out. */
export type ExtensionUses = ReadonlyMap<string, readonly ExtensionUse[]>;

/** The uses without anything secret in the lines around their places. */
export function maskedUses(uses: ExtensionUses, secrets: readonly Secret[]): ExtensionUses {
  const values = secrets.map(({ value }) => value);
  const masked = ({ frame, ...rest }: ExtensionUse): ExtensionUse =>
    frame === undefined ? rest : { ...rest, frame: maskSecrets(frame, values) };
  return new Map([...uses].map(([task, each]) => [task, each.map(masked)]));
}
