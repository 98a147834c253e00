import { homedir } from "node:os";
import { resolve } from "node:path";
import type { EvalExtensions } from "../../core/formats/extension/eval-extensions.ts";
import {
  type ExtensionPlaces,
  extensionTableSchema,
  type ParsedExtensionTable,
  readExtensionTable,
} from "../../core/formats/extension/extension-table-schema.ts";
import { asObject, asText } from "../../core/formats/lenient.ts";
import { validate } from "../../core/formats/validate.ts";
import type { EnvironmentVariables } from "../environment.ts";

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

/** The table of a config that may be wrong: then only what its extensions are called, and their packages. */
export function extensionTableIn(config: unknown): ParsedExtensionTable {
  const written = asObject(config)["extensions"] ?? {};
  const { data } = validate(extensionTableSchema, written);
  if (data !== undefined) return data;
  const named = Object.entries(asObject(written)).flatMap(([name, entry]) => {
    const from = asText(asObject(entry)["package"]);
    return from === undefined ? [] : [[name, { package: from }] as const];
  });
  return Object.fromEntries(named);
}

function withHome(path: string, environment: EnvironmentVariables): string {
  if (!/^~(?:[/\\]|$)/.test(path)) return path;
  const home = environment["HOME"] || environment["USERPROFILE"] || homedir();
  return resolve(home, `.${path.slice(1)}`);
}
