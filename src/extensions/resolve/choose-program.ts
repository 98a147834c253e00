import { McpvalsError } from "../../core/errors/error.ts";
import type { ExtensionManifest } from "../../core/formats/extension/manifest.ts";
import { manifestName } from "./read-manifest.ts";

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
  /** Names that it may have, the best first, with or without an ending. */
  readonly names: readonly string[];
  /** What errors call the extension. */
  readonly shown: string;
}

/** Endings of programs that Node runs, whatever their permissions are. */
export function isNodeProgram(path: string): boolean {
  return /\.(?:js|mjs|cjs|ts|mts)$/i.test(path);
}

/**
 * The folder of the files' own top: most archives have all in one folder. With a slash at its end, or empty. What was
 * put beside it, the manifest, does not count.
 */
export function topFolder(paths: readonly string[]): string {
  const tops = new Set(
    paths.filter((path) => path !== manifestName).map((path) => /^[^/]*\//.exec(path)?.[0] ?? ""),
  );
  const [only = ""] = tops;
  return tops.size === 1 ? only : "";
}

/**
 * The path of the program among an extension's files: what the manifest says; else what is named as one of `names`, the
 * least deep one; else the only executable. Throws McpvalsError `extension/not-found`.
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
  throw notFound(`${shown} has no file that must be its program`, files);
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
    hint: `Whoever makes it names the program in ${manifestName}, with program.`,
  });
}
