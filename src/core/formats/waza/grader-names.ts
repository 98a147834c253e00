import { formatKeyPath, type KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { ParsedGrader } from "./waza-schema.ts";

interface NameContext {
  /** Names that are given already. */
  readonly taken: ReadonlySet<string>;
  readonly reader: LenientReader;
}

/**
 * The names of graders, which their grades are told under; one without a name has its type's. A name that comes twice is
 * refused: there, the later grader would replace the earlier.
 */
export function graderNames(
  graders: readonly ParsedGrader[],
  path: KeyPath,
  { taken, reader }: NameContext,
): readonly string[] {
  const names = new Set([...taken, ...graders.flatMap(({ name }) => name ?? [])]);
  const seen = new Set(taken);
  return graders.map(({ name, type }, index) => {
    if (name === undefined) return unusedName(type, names);
    const at = [...path, index, "name"];
    if (seen.has(name))
      reader.problem({
        code: "config/duplicate-name",
        message: `${formatKeyPath(at)}: another grader has this name`,
        path: at,
        at: "value",
        hint: "Rename one of them; those of the eval grade every task.",
      });
    seen.add(name);
    return name;
  });
}

function unusedName(type: string, names: Set<string>): string {
  let name = type;
  for (let number = 2; names.has(name); number++) name = `${type} ${number}`;
  names.add(name);
  return name;
}
