import * as z from "zod";
import { McpvalsError } from "../../core/errors/error.ts";
import { type Body, fetchSource, unreachable } from "./fetch-source.ts";

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
export async function listReleases(api: ReleaseApi, repository: string): Promise<readonly Release[]> {
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
export function latestRelease(api: ReleaseApi, repository: string): Promise<Release | undefined> {
  return ask(api, `/repos/${repository}/releases/latest`, release);
}

/** Throws McpvalsError `extension/unreachable` for a release of another tag. */
export async function releaseOfTag(
  api: ReleaseApi,
  repository: string,
  tag: string,
): Promise<Release | undefined> {
  const path = `/repos/${repository}/releases/tags/${encodeURIComponent(tag.toWellFormed())}`;
  const found = await ask(api, path, release);
  if (found === undefined || found.tag_name === tag) return found;
  throw unreachable(`${api.base.origin}${path}`, `the answer is the release ${found.tag_name}, not ${tag}`);
}

/** The bytes of a small file of a release. Throws as `fetchSource` does. */
export async function smallAsset(
  api: ReleaseApi,
  { name, browser_download_url: url }: ReleaseAsset,
): Promise<Buffer> {
  const options = { base: api.base, signal: api.signal, accept: "application/octet-stream" };
  const bytes = await fetchSource(assetAddress(name, url), options, (body) => collect(body, url));
  if (bytes === undefined) throw unreachable(url, "there is no such file");
  return bytes;
}

/** Throws McpvalsError `extension/unreachable` for what is no address. */
export function assetAddress(name: string, url: string): string {
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
