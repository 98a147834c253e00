import type { KeyPath } from "./key-path.ts";

/** What other tools call the Streamable HTTP transport, without case, `-` and `_`. */
const streamableHttp = ["http", "https", "streamablehttp"];

/** The hint for a transport that goes by another name elsewhere; undefined for any other value. */
export function transportHint(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const word = value.toLowerCase().replaceAll(/[-_\s]/g, "");
  return streamableHttp.includes(word) ? 'Did you mean "shttp"?' : undefined;
}

/** The hint for a key that goes by another name here; undefined for any other key. */
export function keyHint(key: string, parent: KeyPath): string | undefined {
  const isToolTest = parent.length === 4 && parent[0] === "toolHealthSuites" && parent[2] === "tests";
  return isToolTest && key === "tool" ? 'The tool is named by "name".' : undefined;
}
