import { createHash, hash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { parse, rcompare, type SemVer } from "semver";
import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import type { LockedExtension } from "../../core/formats/extension/lock-file.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { releasePlatform } from "../../process/environment.ts";
import { ArchiveNames, isArchive, unpackArchive, unsafeArchive } from "./archive.ts";
import {
  type Candidate,
  chooseProgram,
  manifestName,
  type PlatformAsset,
  platformAsset,
  platformName,
  type ProgramWithManifest,
  readManifest,
  topFolder,
} from "./program.ts";
import { integrityError } from "./files.ts";
import type {
  FetchedFiles,
  Offer,
  OfferExpectations,
  SourceContext,
  VersionedSource,
} from "./extension-resolver.ts";
import { type Body, type FetchOptions, fetchSource, unreachable } from "./fetch-source.ts";
import { hashBytes, listFiles } from "./cache.ts";

type ReleaseRef = Extract<PackageRef, { kind: "release" }>;

/**
 * The releases of a repository. A file is verified with the release's checksums, or with the digests that its API tells;
 * Sigstore bundles are not looked at.
 */
export function releaseSource(
  ref: ReleaseRef,
  context: SourceContext & { readonly base: URL },
): VersionedSource {
  const source: Source = {
    ref,
    context,
    api: context,
    repository: `${ref.owner}/${ref.repo}`,
    seen: new Map(),
  };
  return {
    newest: () => newest(source),
    offer: (version, expected) => offer(source, version, expected),
  };
}

/** The files of a release once they are here. */
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

interface Source {
  readonly ref: ReleaseRef;
  readonly context: SourceContext;
  readonly api: ReleaseApi;
  readonly repository: string;
  /** By tag, so that nothing is asked twice. */
  readonly seen: Map<string, Release>;
}

async function newest(source: Source): Promise<string> {
  const { ref, api, repository, seen } = source;
  const { version } = ref;
  if (version === "latest") {
    const latest = await latestRelease(api, repository);
    if (latest !== undefined) return remember(source, latest).tag_name;
  } else if (!isPartialVersion(version)) {
    return (await releaseOfVersion(source, version)).tag_name;
  }
  const releases = await listReleases(api, repository);
  for (const release of releases) remember(source, release);
  const stable = releases.filter(({ prerelease }) => prerelease !== true).map((release) => release.tag_name);
  const tag =
    version === "latest"
      ? (newestTag(stable) ?? stable[0])
      : (newestTag(stable, version) ?? tagsOf(version).find((each) => seen.has(each)));
  if (tag === undefined) throw noVersion(ref, version, releases);
  return tag;
}

function remember({ seen }: Source, release: Release): Release {
  seen.set(release.tag_name, release);
  return release;
}

async function releaseOfVersion(source: Source, version: string): Promise<Release> {
  const { ref, api, repository, seen } = source;
  for (const tag of tagsOf(version)) {
    const release = seen.get(tag) ?? (await releaseOfTag(api, repository, tag));
    if (release !== undefined && release.draft !== true) return remember(source, release);
  }
  throw noVersion(ref, version, await listReleases(api, repository));
}

function noVersion(ref: ReleaseRef, version: string, releases: readonly Release[]): McpvalsError {
  const tags = releases.slice(0, 20).map(({ tag_name }) => tag_name);
  const wanted = version === "latest" ? "no release that is not a preview" : `no release ${version}`;
  return new McpvalsError("extension/not-found", `${ref.name} has ${wanted}.`, {
    hint: tags.length === 0 ? "It has no releases at all." : `It has ${tags.join(", ")}.`,
  });
}

async function offer(source: Source, version: string, expected: OfferExpectations): Promise<Offer> {
  const { ref, api } = source;
  const release = await releaseOfVersion(source, version);
  const shown = `${ref.name} ${release.tag_name}`;
  const chosen = chooseAsset(source, release, expected);
  const checks = await releaseChecks(api, release, { locked: expected.locked, shown });
  const hash = expectedHash(checks, chosen.asset, { ...expected, shown });
  const beside = release.assets.find(({ name }) => name === manifestName);
  const manifest = beside === undefined ? undefined : { asset: beside, hash: checks.known(beside) };
  return {
    version: release.tag_name,
    name: chosen.asset.name,
    hash,
    ...(checks.checksums === undefined ? {} : { checksums: checks.checksums }),
    fetch: (folder) => fetchFiles(source, { ...chosen, hash, manifest, shown }, folder),
  };
}

interface ChosenAsset {
  readonly asset: ReleaseAsset;
  readonly platform: string;
}

function chooseAsset({ ref }: Source, release: Release, { locked }: OfferExpectations): ChosenAsset {
  const platform = releasePlatform();
  const names = release.assets.map(({ name }) => name);
  const own = platformName(platform);
  const key = locked?.files[own] === undefined ? "any" : own;
  const lockedName = locked?.files[key]?.name;
  const found: Pick<PlatformAsset, "name" | "platform"> | undefined =
    lockedName === undefined ? platformAsset(names, ref.repo, platform) : { name: lockedName, platform: key };
  const asset = release.assets.find(({ name }) => name === found?.name);
  if (found !== undefined && asset !== undefined) return { asset, platform: found.platform };
  const what =
    lockedName === undefined ? `no file for ${own}` : `no file ${lockedName} any more, which is locked`;
  throw new McpvalsError("extension/not-found", `${ref.name} ${release.tag_name} has ${what}.`, {
    hint: `${names.length === 0 ? "It has no files." : `It has ${names.join(", ")}.`} Expected is a name such as ${ref.repo}-${own}.zip.`,
  });
}

interface Chosen extends ChosenAsset {
  readonly hash: string;
  /** The release's own manifest; without a hash nobody vouches for it, and it is not used. */
  readonly manifest: { readonly asset: ReleaseAsset; readonly hash: string | undefined } | undefined;
  readonly shown: string;
}

async function fetchFiles(source: Source, chosen: Chosen, folder: string): Promise<FetchedFiles> {
  const { ref, context, api } = source;
  const { asset, platform, hash, shown } = chosen;
  const executables = new Set<string>();
  const name = fileName(asset.name, shown);
  const beside = join(dirname(folder), "fetched");
  await mkdir(beside);
  const path = join(beside, name);
  context.onProgress(`fetching ${name} of ${shown}${sizeText(asset.size)}`);
  const address = assetAddress(name, asset.browser_download_url);
  const what = { address, path, shown: `${name} of ${shown}`, expected: hash, size: asset.size };
  await download(what, api);
  if (isArchive(name)) {
    const options = { shown: `${name} of ${shown}`, signal: context.signal };
    for (const each of await unpackArchive(path, folder, options)) executables.add(each);
  } else {
    await rename(path, join(folder, name));
    executables.add(name);
  }
  await rm(beside, { recursive: true, force: true });
  await addManifest(api, chosen, folder);
  const files = (await listFiles(folder)).map((each) => ({ path: each, executable: executables.has(each) }));
  executables.add((await readRelease(ref, { name, folder, files, shown })).program);
  for (const each of executables) await chmod(join(folder, each), 0o755);
  return { platform, executables };
}

/** An archive's own manifest comes first. */
async function addManifest(api: ReleaseApi, { manifest, shown }: Chosen, folder: string): Promise<void> {
  if (manifest?.hash === undefined) return;
  const paths = await listFiles(folder);
  if ([manifestName, `${topFolder(paths)}${manifestName}`].some((path) => paths.includes(path))) return;
  const content = await smallAsset(api, manifest.asset);
  const found = hashBytes(content);
  if (found !== manifest.hash) {
    const hint = "It was damaged on the way, or somebody changed it. Tell its makers.";
    throw integrityError({ file: `${manifestName} of ${shown}`, expected: manifest.hash, found, hint });
  }
  await writeFile(join(folder, manifestName), content, { flag: "wx" });
}

/** The name of a file without a folder. */
function fileName(name: string, shown: string): string {
  if (name.includes("/")) throw unsafeArchive(`the release ${shown}`, `has a file with the name ${name}`);
  return new ArchiveNames(`the release ${shown}`).take(name, "file");
}

function sizeText(bytes: number | undefined): string {
  return bytes === undefined ? "" : ` (${(bytes / 1024 ** 2).toFixed(1)} MB)`;
}

/** A release, as GitHub's API tells it. */
export interface Release {
  readonly tag_name: string;
  readonly draft?: boolean | undefined;
  readonly prerelease?: boolean | undefined;
  readonly assets: readonly ReleaseAsset[];
}

export interface ReleaseAsset {
  readonly name: string;
  /** In bytes. */
  readonly size?: number | undefined;
  readonly browser_download_url: string;
  /** `sha256:HEX` */
  readonly digest?: string | null | undefined;
}

export interface ReleaseApi {
  /** Base address. */
  readonly base: URL;
  readonly signal: AbortSignal;
}

const asset = z.object({
  name: z.string(),
  size: z.number().optional(),
  browser_download_url: z.string(),
  digest: z.string().nullish(),
});
const release = z.object({
  tag_name: z.string(),
  draft: z.boolean().optional(),
  prerelease: z.boolean().optional(),
  assets: z.array(asset),
});

const pageLength = 100;
const mostPages = 20;
/** Longest answer and longest text file, in bytes. */
const mostText = 16 * 1024 * 1024;

/** The repository's releases, newest first; drafts are left out. Throws as `fetchSource` does. */
async function listReleases(api: ReleaseApi, repository: string): Promise<readonly Release[]> {
  const all: Release[] = [];
  for (let page = 1; page <= mostPages; page += 1) {
    const path = `/repos/${repository}/releases?per_page=${pageLength}&page=${page}`;
    const found = await ask(api, path, z.array(release));
    if (found === undefined) throw noRepository(api, repository);
    for (const release of found) all.push(release);
    if (found.length < pageLength) break;
  }
  return all.filter(({ draft }) => draft !== true);
}

/** Undefined when there is none that is no preview. */
function latestRelease(api: ReleaseApi, repository: string): Promise<Release | undefined> {
  return ask(api, `/repos/${repository}/releases/latest`, release);
}

/** Throws McpvalsError `extension/unreachable` for a release of another tag. */
async function releaseOfTag(api: ReleaseApi, repository: string, tag: string): Promise<Release | undefined> {
  const path = `/repos/${repository}/releases/tags/${encodeURIComponent(tag.toWellFormed())}`;
  const found = await ask(api, path, release);
  if (found === undefined || found.tag_name === tag) return found;
  throw unreachable(`${api.base.origin}${path}`, `the answer is the release ${found.tag_name}, not ${tag}`);
}

/** The bytes of a small file of a release. Throws as `fetchSource` does. */
async function smallAsset(
  api: ReleaseApi,
  { name, browser_download_url: url }: ReleaseAsset,
): Promise<Buffer> {
  const options = { base: api.base, signal: api.signal, accept: "application/octet-stream" };
  const bytes = await fetchSource(assetAddress(name, url), options, (body) => collect(body, url));
  if (bytes === undefined) throw unreachable(url, "there is no such file");
  return bytes;
}

/** Throws McpvalsError `extension/unreachable` for what is no address. */
function assetAddress(name: string, url: string): string {
  if (URL.canParse(url)) return url;
  throw new McpvalsError("extension/unreachable", `the release gives no address for ${name}: ${url}`);
}

async function ask<T>(
  { base, signal }: ReleaseApi,
  path: string,
  schema: z.ZodType<T>,
): Promise<T | undefined> {
  const address = `${base.href.replace(/\/+$/, "")}${path}`;
  const options = { base, signal, accept: "application/vnd.github+json" };
  const text = await fetchSource(address, options, (body) => collect(body, address));
  if (text === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(text.toString("utf8")));
  } catch (cause) {
    throw unreachable(address, "the answer is not one of GitHub's API", cause);
  }
}

async function collect(body: Body, address: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > mostText) throw unreachable(address, "the answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function noRepository({ base }: ReleaseApi, repository: string): McpvalsError {
  return new McpvalsError(
    "extension/not-found",
    `${base.origin} has no repository ${repository}, or none that everybody may read.`,
  );
}

/** What vouches for the files of a release. */
export interface ReleaseChecks {
  /** `sha256:HEX` of its file of checksums; absent when it has none. */
  readonly checksums?: string;
  /** What a file must be, as `sha256:HEX`. Throws McpvalsError `extension/integrity` when nobody vouches for it. */
  expected(asset: ReleaseAsset): string;
  /** As `expected`, but undefined when nobody vouches for the file and the release has no checksums at all. */
  known(asset: ReleaseAsset): string | undefined;
}

/**
 * Fetches the checksums of a release; where it has none, the digests that its API tells take their place. Sigstore bundles
 * are not looked at. `shown` is what errors call the release. Throws McpvalsError `extension/integrity`, also when the
 * checksums are not as locked.
 */
async function releaseChecks(
  api: ReleaseApi,
  release: Release,
  { locked, shown }: { readonly locked: LockedExtension | undefined; readonly shown: string },
): Promise<ReleaseChecks> {
  const name = checksumsFile(release.assets.map((asset) => asset.name));
  const file = release.assets.find((asset) => asset.name === name);
  if (file === undefined) {
    if (locked?.checksums !== undefined) {
      throw lockMismatch(`the checksums of ${shown}`, locked.checksums, "a release without any");
    }
    return checksOf(shown, (asset) => digestOf(asset));
  }
  const content = await smallAsset(api, file);
  const checksums = `sha256:${hash("sha256", content)}`;
  if (locked?.checksums !== undefined && locked.checksums !== checksums) {
    throw lockMismatch(`${file.name} of ${shown}`, locked.checksums, checksums);
  }
  compare(`${file.name} of ${shown}`, digestOf(file), checksums);
  const sums = readChecksums(content.toString("utf8"), `${file.name} of ${shown}`);
  const sumOf = (asset: ReleaseAsset): string => {
    const sum = sums.get(asset.name);
    if (sum === undefined) throw notListed(asset, file, shown);
    compare(`${asset.name} of ${shown}, in ${file.name},`, digestOf(asset), sum);
    return sum;
  };
  return { checksums, expected: sumOf, known: sumOf };
}

/** What the chosen file must be: what the release says, which must be what the user has given, if anything. */
function expectedHash(
  checks: ReleaseChecks,
  asset: ReleaseAsset,
  { sha256, shown }: Pick<OfferExpectations, "sha256"> & { readonly shown: string },
): string {
  if (sha256 === undefined) return checks.expected(asset);
  const given = givenHash(sha256);
  const known = checks.known(asset) ?? given;
  if (known === given) return given;
  throw integrityError({
    file: `${asset.name} of ${shown}`,
    expected: `${given}, as given`,
    found: `${known} in what the release says of it`,
    hint: "Compare both with what its makers publish elsewhere.",
  });
}

/** A hash that the user has given, as the lock has it. */
export function givenHash(sha256: string): string {
  return `sha256:${sha256.replace(/^sha256:/i, "").toLowerCase()}`;
}

/** The error for what is not as the lock has it. */
export function lockMismatch(file: string, locked: string, found: string): McpvalsError {
  return integrityError({
    file,
    expected: `${locked}, as locked`,
    found,
    hint: "Somebody changed the release after it was locked, or the lock. Ask its makers why; if all is well, remove its entry from mcp-eval.lock and add it anew.",
  });
}

function checksOf(shown: string, known: ReleaseChecks["known"]): ReleaseChecks {
  const expected = (asset: ReleaseAsset): string => {
    const hash = known(asset);
    if (hash !== undefined) return hash;
    throw new McpvalsError(
      "extension/integrity",
      `nothing says what ${asset.name} of ${shown} must be: the release has no checksums.sha256, and its API tells no digest. Nothing of it was fetched.`,
      { hint: "Give the file's SHA-256 yourself with mcpvals extensions add PACKAGE --sha256 HEX." },
    );
  };
  return { expected, known };
}

function digestOf({ digest }: ReleaseAsset): string | undefined {
  const text = digest?.toLowerCase();
  return text !== undefined && /^sha256:[0-9a-f]{64}$/.test(text) ? text : undefined;
}

function compare(file: string, digest: string | undefined, found: string): void {
  if (digest === undefined || digest === found) return;
  throw integrityError({
    file,
    expected: `${digest}, as its API tells`,
    found,
    hint: "The release contradicts itself: somebody changed a part of it. Tell its makers.",
  });
}

function notListed(asset: ReleaseAsset, file: ReleaseAsset, shown: string): McpvalsError {
  return new McpvalsError(
    "extension/integrity",
    `${file.name} of ${shown} does not list ${asset.name}, so nothing says what that must be. Nothing of it was fetched.`,
    { hint: "Tell its makers: the checksums must list every file that is used." },
  );
}

/** `v1`, `1` or `v1.2`: any version that begins so. */
export function isPartialVersion(version: string): boolean {
  return /^v?\d+(\.\d+)?$/.test(version);
}

/** The newest of the tags that are versions and no previews; with `begin` of those that begin so. */
export function newestTag(tags: readonly string[], begin?: string): string | undefined {
  const wanted = begin?.replace(/^v/, "").split(".").map(Number) ?? [];
  const [newest] = tags
    .flatMap((tag) => {
      const version = parse(tag, { loose: true });
      return version === null || version.prerelease.length > 0 || !beginsWith(version, wanted)
        ? []
        : [{ tag, version }];
    })
    .sort((a, b) => rcompare(a.version, b.version));
  return newest?.tag;
}

/** The tags that an exact version can mean, as written first. */
export function tagsOf(version: string): readonly string[] {
  if (parse(version) === null) return [version];
  return [version, version.startsWith("v") ? version.slice(1) : `v${version}`];
}

function beginsWith({ major, minor }: SemVer, wanted: readonly number[]): boolean {
  return wanted.every((part, index) => part === [major, minor][index]);
}

/**
 * Reads a file of checksums: lines of `HEX  NAME` or `HEX *NAME`, SHA-256. Other lines are left out. Throws McpvalsError
 * `extension/integrity` when it has two sums for one name.
 */
export function readChecksums(text: string, shown: string): ReadonlyMap<string, string> {
  const sums = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, hex = "", name = ""] = /^([0-9a-f]{64})[ \t]+\*?(?:\.\/)?(\S.*)$/i.exec(line.trimEnd()) ?? [];
    if (name === "") continue;
    const sum = `sha256:${hex.toLowerCase()}`;
    const earlier = sums.get(name);
    if (earlier !== undefined && earlier !== sum) {
      throw new McpvalsError("extension/integrity", `${shown} has two different checksums for ${name}.`, {
        hint: "Tell whoever made the release.",
      });
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

/** Longest file that is fetched, in bytes. */
const mostBytes = 500 * 1024 * 1024;

export interface Download {
  readonly address: string;
  /** Absolute path of the file that is written. */
  readonly path: string;
  /** What errors call it. */
  readonly shown: string;
  /** `sha256:HEX` */
  readonly expected: string;
  /** In bytes, if it is known. */
  readonly size?: number | undefined;
}

/**
 * Fetches a file and checks it. Throws McpvalsError `extension/integrity` when it is not what was expected or too large,
 * and as `fetchSource` does; what was written stays.
 */
async function download(
  { address, path, shown, expected, size }: Download,
  options: Omit<FetchOptions, "accept">,
): Promise<void> {
  if (size !== undefined && size > mostBytes) throw tooLarge(shown);
  const found = await fetchSource(address, { ...options, accept: "application/octet-stream" }, (body) =>
    write(body, path, shown),
  );
  if (found === undefined) throw unreachable(address, "there is no such file");
  if (found.hash === expected) return;
  const part = size === undefined || size === found.bytes ? "" : ` in ${found.bytes} of ${size} bytes`;
  throw integrityError({
    file: shown,
    expected,
    found: found.hash + part,
    hint: "It was damaged on the way, or somebody changed it. Try once more; if it stays, tell its makers.",
  });
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
  return new McpvalsError(
    "extension/integrity",
    `${shown} is longer than ${mostBytes / 1024 ** 2} MB, which no extension is.`,
  );
}
