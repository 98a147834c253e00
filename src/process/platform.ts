/** The operating system, as Node names it, such as `linux`, `darwin` or `win32`. */
export function runningPlatform(): string {
  return process.platform;
}
