import { homedir } from "node:os";
import { join, posix } from "node:path";
import picomatch from "picomatch";
import { McpvalsError } from "../../core/errors/error.ts";
import { type PackageRef, parsePackageRef } from "../../core/formats/extension/package-ref.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import type { ExtensionSettings } from "../../core/formats/model.ts";
import { runningPlatform } from "../../process/environment.ts";
import { ExtensionCache } from "./cache.ts";
import type { ExtensionPlaces, ExtensionResolver, ResolverOptions } from "./extension-resolver.ts";
import { resolveBundled, resolvePath } from "./program.ts";
import { sourceOf, VersionedPackage } from "./versioned-package.ts";

/**
 * Settings of a resolver: from options, else from the eval, else from the variables MCPVALS_EXTENSIONS_CACHE, an absolute
 * path, and MCPVALS_RELEASES_URL, else the defaults.
 */
export function extensionPlaces({
  options = {},
  settings = {},
  env,
}: {
  readonly options?: { readonly cacheDir?: string | undefined; readonly releasesUrl?: string | undefined };
  readonly settings?: ExtensionSettings | undefined;
  readonly env: Readonly<Record<string, string>>;
}): ExtensionPlaces {
  const home = homedir();
  // An empty variable is as good as none.
  const cacheDir = options.cacheDir ?? settings.cacheDir ?? (env["MCPVALS_EXTENSIONS_CACHE"] || undefined);
  const releasesUrl =
    options.releasesUrl ?? settings.releasesUrl ?? (env["MCPVALS_RELEASES_URL"] || undefined);
  return {
    cacheDir: cacheDir ?? join(home, ".mcpvals", "extensions"),
    ...withoutUndefined({ releasesUrl, allowedSources: settings.allowedSources }),
    home,
    env,
  };
}

/** Creates a resolver. Nothing is read or fetched yet. */
export function createResolver(options: ResolverOptions): ExtensionResolver {
  const { allowedSources, signal, home } = options;
  const cache = new ExtensionCache(options.cacheDir, signal);
  const context = { ...options, onProgress: options.onProgress ?? (() => undefined) };
  const open = (text: string): PackageRef => {
    signal.throwIfAborted();
    const ref = refOf(text);
    checkSource(ref, allowedSources);
    return ref;
  };
  const versioned = (text: string): VersionedPackage => {
    const ref = open(text);
    if (ref.kind !== "path" && ref.kind !== "bundled") {
      return new VersionedPackage(text, { ref, source: () => sourceOf(ref, context), cache, signal });
    }
    throw new McpvalsError("extension/invalid-package", `${text} has no versions to choose from.`, {
      hint: "Only github.com/ORG/REPO and npm:NAME have versions.",
    });
  };
  return {
    async resolve(spec, locked, how) {
      const ref = open(spec.package);
      switch (ref.kind) {
        case "path":
          return { extension: await resolvePath(ref, { written: spec.package, dir: spec.dir, home }) };
        case "bundled":
          return { extension: await resolveBundled(ref, spec.package) };
        case "release":
        case "npm":
          return versioned(spec.package).resolve(locked, how);
      }
    },
    newest: async (text) => versioned(text).newest(),
    pin: async (text, version, previous) => versioned(text).pin(version, previous),
    verify: async (text, locked) => versioned(text).verify(locked),
    cached: () => cache.list(),
    remove: (version) => cache.remove(version),
  };
}

function refOf(text: string): PackageRef {
  const parsed = parsePackageRef(text);
  if (parsed.ok) return parsed.ref;
  throw new McpvalsError("extension/invalid-package", parsed.message, { hint: parsed.hint });
}

/**
 * Throws McpvalsError `extension/source-not-allowed` when no glob matches the name of the package. Paths are compared as they
 * are written, but normalized. Without globs everything is allowed.
 */
export function checkSource(ref: PackageRef, allowed: readonly string[] | undefined): void {
  if (isAllowedSource(ref, allowed)) return;
  throw new McpvalsError(
    "extension/source-not-allowed",
    `the extension ${ref.name} comes from a source that is not allowed. Nothing of it was fetched or run.`,
    {
      hint: allowed?.length === 0 ? "allowedSources is empty." : `allowedSources has ${allowed?.join(", ")}.`,
    },
  );
}

function isAllowedSource(ref: PackageRef, allowed: readonly string[] | undefined): boolean {
  if (allowed === undefined) return true;
  const name = ref.kind === "path" ? plainPath(ref.name) : ref.name;
  return allowed.some((glob) => glob === name || matches(name, glob));
}

/** A glob with `./` matches only paths with `./`, which picomatch would ignore. */
function matches(name: string, glob: string): boolean {
  const [inside, wanted] = [name.startsWith("./"), glob.startsWith("./")];
  if (wanted && !inside) return false;
  const test = picomatch(wanted ? glob.slice(2) : glob, { dot: true, nonegate: true, windows: false });
  return test(inside ? name.slice(2) : name);
}

/** `./a/../../b` is not in `./a`, and `./a\b` is only on Windows. */
function plainPath(path: string): string {
  const slashes = runningPlatform() === "win32" ? path.replaceAll("\\", "/") : path;
  const plain = posix.normalize(slashes);
  return slashes.startsWith("./") && !plain.startsWith("../") ? `./${plain}` : plain;
}
