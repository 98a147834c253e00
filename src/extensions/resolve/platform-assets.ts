import type { ReleasePlatform } from "../../process/platform.ts";

/** A file of a release that fits a platform. */
export interface PlatformAsset {
  readonly name: string;
  /** `linux-amd64`, or `any` for what runs everywhere. */
  readonly platform: string;
  /** What stands before the platform. */
  readonly stem: string;
}

/** `linux-amd64`. */
export function platformName({ os, arch }: ReleasePlatform): string {
  return `${os}-${arch}`;
}

/**
 * Chooses among the names of a release's files the one for a platform: `NAME-OS-ARCH` or `NAME-any`, also with `_` or `.`
 * between, a version after the name, and the endings .zip, .tar.gz, .tgz, .exe or those that Node runs. Files named as the
 * repository come first, then the platform's own, then in the order of the endings. Undefined when there is none, and when several have
 * other names than the repository's.
 */
export function platformAsset(
  names: readonly string[],
  repo: string,
  platform: ReleasePlatform,
): PlatformAsset | undefined {
  const fitting = names.flatMap((name) => readName(name, platform) ?? []);
  const own = fitting.filter(({ stem }) => stem.toLowerCase() === repo.toLowerCase());
  const stems = new Set(fitting.map(({ stem }) => stem));
  if (own.length === 0 && stems.size > 1) return undefined;
  const [best] = (own.length > 0 ? own : fitting).sort((a, b) => a.rank - b.rank);
  return best === undefined ? undefined : { name: best.name, platform: best.platform, stem: best.stem };
}

interface RankedAsset extends PlatformAsset {
  /** The lower the better. */
  readonly rank: number;
}

function readName(name: string, platform: ReleasePlatform): RankedAsset | undefined {
  const ending = endings.find((each) => name.toLowerCase().endsWith(each)) ?? "";
  const body = name.slice(0, name.length - ending.length);
  const own = ownPattern(platform).exec(body);
  const stem = own?.groups?.["stem"] ?? anyPattern.exec(body)?.groups?.["stem"];
  if (stem === undefined) return undefined;
  const isAny = own === null;
  if (!isAny && ending === ".exe" && platform.os !== "windows") return undefined;
  const rank = endings.indexOf(ending) + (isAny ? 100 : 0);
  return { name, platform: isAny ? "any" : platformName(platform), stem: withoutVersion(stem), rank };
}

/** In order of preference; the last is none at all. */
const endings = [".zip", ".tar.gz", ".tgz", ".exe", ".mjs", ".js", ".cjs", ""];

const systemNames: Readonly<Record<string, readonly string[]>> = {
  darwin: ["darwin", "macos"],
};
const processorNames: Readonly<Record<string, readonly string[]>> = {
  amd64: ["amd64", "x64", "x86_64"],
  arm64: ["arm64", "aarch64"],
};

const anyPattern = /^(?<stem>.+)[-_.]any$/i;

function ownPattern({ os, arch }: ReleasePlatform): RegExp {
  const systems = (systemNames[os] ?? [os]).join("|");
  const processors = (processorNames[arch] ?? [arch]).join("|");
  return new RegExp(`^(?<stem>.+)[-_.](?:${systems})[-_.](?:${processors})$`, "i");
}

function withoutVersion(stem: string): string {
  return stem.replace(/[-_.]v?\d+(\.\d+)*([-+][\w.]+)?$/, "");
}
