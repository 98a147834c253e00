import { maxMessageBytes } from "../../base/limits.ts";
import { createWriteStream } from "node:fs";
import { chmod, mkdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { parse, rcompare } from "semver";
import * as z from "zod";
import { McpvalsError } from "../../base/error.ts";
import type { LockedExtension } from "../lock-file.ts";
import { abortAfter, pause } from "../../process/deadline.ts";
import { releasePlatform } from "../../process/environment.ts";
import { isArchive, nameChecker, unpackArchive, unsafeArchive } from "./archive.ts";
import {
  type FetchedFiles,
  hashBytes,
  listFiles,
  type PackageSource,
  programHash,
  type SourceContext,
} from "./cache.ts";
import { givenHash, integrityError, lockMismatch } from "./files.ts";
import {
  manifestName,
  platformAsset,
  platformName,
  readPackage,
  topFolder,
  type ReleaseRef,
} from "./program.ts";

const assetSchema = z.object({
  name: z.string(),
  /** In bytes. */
  size: z.number().optional(),
  browser_download_url: z.string(),
  /** `sha256:HEX` */
  digest: z.string().nullish(),
});
const releaseSchema = z.object({
  tag_name: z.string(),
  draft: z.boolean().optional(),
  prerelease: z.boolean().optional(),
  assets: z.array(assetSchema),
});
type Asset = z.output<typeof assetSchema>;
type Release = z.output<typeof releaseSchema>;

const pageLength = 100;
const maxPages = 20;
/** Largest file of a release, in bytes. */
const maxBytes = 500 * 1024 * 1024;

/**
 * The releases of a repository, as GitHub's API lists them. A file is verified with the release's checksums, or with the
 * digests of the API; Sigstore bundles are not read. Throws McpvalsError `extension/source-not-allowed` for an invalid
 * `releasesUrl`.
 */
export function releaseSource(
  ref: ReleaseRef,
  { releasesUrl, signal, onProgress }: SourceContext & { readonly releasesUrl?: string },
): PackageSource {
  const base = baseAddress(releasesUrl);
  const api = `${base.href.replace(/\/+$/, "")}/repos/${ref.owner}/${ref.repo}/releases`;
  /** By tag, so that nothing is requested twice. */
  const seen = new Map<string, Release>();

  /** An answer of the API; undefined for 404. */
  const ask = async <T>(address: string, schema: z.ZodType<T>): Promise<T | undefined> => {
    const options = { base, signal, accept: "application/vnd.github+json" };
    const text = await fetchSource(address, options, (body) => readText(address, body));
    if (text === undefined) return undefined;
    try {
      return schema.parse(JSON.parse(text.toString("utf8")));
    } catch (cause) {
      throw unreachable(address, "the answer is not one of GitHub's API", cause);
    }
  };

  /** The releases, newest first, without drafts. */
  const list = async (): Promise<readonly Release[]> => {
    const all: Release[] = [];
    for (let page = 1; page <= maxPages; page += 1) {
      const found = await ask(`${api}?per_page=${pageLength}&page=${page}`, z.array(releaseSchema));
      if (found === undefined) {
        const message = `${base.origin} has no public repository ${ref.owner}/${ref.repo}.`;
        throw new McpvalsError("extension/not-found", message);
      }
      for (const each of found) all.push(each);
      if (found.length < pageLength) break;
    }
    return all.filter(({ draft }) => draft !== true);
  };

  const noVersion = (version: string, releases: readonly Release[]): McpvalsError => {
    const tags = releases.slice(0, 20).map(({ tag_name }) => tag_name);
    const wanted = version === "latest" ? "no stable release" : `no release ${version}`;
    return new McpvalsError("extension/not-found", `${ref.name} has ${wanted}.`, {
      hint: tags.length === 0 ? "It has no releases at all." : `It has ${tags.join(", ")}.`,
    });
  };

  const remember = (found: Release): Release => {
    seen.set(found.tag_name, found);
    return found;
  };

  const find = async (version: string): Promise<Release> => {
    for (const tag of tagsOf(version)) {
      const address = `${api}/tags/${encodeURIComponent(tag.toWellFormed())}`;
      const found = seen.get(tag) ?? (await ask(address, releaseSchema));
      if (found === undefined) continue;
      if (found.tag_name !== tag)
        throw unreachable(address, `the answer is the release ${found.tag_name}, not ${tag}`);
      if (found.draft !== true) return remember(found);
    }
    throw noVersion(version, await list());
  };

  const fetchAsset = async <T>(
    asset: Asset,
    read: (body: Body, address: string) => Promise<T>,
  ): Promise<T> => {
    const address = assetAddress(asset);
    const options = { base, signal, accept: "application/octet-stream" };
    const found = await fetchSource(address, options, (body) => read(body, address));
    if (found === undefined) throw unreachable(address, "there is no such file");
    return found;
  };
  const smallAsset = (asset: Asset): Promise<Buffer> =>
    fetchAsset(asset, (body, address) => readText(address, body));

  /**
   * Fetches the checksums of a release; without any, the digests of the API take their place. `hashOf` gives what a file must
   * be, undefined when it is unknown. Throws McpvalsError `extension/integrity`, also when the checksums are not those of
   * the lock.
   */
  const checksOf = async ({ assets }: Release, shown: string, locked: LockedExtension | undefined) => {
    const names = assets.map(({ name }) => name);
    const name =
      ["checksums.sha256", "checksums.txt", "SHA256SUMS"].find((each) => names.includes(each)) ??
      names.find((each) => /[-_.]checksums\.txt$/.test(each));
    const file = assets.find((each) => each.name === name);
    if (file === undefined) {
      if (locked?.checksums === undefined) return { hashOf: digestOf };
      throw lockMismatch(`the checksums of ${shown}`, locked.checksums, "a release without any");
    }
    const named = `${file.name} of ${shown}`;
    const content = await smallAsset(file);
    const checksums = hashBytes(content);
    if (locked?.checksums !== undefined && locked.checksums !== checksums)
      throw lockMismatch(named, locked.checksums, checksums);
    compareDigest(named, file, checksums);
    const sums = readChecksums(content.toString("utf8"), named);
    const hashOf = (asset: Asset): string => {
      const sum = sums.get(asset.name);
      if (sum === undefined) {
        const message = `${named} does not list ${asset.name}, so it cannot be verified. Nothing of it was fetched.`;
        throw new McpvalsError("extension/integrity", message, {
          hint: "Tell the authors: the checksums must list every file that is used.",
        });
      }
      compareDigest(`${asset.name} of ${shown}, in ${file.name},`, asset, sum);
      return sum;
    };
    return { checksums, hashOf };
  };

  /** Throws McpvalsError `extension/integrity` for a file that is not what was expected, or too large. */
  const download = async (asset: Asset, path: string, shown: string, hash: string): Promise<void> => {
    const { size } = asset;
    const tooLarge = `${shown} is larger than the limit of ${maxBytes / 1024 ** 2} MB for extensions.`;
    if (size !== undefined && size > maxBytes) throw new McpvalsError("extension/integrity", tooLarge);
    const bytes = await fetchAsset(asset, async (body) => {
      const most = limited(body, maxBytes, () => new McpvalsError("extension/integrity", tooLarge));
      await pipeline(most, createWriteStream(path));
      return (await stat(path)).size;
    });
    const found = await programHash(path);
    if (found === hash) return;
    const part = size === undefined || size === bytes ? "" : ` in ${bytes} of ${size} bytes`;
    throw integrityError({
      file: shown,
      expected: hash,
      found: `${found}${part}`,
      hint: "It was damaged on the way, or somebody changed it. Try once more; if it stays, tell the authors.",
    });
  };

  /** An archive's own manifest takes precedence over that of the release. */
  const addManifest = async (asset: Asset, hash: string, folder: string, shown: string): Promise<void> => {
    const paths = await listFiles(folder);
    if ([manifestName, `${topFolder(paths)}${manifestName}`].some((path) => paths.includes(path))) return;
    const content = await smallAsset(asset);
    const found = hashBytes(content);
    if (found !== hash) {
      const hint = "It was damaged on the way, or somebody changed it. Tell the authors.";
      throw integrityError({ file: `${manifestName} of ${shown}`, expected: hash, found, hint });
    }
    await writeFile(join(folder, manifestName), content, { flag: "wx" });
  };

  const unpackAsset = async (
    asset: Asset,
    hash: string,
    folder: string,
    shown: string,
  ): Promise<Set<string>> => {
    if (asset.name.includes("/"))
      throw unsafeArchive(`the release ${shown}`, `has a file with the name ${asset.name}`);
    const name = nameChecker(`the release ${shown}`)(asset.name, "file");
    const beside = join(dirname(folder), "fetched");
    await mkdir(beside);
    const path = join(beside, name);
    const size = asset.size === undefined ? "" : ` (${(asset.size / 1024 ** 2).toFixed(1)} MB)`;
    onProgress(`fetching ${name} of ${shown}${size}`);
    await download(asset, path, `${name} of ${shown}`, hash);
    const executables = isArchive(name)
      ? await unpackArchive(path, folder, { shown: `${name} of ${shown}`, signal })
      : [name];
    if (!isArchive(name)) await rename(path, join(folder, name));
    await rm(beside, { recursive: true, force: true });
    return new Set(executables);
  };

  return {
    async newest() {
      const { version } = ref;
      if (version === "latest") {
        const latest = await ask(`${api}/latest`, releaseSchema);
        if (latest !== undefined) return remember(latest).tag_name;
      } else if (!isPartialVersion(version)) return (await find(version)).tag_name;
      const releases = (await list()).map(remember);
      const stable = releases.filter(({ prerelease }) => prerelease !== true).map(({ tag_name }) => tag_name);
      const tag =
        version === "latest"
          ? (newestTag(stable) ?? stable[0])
          : (newestTag(stable, version) ?? tagsOf(version).find((each) => seen.has(each)));
      if (tag === undefined) throw noVersion(version, releases);
      return tag;
    },

    async offer(version, locked, sha256) {
      const release = await find(version);
      const shown = `${ref.name} ${release.tag_name}`;
      const { asset, platform } = chooseAsset(release.assets, ref.repo, shown, locked);
      const checks = await checksOf(release, shown, locked);
      const given = sha256 === undefined ? undefined : givenHash(sha256);
      const known = checks.hashOf(asset);
      const hash = given ?? known;
      if (hash === undefined) {
        const message = `${asset.name} of ${shown} cannot be verified: the release has no checksums.sha256, and its API gives no digest. Nothing of it was fetched.`;
        throw new McpvalsError("extension/integrity", message, {
          hint: "Give the file's SHA-256 yourself with mcpvals extensions add PACKAGE --sha256 HEX.",
        });
      }
      if (known !== undefined && known !== hash)
        throw integrityError({
          file: `${asset.name} of ${shown}`,
          expected: `${hash}, as given`,
          found: `${known} in what the release says of it`,
          hint: "Compare both with what the authors publish elsewhere.",
        });
      const manifest = release.assets.find(({ name }) => name === manifestName);
      // Without a hash the release's manifest cannot be verified, and is not used.
      const manifestHash = manifest && checks.hashOf(manifest);
      const fetch = async (folder: string): Promise<FetchedFiles> => {
        const executables = await unpackAsset(asset, hash, folder, shown);
        if (manifest !== undefined && manifestHash !== undefined)
          await addManifest(manifest, manifestHash, folder, shown);
        const paths = await listFiles(folder);
        const files = paths.map((path) => ({ path, executable: executables.has(path) }));
        executables.add((await readPackage(ref, { name: asset.name, folder, files, shown })).program);
        for (const each of executables) await chmod(join(folder, each), 0o755);
        return { platform, executables };
      };
      return { version: release.tag_name, name: asset.name, hash, checksums: checks.checksums, fetch };
    },
  };
}

/** The file of the lock, else the one for this platform. Throws McpvalsError `extension/not-found`. */
function chooseAsset(
  assets: readonly Asset[],
  repo: string,
  shown: string,
  locked: LockedExtension | undefined,
): { readonly asset: Asset; readonly platform: string } {
  const names = assets.map(({ name }) => name);
  const own = platformName(releasePlatform());
  const key = locked?.files[own] === undefined ? "any" : own;
  const name = locked?.files[key]?.name;
  const found = name === undefined ? platformAsset(names, repo, releasePlatform()) : { name, platform: key };
  const asset = assets.find((each) => each.name === found?.name);
  if (found !== undefined && asset !== undefined) return { asset, platform: found.platform };
  const what = name === undefined ? `no file for ${own}` : `no file ${name} any more, which is locked`;
  throw new McpvalsError("extension/not-found", `${shown} has ${what}.`, {
    hint: `${names.length === 0 ? "It has no files." : `It has ${names.join(", ")}.`} Expected is a name such as ${repo}-${own}.zip.`,
  });
}

function readText(address: string, body: Body): Promise<Buffer> {
  return buffer(limited(body, maxMessageBytes, () => unreachable(address, "the answer is too long")));
}

/** Passes a body on, up to a limit of bytes. */
async function* limited(body: Body, most: number, tooLong: () => McpvalsError): Body {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > most) throw tooLong();
    yield chunk;
  }
}

/** Throws McpvalsError `extension/unreachable` for an invalid address. */
function assetAddress({ name, browser_download_url: url }: Asset): string {
  if (URL.canParse(url)) return url;
  throw new McpvalsError("extension/unreachable", `the release has no valid address for ${name}: ${url}`);
}

function digestOf({ digest }: Asset): string | undefined {
  const text = digest?.toLowerCase();
  return text !== undefined && /^sha256:[0-9a-f]{64}$/.test(text) ? text : undefined;
}

function compareDigest(file: string, asset: Asset, found: string): void {
  const digest = digestOf(asset);
  if (digest === undefined || digest === found) return;
  throw integrityError({
    file,
    expected: `${digest}, as its API says`,
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
    if ((sums.get(name) ?? sum) !== sum) {
      const message = `${shown} has two different checksums for ${name}.`;
      throw new McpvalsError("extension/integrity", message, { hint: "Tell the authors of the release." });
    }
    sums.set(name, sum);
  }
  return sums;
}

export interface FetchOptions {
  /** Where releases come from; redirects stay there. */
  readonly base: URL;
  readonly signal: AbortSignal;
  readonly accept: string;
  /** Longest time without an answer or a piece of it, in milliseconds. Default: 30 seconds. */
  readonly silenceMs?: number;
  /** Longest time for all of it, in milliseconds. Default: half an hour. */
  readonly mostMs?: number;
}

/** A body that is being fetched. */
type Body = AsyncIterable<Uint8Array>;

const attempts = 2;
const retryMs = 300;
const maxRedirects = 5;

/**
 * Fetches an address and passes its body to `read`; undefined for 404. Follows at most five redirects that `checkAddress`
 * allows. Failed connections and errors of the server are tried a second time, `read` included. Throws McpvalsError
 * `extension/unreachable` with the cause, `extension/source-not-allowed`, what `read` throws as McpvalsError, and the
 * signal's reason.
 */
export async function fetchSource<T>(
  address: string,
  { mostMs = 30 * 60_000, ...options }: FetchOptions,
  read: (body: Body) => Promise<T>,
): Promise<T | undefined> {
  const late = (): McpvalsError => unreachable(address, `it took more than ${mostMs / 1000} seconds`);
  using limit = abortAfter(mostMs, late, options.signal);
  const { signal } = limit;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await fetchOnce(address, { ...options, signal }, read);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof McpvalsError) throw error;
      if (attempt === attempts) throw unreachable(address, messageOf(error), error);
      await pause(retryMs, signal);
    }
  }
}

/** The error `extension/unreachable` for an address; `why` ends the sentence. */
function unreachable(address: string, why: string, cause?: unknown): McpvalsError {
  const message = `${withoutQuery(new URL(address))} could not be fetched: ${why}`;
  return new McpvalsError("extension/unreachable", message, {
    cause,
    hint: "Check the network and releasesUrl. With the extension in the cache and in the lock no network is needed.",
  });
}

/** The message of `fetch` itself says only that it failed. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, cause } = error;
  return cause instanceof Error && cause.message !== "" ? `${message}: ${cause.message}` : message;
}

async function fetchOnce<T>(
  address: string,
  { base, accept, signal, silenceMs = 30_000 }: FetchOptions,
  read: (body: Body) => Promise<T>,
): Promise<T | undefined> {
  signal.throwIfAborted();
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(new Error(`nothing came for ${silenceMs} ms`)), silenceMs);
  const options = { accept, base, signal: AbortSignal.any([silence.signal, signal]) };
  const watched = async function* (body: Body | readonly Uint8Array[]): Body {
    for await (const chunk of body) {
      timer.refresh();
      yield chunk;
      timer.refresh();
    }
  };
  try {
    const response = await follow(address, options);
    if (response.ok) return await read(watched(response.body ?? []));
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    throw refusal(address, response);
  } catch (error) {
    throw silence.signal.aborted ? silence.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}

async function follow(address: string, { base, accept, signal }: FetchOptions): Promise<Response> {
  let url = new URL(address);
  let from = `the list of releases of ${base.origin}`;
  for (let redirects = 0; ; redirects += 1) {
    checkAddress(url, base, from);
    const headers = { accept, "accept-encoding": "identity", "user-agent": "mcpvals" };
    const response = await fetch(url, { redirect: "manual", headers, signal });
    const location = response.headers.get("location");
    if (response.status < 300 || response.status > 399 || location === null) return response;
    await response.body?.cancel();
    if (redirects === maxRedirects)
      throw unreachable(address, `it redirects more than ${maxRedirects} times`);
    from = withoutQuery(url);
    url = new URL(location, url);
  }
}

/** An Error for a response that is worth another try, else an McpvalsError. */
function refusal(address: string, { status, statusText, headers }: Response): Error {
  const answered = `the server answered ${status} ${statusText}`.trim();
  if (status >= 500) return new Error(answered);
  const isLimited = headers.get("x-ratelimit-remaining") === "0" || headers.has("retry-after");
  if (status !== 429 && !(status === 403 && isLimited)) return unreachable(address, answered);
  const reset = Number(headers.get("x-ratelimit-reset"));
  const seconds = headers.get("retry-after");
  const until =
    reset > 0
      ? `; more are allowed from ${new Date(reset * 1000).toISOString()} on`
      : seconds === null
        ? ""
        : `; try again in ${seconds} seconds`;
  return unreachable(address, `its limit of requests is used up${until}`);
}

/** Base address of GitHub's API. */
const githubApi = "https://api.github.com";

/**
 * Throws McpvalsError `extension/source-not-allowed` for an address that releases of `base` must not come from: another
 * origin, except files of GitHub for GitHub's API; and one that is neither https nor loopback. `from` is the address that
 * led there.
 */
export function checkAddress(address: URL, base: URL, from: string): void {
  const { protocol, port, hostname } = address;
  const leads = `${from} leads to ${withoutQuery(address)}`;
  if (!isPrivate(address)) throw notAllowed(`${leads}, which is not https`);
  if (hasUser(address)) throw notAllowed(`${leads} with a user's name in it`);
  const isOfGithub = hostname === "github.com" || hostname.endsWith(".githubusercontent.com");
  const isFileOfGithub = base.origin === githubApi && protocol === "https:" && port === "" && isOfGithub;
  if (address.origin === base.origin || isFileOfGithub) return;
  throw notAllowed(`${leads}, another source than ${base.origin}`);
}

/** Parses the base address of releases. Throws McpvalsError `extension/source-not-allowed` for an invalid one. */
export function baseAddress(text: string = githubApi): URL {
  const base = URL.parse(text);
  if (base === null) throw notAllowed(`releasesUrl is not a URL: ${text}`);
  if (!isPrivate(base)) throw notAllowed(`releasesUrl is not https: ${withoutQuery(base)}`);
  if (hasUser(base)) throw notAllowed(`releasesUrl has a user's name in it: ${withoutQuery(base)}`);
  if (base.search !== "") throw notAllowed(`releasesUrl has a question mark: ${withoutQuery(base)}`);
  return base;
}

/** The query may contain a secret. */
function withoutQuery(address: URL): string {
  return `${address.origin}${address.pathname}`;
}

function notAllowed(message: string): McpvalsError {
  return new McpvalsError("extension/source-not-allowed", `${message}. Nothing was fetched from there.`, {
    hint: "Files come only from the place that releasesUrl names, with https. A mirror has to serve the files itself.",
  });
}

/** Whether an address is https or loopback. */
function isPrivate({ protocol, hostname }: URL): boolean {
  const isLoopback = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname);
  return protocol === "https:" || (protocol === "http:" && isLoopback);
}

function hasUser({ username, password }: URL): boolean {
  return username !== "" || password !== "";
}
