import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { dirname, isAbsolute, posix, resolve } from "node:path";
import { McpvalsError } from "../core/errors/error.ts";
import { parsePackageRef } from "../core/formats/extension/package-ref.ts";
import type { Task } from "../core/formats/model.ts";
import { walkSteps } from "../core/formats/step.ts";
import { type Artifact, exportTask, type TaskExport } from "../core/formats/task/task-export.ts";
import type { TaskFiles } from "../core/formats/task/parse-task.ts";
import { parseTemplate, taskRoots } from "../core/templates/template.ts";
import { readRegularFile } from "../files/read-file.ts";
import { shownFrom } from "./environment.ts";
import { rootMembers } from "./read/document.ts";
import { readDataText } from "./read/read-document.ts";
import { parseTaskText, type TaskOptions } from "./tasks.ts";

/** Makes one document of the task in a file, with the files that it names. Throws McpvalsError of kind `usage`. */
export async function exportFile(
  file: string,
  options: TaskOptions,
): Promise<{ readonly document: TaskExport; readonly notes: readonly string[] }> {
  const path = resolve(options.cwd, file);
  const dir = dirname(path);
  const source = readDataText(path, shownFrom(options.cwd, path));
  const { task, servers, document, files, notes } = await parseTaskText(source, path, options);
  const collected = collectArtifacts({ task, document, dir, files });
  return {
    document: exportTask(task, { servers, artifacts: collected.artifacts }),
    notes: [...notes, ...collected.notes],
  };
}

export interface ArtifactSources {
  readonly task: Task;
  /** Of the task's file. */
  readonly document: unknown;
  /** Absolute path of the task's folder. */
  readonly dir: string;
  readonly files: TaskFiles;
}

export interface CollectedArtifacts {
  readonly artifacts: readonly Artifact[];
  /** What could not be collected: one sentence each. */
  readonly notes: readonly string[];
}

type Role = Artifact["role"];

/** Largest that all files may be together, in bytes. */
const largest = 64 * 1024 * 1024;

/**
 * Reads every file that a task names: its fixtures, the scripts of its steps, its prompt, extensions in its folder. Throws McpvalsError `task/outside`
 * for one outside of its folder and `config/unreadable` for one that cannot be read.
 */
function collectArtifacts(sources: ArtifactSources): CollectedArtifacts {
  const { task } = sources;
  const scripts = scriptFiles(task);
  const roles = new Map<string, Role>();
  const add = (paths: Iterable<string>, role: Role): void => {
    for (const path of paths) if (!roles.has(path)) roles.set(path, role);
  };
  add(promptFiles(sources.document), "prompt");
  add(scripts.paths, "script");
  for (const fixture of task.portable?.fixtures ?? []) add(filesUnder(normal(fixture), sources), "fixture");
  for (const path of extensionPaths(task)) add(filesUnder(path, sources), "extension");
  let total = 0;
  const artifacts = [...roles].map(([path, role]) => {
    const artifact = read(path, role, sources);
    total += artifact.bytes;
    if (total > largest) throw tooLarge(task.name);
    return artifact;
  });
  const notes = scripts.unknown.map((file) => `the script ${file} is named by a template, and not collected`);
  return { artifacts, notes };
}

function tooLarge(name: string): McpvalsError {
  const message = `the files of ${name} are more than ${largest / 1024 / 1024} MiB together, too much for one document`;
  return new McpvalsError("config/unreadable", message);
}

function promptFiles(document: unknown): string[] {
  const root = rootMembers(document);
  return [root.get("spec"), root.get("steps")]
    .map((part) => rootMembers(part).get("prompt"))
    .flatMap((prompt): unknown[] => (Array.isArray(prompt) ? prompt : [prompt]))
    .flatMap((prompt) => {
      const parts = rootMembers(prompt);
      const file = parts.get("file");
      // Where both are given, the older forms read the text.
      return typeof file === "string" && !parts.get("inline") ? [normal(file)] : [];
    });
}

function scriptFiles({ verify, portable }: Task): { readonly paths: string[]; readonly unknown: string[] } {
  const { setup = [], cleanup = [] } = portable ?? {};
  const named = [...walkSteps([...setup, ...verify, ...cleanup])].flatMap((step) =>
    step.type === "script" && "file" in step.source ? [step.source.file] : [],
  );
  const literal = named.map((file) => ({ file, path: literalOf(file) }));
  return {
    paths: literal.flatMap(({ path }) => (path === undefined ? [] : [normal(path)])),
    unknown: literal.flatMap(({ file, path }) => (path === undefined ? [file] : [])),
  };
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

/** The text that a template without expressions gives. */
function literalOf(template: string): string | undefined {
  const parts = parseTemplate(template, (root) => taskRoots.some((each) => each === root));
  const texts = parts.filter((part) => typeof part === "string");
  return texts.length === parts.length ? texts.join("") : undefined;
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
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new McpvalsError("config/unreadable", `${path} cannot be read: ${reason}`, { cause });
  }
}
