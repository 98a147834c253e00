import { constants } from "node:fs";
import { access, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, posix, resolve } from "node:path";
import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import { type ExtensionManifest, parseManifest } from "../../core/formats/extension/manifest.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import type { ReleasePlatform } from "../../process/environment.ts";
import { programHash } from "./cache.ts";
import { hasCode, parseYaml, readTextIfThere } from "./files.ts";
import type { ResolvedExtension } from "./extension-resolver.ts";

/** A file that could be the program. */
export interface Candidate {
  /** Relative, with slashes. */
  readonly path: string;
  readonly executable: boolean;
}

export interface ProgramWithManifest {
  /** Relative, with slashes. */
  readonly program: string;
  readonly manifest: ExtensionManifest | undefined;
}

export interface ProgramHints {
  readonly manifest: ExtensionManifest | undefined;
  /** Names that it may have, the best first, with or without an extension. */
  readonly names: readonly string[];
  /** What errors call the extension. */
  readonly shown: string;
}

/** Whether Node runs a program, which then needs no executable bit. */
function isNodeProgram(path: string): boolean {
  return /\.(?:js|mjs|cjs|ts|mts)$/i.test(path);
}

/** The only folder at the top, with a slash, or empty: most archives have all files in one. A manifest beside it does not count. */
export function topFolder(paths: readonly string[]): string {
  const tops = new Set(
    paths.filter((path) => path !== manifestName).map((path) => /^[^/]*\//.exec(path)?.[0] ?? ""),
  );
  const [only = ""] = tops;
  return tops.size === 1 ? only : "";
}

/**
 * The path of the program among an extension's files: that of the manifest; else the least deep file with one of the
 * names; else the only executable. Throws McpvalsError `extension/not-found`.
 */
export function chooseProgram(files: readonly Candidate[], hints: ProgramHints): string {
  const { manifest, shown } = hints;
  const top = topFolder(files.map(({ path }) => path));
  if (manifest?.program !== undefined) {
    const program = manifest.program.replaceAll("\\", "/").replace(/^(?:\.\/)+/, "");
    const places = [program, `${top}${program}`].flatMap((path) => [path, `${path}.exe`]);
    const found = places.find((place) => files.some(({ path }) => path === place));
    if (found !== undefined) return found;
    throw notFound(`${manifestName} of ${shown} names the program ${program}, which it does not have`, files);
  }
  const names = manifest === undefined ? hints.names : [...hints.names, manifest.name];
  const named = names.flatMap((name) => files.filter((file) => isNamed(file.path, name)).sort(byDepth));
  const executables = files.filter(({ path, executable }) => executable || /\.exe$/i.test(path));
  const program = named[0] ?? (executables.length === 1 ? executables[0] : undefined);
  if (program !== undefined) return program.path;
  throw notFound(`${shown} has no file that is clearly its program`, files);
}

function isNamed(path: string, name: string): boolean {
  const base = path.slice(path.lastIndexOf("/") + 1);
  return base === name || base.replace(/\.(?:exe|js|mjs|cjs|ts|mts)$/i, "") === name;
}

function byDepth(a: Candidate, b: Candidate): number {
  return a.path.split("/").length - b.path.split("/").length;
}

function notFound(message: string, files: readonly Candidate[]): McpvalsError {
  const names = files.slice(0, 20).map(({ path }) => path);
  const rest = files.length > names.length ? [`${files.length - names.length} more`] : [];
  return new McpvalsError("extension/not-found", `${message}. It has ${[...names, ...rest].join(", ")}.`, {
    hint: `Its author has to name the program in ${manifestName}, with program.`,
  });
}

/** Name of the manifest beside a program. */
export const manifestName = "extension.yaml";

/**
 * Reads the `extension.yaml` of a folder; undefined when it has none. `shown` is what errors call the folder. Throws
 * McpvalsError `extension/invalid-manifest` with all problems.
 */
export async function readManifest(folder: string, shown: string): Promise<ExtensionManifest | undefined> {
  const path = join(folder, manifestName);
  const code = "extension/invalid-manifest";
  const text = readTextIfThere(path, code);
  if (text === undefined) return undefined;
  const named = shown === folder ? path : `${manifestName} of ${shown}`;
  const parsed = parseManifest(await parseYaml(text, named, code));
  if (parsed.ok) return parsed.manifest;
  const messages = parsed.problems.map(({ message }) => message);
  throw new McpvalsError(code, `${named}: ${messages.join("; ")}`, {
    hint:
      parsed.problems.find(({ hint }) => hint !== undefined)?.hint ??
      (shown === folder ? "docs/extensions.md describes the format." : `It is ${path}.`),
  });
}

const schema = z.object({
  name: z.string().optional(),
  bin: z.union([z.string(), z.record(z.string(), z.string())]).optional(),
});

/**
 * The program of `bin` in the `package.json` of a folder, as a path in it: the only one, or the one with the name of the
 * package. Undefined without such a file or `bin`. Throws McpvalsError `extension/not-found` when it is ambiguous.
 */
export function packageProgram(folder: string, shown: string): string | undefined {
  const found = packageOf(folder, shown);
  if (found === undefined) return undefined;
  const { name, bin } = found;
  const programs = typeof bin === "string" ? { "": bin } : (bin ?? {});
  const own = (name ?? basename(folder)).replace(/^@[^/]*\//, "");
  const paths = Object.values(programs);
  const path = paths.length === 1 ? paths[0] : Object.hasOwn(programs, own) ? programs[own] : undefined;
  if (path !== undefined) return insideOnly(path, shown);
  if (paths.length === 0) return undefined;
  throw new McpvalsError(
    "extension/not-found",
    `${shown} has several programs, ${Object.keys(programs).join(", ")}, and none has the name of the package, ${own}.`,
    { hint: "Name the program itself, by its path." },
  );
}

function packageOf(folder: string, shown: string): z.output<typeof schema> | undefined {
  try {
    const text = readTextIfThere(join(folder, "package.json"), "extension/not-found");
    return text === undefined ? undefined : schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new McpvalsError("extension/not-found", `the package.json of ${shown} is not valid.`, {
      cause,
    });
  }
}

function insideOnly(path: string, shown: string): string {
  const inside = posix.normalize(path.replaceAll("\\", "/"));
  if (!posix.isAbsolute(inside) && !inside.split("/").includes("..") && !inside.includes(":")) return inside;
  throw new McpvalsError(
    "extension/unsafe-archive",
    `bin in the package.json of ${shown} leaves the package: ${path}`,
  );
}

/** A file of a release for a platform. */
export interface PlatformAsset {
  readonly name: string;
  /** `linux-amd64`, or `any` for what runs everywhere. */
  readonly platform: string;
  /** The name before the platform. */
  readonly stem: string;
}

/** `linux-amd64`. */
export function platformName({ os, arch }: ReleasePlatform): string {
  return `${os}-${arch}`;
}

/**
 * Chooses among the names of a release's files the one for a platform: `NAME-OS-ARCH` or `NAME-any`, also with `_` or `.`
 * between, a version after the name, and the endings .zip, .tar.gz, .tgz, .exe or those that Node runs. Files named as the
 * repository come first, then the platform's own, then in the order of the endings. Undefined when there is none, and when several have
 * other names than the repository's.
 */
export function platformAsset(
  names: readonly string[],
  repo: string,
  platform: ReleasePlatform,
): PlatformAsset | undefined {
  const fitting = names.flatMap((name) => readName(name, platform) ?? []);
  const own = fitting.filter(({ stem }) => stem.toLowerCase() === repo.toLowerCase());
  const stems = new Set(fitting.map(({ stem }) => stem));
  if (own.length === 0 && stems.size > 1) return undefined;
  const [best] = (own.length > 0 ? own : fitting).sort((a, b) => a.rank - b.rank);
  return best === undefined ? undefined : { name: best.name, platform: best.platform, stem: best.stem };
}

interface RankedAsset extends PlatformAsset {
  /** The lower the better. */
  readonly rank: number;
}

function readName(name: string, platform: ReleasePlatform): RankedAsset | undefined {
  const ending = endings.find((each) => name.toLowerCase().endsWith(each)) ?? "";
  const body = name.slice(0, name.length - ending.length);
  const own = ownPattern(platform).exec(body);
  const stem = own?.groups?.["stem"] ?? anyPattern.exec(body)?.groups?.["stem"];
  if (stem === undefined) return undefined;
  const isAny = own === null;
  if (!isAny && ending === ".exe" && platform.os !== "windows") return undefined;
  const rank = endings.indexOf(ending) + (isAny ? 100 : 0);
  return { name, platform: isAny ? "any" : platformName(platform), stem: withoutVersion(stem), rank };
}

/** In order of preference. */
const endings = [".zip", ".tar.gz", ".tgz", ".exe", ".mjs", ".js", ".cjs", ""];

const systemNames: Readonly<Record<string, readonly string[]>> = {
  darwin: ["darwin", "macos"],
};
const processorNames: Readonly<Record<string, readonly string[]>> = {
  amd64: ["amd64", "x64", "x86_64"],
  arm64: ["arm64", "aarch64"],
};

const anyPattern = /^(?<stem>.+)[-_.]any$/i;

function ownPattern({ os, arch }: ReleasePlatform): RegExp {
  const systems = (systemNames[os] ?? [os]).join("|");
  const processors = (processorNames[arch] ?? [arch]).join("|");
  return new RegExp(`^(?<stem>.+)[-_.](?:${systems})[-_.](?:${processors})$`, "i");
}

function withoutVersion(stem: string): string {
  return stem.replace(/[-_.]v?\d+(\.\d+)*([-+][\w.]+)?$/, "");
}

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
 * A local extension: a program, or a folder with an `extension.yaml` or a `package.json` that names it. It is not copied or
 * locked. Throws McpvalsError `extension/not-found` and `extension/invalid-manifest`.
 */
export async function resolvePath(
  ref: PathRef,
  { written, dir, home }: PathPlace,
): Promise<ResolvedExtension> {
  const path = resolve(dir, withHome(ref.path, home));
  const found = await kindOf(path);
  if (found === undefined)
    throw pathNotFound(`there is no extension at ${path}`, `It is written as ${written}; check the path.`);
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
  throw pathNotFound(
    `the folder ${folder} names no program`,
    `Name it with program in its ${manifestName}, with bin in its package.json, or write the program's own path.`,
  );
}

/** A manifest beside the file belongs to it when it names the file, or no program. */
async function ofFile(program: string): Promise<Found> {
  const folder = dirname(program);
  const manifest = await readManifest(folder, folder);
  const isOwn = manifest?.program === undefined || join(folder, manifest.program) === program;
  return { folder, program, ...(manifest !== undefined && isOwn ? { manifest } : {}) };
}

async function checkProgram(program: string): Promise<void> {
  if ((await kindOf(program)) !== "file")
    throw pathNotFound(
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
    throw pathNotFound(`${program} is not executable`, hint);
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
  // From a URL such as file:///C:/…
  return /^\/[A-Za-z]:[/\\]/.test(path) ? path.slice(1) : path;
}

function pathNotFound(message: string, hint?: string): McpvalsError {
  return new McpvalsError("extension/not-found", message, hint === undefined ? {} : { hint });
}

type BundledRef = Extract<PackageRef, { kind: "bundled" }>;

/** Where the included extensions are. */
export interface BundledPlace {
  /** One folder for each extension. */
  readonly extensions: string;
  /** Folder with all files that they need; absent: their own. */
  readonly files?: string;
}

/** In the built package they are complete and beside this file; from source they share the dependencies of this package. */
function ownPlace(): BundledPlace {
  if (extname(import.meta.url) !== ".ts") return { extensions: join(import.meta.dirname, "extensions") };
  const files = resolve(import.meta.dirname, "..", "..", "..");
  return { extensions: join(files, "extensions"), files };
}

/** Programs of an extension whose manifest names none. */
const usualPrograms = ["main.js", "main.ts", "main.py"];

/** An included extension. Throws McpvalsError `extension/not-found` and `extension/invalid-manifest`. */
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
    hint: "This installation of mcpvals is incomplete: install it again.",
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
