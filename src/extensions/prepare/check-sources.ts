import { type Diagnostic, McpvalsError } from "../../core/errors/error.ts";
import { parsePackageRef } from "../../core/formats/extension/parse-package-ref.ts";
import type { ExtensionSpec } from "../../core/formats/model.ts";
import { checkSource } from "../resolve/create-resolver.ts";

/** What is wrong with where extensions come from: packages that are not understood, and sources that are not allowed. */
export function checkSources(
  specs: readonly ExtensionSpec[],
  allowed: readonly string[] | undefined,
): readonly Diagnostic[] {
  return specs.flatMap((spec) => sourceProblem(spec, allowed));
}

function sourceProblem(
  { package: written, location }: ExtensionSpec,
  allowed: readonly string[] | undefined,
): Diagnostic[] {
  const place = location === undefined ? {} : { location };
  const parsed = parsePackageRef(written);
  if (!parsed.ok)
    return [{ code: "extension/invalid-package", message: parsed.message, hint: parsed.hint, ...place }];
  try {
    checkSource(parsed.ref, allowed);
    return [];
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details } = error;
    return [{ code, message, ...(details.hint === undefined ? {} : { hint: details.hint }), ...place }];
  }
}
