import type { Eval, ExtensionSpec } from "../formats/model.ts";
import type { ExtensionSummary } from "./result.ts";

/** The extensions of an eval's tasks, each once; `versionOf` tells which version of a package is used. */
export function extensionSummaries(
  { tasks }: Pick<Eval, "tasks">,
  versionOf: (spec: ExtensionSpec) => string | undefined,
): readonly ExtensionSummary[] {
  const all = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const summaries = all.map((spec): ExtensionSummary => {
    const version = versionOf(spec);
    return {
      name: spec.alias,
      package: spec.package,
      ...(version === undefined ? {} : { version }),
      sandbox: spec.sandbox.kind,
    };
  });
  return [...new Map(summaries.map((summary) => [JSON.stringify(summary), summary])).values()];
}
