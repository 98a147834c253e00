import { formatKeyPath, type KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { ParsedGrader } from "./waza-schema.ts";

interface NameContext {
  /** Names that are given already. */
  readonly taken: ReadonlySet<string>;
  readonly reader: LenientReader;
}

/** All names that are given then. A name that comes twice is refused: there, the later grader would replace the earlier. */
export function graderNames(
  graders: readonly ParsedGrader[],
  path: KeyPath,
  { taken, reader }: NameContext,
): ReadonlySet<string> {
  const names = new Set(taken);
  for (const [index, { name }] of graders.entries()) {
    if (name === undefined) continue;
    const at = [...path, index, "name"];
    if (names.has(name))
      reader.problem({
        code: "config/duplicate-name",
        message: `${formatKeyPath(at)}: another grader has this name`,
        path: at,
        at: "value",
        hint: "Rename one of them; those of the eval grade every task.",
      });
    names.add(name);
  }
  return names;
}
