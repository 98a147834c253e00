import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { satisfies } from "semver";
import { expect, onTestFinished, test, vi } from "vitest";
import { chooseVersion, projectNpmrc, type RunNpm } from "../../../src/extensions/resolve/npm.ts";
import type { ExtensionResolver } from "../../../src/extensions/resolve/resolver.ts";
import { type NpmRegistry, type RegistryVersion, startNpmRegistry } from "./npm-registry.ts";
import { tarOf } from "../../support/release-mirror.ts";
import {
  expectRefusal,
  fromCache,
  manifestText,
  normally,
  platform,
  resolverIn,
  temporaryFolder,
} from "./resolving.ts";

// npm itself takes a second a start, and several at once on a busy machine far more.
vi.setConfig({ testTimeout: 120_000 });

const use = (version: string): { package: string; dir: string } => ({
  package: `npm:@acme/demo${version}`,
  dir: "/",
});

function demo(version: string, rest: Partial<RegistryVersion> = {}): RegistryVersion {
  return {
    version,
    files: { "main.js": `console.log(${JSON.stringify(version)});\n`, "extension.yaml": manifestText },
    manifest: { bin: { demo: "./main.js", other: "other.js" } },
    ...rest,
  };
}

interface Scene {
  readonly folder: string;
  readonly registry: NpmRegistry;
  /** A resolver with a cache, and an npm with a cache, of its own. */
  readonly resolver: (name: string) => ExtensionResolver;
  /** The same, but with a double of npm that takes no time. */
  readonly quick: (name: string) => ExtensionResolver;
}

async function scene(packages: Readonly<Record<string, readonly RegistryVersion[]>>): Promise<Scene> {
  const folder = await temporaryFolder();
  const registry = await startNpmRegistry(packages);
  onTestFinished(() => registry[Symbol.asyncDispose]());
  const quick = (name: string): ExtensionResolver =>
    resolverIn(join(folder, name), { home: folder, runNpm: npmDouble(registry) });
  const resolver = (name: string): ExtensionResolver =>
    resolverIn(join(folder, name), { env: npmEnvironment(folder, name, registry), home: folder });
  return { folder, registry, resolver, quick };
}

/** Without any settings of this machine's npm. */
function npmEnvironment(folder: string, name: string, { url }: NpmRegistry): Record<string, string> {
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: folder,
    npm_config_registry: url,
    npm_config_cache: join(folder, name, "npm"),
    npm_config_userconfig: join(folder, "npmrc"),
    npm_config_globalconfig: join(folder, "global-npmrc"),
  };
}

/** `npm view` and `npm install` as far as they are used, for packages without dependencies but optional ones. */
function npmDouble({ packages, requests }: NpmRegistry): RunNpm {
  return async ({ args, operands, cwd }) => {
    const [what = ""] = operands;
    requests.push(what);
    const [, name = "", wanted] = /^(@?[^@]+)(?:@(.+))?$/.exec(what) ?? [];
    const versions = packages.get(name) ?? [];
    const tags = { latest: versions.at(-1)?.version ?? "" };
    if (wanted === undefined)
      return JSON.stringify({ versions: versions.map(({ version }) => version), "dist-tags": tags });
    const found = versions.findLast(({ version }) => satisfies(version, wanted));
    if (found === undefined) return "{}";
    const integrity = (one: RegistryVersion): string =>
      `sha512-${hash("sha512", JSON.stringify([one.files, one.manifest]), "base64")}`;
    if (args[0] === "view") {
      const fields = { version: found.version, "dist.integrity": integrity(found) };
      return JSON.stringify({ ...fields, "dist.tarball": `http://r/${found.version}.tgz` });
    }
    const home = join(cwd, "node_modules", name);
    await mkdir(home, { recursive: true });
    const manifest: { optionalDependencies?: object; bundleDependencies?: readonly string[] } =
      found.manifest ?? {};
    const files = { ...found.files, "package.json": JSON.stringify({ name, ...manifest }) };
    for (const [path, text] of Object.entries(files)) await writeFile(join(home, path), text);
    const optional = Object.keys(manifest.optionalDependencies ?? {}).map((each) => [
      `node_modules/${each}`,
      { integrity: "sha512-x", optional: true, ...packages.get(each)?.[0]?.manifest },
    ]);
    const bundled = (manifest.bundleDependencies ?? []).map((each) => [
      `node_modules/${name}/node_modules/${each}`,
      { inBundle: true },
    ]);
    const locked = { [`node_modules/${name}`]: { integrity: integrity(found) } };
    const lock = { packages: { "": {}, ...locked, ...Object.fromEntries([...optional, ...bundled]) } };
    await writeFile(join(cwd, "package-lock.json"), JSON.stringify(lock));
    return "";
  };
}

test("a package with what it depends on, and no script of it is run", async () => {
  const { registry, resolver } = await scene({
    "@acme/demo": [
      demo("1.0.0"),
      demo("1.1.0", {
        manifest: {
          bin: { demo: "./main.js", other: "other.js" },
          dependencies: { helper: "^1.0.0" },
          devDependencies: { missing: "1.0.0" },
          scripts: { postinstall: `echo run > ${JSON.stringify("marker")}; exit 1` },
        },
      }),
    ],
    helper: [
      { version: "1.0.0", files: { "index.js": "" } },
      { version: "1.9.0", files: { "index.js": "later" }, published: "2024-06-01T00:00:00.000Z" },
    ],
  });
  const { extension, locked } = await resolver("a").resolve(use("@1"), undefined, normally);
  expect(extension).toMatchObject({
    package: "npm:@acme/demo@1",
    version: "1.1.0",
    manifest: { name: "demo" },
  });
  expect(extension.program).toBe(join(extension.folder, "node_modules", "@acme", "demo", "main.js"));
  expect((await stat(extension.program)).mode & 0o777).toBe(0o755);
  const files = await readdir(extension.folder, { recursive: true, withFileTypes: true });
  expect(
    files
      .filter((file) => file.isFile())
      .map(({ name }) => name)
      .sort(),
  ).toEqual(["extension.yaml", "index.js", "main.js", "package.json", "package.json"]);
  // As it was when the version came out.
  const helper = await readFile(join(extension.folder, "node_modules", "helper", "package.json"), "utf8");
  expect(JSON.parse(helper)).toMatchObject({ version: "1.0.0" });
  expect(locked).toMatchObject({
    package: "npm:@acme/demo",
    version: "1.1.0",
    files: { any: { name: "1.1.0.tgz", hash: expect.stringMatching(/^sha512-/) } },
  });
  registry.packages.get("@acme/demo")?.push(demo("1.2.0"));
  registry.requests.splice(0);
  await resolver("a").resolve(use("@1"), locked, fromCache);
  expect(await resolver("a").pin(use("@1").package, "1.1.0", undefined)).toEqual(locked);
  expect(registry.requests).toEqual([]);
  expect(await resolver("a").newest(use("@1").package)).toBe("1.2.0");
});

test.each([
  ["what it brings itself needs no checksum", "any", { bundleDependencies: ["inner"] }],
  [
    "what depends on the platform is locked for it alone",
    platform,
    { optionalDependencies: { native: "1.0.0" } },
  ],
])("%s", async (_, locked, more) => {
  const { quick } = await scene({
    "@acme/demo": [demo("1.0.0", { manifest: { bin: "main.js", ...more } })],
    native: [{ version: "1.0.0", files: {}, manifest: { os: ["plan9"] } }],
  });
  const resolved = await quick("a").resolve(use("@1.0.0"), undefined, normally);
  expect(Object.keys(resolved.locked?.files ?? {})).toEqual([locked]);
});

test.each([
  ["latest", "2.0.0"],
  ["^1.0.0", "1.5.0"],
  ["1.0.0", "1.0.0"],
  [">=1.0.0 <1.5.0", "1.0.0"],
  ["next", "2.0.0-rc.1"],
  ["*", "2.0.0"],
  ["nonsense", undefined],
])("%s is %s", (wanted, expected) => {
  const versions = ["1.0.0", "1.5.0", "2.0.0-rc.1", "2.0.0"];
  const tags = { latest: "2.0.0", next: "2.0.0-rc.1" };
  expect(chooseVersion(wanted, { versions, "dist-tags": tags })).toBe(expected);
});

test("a tarball that is not what the registry says is refused", async () => {
  const evil = tarOf([{ name: "package/package.json", content: `{"name":"@acme/demo","version":"1.0.0"}` }]);
  const { resolver, folder } = await scene({ "@acme/demo": [demo("1.0.0", { tarball: evil })] });
  const refused = await expectRefusal(resolver("a").resolve(use("@1"), undefined, normally), "integrity");
  expect(refused).toMatch(/wanted sha512-\S+ but got sha512-\S+\. Nothing/);
  expect(await readdir(join(folder, "a", "cache"))).toEqual([]);
});

test("a version that changed on the registry after it was locked is refused", async () => {
  const { registry, quick } = await scene({ "@acme/demo": [demo("1.0.0")] });
  const { locked } = await quick("a").resolve(use("@1"), undefined, normally);
  registry.packages.set("@acme/demo", [demo("1.0.0", { files: { "main.js": "evil" } })]);
  const text = `expected ${locked?.files["any"]?.hash}, as locked, found sha512-`;
  await expectRefusal(quick("b").resolve(use("@1"), locked, normally), "integrity", text);
});

test("packages, versions and programs that there are not", async () => {
  const { resolver, quick } = await scene({ "@acme/demo": [demo("1.0.0", { manifest: {} })] });
  const versions = "npm:@acme/demo has no version 7. It has 1.0.0.";
  await expectRefusal(quick("a").resolve(use("@7"), undefined, normally), "not-found", versions);
  await expectRefusal(quick("a").resolve(use("@1"), undefined, normally), "not-found", "has no bin");
  await expectRefusal(resolver("a").newest("npm:unknown"), "not-found");
});

test("a registry that is away, and no npm", async () => {
  const { registry, resolver, folder } = await scene({});
  await registry[Symbol.asyncDispose]();
  await expectRefusal(resolver("a").newest("npm:demo"), "unreachable");
  const without = resolverIn(folder, { env: { PATH: folder } }).newest("npm:demo");
  await expectRefusal(without, "unreachable", "npm was not found on PATH");
});

test("what a package depends on comes from the registry: no repository is asked for, whatever its settings", async () => {
  const { resolver, folder, registry } = await scene({});
  const marker = join(folder, "marker");
  const repository = join(folder, "repository");
  await mkdir(repository);
  const git = (...args: string[]): Buffer =>
    execFileSync("git", ["-C", repository, "-c", "user.name=x", "-c", "user.email=x@x", ...args]);
  await writeFile(join(repository, ".npmrc"), "git=./git\n");
  await writeFile(join(repository, "git"), `#!/bin/sh\necho run > '${marker}'\n`, { mode: 0o755 });
  const inner = { name: "inner", version: "1.0.0", dependencies: { other: "git+file:///nowhere" } };
  const scripts = { prepare: `echo run > '${marker}'` };
  await writeFile(join(repository, "package.json"), JSON.stringify({ ...inner, scripts }));
  git("init", "--quiet");
  git("add", ".");
  git("commit", "--quiet", "--message", "x");
  const needs = (dependencies: object): RegistryVersion =>
    demo("1.0.0", { manifest: { bin: "./main.js", dependencies } });
  registry.packages.set("@acme/demo", [needs({ inner: `git+file://${repository}` })]);
  const text = "npm:@acme/demo 1.0.0 depends on a repository, which no registry vouches for";
  await expectRefusal(resolver("a").resolve(use("@1"), undefined, normally), "unsafe-archive", text);
  await expect(stat(marker)).rejects.toThrow("ENOENT");
  registry.packages.set("@acme/demo", [needs({ inner: `file:${repository}` })]);
  await expectRefusal(resolver("b").resolve(use("@1"), undefined, normally), "unsafe-archive");
  expect(await readdir(repository)).not.toContain("node_modules");
});

test("a lock's version that is a file, a repository or an option is no version", async () => {
  const { quick, registry } = await scene({ "@acme/demo": [demo("1.0.0")] });
  const own = quick("a");
  const { locked } = await own.resolve(use("@1"), undefined, normally);
  if (locked === undefined) throw new Error("there is no entry");
  registry.requests.length = 0;
  for (const version of ["git+file:///nowhere", "file:..", "evil.tgz", "..", "https://localhost/x"]) {
    await expectRefusal(own.resolve(use("@1"), { ...locked, version }, normally), "not-found");
  }
  expect(registry.requests).toEqual([]);
  // A range is the version that it means.
  expect(await own.pin(use("@1").package, "1", undefined)).toMatchObject({ version: "1.0.0" });
});

test("a program that is none of the package's files is not run", async () => {
  const files = { "extension.yaml": `${manifestText}program: missing.js\n` };
  const { quick } = await scene({ "@acme/demo": [demo("1.0.0", { manifest: {}, files })] });
  const work = quick("a").resolve(use("@1"), undefined, normally);
  await expectRefusal(work, "integrity", "is not one of its files");
});

test("the registries that a project names are heeded, and nothing else of its settings", async () => {
  const { folder, registry } = await scene({ "@acme/demo": [demo("1.0.0")] });
  await using empty = await startNpmRegistry();
  const project = join(folder, "project", "evals");
  await mkdir(project, { recursive: true });
  const others = "; a comment\r\nprefix=/nowhere\r\nuserconfig=/nowhere\r\n";
  await writeFile(join(folder, "project", ".npmrc"), `@acme:registry = ${registry.url}\r\n${others}`);
  const env = npmEnvironment(folder, ".", empty);
  const own = resolverIn(folder, { env, home: folder, dir: project });
  expect(await own.newest(use("@1").package)).toBe("1.0.0");
  expect(empty.requests).toEqual([]);
  expect(projectNpmrc({ dir: project, home: folder })).toBe(`@acme:registry = ${registry.url}\n`);
  await mkdir(join(project, ".git"));
  expect(projectNpmrc({ dir: project, home: folder })).toBe("");
  await expectRefusal(own.newest("npm:@acme/demo"), "not-found");
});
