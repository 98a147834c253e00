import { hash } from "node:crypto";
import { McpvalsError } from "../../core/errors/error.ts";
import type { LockedExtension } from "../../core/formats/extension/lock-file.ts";
import { checksumsFile, readChecksums } from "./checksums.ts";
import { integrityError } from "./integrity-error.ts";
import { type Release, type ReleaseApi, type ReleaseAsset, smallAsset } from "./release-api.ts";
import type { OfferExpectations } from "./versioned-source.ts";

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
export async function releaseChecks(
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
export function expectedHash(
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
