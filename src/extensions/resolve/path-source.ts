import { constants } from "node:fs";
import { access, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { isNodeProgram, manifestName, packageProgram, readManifest } from "./choose-program.ts";
import { hasCode } from "./errors.ts";
import type { ResolvedExtension } from "./extension-resolver.ts";
import { programHash } from "./tree-hash.ts";

type PathRef = Extract<PackageRef, { kind: "path" }>;

export interface PathPlace {
  /** The package as written. */
  readonly written: string;
  /** Absolute folder that a relative path starts from. */
  readonly dir: string;
  /** What `~` stands for. */
  readonly home: string;
}

/**
 * An extension on this machine: a program, or a folder with an `extension.yaml` or a `package.json` that names it. Nothing
 * of it is copied or locked. Throws McpvalsError `extension/not-found` and `extension/invalid-manifest`.
 */
export async function resolvePath(
  ref: PathRef,
  { written, dir, home }: PathPlace,
): Promise<ResolvedExtension> {
  const path = resolve(dir, withHome(ref.path, home));
  const found = await kindOf(path);
  if (found === undefined)
    throw notFound(`there is no extension ${path}`, `It is written as ${written}; check the path.`);
  const extension = found === "folder" ? await ofFolder(path) : await ofFile(path);
  await checkProgram(extension.program);
  const hash = await programHash(extension.program);
  return { package: written, ref, ...extension, ...(hash === undefined ? {} : { hash }) };
}

type Found = Pick<ResolvedExtension, "folder" | "program" | "manifest">;

async function ofFolder(folder: string): Promise<Found> {
  const manifest = await readManifest(folder, folder);
  const program = manifest?.program ?? packageProgram(folder, folder);
  if (program !== undefined) {
    return { folder, program: join(folder, program), ...(manifest === undefined ? {} : { manifest }) };
  }
  throw notFound(
    `the folder ${folder} names no program`,
    `Name it with program in its ${manifestName}, with bin in its package.json, or write the program's own path.`,
  );
}

/** A manifest beside the file is its own when it names the file, or no program at all. */
async function ofFile(program: string): Promise<Found> {
  const folder = dirname(program);
  const manifest = await readManifest(folder, folder);
  const isOwn = manifest?.program === undefined || join(folder, manifest.program) === program;
  return { folder, program, ...(manifest !== undefined && isOwn ? { manifest } : {}) };
}

async function checkProgram(program: string): Promise<void> {
  if ((await kindOf(program)) !== "file")
    throw notFound(
      `there is no file ${program}, which is named as the program`,
      `Name one that is there with program in its ${manifestName}, or with bin in its package.json.`,
    );
  if (isNodeProgram(program)) return;
  try {
    await access(program, constants.X_OK);
  } catch (error) {
    if (!hasCode(error, "EACCES", "EPERM")) throw error;
    const ending = extname(program);
    const hint = `Make it executable: chmod +x ${basename(program)}${ending === ".py" ? ", and begin it with #!/usr/bin/env python3" : ""}.`;
    throw notFound(`${program} is not executable`, hint);
  }
}

async function kindOf(path: string): Promise<"file" | "folder" | undefined> {
  try {
    const found = await stat(path);
    if (found.isFile()) return "file";
    return found.isDirectory() ? "folder" : undefined;
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) return undefined;
    throw error;
  }
}

function withHome(path: string, home: string): string {
  if (path === "~") return home;
  if (/^~[/\\]/.test(path)) return join(home, path.slice(2));
  // What is left of file:///C:/…
  return /^\/[A-Za-z]:[/\\]/.test(path) ? path.slice(1) : path;
}

function notFound(message: string, hint?: string): McpvalsError {
  return new McpvalsError("extension/not-found", message, hint === undefined ? {} : { hint });
}

type BundledRef = Extract<PackageRef, { kind: "bundled" }>;

/** Where the extensions are that come with mcpvals. */
export interface BundledPlace {
  /** One folder for each extension. */
  readonly extensions: string;
  /** What has all the files that they need; absent: each its own folder. */
  readonly files?: string;
}

/** In the built package they are beside us and complete; from source they share what this package has. */
function ownPlace(): BundledPlace {
  if (extname(import.meta.url) !== ".ts") return { extensions: join(import.meta.dirname, "extensions") };
  const files = resolve(import.meta.dirname, "..", "..", "..");
  return { extensions: join(files, "extensions"), files };
}

/** Programs that one is looked for under when its manifest names none. */
const usualPrograms = ["main.js", "main.ts", "main.py"];

/**
 * An extension that comes with mcpvals. Throws McpvalsError `extension/not-found` for one that there is not, and
 * `extension/invalid-manifest`.
 */
export async function resolveBundled(
  ref: BundledRef,
  written: string,
  place: BundledPlace = ownPlace(),
): Promise<ResolvedExtension> {
  const known = await extensionsIn(place.extensions);
  if (!known.includes(ref.extension)) throw unknown(ref.extension, known);
  const home = join(place.extensions, ref.extension);
  const manifest = await readManifest(home, ref.name);
  const programs = manifest?.program === undefined ? usualPrograms : [manifest.program, ...usualPrograms];
  for (const program of programs.map((each) => join(home, each))) {
    if (!(await isFile(program))) continue;
    const hash = await programHash(program);
    const own = manifest === undefined ? {} : { manifest, version: manifest.version };
    const sum = hash === undefined ? {} : { hash };
    return { package: written, ref, folder: place.files ?? home, program, ...own, ...sum };
  }
  throw new McpvalsError("extension/not-found", `${ref.name} has no program in ${home}.`, {
    hint: "This installation of mcpvals is not complete: install it again.",
  });
}

async function extensionsIn(folder: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory());
    return folders.map(({ name }) => name).sort();
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  }
}

async function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

function unknown(name: string, known: readonly string[]): McpvalsError {
  return new McpvalsError("extension/not-found", `mcpvals comes with no extension ${name}.`, {
    hint: suggestion(name, known, "extensions of mcpvals"),
  });
}
