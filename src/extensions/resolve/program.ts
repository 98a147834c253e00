import { constants, existsSync, realpathSync } from "node:fs";
import { access, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join, posix, resolve } from "node:path";
import { satisfies, validRange } from "semver";
import * as z from "zod";
import { McpvalsError } from "../../base/error.ts";
import { suggestion } from "../../base/did-you-mean.ts";
import { type ExtensionManifest, parseManifest } from "../manifest.ts";
import type { PackageRef } from "../../model/package-ref.ts";
import { withoutUndefined } from "../../base/json.ts";
import type { ReleasePlatform } from "../../process/environment.ts";
import { isArchive } from "./archive.ts";
import { programHash } from "./cache.ts";
import { findUpwards, hasCode, parseYaml, readTextIfThere } from "./files.ts";

type RefOf<Kind extends PackageRef["kind"]> = Extract<PackageRef, { kind: Kind }>;
/** A package that is fetched, cached and locked. */
export type ReleaseRef = RefOf<"release">;

/** An extension with verified files. */
export interface ResolvedExtension {
  /** The package as written. */
  readonly package: string;
  readonly ref: PackageRef;
  /** Of the release or package; absent for paths. */
  readonly version?: string;
  /**
   * `sha256:HEX`: over all files of a release, as in the lock; else of the program alone, and absent when that is not
   * readable.
   */
  readonly hash?: string;
  /** Absolute folder that has all of its files. */
  readonly folder: string;
  /** Absolute folders of the packages that it may depend on. Absent: it has them in its own folder. */
  readonly dependencies?: readonly string[];
  /** Absolute path of the program. */
  readonly program: string;
  /**
   * Throws McpvalsError `extension/integrity` when a file has changed since it was verified; to be called before each start.
   * Absent for all but releases, since nothing else is verified.
   */
  readonly recheck?: () => Promise<void>;
  /** Its `extension.yaml`; without one the program must be asked. */
  readonly manifest?: ExtensionManifest;
}

/** A file that could be the program. */
interface Candidate {
  /** Relative, with slashes. */
  readonly path: string;
  readonly executable: boolean;
}

export interface FetchedPackage {
  /** Name of the file that was fetched. */
  readonly name: string;
  /** Absolute. */
  readonly folder: string;
  readonly files: readonly Candidate[];
  /** What errors call the package. */
  readonly shown: string;
}

/** Name of the manifest beside a program. */
export const manifestName = "extension.yaml";

/**
 * The program of a fetched package, as a path in its folder, and its manifest. Throws McpvalsError `extension/not-found` and
 * `extension/invalid-manifest`.
 */
export async function readPackage(
  ref: ReleaseRef,
  { name, folder, files, shown }: FetchedPackage,
): Promise<{ readonly program: string; readonly manifest: ExtensionManifest | undefined }> {
  const top = topFolder(files.map(({ path }) => path));
  const manifest = (await readManifest(folder, shown)) ?? (await readManifest(join(folder, top), shown));
  if (!isArchive(name)) return { program: name, manifest };
  const names = [name.replace(/\.(?:zip|tar\.gz|tgz)$/i, ""), ref.repo];
  return { program: chooseProgram(files, manifest, names, shown), manifest };
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
 * names, the best of which comes first; else the only executable. Throws McpvalsError `extension/not-found`.
 */
function chooseProgram(
  files: readonly Candidate[],
  manifest: ExtensionManifest | undefined,
  names: readonly string[],
  shown: string,
): string {
  const paths = files.map(({ path }) => path);
  const rest = paths.length > 20 ? [`${paths.length - 20} more`] : [];
  const has = `It has ${[...paths.slice(0, 20), ...rest].join(", ")}.`;
  const hint = `Its author has to name the program in ${manifestName}, with program.`;
  if (manifest?.program !== undefined) {
    const program = manifest.program.replaceAll("\\", "/").replace(/^(?:\.\/)+/, "");
    const places = [program, `${topFolder(paths)}${program}`].flatMap((path) => [path, `${path}.exe`]);
    const found = places.find((place) => paths.includes(place));
    if (found !== undefined) return found;
    const message = `${manifestName} of ${shown} names the program ${program}, which it does not have`;
    throw notFound(`${message}. ${has}`, hint);
  }
  const named = [...names, ...(manifest === undefined ? [] : [manifest.name])].flatMap((name) =>
    paths
      .filter((path) => [basename(path), basename(path).replace(programEnding, "")].includes(name))
      .sort((a, b) => a.split("/").length - b.split("/").length),
  );
  const executables = files.filter(({ path, executable }) => executable || /\.exe$/i.test(path));
  const program = named[0] ?? (executables.length === 1 ? executables[0]?.path : undefined);
  if (program !== undefined) return program;
  throw notFound(`${shown} has no file that is clearly its program. ${has}`, hint);
}

const programEnding = /\.(?:exe|js|mjs|cjs|ts|mts)$/i;

function notFound(message: string, hint: string): McpvalsError {
  return new McpvalsError("extension/not-found", message, { hint });
}

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
  const parsed = parseManifest(parseYaml(text, named, code));
  if (parsed.ok) return parsed.manifest;
  const messages = parsed.problems.map(({ message }) => message);
  throw new McpvalsError(code, `${named}: ${messages.join("; ")}`, {
    hint:
      parsed.problems.find(({ hint }) => hint !== undefined)?.hint ??
      (shown === folder ? "docs/extensions.md describes the format." : `It is ${path}.`),
  });
}

const packageJson = z.object({
  name: z.string().optional(),
  version: z.string().optional(),
  bin: z.union([z.string(), z.record(z.string(), z.string())]).optional(),
});

/**
 * The program of `bin` in the `package.json` of a folder, as a path in it: the only one, or the one with the name of the
 * package. Undefined without such a file or `bin`. Throws McpvalsError `extension/not-found` when it is ambiguous.
 */
export function packageProgram(folder: string, shown: string): string | undefined {
  const text = readTextIfThere(join(folder, "package.json"), "extension/not-found");
  const { name = basename(folder), bin = {} } = readPackageJson(text ?? "{}", shown);
  const programs = typeof bin === "string" ? { "": bin } : bin;
  const own = name.replace(/^@[^/]*\//, "");
  const paths = Object.values(programs);
  if (paths.length === 0) return undefined;
  const path = paths.length === 1 ? paths[0] : Object.hasOwn(programs, own) ? programs[own] : undefined;
  if (path === undefined) {
    const names = Object.keys(programs).join(", ");
    throw notFound(
      `${shown} has several programs, ${names}, and none has the name of the package, ${own}.`,
      "Name the program itself, by its path.",
    );
  }
  const inside = posix.normalize(path.replaceAll("\\", "/"));
  if (!posix.isAbsolute(inside) && !inside.split("/").includes("..") && !inside.includes(":")) return inside;
  const message = `bin in the package.json of ${shown} leaves the package: ${path}`;
  throw new McpvalsError("extension/unsafe-archive", message);
}

function readPackageJson(text: string, shown: string): z.output<typeof packageJson> {
  try {
    return packageJson.parse(JSON.parse(text));
  } catch (cause) {
    throw new McpvalsError("extension/not-found", `the package.json of ${shown} is not valid.`, { cause });
  }
}

/** `linux-amd64`. */
export function platformName({ os, arch }: ReleasePlatform): string {
  return `${os}-${arch}`;
}

/** In order of preference. */
const endings = [".zip", ".tar.gz", ".tgz", ".exe", ".mjs", ".js", ".cjs", ""];
/** Other names of a system or a processor in names of files. */
const otherNames: Readonly<Record<string, string>> = {
  darwin: "darwin|macos",
  amd64: "amd64|x64|x86_64",
  arm64: "arm64|aarch64",
};

/**
 * Chooses among the names of a release's files the one for a platform: `NAME-OS-ARCH` or `NAME-any`, also with `_` or `.`
 * between, a version after the name, and the endings .zip, .tar.gz, .tgz, .exe or those that Node runs. Files named as the
 * repository come first, then the platform's own, then in the order of the endings. Undefined when there is none, and when several have
 * other names than the repository's. The result's platform is `linux-amd64`, or `any` for what runs everywhere.
 */
export function platformAsset(
  names: readonly string[],
  repo: string,
  { os, arch }: ReleasePlatform,
): { readonly name: string; readonly platform: string } | undefined {
  const own = new RegExp(`^(.+)[-_.](?:${otherNames[os] ?? os})[-_.](?:${otherNames[arch] ?? arch})$`, "i");
  const fitting = names.flatMap((name) => {
    const ending = endings.find((each) => name.toLowerCase().endsWith(each)) ?? "";
    const body = name.slice(0, name.length - ending.length);
    const ownStem = own.exec(body)?.[1];
    const stem = ownStem ?? /^(.+)[-_.]any$/i.exec(body)?.[1];
    if (stem === undefined || (ownStem !== undefined && ending === ".exe" && os !== "windows")) return [];
    const platform = ownStem === undefined ? "any" : platformName({ os, arch });
    const rank = endings.indexOf(ending) + (ownStem === undefined ? 100 : 0);
    return { name, platform, rank, stem: stem.replace(/[-_.]v?\d+(\.\d+)*([-+][\w.]+)?$/, "") };
  });
  const named = fitting.filter(({ stem }) => stem.toLowerCase() === repo.toLowerCase());
  if (named.length === 0 && new Set(fitting.map(({ stem }) => stem)).size > 1) return undefined;
  const [best] = (named.length > 0 ? named : fitting).sort((a, b) => a.rank - b.rank);
  return best && { name: best.name, platform: best.platform };
}

/**
 * A local extension: a program, or a folder with an `extension.yaml` or a `package.json` that names it. It is not copied or
 * locked. `dir` is the absolute folder that a relative path starts from, `home` what `~` stands for. Throws McpvalsError
 * `extension/not-found` and `extension/invalid-manifest`.
 */
export async function resolvePath(
  ref: RefOf<"path">,
  { written, dir, home }: { readonly written: string; readonly dir: string; readonly home: string },
): Promise<ResolvedExtension> {
  const path = resolve(dir, withHome(ref.path, home));
  const kind = await kindOf(path);
  if (kind === undefined)
    throw notFound(`there is no extension at ${path}`, `It is written as ${written}; check the path.`);
  if (kind === "folder") return { package: written, ref, ...(await readFolder(path)) };
  const folder = dirname(path);
  const manifest = await readManifest(folder, folder);
  await checkProgram(path);
  // A manifest beside a program belongs to it when it names the program, or none.
  const isOwn = manifest?.program === undefined || join(folder, manifest.program) === path;
  const rest = { manifest: isOwn ? manifest : undefined, hash: await programHash(path) };
  return { package: written, ref, folder, program: path, ...withoutUndefined(rest) };
}

/**
 * An npm package that is installed: the nearest one in a `node_modules` folder, from `dir` upwards to the top of its
 * repository. Throws McpvalsError `extension/not-found`, also for another version than the reference has,
 * `extension/invalid-package`, `extension/invalid-manifest`, and `config/foreign-owner` for a package of another user.
 */
export async function resolveInstalled(
  ref: RefOf<"npm">,
  { written, dir }: { readonly written: string; readonly dir: string },
): Promise<ResolvedExtension> {
  const { package: name, version: wanted = "*" } = ref;
  const install = `npm install --save-dev ${ref.version === undefined ? name : `"${name}@${ref.version}"`}`;
  if (validRange(wanted) === null)
    throw new McpvalsError("extension/invalid-package", `${written} does not have a version or a range`, {
      hint: `Write npm:${name} or npm:${name}@VERSION, such as npm:${name}@^1.2.0.`,
    });
  const found = findUpwards(`node_modules/${name}/package.json`, resolve(dir), "extension/not-found");
  if (found === undefined)
    throw notFound(
      `the npm package ${name} is not installed in ${dir} or a folder above it`,
      `Install it: ${install}.`,
    );
  // Node looks for the dependencies of a linked package beside the folder that the link leads to.
  const folder = realpathSync(dirname(found.path));
  const { version = "" } = readPackageJson(found.text, folder);
  if (ref.version !== undefined && !satisfies(version, wanted))
    throw notFound(
      `${folder} has version ${version || "unknown"} of the npm package ${name}, but ${written} is required`,
      `Install that version: ${install}.`,
    );
  const dependencies = foldersFrom(folder)
    .map((each) => join(each, "node_modules"))
    .filter((each) => existsSync(each));
  return { package: written, ref, version, dependencies, ...(await readFolder(folder)) };
}

/** A folder and all above it. */
function foldersFrom(folder: string): readonly string[] {
  return dirname(folder) === folder ? [folder] : [folder, ...foldersFrom(dirname(folder))];
}

/** An extension in a folder that names its program. Throws as `resolvePath` does. */
async function readFolder(
  folder: string,
): Promise<Pick<ResolvedExtension, "folder" | "program" | "manifest" | "hash">> {
  const manifest = await readManifest(folder, folder);
  const own = manifest?.program ?? packageProgram(folder, folder);
  if (own === undefined)
    throw notFound(
      `the folder ${folder} names no program`,
      `Name it with program in its ${manifestName}, with bin in its package.json, or write the program's own path.`,
    );
  const program = join(folder, own);
  await checkProgram(program);
  return { folder, program, ...withoutUndefined({ manifest, hash: await programHash(program) }) };
}

async function checkProgram(program: string): Promise<void> {
  if ((await kindOf(program)) !== "file")
    throw notFound(
      `there is no file ${program}, which is named as the program`,
      `Name one that is there with program in its ${manifestName}, or with bin in its package.json.`,
    );
  // Node runs these without an executable bit.
  if (/\.(?:js|mjs|cjs|ts|mts)$/i.test(program)) return;
  try {
    await access(program, constants.X_OK);
  } catch (error) {
    if (!hasCode(error, "EACCES", "EPERM")) throw error;
    const python = extname(program) === ".py" ? ", and begin it with #!/usr/bin/env python3" : "";
    throw notFound(
      `${program} is not executable`,
      `Make it executable: chmod +x ${basename(program)}${python}.`,
    );
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

/** Where the included extensions are. */
interface BundledPlace {
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
const defaultPrograms = ["main.js", "main.ts", "main.py"];

/** An included extension. Throws McpvalsError `extension/not-found` and `extension/invalid-manifest`. */
export async function resolveBundled(
  ref: RefOf<"bundled">,
  place: BundledPlace = ownPlace(),
): Promise<ResolvedExtension> {
  const entries = await readdir(place.extensions, { withFileTypes: true });
  const known = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  if (!known.includes(ref.extension))
    throw notFound(
      `mcpvals comes with no extension ${ref.extension}.`,
      suggestion(ref.extension, known.sort(), "extensions of mcpvals"),
    );
  const home = join(place.extensions, ref.extension);
  const manifest = await readManifest(home, ref.name);
  for (const name of [manifest?.program, ...defaultPrograms]) {
    const program = join(home, name ?? "");
    if ((await kindOf(program)) !== "file") continue;
    const rest = { manifest, version: manifest?.version, hash: await programHash(program) };
    return { package: ref.name, ref, folder: place.files ?? home, program, ...withoutUndefined(rest) };
  }
  throw notFound(
    `${ref.name} has no program in ${home}.`,
    "This installation of mcpvals is incomplete: install it again.",
  );
}
