import { resolve } from "node:path";
import { parsePackageRef } from "../../core/formats/extension/package-ref.ts";
import { asObject, asText } from "../../core/formats/lenient.ts";
import { memberOf } from "../../core/formats/member-of.ts";
import { McpvalsError } from "../../core/errors/error.ts";
import { documentKind, rootMembers } from "../read/document-kind.ts";
import { readData } from "../read/read-document.ts";
import { shownFrom } from "../surroundings.ts";

/**
 * Where the extensions of an Eval come from, by their names. Paths are left out: they start from the Eval's folder, and a
 * task may not leave its own. Throws McpvalsError of kind `usage` for a file that is no Eval.
 */
export async function evalPackages(file: string, cwd: string): Promise<ReadonlyMap<string, string>> {
  const path = resolve(cwd, file);
  const shown = shownFrom(cwd, path);
  const { value } = await readData(path, shown);
  if (documentKind(rootMembers(value)) !== "Eval") {
    throw new McpvalsError("config/invalid-value", `${shown} is no Eval: its kind is not Eval`, {
      location: { file: shown },
    });
  }
  const [, config] = memberOf(value, "config");
  const [, extensions] = memberOf(config, "extensions");
  const named = Object.entries(asObject(extensions)).flatMap(([name, entry]) => {
    const from = asText(memberOf(entry, "package")[1]);
    const parsed = from === undefined ? undefined : parsePackageRef(from);
    const isFetched = parsed?.ok === true && parsed.ref.kind !== "path";
    return from !== undefined && isFetched ? [[name, from] as const] : [];
  });
  return new Map(named);
}
