import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { McpvalsError } from "../../core/errors/error.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { releasePlatform } from "../../process/platform.ts";
import { ArchiveNames, unsafeArchive } from "./archive-names.ts";
import { isArchive, unpackArchive } from "./archive.ts";
import { type Candidate, chooseProgram, type ProgramWithManifest, topFolder } from "./choose-program.ts";
import { download } from "./download.ts";
import { type PlatformAsset, platformAsset, platformName } from "./platform-assets.ts";
import { manifestName, readManifest } from "./read-manifest.ts";
import {
  assetAddress,
  latestRelease,
  listReleases,
  type Release,
  type ReleaseApi,
  type ReleaseAsset,
  releaseOfTag,
  smallAsset,
} from "./release-api.ts";
import { expectedHash, releaseChecks } from "./release-checks.ts";
import { isPartialVersion, newestTag, tagsOf } from "./release-versions.ts";
import { hashBytes, listFiles } from "./tree-hash.ts";
import type {
  FetchedFiles,
  Offer,
  OfferExpectations,
  SourceContext,
  VersionedSource,
} from "./versioned-source.ts";
import { integrityError } from "./integrity-error.ts";

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
