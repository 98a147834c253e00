import { didYouMean } from "./did-you-mean.ts";
import { extensionSettings } from "./extension/extension-table-schema.ts";
import { parsePackageRef } from "./extension/package-ref.ts";
import type { KeyPath } from "./key-path.ts";

/** What other tools call the Streamable HTTP transport, without case, `-` and `_`. */
const streamableHttp = ["https", "streamablehttp"];

/** The hint for a transport that goes by another name elsewhere; undefined for any other value. */
export function transportHint(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const word = value.toLowerCase().replaceAll(/[-_\s]/g, "");
  return streamableHttp.includes(word) ? 'Did you mean "shttp"?' : undefined;
}

/** The hint for a key that goes by another name here; undefined for any other key. */
export function keyHint(key: string, parent: KeyPath): string | undefined {
  const isToolTest = parent.length === 4 && parent[0] === "toolHealthSuites" && parent[2] === "tests";
  if (isToolTest && key === "tool") return 'The tool is named by "name".';
  const isServer =
    ["servers", "mcp_servers"].some((each) => each === parent.at(-2)) || parent.at(-1) === "server";
  return isServer && key === "sandbox"
    ? "A sandbox confines a program that talks over stdin and stdout (transport: stdio); a server with an address could not be reached in it."
    : undefined;
}

/** The hint for what should be an object with these keys; undefined where the keys themselves are the best hint. */
export function objectHint(path: KeyPath, value: unknown, keys: string): string | undefined {
  const [parent, key] = path.slice(-2);
  if (typeof key !== "string") return undefined;
  if (parent === "extensions") return extensionHint(key, value);
  // A step `ALIAS.OPERATION`, in a list of steps.
  return typeof parent === "number" && key.includes(".")
    ? `Its keys are the arguments of the operation, and ${keys}. Without any it is written {}.`
    : undefined;
}

/** For an entry that is a misspelt setting, or only the package of an extension. */
function extensionHint(name: string, value: unknown): string {
  if (typeof value === "string" && parsePackageRef(value).ok)
    return `Write it as { package: ${JSON.stringify(value)} }.`;
  const near = didYouMean(name, extensionSettings);
  const meant = near === undefined ? "" : `Did you mean "${near}"? `;
  return `${meant}Settings for all extensions are ${extensionSettings.join(", ")}; any other key is an extension, an object with its package.`;
}
