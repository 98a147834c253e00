import type { EvalExtensions } from "../../core/formats/extension/eval-extensions.ts";
import { packageName } from "../../core/formats/extension/extension-table-schema.ts";
import type { Task } from "../../core/formats/model.ts";
import { resolve } from "node:path";

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
