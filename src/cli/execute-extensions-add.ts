import { McpvalsError } from "../core/errors/error.ts";
import { visibleText } from "../core/text/visible-text.ts";
import { type ExtensionFlags, openExtensions } from "./open-extensions.ts";
import { writeAnswer } from "./write-answer.ts";

export interface AddFlags extends ExtensionFlags {
  readonly sha256?: string;
}

/**
 * Carries out `mcpvals extensions add` and gives the exit code: fetches a package, verifies its files, and locks it.
 * Throws McpvalsError of the codes `extension/…`.
 */
export async function executeExtensionsAdd(written: string, flags: AddFlags): Promise<number> {
  const { cwd, resolver, lock, shownLock, save } = await openExtensions(flags);
  const before = Object.hasOwn(lock.extensions, written) ? lock.extensions[written] : undefined;
  const how = {
    frozen: false,
    offline: false,
    ...(flags.sha256 === undefined ? {} : { sha256: flags.sha256 }),
  };
  const { extension, locked } = await resolver.resolve({ package: written, dir: cwd }, before, how);
  if (locked === undefined) throw needsNoLock(written);
  const isNew = JSON.stringify(locked) !== JSON.stringify(before);
  if (isNew) await save({ [written]: locked });
  const { version } = locked;
  const line = isNew
    ? `${written} is now locked at ${version} in ${shownLock}`
    : `${written} was locked at ${version} in ${shownLock} before; its files are as they should be`;
  writeAnswer(
    {
      json: { lock: shownLock, written, ...locked, folder: extension.folder, added: isNew },
      lines: [visibleText(line)],
    },
    flags,
  );
  return 0;
}

function needsNoLock(written: string): McpvalsError {
  const what = written.startsWith("mcpvals:") ? "comes with mcpvals" : "is a path";
  return new McpvalsError("usage/invalid-option", `${written} ${what}, so that there is nothing to fetch`, {
    hint: "Tasks can use it as it is; only what is fetched is locked.",
  });
}
