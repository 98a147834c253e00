import type { Diagnostic } from "../../core/errors/error.ts";
import type { ExtensionSpec } from "../../core/formats/model.ts";
import { findProgram } from "../../process/find-program.ts";
import { extensionEnvironment } from "../host/extension-environment.ts";
import type { PreparedExtension } from "../prepared-extensions.ts";
import type { ManifestQuestions } from "./read-manifests.ts";
import { settingsExpander } from "./settings-expander.ts";

/**
 * The programs that extensions say they need (`requires` of their `extension.yaml`) and would not find. What is in the image of a
 * container nobody knows from here.
 */
export async function missingCommands(
  specs: readonly ExtensionSpec[],
  questions: Pick<ManifestQuestions, "ready" | "env" | "given">,
): Promise<readonly Diagnostic[]> {
  const found = await Promise.all(
    specs.map(async (spec) => {
      const extension = spec.sandbox.kind === "docker" ? undefined : questions.ready(spec);
      return extension === undefined ? [] : missingOf(extension, questions);
    }),
  );
  // An extension of the eval is there once for each task.
  return [...new Map(found.flat().map((problem) => [JSON.stringify(problem), problem])).values()];
}

async function missingOf(
  { spec, resolved }: PreparedExtension,
  { env, given = {} }: Pick<ManifestQuestions, "env" | "given">,
): Promise<readonly Diagnostic[]> {
  const expander = settingsExpander(spec, env);
  const own = extensionEnvironment(spec, { env, given }, (text) => expander?.text(text) ?? text);
  const problems: Diagnostic[] = [];
  for (const { command } of resolved.manifest?.requires ?? []) {
    if ((await findProgram(command, { env: own, cwd: resolved.folder })) !== undefined) continue;
    problems.push({
      code: "extension/missing-command",
      message: `the extension ${spec.alias} (${spec.package}) needs the program ${JSON.stringify(command)}, which is not on its PATH`,
      hint: "Install it, or name its folder in PATH, also in env of the extension.",
      ...(spec.location === undefined ? {} : { location: spec.location }),
    });
  }
  return problems;
}
