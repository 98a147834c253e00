import type { ExtensionUse } from "../../core/formats/task/extension-uses.ts";
import type { Secret } from "../../core/trace/redact.ts";
import { maskSecrets } from "../secrets/mask-secrets.ts";

/** Steps that need extensions, by task; tasks without any are left out. */
export type ExtensionUses = ReadonlyMap<string, readonly ExtensionUse[]>;

/** The uses without anything secret in the lines around their places. */
export function maskedUses(uses: ExtensionUses, secrets: readonly Secret[]): ExtensionUses {
  const values = secrets.map(({ value }) => value);
  const masked = ({ frame, ...rest }: ExtensionUse): ExtensionUse =>
    frame === undefined ? rest : { ...rest, frame: maskSecrets(frame, values) };
  return new Map([...uses].map(([task, each]) => [task, each.map(masked)]));
}
