import { McpvalsError } from "../../core/errors/error.ts";
import type { PackageRef } from "../../core/formats/extension/package-ref.ts";
import { parsePackageRef } from "../../core/formats/extension/parse-package-ref.ts";
import { checkSource } from "./allowed-sources.ts";
import { resolveBundled } from "./bundled-source.ts";
import { ExtensionCache } from "./cache.ts";
import type { ExtensionResolver, ResolverOptions } from "./extension-resolver.ts";
import { resolvePath } from "./path-source.ts";
import { sourceOf } from "./resolve-extension.ts";
import { VersionedPackage } from "./versioned-package.ts";

/** Makes what turns packages into verified files. Nothing is read or fetched yet. */
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
    throw new McpvalsError("extension/invalid-package", `${text} has no versions that could be chosen.`, {
      hint: "Versions are chosen of github.com/ORG/REPO and npm:NAME only.",
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
