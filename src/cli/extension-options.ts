import type { ExtensionsOptions } from "../run/extensions.ts";
import { writeError } from "./terminal.ts";

/** The flags of commands that run tasks, as far as they are about extensions. */
export interface ExtensionRunFlags {
  readonly frozen?: boolean;
  readonly releasesUrl?: string;
}

/** How a run gets its extensions. What it has to tell goes to stderr, each note once however many runs there are. */
export function extensionOptions({
  frozen = false,
  releasesUrl,
}: ExtensionRunFlags): Omit<ExtensionsOptions, "cwd"> {
  const told = new Set<string>();
  return {
    frozen,
    ...(releasesUrl === undefined ? {} : { releasesUrl }),
    onProgress: writeError,
    onNote(note) {
      if (!told.has(note)) writeError(`note: ${note}`);
      told.add(note);
    },
  };
}
