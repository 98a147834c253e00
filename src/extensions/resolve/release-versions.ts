import { parse, rcompare, type SemVer } from "semver";

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
