import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import { parseManifest } from "../../core/formats/extension/parse-manifest.ts";
import { hasCode } from "./file-errors.ts";

/** What an extension says of itself, beside its program. */
export const manifestName = "extension.yaml";

/**
 * Reads the `extension.yaml` of a folder; undefined when it has none. `shown` is what errors call the folder. Throws
 * McpvalsError `extension/invalid-manifest` with everything that is wrong with it.
 */
export async function readManifest(folder: string, shown: string): Promise<ExtensionManifest | undefined> {
  const path = join(folder, manifestName);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
  const parsed = parseManifest(await yamlOf(text, shown));
  if (parsed.ok) return parsed.manifest;
  const lines = parsed.problems.map(({ message }) => message);
  throw new McpvalsError("extension/invalid-manifest", `${manifestName} of ${shown}: ${lines.join("; ")}`, {
    hint: parsed.problems.find(({ hint }) => hint !== undefined)?.hint ?? `It is ${path}.`,
  });
}

async function yamlOf(text: string, shown: string): Promise<unknown> {
  const { parse } = await import("yaml");
  try {
    return parse(text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError(
      "extension/invalid-manifest",
      `${manifestName} of ${shown} is no YAML: ${reason}`,
      {
        cause,
      },
    );
  }
}
