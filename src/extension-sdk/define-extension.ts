import type { ExtensionManifest } from "../core/formats/extension/manifest.ts";
import type { JsonObject } from "../core/formats/json.ts";
import type { ExtensionDefinition } from "./operation.ts";
import { serve } from "./serve.ts";

/** An extension, not yet running. */
export interface Extension {
  /** What it says of itself. */
  readonly manifest: ExtensionManifest;
  /**
   * Is the program: speaks JSON-RPC on stdin and stdout; with `action NAME --input FILE` or `check NAME --input FILE` runs
   * one operation, and says only on stderr, with exit code 1, when nothing can be known of it; with `--config JSON` starts with that config and answers `execute` until stdin ends; with `--manifest`
   * prints `extension.yaml`. Ends the process. What is written to stdout meanwhile, as with `console.log`, goes to stderr;
   * a program that an operation starts must not inherit stdout.
   */
  serve(): Promise<void>;
}

/** Makes an extension. Throws an Error when it has no name, no version or no operation. */
export function defineExtension<C = JsonObject, R = undefined>(
  definition: ExtensionDefinition<C, R>,
): Extension {
  const { name, version, description, operations } = definition;
  for (const [key, value] of Object.entries({ name, version })) {
    if (value === "") throw new Error(`an extension needs a ${key}`);
  }
  const declared = Object.entries(operations).map(([id, { declaration }]) => [id, declaration] as const);
  if (declared.length === 0) throw new Error(`the extension ${name} has no operations`);
  const manifest: ExtensionManifest = {
    name,
    version,
    ...(description === undefined ? {} : { description }),
    protocol: "json-rpc",
    operations: Object.fromEntries(declared),
  };
  return { manifest, serve: () => serve(manifest, definition) };
}
