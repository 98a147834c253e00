import type { ExtensionSpec } from "../../core/formats/model.ts";
import { baseEnvironment, mergeEnvironments } from "../../process/environment.ts";

/**
 * The complete environment of an extension's process: what the spec names over all that mcpvals itself has; in a sandbox,
 * over what a program needs to work at all. `text` replaces templates.
 */
export function extensionEnvironment(
  { env, sandbox }: ExtensionSpec,
  own: Readonly<Record<string, string>>,
  text: (template: string) => string,
): Readonly<Record<string, string>> {
  const named = Object.entries(env).map(([name, value]) => [name, text(value)] as const);
  return mergeEnvironments([sandbox.kind === "none" ? own : baseEnvironment(own), Object.fromEntries(named)]);
}
