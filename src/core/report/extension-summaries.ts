import type { Eval, ExtensionSpec } from "../formats/model.ts";
import type { ExtensionSummary } from "./result.ts";

/** Which files of an extension are used, as far as that is known. */
export interface UsedFiles {
  readonly version?: string | undefined;
  readonly hash?: string | undefined;
}

/** The extensions of an eval's tasks, each once; `filesOf` tells which version of a package is used, and its hash. */
export function extensionSummaries(
  { tasks }: Pick<Eval, "tasks">,
  filesOf: (spec: ExtensionSpec) => UsedFiles,
): readonly ExtensionSummary[] {
  const all = tasks.flatMap(({ portable }) => Object.values(portable?.extensions ?? {}));
  const summaries = all.map((spec): ExtensionSummary => {
    const { version, hash } = filesOf(spec);
    return {
      name: spec.alias,
      package: spec.package,
      ...(version === undefined ? {} : { version }),
      ...(hash === undefined ? {} : { hash }),
      sandbox: spec.sandbox.kind,
    };
  });
  return [...new Map(summaries.map((summary) => [JSON.stringify(summary), summary])).values()];
}
