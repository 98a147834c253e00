import { existsSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { visibleText } from "../../base/visible-text.ts";
import { makeFolder } from "../../base/files.ts";
import { evalPackages, type MigratedFile, migrateFile, taskFiles } from "../../formats/migrate/migrate.ts";
import type { SetExitCode } from "../flags.ts";
import { workingFolder, writeError, writeFile } from "../terminal.ts";

/** `mcpvals migrate`: writes tasks of the older forms as mcp-eval/v1. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("<files...>", "files of kind Task, or of kind Eval: then the tasks that it names")
    .addOption(
      new Option("-w, --write", "replace each task's file instead of printing the task").conflicts("out"),
    )
    .option("--out <dir>", "write the tasks to this folder, with the names of their files")
    .option("-f, --force", "let --out overwrite existing files")
    .option("--eval <file>", "Eval that declares the packages of extensions")
    .option("--allow-outside", "allow paths outside the tasks' folders")
    .action(async (files: readonly string[], flags: MigrateFlags) =>
      setExitCode(await execute(files, flags)),
    );
}

interface MigrateFlags {
  readonly write?: boolean;
  readonly out?: string;
  readonly force?: boolean;
  readonly allowOutside?: boolean;
  readonly eval?: string;
}

/** Returns the exit code. Nothing is written unless every file can be migrated. Throws McpvalsError of kind `usage`. */
async function execute(files: readonly string[], flags: MigrateFlags): Promise<number> {
  const { out, force = false, allowOutside = false } = flags;
  const cwd = workingFolder();
  const migrated: MigratedFile[] = [];
  for (const file of files) {
    const tasks = await taskFiles(file, cwd);
    const evalFile = flags.eval ?? (tasks.includes(resolve(cwd, file)) ? undefined : file);
    const packages = evalFile === undefined ? {} : { packages: await evalPackages(evalFile, cwd) };
    for (const task of tasks) migrated.push(await migrateFile(task, { cwd, allowOutside, ...packages }));
  }
  for (const { shown, notes } of migrated)
    for (const note of notes) writeError(visibleText(`note: ${shown}: ${note}`));
  if (out !== undefined) writeInto(resolve(cwd, out), migrated, force);
  else if (flags.write === true)
    for (const each of migrated.filter(({ changed }) => changed)) write(each.path, each.text);
  else if (migrated.length === 1) writeFile(migrated.map(({ text }) => text).join(""));
  else {
    const documents = migrated.map(({ shown, text }) => `# ${visibleText(shown)}\n${text.trimEnd()}\n`);
    writeFile(documents.join("---\n"));
  }
  return 0;
}

function writeInto(folder: string, migrated: readonly MigratedFile[], mayReplace: boolean): void {
  const targets = new Map<string, MigratedFile>();
  for (const each of migrated) {
    const target = join(folder, basename(each.path));
    const earlier = targets.get(target);
    if (earlier !== undefined) {
      const message = `${earlier.shown} and ${each.shown} would both be ${target}`;
      const hint = "Migrate them one by one, each into a folder of its own, or with --write.";
      throw new McpvalsError("usage/invalid-option", message, { hint });
    }
    targets.set(target, each);
  }
  const present = [...targets.keys()].filter((target) => existsSync(target));
  if (!mayReplace && present.length > 0) {
    const what = present.length === 1 ? "is there already" : "are there already";
    throw new McpvalsError("usage/invalid-option", `${present.join(", ")} ${what}`, {
      hint: "Choose another folder, or replace them with --force.",
    });
  }
  writing(folder, () => makeFolder(folder));
  for (const [target, { text }] of targets) write(target, text);
  writeError("note: files that the tasks name, such as scripts, are not copied");
}

function write(path: string, text: string): void {
  writing(path, () => writeFileSync(path, text));
  writeError(`written: ${visibleText(path)}`);
}

/** Throws `store/unwritable` when something cannot be written at a path. */
function writing(path: string, work: () => void): void {
  try {
    work();
  } catch (cause) {
    throw new McpvalsError("store/unwritable", `${path} cannot be written: ${messageOf(cause)}`, {
      hint: "Choose a folder that can be written, with --out DIR.",
      cause,
    });
  }
}
