/** The operating system, as Node names it, such as `linux`, `darwin` or `win32`. */
export function runningPlatform(): string {
  return process.platform;
}

/** An operating system and a processor, as files of releases name them. */
export interface ReleasePlatform {
  /** `linux`, `darwin`, `windows`, or as Node has it. */
  readonly os: string;
  /** `amd64`, `arm64`, `386`, or as Node has it. */
  readonly arch: string;
}

/** What this process runs on. */
export function releasePlatform(
  platform: string = process.platform,
  arch: string = process.arch,
): ReleasePlatform {
  return { os: releaseSystems[platform] ?? platform, arch: releaseProcessors[arch] ?? arch };
}

const releaseSystems: Readonly<Record<string, string>> = { win32: "windows" };
const releaseProcessors: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386" };
