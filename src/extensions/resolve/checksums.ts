import { McpvalsError } from "../../core/errors/error.ts";

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
export function checksumsFile(names: readonly string[]): string | undefined {
  const usual = ["checksums.sha256", "checksums.txt", "SHA256SUMS"];
  return (
    usual.find((name) => names.includes(name)) ?? names.find((name) => /[-_.]checksums\.txt$/.test(name))
  );
}
