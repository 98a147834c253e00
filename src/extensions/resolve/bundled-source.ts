import { readdir, stat } from "node:fs/promises";
import { extname, join, resolve } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import { suggestion } from "../../core/formats/did-you-mean.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { hasCode } from "./file-errors.ts";
import { programHash } from "./program-hash.ts";
import { readManifest } from "./read-manifest.ts";
import type { ResolvedExtension } from "./resolved-extension.ts";

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
