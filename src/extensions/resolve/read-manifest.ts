import { join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import { parseManifest } from "../../core/formats/extension/parse-manifest.ts";
import { parseStrictYaml } from "../../core/formats/extension/parse-strict-yaml.ts";
import { readTextIfThere } from "./file-errors.ts";

/** What an extension says of itself, beside its program. */
export const manifestName = "extension.yaml";

/**
 * Reads the `extension.yaml` of a folder; undefined when it has none. `shown` is what errors call the folder. Throws
 * McpvalsError `extension/invalid-manifest` with everything that is wrong with it.
 */
export async function readManifest(folder: string, shown: string): Promise<ExtensionManifest | undefined> {
  const path = join(folder, manifestName);
  const text = textOf(path);
  if (text === undefined) return undefined;
  // Of a folder the path says it all.
  const named = shown === folder ? path : `${manifestName} of ${shown}`;
  const parsed = parseManifest(await yamlOf(text, named));
  if (parsed.ok) return parsed.manifest;
  const lines = parsed.problems.map(({ message }) => message);
  throw new McpvalsError("extension/invalid-manifest", `${named}: ${lines.join("; ")}`, {
    hint:
      parsed.problems.find(({ hint }) => hint !== undefined)?.hint ??
      (shown === folder ? "docs/extensions.md has the format." : `It is ${path}.`),
  });
}

function textOf(path: string): string | undefined {
  try {
    return readTextIfThere(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("extension/invalid-manifest", `${path} cannot be read: ${reason}`, { cause });
  }
}

async function yamlOf(text: string, named: string): Promise<unknown> {
  try {
    return await parseStrictYaml(text);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    // Then come the lines themselves.
    const [reason = message] = message.split(/:?\n/);
    throw new McpvalsError("extension/invalid-manifest", `${named} is no YAML: ${reason}`, { cause });
  }
}
