import type { ExtensionSpec } from "../../core/formats/model.ts";
import { asText } from "../../core/formats/lenient.ts";
import type { EnvironmentVariables } from "../environment.ts";

/** What extensions are started with. */
export type ExtensionStart = Pick<ExtensionSpec, "config" | "env">;

/** Texts that an extension is started with and that may be secret, by their names; a name may come more than once. */
export function extensionVariables({ config, env }: ExtensionStart): readonly EnvironmentVariables[] {
  return [env, ...textsIn("config", config)];
}

function textsIn(name: string, value: unknown): EnvironmentVariables[] {
  const text = asText(value);
  if (text !== undefined) return [{ [name]: text }];
  if (typeof value !== "object" || value === null) return [];
  // The items of a list go by the name of the list.
  return Object.entries(value).flatMap(([key, member]) => textsIn(Array.isArray(value) ? name : key, member));
}
