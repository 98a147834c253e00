import { existsSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { Argument, Command, Option } from "commander";
import { McpvalsError } from "../../core/errors/error.ts";
import { visibleText } from "../../core/text/visible-text.ts";
import { makeFolder } from "../../files/make-folder.ts";
import { evalPackages, migrateFile, type MigratedFile } from "../../load/migrate/migrate.ts";
import type { SetExitCode } from "../flags.ts";
import { workingFolder, writeError, writeFile } from "../terminal.ts";

/** `mcpvals migrate`: writes tasks of the older forms as mcp-eval/v1. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .addArgument(new Argument("<files...>", "files of kind Task"))
    .addOption(
      new Option("-w, --write", "replace each task's file instead of printing the task").conflicts("out"),
    )
    .addOption(new Option("--out <dir>", "write the tasks to this folder, with the names of their files"))
    .addOption(new Option("-f, --force", "let --out overwrite existing files"))
    .addOption(new Option("--eval <file>", "Eval that declares the packages of extensions"))
    .addOption(new Option("--allow-outside", "allow paths outside the tasks' folders"))
    .action(async (files: readonly string[], flags: MigrateFlags) => {
      setExitCode(await execute(files, flags));
    });
}

/** The flags of `migrate` as commander gives them. */
interface MigrateFlags {
  readonly write?: boolean;
  readonly out?: string;
  readonly force?: boolean;
  readonly allowOutside?: boolean;
  readonly eval?: string;
}

/** Returns the exit code. Nothing is written unless every file can be migrated. Throws McpvalsError of kind `usage`. */
async function execute(files: readonly string[], flags: MigrateFlags): Promise<number> {
  const cwd = workingFolder();
  const migrated: MigratedFile[] = [];
  const packages = flags.eval === undefined ? {} : { packages: await evalPackages(flags.eval, cwd) };
  for (const file of files)
    migrated.push(await migrateFile(file, { cwd, allowOutside: flags.allowOutside ?? false, ...packages }));
  for (const { shown, notes } of migrated)
    for (const note of notes) writeError(visibleText(`note: ${shown}: ${note}`));
  if (flags.out !== undefined) writeInto(resolve(cwd, flags.out), migrated, flags.force ?? false);
  else if (flags.write === true) for (const each of migrated) if (each.changed) write(each.path, each.text);
  if (flags.out === undefined && flags.write !== true) print(migrated);
  return 0;
}

function print(migrated: readonly MigratedFile[]): void {
  const [only, ...others] = migrated;
  if (only !== undefined && others.length === 0) return writeFile(only.text);
  writeFile(migrated.map(({ shown, text }) => `# ${visibleText(shown)}\n${text.trimEnd()}\n`).join("---\n"));
}

function writeInto(folder: string, migrated: readonly MigratedFile[], mayReplace: boolean): void {
  const targets = new Map<string, MigratedFile>();
  for (const each of migrated) {
    const target = join(folder, basename(each.path));
    const earlier = targets.get(target);
    if (earlier !== undefined)
      throw new McpvalsError(
        "usage/invalid-option",
        `${earlier.shown} and ${each.shown} would both be ${target}`,
        { hint: "Migrate them one by one, each into a folder of its own, or with --write." },
      );
    targets.set(target, each);
  }
  const present = [...targets.keys()].filter((target) => existsSync(target));
  if (!mayReplace && present.length > 0) throw wouldReplace(present);
  try {
    makeFolder(folder);
  } catch (cause) {
    throw unwritable(folder, cause);
  }
  for (const [target, { text }] of targets) write(target, text);
  writeError("note: files that the tasks name, such as scripts, are not copied");
}

function wouldReplace(present: readonly string[]): McpvalsError {
  const what = present.length === 1 ? "is there already" : "are there already";
  return new McpvalsError("usage/invalid-option", `${present.join(", ")} ${what}`, {
    hint: "Choose another folder, or replace them with --force.",
  });
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (cause) {
    throw unwritable(path, cause);
  }
  writeError(`written: ${visibleText(path)}`);
}

function unwritable(path: string, cause: unknown): McpvalsError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new McpvalsError("store/unwritable", `${path} cannot be written: ${reason}`, {
    hint: "Choose a folder that can be written, with --out DIR.",
    cause,
  });
}
