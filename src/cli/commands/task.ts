import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { dirname, isAbsolute, posix, resolve } from "node:path";
import { type Command, Option } from "commander";
import { visibleJson, visibleText } from "../../base/visible-text.ts";
import type { SetExitCode } from "../flags.ts";
import { fileOutput, workingFolder, writeError, writeJson } from "../terminal.ts";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { parsePackageRef } from "../../model/package-ref.ts";
import type { Task } from "../../model/task.ts";
import { walkSteps } from "../../model/step.ts";
import { type Artifact, exportTask, type TaskExport } from "../../formats/task/task-export.ts";
import type { TaskFiles } from "../../formats/task/parse-task.ts";
import { plainText } from "../../templates/template.ts";
import { readRegularFile } from "../../base/files.ts";
import { displayPath } from "../../formats/environment.ts";
import { readDataText } from "../../formats/read/read-files.ts";
import { parseTaskText, type TaskAlone, type TaskOptions } from "../../formats/tasks.ts";
import { asObject } from "../../base/json.ts";

/** `mcpvals task`: commands for a single task. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .command("export")
    .description("print a task as one document: prompt, steps, files and their hashes")
    .argument("<file>", "a file of kind Task")
    .addOption(
      new Option("-f, --format <format>", "format of the document").choices(["json"]).default("json"),
    )
    .option("-o, --out <file>", "write it to this file instead of stdout")
    .option("--allow-outside", "allow paths outside the task's folder")
    .action(async (file: string, flags: TaskExportFlags) => setExitCode(await printExport(file, flags)));
}

interface TaskExportFlags {
  readonly format: "json";
  readonly out?: string;
  readonly allowOutside?: boolean;
}

/** Returns the exit code. Throws McpvalsError of kind `usage`. */
async function printExport(file: string, { allowOutside = false, out }: TaskExportFlags): Promise<number> {
  const { document, notes } = await exportFile(file, { cwd: workingFolder(), allowOutside });
  for (const note of notes) writeError(visibleText(`note: ${note}`));
  if (out === undefined) writeJson(document, 2);
  else {
    const output = fileOutput(out);
    output.write(`${visibleJson(JSON.stringify(document, undefined, 2))}\n`);
    output.close();
  }
  return 0;
}

/** Makes one document of the task in a file, with the files that it names. Throws McpvalsError of kind `usage`. */
export async function exportFile(
  file: string,
  options: TaskOptions,
): Promise<{ readonly document: TaskExport; readonly notes: readonly string[] }> {
  const path = resolve(options.cwd, file);
  const dir = dirname(path);
  const source = readDataText(path, displayPath(options.cwd, path));
  const { task, servers, document, files, notes } = await parseTaskText(source, path, options);
  const scripts = scriptFiles(task);
  const artifacts = collectArtifacts({ task, document, dir, files }, scripts.literal);
  const unknown = scripts.unknown.map(
    (name) => `the script ${name} is named by a template, and not collected`,
  );
  return { document: exportTask(task, servers, artifacts), notes: [...notes, ...unknown] };
}

interface ArtifactSources extends Pick<TaskAlone, "task" | "document" | "files"> {
  /** Absolute path of the task's folder. */
  readonly dir: string;
}

type Role = Artifact["role"];

/** Largest that all files may be together, in bytes. */
const largest = 64 * 1024 * 1024;

/**
 * Reads every file that a task names: its fixtures, the scripts of its steps, its prompt, extensions in its folder. Throws McpvalsError `task/outside`
 * for one outside of its folder and `config/unreadable` for one that cannot be read.
 */
function collectArtifacts(sources: ArtifactSources, scripts: readonly string[]): readonly Artifact[] {
  const { task, document } = sources;
  const fixtures = (task.portable?.fixtures ?? []).map(normal);
  const named: [path: string, role: Role][] = [
    ...promptFiles(document).map((path): [string, Role] => [path, "prompt"]),
    ...scripts.map((path): [string, Role] => [path, "script"]),
    ...fixtures.flatMap((path) => filesUnder(path, sources)).map((path): [string, Role] => [path, "fixture"]),
    ...extensionPaths(task)
      .flatMap((path) => filesUnder(path, sources))
      .map((path): [string, Role] => [path, "extension"]),
  ];
  // The first role of a file counts.
  const roles = new Map(named.toReversed());
  let total = 0;
  return [...new Set(named.map(([path]) => path))].map((path) => {
    const artifact = read(path, roles.get(path) ?? "fixture", sources);
    total += artifact.bytes;
    if (total > largest) {
      const most = `${largest / 1024 / 1024} MiB together, too much for one document`;
      throw new McpvalsError("config/unreadable", `the files of ${task.name} are more than ${most}`);
    }
    return artifact;
  });
}

function promptFiles(document: unknown): string[] {
  const { spec, steps } = asObject(document);
  return [spec, steps]
    .map((part) => asObject(part)["prompt"])
    .flatMap((prompt): unknown[] => (Array.isArray(prompt) ? prompt : [prompt]))
    .flatMap((prompt) => {
      const { file, inline } = asObject(prompt);
      // Where both are given, the older forms read the text.
      return typeof file === "string" && !inline ? [normal(file)] : [];
    });
}

/** The paths of scripts, and the names that only a trial can turn into paths. */
function scriptFiles({ verify, portable }: Task): { readonly literal: string[]; readonly unknown: string[] } {
  const { setup = [], cleanup = [] } = portable ?? {};
  const named = [...walkSteps([...setup, ...verify, ...cleanup])].flatMap((step) =>
    step.type === "script" && "file" in step.source ? [step.source.file] : [],
  );
  const literal: string[] = [];
  const unknown: string[] = [];
  for (const file of named) {
    const text = plainText(file);
    if (text === undefined) unknown.push(file);
    else literal.push(normal(text));
  }
  return { literal, unknown };
}

/** Extensions that are files or folders beside the task. */
function extensionPaths({ portable }: Task): string[] {
  return Object.values(portable?.extensions ?? {}).flatMap((spec) => {
    const parsed = parsePackageRef(spec.package);
    if (!parsed.ok || parsed.ref.kind !== "path") return [];
    const { path } = parsed.ref;
    return path.startsWith("~") || isAbsolute(path) ? [] : [normal(path)];
  });
}

function normal(path: string): string {
  return posix.normalize(path.replaceAll("\\", "/"));
}

function filesUnder(path: string, sources: ArtifactSources): string[] {
  if (lookAt(path, sources) !== "folder") return [path];
  return readdirSync(resolve(sources.dir, path))
    .toSorted()
    .flatMap((name) => filesUnder(posix.join(path, name), sources));
}

function lookAt(path: string, { files }: ArtifactSources): ReturnType<TaskFiles["look"]> {
  const found = files.look(path);
  if (found !== "outside") return found;
  throw new McpvalsError("task/outside", `${path} lies outside the task's folder`, {
    hint: "Keep a task's files beside it, or allow the path with --allow-outside.",
  });
}

function read(path: string, role: Role, sources: ArtifactSources): Artifact {
  lookAt(path, sources);
  const file = resolve(sources.dir, path);
  try {
    const content = readRegularFile(file, largest);
    const isText = isUtf8(content) && !content.includes(0);
    return {
      path,
      role,
      mode: (statSync(file).mode & 0o777).toString(8).padStart(4, "0"),
      bytes: content.length,
      sha256: createHash("sha256").update(content).digest("hex"),
      ...(isText ? { text: content.toString("utf8") } : { base64: content.toString("base64") }),
    };
  } catch (cause) {
    throw new McpvalsError("config/unreadable", `${path} cannot be read: ${messageOf(cause)}`, { cause });
  }
}
