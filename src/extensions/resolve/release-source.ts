import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { parse, rcompare } from "semver";
import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import type { LockedExtension } from "../../core/formats/extension/lock-file.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { releasePlatform } from "../../process/environment.ts";
import { ArchiveNames, isArchive, unpackArchive, unsafeArchive } from "./archive.ts";
import { hashBytes, listFiles } from "./cache.ts";
import type {
  FetchedFiles,
  Offer,
  OfferExpectations,
  SourceContext,
  VersionedSource,
} from "./extension-resolver.ts";
import { type Body, fetchSource, unreachable } from "./fetch-source.ts";
import { integrityError } from "./files.ts";
import {
  type Candidate,
  chooseProgram,
  manifestName,
  platformAsset,
  platformName,
  type ProgramWithManifest,
  readManifest,
  topFolder,
} from "./program.ts";

type ReleaseRef = Extract<PackageRef, { kind: "release" }>;

/** The files of a release in a folder. */
export interface ReleaseFiles {
  /** Name of the file that was fetched. */
  readonly name: string;
  readonly folder: string;
  readonly files: readonly Candidate[];
  /** What errors call the release. */
  readonly shown: string;
}

/**
 * The program of a release, as a path in its folder, and its manifest. Throws McpvalsError `extension/not-found` and
 * `extension/invalid-manifest`.
 */
export async function readRelease(
  ref: ReleaseRef,
  { name, folder, files, shown }: ReleaseFiles,
): Promise<ProgramWithManifest> {
  const top = topFolder(files.map(({ path }) => path));
  const manifest = (await readManifest(folder, shown)) ?? (await readManifest(join(folder, top), shown));
  if (!isArchive(name)) return { program: name, manifest };
  const names = [name.replace(/\.(?:zip|tar\.gz|tgz)$/i, ""), ref.repo];
  return { program: chooseProgram(files, { manifest, names, shown }), manifest };
}

const asset = z.object({
  name: z.string(),
  /** In bytes. */
  size: z.number().optional(),
  browser_download_url: z.string(),
  /** `sha256:HEX` */
  digest: z.string().nullish(),
});
const release = z.object({
  tag_name: z.string(),
  draft: z.boolean().optional(),
  prerelease: z.boolean().optional(),
  assets: z.array(asset),
});
type ReleaseAsset = z.output<typeof asset>;
type Release = z.output<typeof release>;

const pageLength = 100;
const mostPages = 20;
/** Largest answer of the API and largest text file, in bytes. */
const mostText = 16 * 1024 * 1024;
/** Largest file of a release, in bytes. */
const mostBytes = 500 * 1024 * 1024;

/**
 * The releases of a repository, as GitHub's API lists them. A file is verified with the release's checksums, or with the
 * digests of the API; Sigstore bundles are not read.
 */
export class ReleaseSource implements VersionedSource {
  readonly #ref: ReleaseRef;
  readonly #context: SourceContext & { readonly base: URL };
  readonly #api: string;
  /** By tag, so that nothing is requested twice. */
  readonly #seen = new Map<string, Release>();

  constructor(ref: ReleaseRef, context: SourceContext & { readonly base: URL }) {
    this.#ref = ref;
    this.#context = context;
    this.#api = `${context.base.href.replace(/\/+$/, "")}/repos/${ref.owner}/${ref.repo}/releases`;
  }

  async newest(): Promise<string> {
    const { version } = this.#ref;
    if (version === "latest") {
      const latest = await this.#ask(`${this.#api}/latest`, release);
      if (latest !== undefined) return this.#remember(latest).tag_name;
    } else if (!isPartialVersion(version)) return (await this.#find(version)).tag_name;
    const releases = (await this.#list()).map((each) => this.#remember(each));
    const stable = releases.filter(({ prerelease }) => prerelease !== true).map(({ tag_name }) => tag_name);
    const tag =
      version === "latest"
        ? (newestTag(stable) ?? stable[0])
        : (newestTag(stable, version) ?? tagsOf(version).find((each) => this.#seen.has(each)));
    if (tag === undefined) throw this.#noVersion(version, releases);
    return tag;
  }

  async offer(version: string, expected: OfferExpectations): Promise<Offer> {
    const found = await this.#find(version);
    const shown = `${this.#ref.name} ${found.tag_name}`;
    const { asset, platform } = this.#chooseAsset(found, shown, expected.locked);
    const checks = await this.#checksOf(found, shown, expected.locked);
    const hash = expectedHash(checks, asset, shown, expected.sha256);
    const beside = found.assets.find(({ name }) => name === manifestName);
    const manifest = beside === undefined ? undefined : { asset: beside, hash: checks.known(beside) };
    const { checksums } = checks;
    return {
      version: found.tag_name,
      name: asset.name,
      hash,
      ...(checksums === undefined ? {} : { checksums }),
      fetch: (folder) => this.#fetch({ asset, platform, hash, manifest, shown }, folder),
    };
  }

  #remember(found: Release): Release {
    this.#seen.set(found.tag_name, found);
    return found;
  }

  async #find(version: string): Promise<Release> {
    for (const tag of tagsOf(version)) {
      const found = this.#seen.get(tag) ?? (await this.#ofTag(tag));
      if (found !== undefined && found.draft !== true) return this.#remember(found);
    }
    throw this.#noVersion(version, await this.#list());
  }

  /** Throws McpvalsError `extension/unreachable` for a release of another tag. */
  async #ofTag(tag: string): Promise<Release | undefined> {
    const address = `${this.#api}/tags/${encodeURIComponent(tag.toWellFormed())}`;
    const found = await this.#ask(address, release);
    if (found === undefined || found.tag_name === tag) return found;
    throw unreachable(address, `the answer is the release ${found.tag_name}, not ${tag}`);
  }

  /** The releases, newest first, without drafts. */
  async #list(): Promise<readonly Release[]> {
    const all: Release[] = [];
    for (let page = 1; page <= mostPages; page += 1) {
      const found = await this.#ask(`${this.#api}?per_page=${pageLength}&page=${page}`, z.array(release));
      if (found === undefined) {
        const { owner, repo } = this.#ref;
        const message = `${this.#context.base.origin} has no public repository ${owner}/${repo}.`;
        throw new McpvalsError("extension/not-found", message);
      }
      for (const each of found) all.push(each);
      if (found.length < pageLength) break;
    }
    return all.filter(({ draft }) => draft !== true);
  }

  /** An answer of the API; undefined for 404. */
  async #ask<T>(address: string, schema: z.ZodType<T>): Promise<T | undefined> {
    const text = await this.#read(address, "application/vnd.github+json");
    if (text === undefined) return undefined;
    try {
      return schema.parse(JSON.parse(text.toString("utf8")));
    } catch (cause) {
      throw unreachable(address, "the answer is not one of GitHub's API", cause);
    }
  }

  async #smallAsset(asset: ReleaseAsset): Promise<Buffer> {
    const address = assetAddress(asset);
    const bytes = await this.#read(address, "application/octet-stream");
    if (bytes === undefined) throw unreachable(address, "there is no such file");
    return bytes;
  }

  #read(address: string, accept: string): Promise<Buffer | undefined> {
    const { base, signal } = this.#context;
    return fetchSource(address, { base, signal, accept }, async (body) => {
      const chunks: Uint8Array[] = [];
      let bytes = 0;
      for await (const chunk of body) {
        bytes += chunk.length;
        if (bytes > mostText) throw unreachable(address, "the answer is too long");
        chunks.push(chunk);
      }
      return Buffer.concat(chunks);
    });
  }

  #noVersion(version: string, releases: readonly Release[]): McpvalsError {
    const tags = releases.slice(0, 20).map(({ tag_name }) => tag_name);
    const wanted = version === "latest" ? "no stable release" : `no release ${version}`;
    return new McpvalsError("extension/not-found", `${this.#ref.name} has ${wanted}.`, {
      hint: tags.length === 0 ? "It has no releases at all." : `It has ${tags.join(", ")}.`,
    });
  }

  #chooseAsset(
    { assets }: Release,
    shown: string,
    locked: LockedExtension | undefined,
  ): Pick<ChosenAsset, "asset" | "platform"> {
    const { repo } = this.#ref;
    const platform = releasePlatform();
    const names = assets.map(({ name }) => name);
    const own = platformName(platform);
    const key = locked?.files[own] === undefined ? "any" : own;
    const lockedName = locked?.files[key]?.name;
    const found =
      lockedName === undefined ? platformAsset(names, repo, platform) : { name: lockedName, platform: key };
    const asset = assets.find(({ name }) => name === found?.name);
    if (found !== undefined && asset !== undefined) return { asset, platform: found.platform };
    const what =
      lockedName === undefined ? `no file for ${own}` : `no file ${lockedName} any more, which is locked`;
    throw new McpvalsError("extension/not-found", `${shown} has ${what}.`, {
      hint: `${names.length === 0 ? "It has no files." : `It has ${names.join(", ")}.`} Expected is a name such as ${repo}-${own}.zip.`,
    });
  }

  /**
   * Fetches the checksums of a release; without any, the digests of the API take their place. Throws McpvalsError
   * `extension/integrity`, also when the checksums are not those of the lock.
   */
  async #checksOf(
    { assets }: Release,
    shown: string,
    locked: LockedExtension | undefined,
  ): Promise<ReleaseChecks> {
    const name = checksumsFile(assets.map((each) => each.name));
    const file = assets.find((each) => each.name === name);
    if (file === undefined) {
      if (locked?.checksums === undefined) return digestChecks(shown);
      throw lockMismatch(`the checksums of ${shown}`, locked.checksums, "a release without any");
    }
    const content = await this.#smallAsset(file);
    const checksums = hashBytes(content);
    if (locked?.checksums !== undefined && locked.checksums !== checksums)
      throw lockMismatch(`${file.name} of ${shown}`, locked.checksums, checksums);
    compareDigest(`${file.name} of ${shown}`, file, checksums);
    const sums = readChecksums(content.toString("utf8"), `${file.name} of ${shown}`);
    const sumOf = (each: ReleaseAsset): string => {
      const sum = sums.get(each.name);
      if (sum !== undefined) {
        compareDigest(`${each.name} of ${shown}, in ${file.name},`, each, sum);
        return sum;
      }
      const message = `${file.name} of ${shown} does not list ${each.name}, so it cannot be verified. Nothing of it was fetched.`;
      throw new McpvalsError("extension/integrity", message, {
        hint: "Tell the authors: the checksums must list every file that is used.",
      });
    };
    return { checksums, expected: sumOf, known: sumOf };
  }

  async #fetch(chosen: ChosenAsset, folder: string): Promise<FetchedFiles> {
    const { asset, platform, hash, shown } = chosen;
    const { signal, onProgress } = this.#context;
    const executables = new Set<string>();
    const name = fileName(asset.name, shown);
    const beside = join(dirname(folder), "fetched");
    await mkdir(beside);
    const path = join(beside, name);
    const size = asset.size === undefined ? "" : ` (${(asset.size / 1024 ** 2).toFixed(1)} MB)`;
    onProgress(`fetching ${name} of ${shown}${size}`);
    await this.#download(asset, { path, shown: `${name} of ${shown}`, hash });
    if (isArchive(name)) {
      const unpacked = await unpackArchive(path, folder, { shown: `${name} of ${shown}`, signal });
      for (const each of unpacked) executables.add(each);
    } else {
      await rename(path, join(folder, name));
      executables.add(name);
    }
    await rm(beside, { recursive: true, force: true });
    await this.#addManifest(chosen, folder);
    const files = (await listFiles(folder)).map((each) => ({
      path: each,
      executable: executables.has(each),
    }));
    executables.add((await readRelease(this.#ref, { name, folder, files, shown })).program);
    for (const each of executables) await chmod(join(folder, each), 0o755);
    return { platform, executables };
  }

  /** An archive's own manifest takes precedence. Without a hash the release's manifest cannot be verified, and is not used. */
  async #addManifest({ manifest, shown }: ChosenAsset, folder: string): Promise<void> {
    if (manifest?.hash === undefined) return;
    const paths = await listFiles(folder);
    if ([manifestName, `${topFolder(paths)}${manifestName}`].some((path) => paths.includes(path))) return;
    const content = await this.#smallAsset(manifest.asset);
    const found = hashBytes(content);
    if (found !== manifest.hash) {
      const hint = "It was damaged on the way, or somebody changed it. Tell the authors.";
      throw integrityError({ file: `${manifestName} of ${shown}`, expected: manifest.hash, found, hint });
    }
    await writeFile(join(folder, manifestName), content, { flag: "wx" });
  }

  /** Throws McpvalsError `extension/integrity` for a file that is not what was expected, or too large. */
  async #download(
    asset: ReleaseAsset,
    { path, shown, hash }: { readonly path: string; readonly shown: string; readonly hash: string },
  ): Promise<void> {
    const { size } = asset;
    if (size !== undefined && size > mostBytes) throw tooLarge(shown);
    const { base, signal } = this.#context;
    const address = assetAddress(asset);
    const options = { base, signal, accept: "application/octet-stream" };
    const found = await fetchSource(address, options, (body) => write(body, path, shown));
    if (found === undefined) throw unreachable(address, "there is no such file");
    if (found.hash === hash) return;
    const part = size === undefined || size === found.bytes ? "" : ` in ${found.bytes} of ${size} bytes`;
    throw integrityError({
      file: shown,
      expected: hash,
      found: found.hash + part,
      hint: "It was damaged on the way, or somebody changed it. Try once more; if it stays, tell the authors.",
    });
  }
}

interface ChosenAsset {
  readonly asset: ReleaseAsset;
  readonly platform: string;
  readonly hash: string;
  /** The release's own manifest; its hash is undefined when it cannot be verified. */
  readonly manifest: { readonly asset: ReleaseAsset; readonly hash: string | undefined } | undefined;
  /** What errors call the release. */
  readonly shown: string;
}

/** Throws McpvalsError `extension/unreachable` for an invalid address. */
function assetAddress({ name, browser_download_url: url }: ReleaseAsset): string {
  if (URL.canParse(url)) return url;
  throw new McpvalsError("extension/unreachable", `the release has no valid address for ${name}: ${url}`);
}

/** The name of a file, which must not contain a folder. */
function fileName(name: string, shown: string): string {
  if (name.includes("/")) throw unsafeArchive(`the release ${shown}`, `has a file with the name ${name}`);
  return new ArchiveNames(`the release ${shown}`).take(name, "file");
}

async function write(body: Body, path: string, shown: string): Promise<{ hash: string; bytes: number }> {
  const sum = createHash("sha256");
  let bytes = 0;
  const measured = async function* (): AsyncIterable<Uint8Array> {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > mostBytes) throw tooLarge(shown);
      sum.update(chunk);
      yield chunk;
    }
  };
  await pipeline(measured, createWriteStream(path));
  return { hash: `sha256:${sum.digest("hex")}`, bytes };
}

function tooLarge(shown: string): McpvalsError {
  const message = `${shown} is larger than the limit of ${mostBytes / 1024 ** 2} MB for extensions.`;
  return new McpvalsError("extension/integrity", message);
}

/** What the files of a release are verified with. */
interface ReleaseChecks {
  /** `sha256:HEX` of its file of checksums; absent when it has none. */
  readonly checksums?: string;
  /** What a file must be, as `sha256:HEX`. Throws McpvalsError `extension/integrity` for a file that cannot be verified. */
  expected(asset: ReleaseAsset): string;
  /** As `expected`, but undefined for a file without a digest in a release without checksums. */
  known(asset: ReleaseAsset): string | undefined;
}

function digestChecks(shown: string): ReleaseChecks {
  const expected = (asset: ReleaseAsset): string => {
    const hash = digestOf(asset);
    if (hash !== undefined) return hash;
    const message = `${asset.name} of ${shown} cannot be verified: the release has no checksums.sha256, and its API gives no digest. Nothing of it was fetched.`;
    throw new McpvalsError("extension/integrity", message, {
      hint: "Give the file's SHA-256 yourself with mcpvals extensions add PACKAGE --sha256 HEX.",
    });
  };
  return { expected, known: digestOf };
}

/** What the chosen file must be: what the release says, which must agree with what the user has given. */
function expectedHash(
  checks: ReleaseChecks,
  asset: ReleaseAsset,
  shown: string,
  sha256: string | undefined,
): string {
  if (sha256 === undefined) return checks.expected(asset);
  const given = givenHash(sha256);
  const known = checks.known(asset) ?? given;
  if (known === given) return given;
  throw integrityError({
    file: `${asset.name} of ${shown}`,
    expected: `${given}, as given`,
    found: `${known} in what the release says of it`,
    hint: "Compare both with what the authors publish elsewhere.",
  });
}

/** A hash that the user has given, as the lock has it. */
export function givenHash(sha256: string): string {
  return `sha256:${sha256.replace(/^sha256:/i, "").toLowerCase()}`;
}

/** The error for files that differ from the lock. */
export function lockMismatch(file: string, locked: string, found: string): McpvalsError {
  return integrityError({
    file,
    expected: `${locked}, as locked`,
    found,
    hint: "Somebody changed the release after it was locked, or the lock. Ask the authors why; if the change is right, remove its entry from mcp-eval.lock and add it again.",
  });
}

function digestOf({ digest }: ReleaseAsset): string | undefined {
  const text = digest?.toLowerCase();
  return text !== undefined && /^sha256:[0-9a-f]{64}$/.test(text) ? text : undefined;
}

function compareDigest(file: string, asset: ReleaseAsset, found: string): void {
  const digest = digestOf(asset);
  if (digest === undefined || digest === found) return;
  throw integrityError({
    file,
    expected: `${digest}, as its API tells`,
    found,
    hint: "The release contradicts itself: somebody changed a part of it. Tell the authors.",
  });
}

/** Whether a version, such as `v1`, `1` or `v1.2`, means any version that begins with it. */
export function isPartialVersion(version: string): boolean {
  return /^v?\d+(\.\d+)?$/.test(version);
}

/** The newest of the tags that are stable versions; with `begin`, of those that begin with it. */
export function newestTag(tags: readonly string[], begin?: string): string | undefined {
  const wanted = begin?.replace(/^v/, "").split(".").map(Number) ?? [];
  const versions = tags.flatMap((tag) => {
    const version = parse(tag, { loose: true });
    if (version === null || version.prerelease.length > 0) return [];
    const parts = [version.major, version.minor];
    return wanted.every((part, index) => part === parts[index]) ? [{ tag, version }] : [];
  });
  return versions.sort((a, b) => rcompare(a.version, b.version))[0]?.tag;
}

/** The tags that an exact version can mean, as written first. */
export function tagsOf(version: string): readonly string[] {
  if (parse(version) === null) return [version];
  return [version, version.startsWith("v") ? version.slice(1) : `v${version}`];
}

/**
 * Reads a file of checksums: lines of `HEX  NAME` or `HEX *NAME`, SHA-256. Other lines are ignored. Throws McpvalsError
 * `extension/integrity` for two different sums of one name.
 */
export function readChecksums(text: string, shown: string): ReadonlyMap<string, string> {
  const sums = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, hex = "", name = ""] = /^([0-9a-f]{64})[ \t]+\*?(?:\.\/)?(\S.*)$/i.exec(line.trimEnd()) ?? [];
    if (name === "") continue;
    const sum = `sha256:${hex.toLowerCase()}`;
    const earlier = sums.get(name);
    if (earlier !== undefined && earlier !== sum) {
      const message = `${shown} has two different checksums for ${name}.`;
      throw new McpvalsError("extension/integrity", message, { hint: "Tell the authors of the release." });
    }
    sums.set(name, sum);
  }
  return sums;
}

/** Which of a release's files has the checksums; undefined when none does. */
function checksumsFile(names: readonly string[]): string | undefined {
  const usual = ["checksums.sha256", "checksums.txt", "SHA256SUMS"];
  return (
    usual.find((name) => names.includes(name)) ?? names.find((name) => /[-_.]checksums\.txt$/.test(name))
  );
}
