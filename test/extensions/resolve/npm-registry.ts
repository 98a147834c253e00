import { hash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tarOf } from "../../support/release-mirror.ts";

/** A version of a package that a registry serves. */
export interface RegistryVersion {
  readonly version: string;
  /** ISO date. Default: the first of January 2024. */
  readonly published?: string;
  readonly files: Readonly<Record<string, string>>;
  /** Further fields of its package.json. */
  readonly manifest?: object;
  /** Served instead of the tarball that the packument tells of. */
  readonly tarball?: Buffer;
}

/** A registry of npm on loopback. */
export interface NpmRegistry extends AsyncDisposable {
  readonly url: string;
  /** Paths of all requests. */
  readonly requests: string[];
  /** By name, oldest first; to be changed at any time. */
  readonly packages: Map<string, RegistryVersion[]>;
}

export async function startNpmRegistry(
  packages: Readonly<Record<string, readonly RegistryVersion[]>> = {},
): Promise<NpmRegistry> {
  const state = new Map(Object.entries(packages).map(([name, list]) => [name, [...list]]));
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? "");
    requests.push(path);
    const answer = respond(path, `http://${request.headers.host}`, state);
    if (answer === undefined) response.writeHead(404).end("{}");
    else response.writeHead(200).end(answer);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    packages: state,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

function respond(path: string, base: string, state: NpmRegistry["packages"]): string | Buffer | undefined {
  const [, name = "", version] = /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.+)\.tgz)?$/.exec(path) ?? [];
  const versions = state.get(name);
  if (versions === undefined) return undefined;
  if (version === undefined) return JSON.stringify(packument(name, versions, base));
  const found = versions.find((each) => each.version === version);
  return found === undefined ? undefined : (found.tarball ?? packed(name, found));
}

function packument(name: string, versions: readonly RegistryVersion[], base: string): object {
  const entries = versions.map((each) => {
    const tarball = packed(name, each);
    const dist = {
      tarball: `${base}/${name}/-/${each.version}.tgz`,
      integrity: `sha512-${hash("sha512", tarball, "base64")}`,
      shasum: hash("sha1", tarball),
    };
    return [each.version, { ...packageJson(name, each), dist }] as const;
  });
  const times = versions.map(({ version, published }) => [version, published ?? "2024-01-01T00:00:00.000Z"]);
  return {
    name,
    "dist-tags": { latest: versions.at(-1)?.version },
    versions: Object.fromEntries(entries),
    time: Object.fromEntries(times),
  };
}

function packed(name: string, version: RegistryVersion): Buffer {
  const files = { "package.json": JSON.stringify(packageJson(name, version)), ...version.files };
  return tarOf(Object.entries(files).map(([path, content]) => ({ name: `package/${path}`, content })));
}

function packageJson(name: string, { version, manifest }: RegistryVersion): object {
  return { name, version, ...manifest };
}
