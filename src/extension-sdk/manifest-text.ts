import { stringify } from "yaml";
import type { ExtensionManifest } from "../core/formats/extension/manifest.ts";

/** `extension.yaml` of an extension. `program` is the path of its program in the folder, where it is not its name. */
export function manifestText(manifest: ExtensionManifest, program?: string): string {
  const { operations, ...head } = manifest;
  const written = { ...head, ...(program === undefined ? {} : { program }), operations };
  return stringify(written, { aliasDuplicateObjects: false, lineWidth: 110 });
}
