import { createHash } from "node:crypto";
import { chmod, lstat, mkdir, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { countOf } from "../base/visible-text.ts";
import { McpvalsError } from "../base/error.ts";
import { isInside } from "../base/files.ts";
import { maxBundleBytes, maxBundleFiles } from "../base/limits.ts";
import { ignoredByGit } from "../process/folders.ts";
import { createRedactor, type Redactor, type Secret } from "../trace/redact.ts";

/** A file of a bundle, or a link to another. */
export interface BundledFile {
  /** Relative to the folder, with `/`. */
  readonly path: string;
  /** Of its content; absent for a link. */
  readonly sha256?: string;
  readonly isExecutable?: true;
  /** What it links to, relative to where it is. */
  readonly link?: string;
}

/** The files below a folder, as they go to another machine. */
export interface BundleManifest {
  /** Of all files with their paths: the same files have the same. */
  readonly sha256: string;
  readonly files: readonly BundledFile[];
}

/** Names of files and folders that never go to another machine, since they are made there, or secret. */
const leftOut =
  /^(?:\.git|node_modules|\.mcpvals|\.env(?:\..*)?|\.npmrc|\.netrc|id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:pem|key|p12|pfx))$/;

/**
 * Collects the files below a folder that git does not ignore. `read` gives their content, or throws `bundle/changed`. Throws `bundle/too-large`, and `bundle/secret` for a file
 * with the value of a secret, also encoded or wrapped, or in its name.
 */
export async function createBundle(
  root: string,
  { secrets }: { readonly secrets: readonly Secret[] },
): Promise<{ readonly manifest: BundleManifest; readonly read: (file: BundledFile) => Promise<Buffer> }> {
  const ignored = new Set(await ignoredByGit(root));
  const redact = createRedactor(secrets);
  const files: BundledFile[] = [];
  const sizes: { readonly path: string; readonly size: number }[] = [];
  for await (const path of filesBelow(root, ignored)) {
    const name = relative(root, path).replaceAll("\\", "/");
    const file = await bundled(path, name, { root, redact });
    if (file === undefined) continue;
    files.push(file);
    sizes.push({ path: name, size: (await lstat(path)).size });
    const bytes = sizes.reduce((sum, { size }) => sum + size, 0);
    if (files.length > maxBundleFiles || bytes > maxBundleBytes) throw tooLarge(root, sizes);
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return {
    manifest: { sha256: hash(JSON.stringify(files)), files },
    async read({ path, sha256 }) {
      const content = await readFile(join(root, path));
      if (hash(content) === sha256) return content;
      throw new McpvalsError("bundle/changed", `${path} changed while it was read`, {
        hint: "Start the run again when nothing writes to the working folder.",
      });
    },
  };
}

async function* filesBelow(folder: string, ignored: ReadonlySet<string>): AsyncGenerator<string> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (leftOut.test(entry.name) || ignored.has(path)) continue;
    if (entry.isDirectory()) yield* filesBelow(path, ignored);
    else if (entry.isFile() || entry.isSymbolicLink()) yield path;
  }
}

/** Undefined for a link that leaves the folder: what it means is not the same on another machine. */
async function bundled(
  path: string,
  name: string,
  { root, redact }: { readonly root: string; readonly redact: Redactor },
): Promise<BundledFile | undefined> {
  refuseSecret(`the name ${redact(name)}`, redact.nameIn(name));
  const stats = await lstat(path);
  if (stats.isSymbolicLink()) {
    const target = resolve(dirname(path), await readlink(path));
    return isInside(root, target)
      ? { path: name, link: relative(dirname(path), target).replaceAll("\\", "/") || "." }
      : undefined;
  }
  const content = await readFile(path);
  const text = content.toString();
  // Base64 is often wrapped, and indented where it stands in YAML.
  const unwrapped = text.replaceAll(/[\r\n]+[ \t]*/g, "");
  refuseSecret(name, redact.nameIn(text) ?? redact.nameIn(unwrapped));
  return {
    path: name,
    sha256: hash(content),
    ...((stats.mode & 0o100) !== 0 && { isExecutable: true as const }),
  };
}

/** Throws where a secret was found. */
function refuseSecret(place: string, secret: string | undefined): void {
  if (secret === undefined) return;
  throw new McpvalsError("bundle/secret", `${place} has the value of a secret: ${secret}`, {
    hint: "It would go to the database and to all workers. Write ${NAME} in its place, and set that variable where the workers run.",
  });
}

function tooLarge(
  root: string,
  sizes: readonly { readonly path: string; readonly size: number }[],
): McpvalsError {
  const largest = sizes.toSorted((a, b) => b.size - a.size).slice(0, 3);
  const named = largest.map(({ path, size }) => `${path} (${Math.ceil(size / 2 ** 20)} MiB)`).join(", ");
  return new McpvalsError(
    "bundle/too-large",
    `${root} has more than ${maxBundleBytes / 2 ** 20} MiB or ${countOf(maxBundleFiles, "file")} for the workers; the largest: ${named}`,
    {
      hint: "Let git ignore what the eval does not need, or start the run in a folder that has only what it needs.",
    },
  );
}

/**
 * Writes the files of a bundle into a new folder. Throws `store/corrupt` for a file that is not what the manifest says; then the folder is
 * not there.
 */
export async function unpackBundle(
  { files }: BundleManifest,
  read: (sha256: string) => Promise<Uint8Array>,
  folder: string,
): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    for (const { path, sha256, link, isExecutable } of files) {
      const target = resolve(folder, path);
      const end = link === undefined ? target : resolve(dirname(target), link);
      if (!isInside(folder, target) || !isInside(folder, end)) throw corrupt(path, "it leaves the folder");
      await mkdir(dirname(target), { recursive: true, mode: 0o700 });
      if (sha256 === undefined) {
        await symlink(link ?? "", target);
        continue;
      }
      const content = await read(sha256);
      if (hash(content) !== sha256)
        throw corrupt(path, "what is stored of it does not match its hash", {
          hint: "Start the run again, which stores the file anew.",
        });
      await writeFile(target, content, { flag: "wx" });
      if (isExecutable === true) await chmod(target, 0o755);
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

function corrupt(path: string, reason: string, details: { readonly hint?: string } = {}): McpvalsError {
  return new McpvalsError("store/corrupt", `the file ${path} of the run cannot be used: ${reason}`, details);
}

function hash(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
