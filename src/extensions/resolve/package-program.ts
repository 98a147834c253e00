import { basename, join, posix } from "node:path";
import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import { readTextIfThere } from "./file-errors.ts";

const schema = z.object({
  name: z.string().optional(),
  bin: z.union([z.string(), z.record(z.string(), z.string())]).optional(),
});

/**
 * The program that the `package.json` of a folder names with `bin`, as a path in it: the only one, or the one that is
 * named as the package. Undefined without such a file or `bin`. Throws McpvalsError `extension/not-found` when it does not
 * say which.
 */
export function packageProgram(folder: string, shown: string): string | undefined {
  const found = packageOf(folder, shown);
  if (found === undefined) return undefined;
  const { name, bin } = found;
  const programs = typeof bin === "string" ? { "": bin } : (bin ?? {});
  const own = (name ?? basename(folder)).replace(/^@[^/]*\//, "");
  const paths = Object.values(programs);
  const path = paths.length === 1 ? paths[0] : Object.hasOwn(programs, own) ? programs[own] : undefined;
  if (path !== undefined) return insideOnly(path, shown);
  if (paths.length === 0) return undefined;
  throw new McpvalsError(
    "extension/not-found",
    `${shown} has several programs, ${Object.keys(programs).join(", ")}, and none is named as the package, ${own}.`,
    { hint: "Name the program itself, by its path." },
  );
}

function packageOf(folder: string, shown: string): z.output<typeof schema> | undefined {
  try {
    const text = readTextIfThere(join(folder, "package.json"));
    return text === undefined ? undefined : schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new McpvalsError("extension/not-found", `the package.json of ${shown} cannot be understood.`, {
      cause,
    });
  }
}

function insideOnly(path: string, shown: string): string {
  const inside = posix.normalize(path.replaceAll("\\", "/"));
  if (!posix.isAbsolute(inside) && !inside.split("/").includes("..") && !inside.includes(":")) return inside;
  throw new McpvalsError(
    "extension/unsafe-archive",
    `bin in the package.json of ${shown} leads out of the package: ${path}`,
  );
}
