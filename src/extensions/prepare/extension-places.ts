import { homedir } from "node:os";
import { join } from "node:path";
import type { ExtensionSettings } from "../../core/formats/model.ts";

/** Where extensions come from and where they are kept. */
export interface ExtensionPlaces {
  /** Absolute folder. */
  readonly cacheDir: string;
  /** Base address of the API that lists releases; absent: GitHub's. */
  readonly releasesUrl?: string;
  /** Globs of packages without their version, of which one must fit; absent: any source. */
  readonly allowedSources?: readonly string[];
  /** Absolute path of the user's folder. */
  readonly home: string;
  /** The environment of programs that fetch packages. */
  readonly env: Readonly<Record<string, string>>;
}

/** What the places are chosen from; what is more to the front wins: options, the eval, the environment. */
export interface PlaceSources {
  readonly options?: { readonly cacheDir?: string | undefined; readonly releasesUrl?: string | undefined };
  /** Of the eval. */
  readonly settings?: ExtensionSettings | undefined;
  /** The variables MCPVALS_EXTENSIONS_CACHE, an absolute path, and MCPVALS_RELEASES_URL are heeded. */
  readonly env: Readonly<Record<string, string>>;
}

/** Decides where extensions come from and where they are kept. */
export function extensionPlaces({ options = {}, settings = {}, env }: PlaceSources): ExtensionPlaces {
  const home = homedir();
  const releasesUrl = options.releasesUrl ?? settings.releasesUrl ?? nonEmpty(env["MCPVALS_RELEASES_URL"]);
  const { allowedSources } = settings;
  return {
    cacheDir:
      options.cacheDir ??
      settings.cacheDir ??
      nonEmpty(env["MCPVALS_EXTENSIONS_CACHE"]) ??
      join(home, ".mcpvals", "extensions"),
    ...(releasesUrl === undefined ? {} : { releasesUrl }),
    ...(allowedSources === undefined ? {} : { allowedSources }),
    home,
    env,
  };
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
