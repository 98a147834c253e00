import { McpvalsError } from "../core/errors/error.ts";
import type { LockFile } from "../core/formats/extension/lock-file.ts";
import { listNames } from "../core/formats/did-you-mean.ts";
import { visibleText } from "../core/text/visible-text.ts";
import { entriesNamed, type LockedEntry } from "./locked-entries.ts";
import { type ExtensionFlags, openExtensions } from "./open-extensions.ts";
import { writeAnswer } from "./write-answer.ts";

/**
 * Carries out `mcpvals extensions pin` and gives the exit code: locks one version of a package, whatever files say of the
 * version, without the network when it is cached. Throws McpvalsError of the codes `extension/…`.
 */
export async function executeExtensionsPin(target: string, flags: ExtensionFlags): Promise<number> {
  const { name, version } = nameAndVersion(target);
  const { resolver, lock, shownLock, save } = await openExtensions(flags);
  const { written, version: before } = onlyEntry(name, lock);
  const locked = await resolver.pin(written, version, lock.extensions[written]);
  await save({ [written]: locked });
  const json = { lock: shownLock, written, from: before, to: locked.version };
  const how = before === locked.version ? `stays at ${before}` : `${before} -> ${locked.version}`;
  writeAnswer({ json, lines: [visibleText(`${written}  ${how}  in ${shownLock}`)] }, flags);
  return 0;
}

function nameAndVersion(target: string): { readonly name: string; readonly version: string } {
  const split = target.lastIndexOf("@");
  const [name, version] = [target.slice(0, split), target.slice(split + 1)];
  if (split > 0 && version !== "" && !version.includes("/")) return { name, version };
  throw new McpvalsError("usage/invalid-option", `${JSON.stringify(target)} names no version`, {
    hint: "Write it as NAME@VERSION; mcpvals extensions list shows the names.",
  });
}

function onlyEntry(name: string, lock: LockFile): LockedEntry {
  const [first, ...others] = entriesNamed(name, lock);
  if (first !== undefined && others.length === 0) return first;
  const all = [first, ...others].flatMap((entry) => entry?.written ?? []);
  throw new McpvalsError("usage/invalid-option", `${JSON.stringify(name)} could be ${listNames(all)}`, {
    hint: "Write the one that is meant in full, and @VERSION behind it.",
  });
}
