import type { ExtensionSpec } from "../../core/formats/model.ts";
import { baseEnvironment, inheritedEnvironment, mergeEnvironments } from "../../process/environment.ts";

type Variables = Readonly<Record<string, string>>;

/**
 * The complete environment of an extension's process. As with the processes of steps, it is what a program needs to work at
 * all, what the eval passes on of `env`, the environment of mcpvals itself, and what was given for the run; in a
 * sandbox only the first. What the spec names comes on top. `text` replaces templates.
 */
export function extensionEnvironment(
  { env: named, inheritEnv = [], sandbox }: ExtensionSpec,
  { env, given = {} }: { readonly env: Variables; readonly given?: Variables },
  text: (template: string, name: string) => string,
): Variables {
  const own = Object.entries(named).map(([name, value]) => [name, text(value, name)] as const);
  const inherited =
    sandbox.kind === "none" ? [inheritedEnvironment(env, inheritEnv), given] : [baseEnvironment(env)];
  return mergeEnvironments([...inherited, Object.fromEntries(own)]);
}
