import { basename, dirname, extname, resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { parsePackageRef } from "../../core/formats/extension/package-ref.ts";
import { asObject, asText, memberOf } from "../../core/formats/json.ts";
import { shownFrom } from "../environment.ts";
import { documentKind, rootMembers } from "../read/document.ts";
import { endingOf, readData, readDataText } from "../read/read-document.ts";
import { SourceText } from "../problems.ts";
import { parseTaskText, type TaskOptions } from "../tasks.ts";
import { type MigratedTask, migrateTask } from "./migrate-task.ts";

export interface MigrateOptions extends TaskOptions {
  /** Where extensions come from, by their names in an Eval. Default: that is not known. */
  readonly packages?: ReadonlyMap<string, string>;
}

export interface MigratedFile extends MigratedTask {
  /** Absolute. */
  readonly path: string;
  /** The file as messages name it. */
  readonly shown: string;
}

/**
 * Writes the task of a file in the new form, and makes sure that what comes of it loads. Throws McpvalsError of kind `usage`
 * for a file that is no task, or a wrong one.
 */
export async function migrateFile(file: string, options: MigrateOptions): Promise<MigratedFile> {
  const path = resolve(options.cwd, file);
  const shown = shownFrom(options.cwd, path);
  const source = readDataText(path, shown);
  const { files } = await parseTaskText(source, path, options);
  const migrated = migrateTask({
    text: source.text,
    shown,
    name: nameOf(path),
    json: endingOf(path) === "json",
    read: (beside) => files.read(beside),
    ...(options.packages === undefined ? {} : { packages: options.packages }),
  });
  if (migrated.changed)
    await parseTaskText(new SourceText(`${shown} (migrated)`, migrated.text), path, options);
  return { ...migrated, path, shown };
}

/** A task kept as `FOLDER/task.yaml` is known by its folder. */
function nameOf(path: string): string {
  const stem = basename(path, extname(path));
  return stem === "task" ? basename(dirname(path)) : stem;
}

/**
 * Where the extensions of an Eval come from, by their names. Paths are left out: they start from the Eval's folder, and a
 * task may not leave its own. Throws McpvalsError of kind `usage` for a file that is no Eval.
 */
export async function evalPackages(file: string, cwd: string): Promise<ReadonlyMap<string, string>> {
  const path = resolve(cwd, file);
  const shown = shownFrom(cwd, path);
  const { value } = await readData(path, shown);
  if (documentKind(rootMembers(value)) !== "Eval") {
    throw new McpvalsError("config/invalid-value", `${shown} is not an Eval: its kind is not Eval`, {
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
