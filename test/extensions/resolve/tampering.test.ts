import { hash, randomBytes } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { hashTree, recordedFiles } from "../../../src/extensions/resolve/cache.ts";
import { readChecksums } from "../../../src/extensions/resolve/releases.ts";
import type { ExtensionResolver } from "../../../src/extensions/resolve/resolver.ts";
import {
  type ArchiveMember,
  checksumsOf,
  type MirrorRelease,
  type ReleaseMirror,
  startReleaseMirror,
  tarOf,
  zipOf,
} from "../../support/release-mirror.ts";
import {
  executable,
  manifestText,
  markerProgram,
  normally,
  platform,
  refusal,
  resolverIn,
  temporaryFolder,
  upstreamRelease,
} from "./resolving.ts";

const use = { package: "github.com/acme/demo@v1", dir: "/" };
const zip = `demo-${platform}.zip`;

interface Scene {
  readonly folder: string;
  readonly mirror: ReleaseMirror;
  readonly resolver: ExtensionResolver;
  readonly program: string;
}

/** A mirror with one release, whose program leaves a file behind when it is run; nothing may ever run it. */
async function scene(rest: Partial<MirrorRelease> = {}): Promise<Scene> {
  const folder = await temporaryFolder();
  const marker = join(folder, "marker");
  const program = markerProgram(marker);
  const mirror = await startReleaseMirror({ "acme/demo": [await upstreamRelease("v1.0.0", program, rest)] });
  onTestFinished(async () => {
    await mirror[Symbol.asyncDispose]();
    await expect(stat(marker)).rejects.toThrow("ENOENT");
  });
  return { folder, mirror, resolver: resolverIn(folder, { releasesUrl: mirror.url }), program };
}

function replaceRelease({ mirror }: Scene, release: MirrorRelease): void {
  mirror.releases.set("acme/demo", [release]);
}

/** Nothing of the package is in the cache, not even a part of it. */
async function expectEmptyCache({ folder }: Scene): Promise<void> {
  const names = await readdir(join(folder, "cache"), { recursive: true }).catch(() => []);
  expect(names).toEqual([]);
}

describe("a changed cache", () => {
  const changes: readonly [string, (folder: string) => Promise<void>, string][] = [
    [
      "another program",
      (folder) => writeFile(join(folder, `demo-${platform}`), "#!/bin/sh\necho evil\n"),
      `(demo-${platform} was changed)`,
    ],
    ["a further file", (folder) => writeFile(join(folder, "preload.js"), ""), "(preload.js was added)"],
    ["a removed file", (folder) => rm(join(folder, "extension.yaml")), "(extension.yaml was removed)"],
    [
      "an executable bit",
      (folder) => chmod(join(folder, "extension.yaml"), 0o755),
      "(extension.yaml was made executable)",
    ],
    ["a link", (folder) => symlink("/etc/passwd", join(folder, "x")), "x is neither a file nor a folder"],
  ];

  test.each(changes)("%s is refused, with and without a lock", async (_, change, text) => {
    const { resolver } = await scene();
    const { extension, locked } = await resolver.resolve(use, undefined, normally);
    if (locked === undefined) throw new Error("there is no entry");
    expect(await resolver.verify(use.package, locked)).toEqual([]);
    await change(extension.folder);
    for (const entry of [locked, undefined]) {
      const refused = await refusal(resolver.resolve(use, entry, normally));
      expect(refused.code).toBe("extension/integrity");
      expect(refused.text).toContain(text);
      expect(refused.text).toContain(extension.folder);
    }
    expect(await resolver.verify(use.package, locked)).toEqual([expect.stringContaining(text)]);
    expect((await refusal(resolver.pin(use.package, "v1.0.0", locked))).code).toBe("extension/integrity");
  });

  test("a record that was changed with the program does not hide it from the lock", async () => {
    const { resolver } = await scene();
    const { extension, locked } = await resolver.resolve(use, undefined, normally);
    const record = join(extension.folder, "..", "extension.json");
    const evil = "#!/bin/sh\necho evil\n";
    const before = await readFile(extension.program, "utf8");
    await writeFile(extension.program, evil);
    const text = await readFile(record, "utf8");
    const changed = text.replace(hash("sha256", before), hash("sha256", evil));
    await writeFile(record, changed.replace(/"platform": "[^"]+"/, `"platform": "other"`));
    const refused = await refusal(resolver.resolve(use, locked, { frozen: true, offline: true }));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain("as locked");
  });

  test("a cache that was changed together with its record is not locked", async () => {
    const { resolver } = await scene();
    const { extension } = await resolver.resolve(use, undefined, normally);
    const record = join(extension.folder, "..", "extension.json");
    const evil = "#!/bin/sh\necho evil\n";
    await writeFile(extension.program, evil);
    const signal = new AbortController().signal;
    const tree = await hashTree(extension.folder, { executables: new Set(), signal });
    const before = JSON.parse(await readFile(record, "utf8")) as object;
    await writeFile(record, JSON.stringify({ ...before, tree: tree.hash, files: recordedFiles(tree) }));
    const refused = await refusal(resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain("as it was fetched now");
  });

  test("a cache that was changed together with its record is not pinned against the lock", async () => {
    const { resolver } = await scene();
    const { extension, locked } = await resolver.resolve(use, undefined, normally);
    const record = join(extension.folder, "..", "extension.json");
    await writeFile(extension.program, "#!/bin/sh\necho evil\n");
    const signal = new AbortController().signal;
    const tree = await hashTree(extension.folder, { executables: new Set(), signal });
    const before = JSON.parse(await readFile(record, "utf8")) as object;
    await writeFile(record, JSON.stringify({ ...before, tree: tree.hash, files: recordedFiles(tree) }));
    const refused = await refusal(resolver.pin(use.package, "v1.0.0", locked));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain(`${locked?.files[platform]?.tree}, as locked`);
  });

  test("nothing that a changed record says gets into a lock that has the version", async () => {
    const { resolver } = await scene();
    const { extension, locked } = await resolver.resolve(use, undefined, normally);
    const record = join(extension.folder, "..", "extension.json");
    const before = JSON.parse(await readFile(record, "utf8")) as object;
    const changed = { name: "evil", checksums: `sha256:${"0".repeat(64)}`, tree: `sha256:${"0".repeat(64)}` };
    await writeFile(record, JSON.stringify({ ...before, ...changed }));
    const again = await resolver.resolve(use, locked, { frozen: true, offline: true });
    expect(again.locked).toEqual(locked);
  });

  test("what was cached for another platform is not taken for this one's", async () => {
    const here = await scene();
    const { extension } = await here.resolver.resolve(use, undefined, normally);
    const record = join(extension.folder, "..", "extension.json");
    const before = JSON.parse(await readFile(record, "utf8")) as object;
    await writeFile(record, JSON.stringify({ ...before, platform: "plan9-mips" }));
    const refused = await refusal(here.resolver.resolve(use, undefined, { frozen: false, offline: true }));
    expect(refused.code).toBe("extension/unreachable");
  });

  test.each(["{", `{"package":"github.com/acme/other"}`, ""])(
    "a damaged record keeps no other version away, and is listed: %s",
    async (text) => {
      const here = await scene();
      const { extension } = await here.resolver.resolve(use, undefined, normally);
      await writeFile(join(extension.folder, "..", "extension.json"), text);
      replaceRelease(here, await upstreamRelease("v1.1.0", here.program));
      const { locked } = await here.resolver.resolve(use, undefined, normally);
      expect(locked?.version).toBe("v1.1.0");
      await here.resolver.resolve(use, locked, { frozen: true, offline: true });
      const cached = await here.resolver.cached();
      expect(cached.map(({ version, isDamaged = false }) => [version, isDamaged])).toEqual([
        ["v1.0.0", true],
        ["v1.1.0", false],
      ]);
      expect(cached[0]).toMatchObject({ package: "github.com/acme/demo", platform, bytes: 0 });
      for (const version of cached) await here.resolver.remove(version);
      await expectEmptyCache(here);
    },
  );

  test("a record of another version is damaged", async () => {
    const { resolver } = await scene();
    const { extension } = await resolver.resolve(use, undefined, normally);
    const record = join(extension.folder, "..", "extension.json");
    await writeFile(record, (await readFile(record, "utf8")).replace('"v1.0.0"', '"v1.2.0"'));
    expect(await resolver.cached()).toMatchObject([{ version: "v1.0.0", isDamaged: true }]);
    expect((await refusal(resolver.resolve(use, undefined, { frozen: false, offline: true }))).code).toBe(
      "extension/unreachable",
    );
  });

  test("a record of another file than its folder is named after is damaged", async () => {
    const { resolver } = await scene();
    const { extension } = await resolver.resolve(use, undefined, normally);
    const record = join(extension.folder, "..", "extension.json");
    const before = JSON.parse(await readFile(record, "utf8")) as object;
    await writeFile(record, JSON.stringify({ ...before, hash: `sha256:${"0".repeat(64)}` }));
    expect(await resolver.cached()).toMatchObject([{ version: "v1.0.0", isDamaged: true }]);
    const refused = await refusal(resolver.resolve(use, undefined, { frozen: false, offline: true }));
    expect(refused.code).toBe("extension/unreachable");
  });

  test("nothing outside of it is removed, nor all of it", async () => {
    const { resolver, folder } = await scene();
    await resolver.resolve(use, undefined, normally);
    const [version] = await resolver.cached();
    if (version === undefined) throw new Error("there is no version");
    const outside = join(folder, "outside");
    await mkdir(outside);
    for (const place of [outside, join(folder, "cache")]) {
      await expect(resolver.remove({ ...version, folder: place })).rejects.toThrow("is not in the cache");
    }
    expect((await readdir(folder)).sort()).toEqual(["cache", "outside"]);
  });

  test("other files in the cache's folder are none of its versions, whatever they look like", async () => {
    const { resolver, folder } = await scene();
    const { extension } = await resolver.resolve(use, undefined, normally);
    const record = await readFile(join(extension.folder, "..", "extension.json"), "utf8");
    const places = ["mine-0123456789ab", "npm/x-0123456789ab", "github.com/a/b/c/files/d-0123456789ab"];
    for (const place of places.map((each) => join(folder, "cache", each))) {
      await mkdir(place, { recursive: true });
      await writeFile(join(place, "extension.json"), record);
    }
    await symlink(
      join(extension.folder, "..", "..", ".."),
      join(folder, "cache", "github.com", "acme", "link"),
    );
    expect(await resolver.cached()).toHaveLength(1);
  });

  test("a damaged record is refused, and says what to remove", async () => {
    const { resolver } = await scene();
    const { extension, locked } = await resolver.resolve(use, undefined, normally);
    await writeFile(join(extension.folder, "..", "extension.json"), "{");
    const refused = await refusal(resolver.resolve(use, locked, normally));
    expect(refused).toMatchObject({ code: "extension/integrity" });
    expect(refused.text).toContain("extension.json is damaged");
  });
});

describe("a lock that disagrees", () => {
  test.each([
    ["the files", { tree: `sha256:${"0".repeat(64)}` }],
    ["the hash of what is fetched", { hash: `sha256:${"0".repeat(64)}` }],
  ])("%s", async (_, change) => {
    const { resolver } = await scene();
    const { locked } = await resolver.resolve(use, undefined, normally);
    const file = locked?.files[platform];
    if (locked === undefined || file === undefined) throw new Error("there is no entry");
    const other = { ...locked, files: { [platform]: { ...file, ...change } } };
    const refused = await refusal(resolver.resolve(use, other, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain(`expected sha256:${"0".repeat(64)}, as locked, found sha256:`);
  });

  test.each(["../../../../../../../marker", "extension.json", "/bin/sh"])(
    "a program that is none of the files: %s",
    async (name) => {
      const { resolver } = await scene();
      const { locked } = await resolver.resolve(use, undefined, normally);
      const file = locked?.files[platform];
      if (locked === undefined || file === undefined) throw new Error("there is no entry");
      const other = { ...locked, files: { [platform]: { ...file, name } } };
      const refused = await refusal(resolver.resolve(use, other, { frozen: true, offline: true }));
      expect(refused.code).toBe("extension/integrity");
      expect(refused.text).toContain(`${JSON.stringify(name)}, is not one of its files`);
    },
  );

  test("a version that is only another way to write the release's", async () => {
    const { resolver } = await scene();
    const { locked } = await resolver.resolve(use, undefined, normally);
    if (locked === undefined) throw new Error("there is no entry");
    const refused = await refusal(resolver.resolve(use, { ...locked, version: "1.0.0" }, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain("expected 1.0.0, as locked, found v1.0.0");
  });

  test("frozen: an entry that says nothing of this platform, nor what the release's checksums are", async () => {
    const here = await scene({ checksums: false, digests: true });
    const { locked } = await here.resolver.resolve(use, undefined, normally);
    const file = locked?.files[platform];
    if (locked === undefined || file === undefined) throw new Error("there is no entry");
    const other = { ...locked, files: { "plan9-mips": { ...file, name: "demo-plan9-mips.zip" } } };
    const elsewhere = resolverIn(join(here.folder, "other"), { releasesUrl: here.mirror.url });
    here.mirror.requests.length = 0;
    const refused = await refusal(elsewhere.resolve(use, other, { frozen: true, offline: false }));
    expect(refused.code).toBe("extension/not-locked");
    expect(here.mirror.requests).toEqual([]);
  });

  test("an entry of another package", async () => {
    const { resolver } = await scene();
    const { locked } = await resolver.resolve(use, undefined, normally);
    if (locked === undefined) throw new Error("there is no entry");
    const refused = await refusal(
      resolver.resolve(use, { ...locked, package: "github.com/evil/demo" }, normally),
    );
    expect(refused.code).toBe("extension/invalid-lock");
    expect(refused.text).toContain("github.com/evil/demo");
  });
});

describe("a changed release", () => {
  test("other checksums than were locked", async () => {
    const here = await scene();
    const { locked } = await here.resolver.resolve(use, undefined, normally);
    const evil = await upstreamRelease("v1.0.0", `${here.program}# evil\n`);
    replaceRelease(here, evil);
    const elsewhere = resolverIn(join(here.folder, "other"), { releasesUrl: here.mirror.url });
    const refused = await refusal(elsewhere.resolve(use, locked, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toBe(
      `checksums.sha256 of github.com/acme/demo v1.0.0 is not what it should be: expected ${locked?.checksums}, as locked, found sha256:${hash("sha256", checksumsOf(evil.files))}. Nothing of it was run. Somebody changed the release after it was locked, or the lock. Ask the authors why; if the change is right, remove its entry from mcp-eval.lock and add it again.`,
    );
    replaceRelease(here, { ...evil, checksums: false, digests: true });
    const without = await refusal(elsewhere.resolve(use, locked, normally));
    expect(without.text).toContain("found a release without any");
  });

  test("the same checksums around another file", async () => {
    const here = await scene();
    const { locked } = await here.resolver.resolve(use, undefined, normally);
    const { files } = await upstreamRelease("v1.0.0", here.program);
    const evil = await upstreamRelease("v1.0.0", `${here.program}# evil\n`);
    replaceRelease(here, { ...evil, checksums: { text: checksumsOf(files) } });
    for (const entry of [locked, undefined]) {
      const elsewhere = resolverIn(join(here.folder, "other"), { releasesUrl: here.mirror.url });
      const refused = await refusal(elsewhere.resolve(use, entry, normally));
      expect(refused.code).toBe("extension/integrity");
      expect(refused.text).toContain(`${zip} of github.com/acme/demo v1.0.0 is not what it should be`);
      expect(refused.text).toContain(`expected ${locked?.files[platform]?.hash}, found sha256:`);
    }
    await expectEmptyCache({ ...here, folder: join(here.folder, "other") });
  });

  test("a release of another tag than was asked for", async () => {
    const here = await scene();
    here.mirror.interfere = (request, response) => {
      if (request.url?.includes("/tags/") !== true) return false;
      response.end(JSON.stringify({ tag_name: "v9.9.9", assets: [] }));
      return true;
    };
    const refused = await refusal(here.resolver.newest("github.com/acme/demo@v1.0.0"));
    expect(refused.code).toBe("extension/unreachable");
    expect(refused.text).toContain("the answer is the release v9.9.9, not v1.0.0");
  });

  test.each(["v1.0.0-🎉", "../../evil", `v1.0.0-${"x".repeat(400)}`])(
    "a tag with odd characters stays a name of one folder: %s",
    async (tag) => {
      const here = await scene();
      replaceRelease(here, await upstreamRelease(tag, here.program));
      const before = await readdir(here.folder);
      const latest = { ...use, package: "github.com/acme/demo" };
      const { locked, extension } = await here.resolver.resolve(latest, undefined, normally);
      expect(locked?.version).toBe(tag);
      expect(relative(join(here.folder, "cache"), extension.folder).split(sep)).toHaveLength(6);
      expect((await readdir(here.folder)).filter((name) => name !== "cache")).toEqual(before);
      await here.resolver.resolve(latest, locked, { frozen: true, offline: true });
      expect(await here.resolver.cached()).toMatchObject([{ version: tag }]);
    },
  );

  test("a file that was locked is gone", async () => {
    const here = await scene();
    const { locked } = await here.resolver.resolve(use, undefined, normally);
    replaceRelease(here, { tag: "v1.0.0", files: { [`demo-${platform}.tgz`]: "x" } });
    const elsewhere = resolverIn(join(here.folder, "other"), { releasesUrl: here.mirror.url });
    const refused = await refusal(elsewhere.resolve(use, locked, normally));
    expect(refused.code).toBe("extension/not-found");
    expect(refused.text).toContain(`no file ${zip} any more, which is locked`);
  });
});

describe("checksums that do not vouch", () => {
  test.each<[string, (files: MirrorRelease["files"]) => Partial<MirrorRelease>, string]>([
    [
      "a wrong one",
      (files) => ({ checksums: { text: checksumsOf({ ...files, [zip]: "other" }) } }),
      "found sha256:",
    ],
    [
      "none for the file",
      () => ({ checksums: { text: checksumsOf({ "extension.yaml": manifestText }) } }),
      `checksums.sha256 of github.com/acme/demo v1.0.0 does not list ${zip}`,
    ],
    [
      "none for the manifest",
      (files) => ({ checksums: { text: checksumsOf({ [zip]: files[zip] ?? "" }) } }),
      "does not list extension.yaml",
    ],
    [
      "a wrong one of the manifest",
      (files) => ({ checksums: { text: checksumsOf({ ...files, "extension.yaml": "other" }) } }),
      "extension.yaml of github.com/acme/demo v1.0.0 is not what it should be",
    ],
    [
      "two for one file",
      (files) => ({ checksums: { text: checksumsOf(files) + checksumsOf({ [zip]: "other" }) } }),
      `two different checksums for ${zip}`,
    ],
    [
      "one that the API's digest contradicts",
      (files) => ({ digests: true, checksums: { text: checksumsOf({ ...files, [zip]: "other" }) } }),
      "as its API tells",
    ],
    ["none at all", () => ({ checksums: false }), `${zip} of github.com/acme/demo v1.0.0 cannot be verified`],
  ])("%s", async (_, change, text) => {
    const here = await scene();
    const release = await upstreamRelease("v1.0.0", here.program);
    replaceRelease(here, { ...release, ...change(release.files) });
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain(text);
    await expectEmptyCache(here);
  });

  test("others than the API's digest of them tells, although they list the files as they are", async () => {
    const here = await scene({ digests: true });
    const { files } = await upstreamRelease("v1.0.0", here.program);
    here.mirror.interfere = (request, response) => {
      if (request.url?.endsWith("checksums.sha256") !== true) return false;
      response.end(checksumsOf({ ...files, more: "more" }));
      return true;
    };
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toMatch(/^checksums\.sha256 of .* as its API tells/);
    await expectEmptyCache(here);
  });

  test.each([
    ["checksums.txt", "*"],
    ["SHA256SUMS", " ./"],
    ["demo_1.0.0_checksums.txt", " "],
  ])("%s counts too, with %s before names", async (name, mark) => {
    const here = await scene();
    const release = await upstreamRelease("v1.0.0", here.program);
    const text = checksumsOf(release.files)
      .replaceAll("  ", ` ${mark}`)
      .toUpperCase()
      .replaceAll(/ .*/g, (each) => each.toLowerCase());
    replaceRelease(here, { ...release, checksums: { name, text: text.replaceAll("\n", "\r\n") } });
    const { locked } = await here.resolver.resolve(use, undefined, normally);
    expect(locked?.checksums).toMatch(/^sha256:/);
  });

  test("without them the digests of the API count, or what the user has given", async () => {
    const here = await scene({ checksums: false, digests: true });
    const { extension, locked } = await here.resolver.resolve(use, undefined, normally);
    expect(extension.manifest?.name).toBe("demo");
    expect(locked).not.toHaveProperty("checksums");
    const sha256 = locked?.files[platform]?.hash.replace("sha256:", "") ?? "";
    const release = await upstreamRelease("v1.0.0", here.program, { checksums: false });
    replaceRelease(here, release);
    const other = resolverIn(join(here.folder, "other"), { releasesUrl: here.mirror.url });
    const given = await other.resolve(use, undefined, { ...normally, sha256: sha256.toUpperCase() });
    expect(given.extension.manifest).toBeUndefined();
    const third = resolverIn(join(here.folder, "third"), { releasesUrl: here.mirror.url });
    const wrong = await refusal(third.resolve(use, undefined, { ...normally, sha256: "0".repeat(64) }));
    expect(wrong.text).toContain(`expected sha256:${"0".repeat(64)}, found sha256:${sha256}`);
  });

  test("what the user has given must fit what is cached and locked too", async () => {
    const { resolver } = await scene();
    const { locked } = await resolver.resolve(use, undefined, normally);
    const how = { frozen: true, offline: true, sha256: "0".repeat(64) };
    const refused = await refusal(resolver.resolve(use, locked, how));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain(`expected sha256:${"0".repeat(64)}, as given`);
  });

  test("what the user has given must fit, whatever the release says of itself", async () => {
    const here = await scene();
    const refused = await refusal(
      here.resolver.resolve(use, undefined, { ...normally, sha256: "0".repeat(64) }),
    );
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain(`expected sha256:${"0".repeat(64)}, as given`);
  });
});

describe("the way here", () => {
  test("a download that ends early", async () => {
    const here = await scene();
    here.mirror.interfere = (request, response) => {
      if (request.url?.endsWith(zip) !== true) return false;
      response.writeHead(200, { "content-length": "1000" });
      response.write("short", () => response.destroy());
      return true;
    };
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/unreachable");
    expect(refused.text).toContain(`${zip} could not be fetched: terminated`);
    expect(here.mirror.requests.filter((path) => path.endsWith(zip))).toHaveLength(2);
    await expectEmptyCache(here);
  });

  test("a download that is shorter than it should be, without saying so", async () => {
    const here = await scene();
    here.mirror.interfere = (request, response) => {
      if (request.url?.endsWith(zip) !== true) return false;
      response.writeHead(200).end("short");
      return true;
    };
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toMatch(/in 5 of \d+ bytes/);
    await expectEmptyCache(here);
  });

  test("a redirect to another source", async () => {
    const here = await scene();
    await using other = await startReleaseMirror();
    here.mirror.interfere = (request, response) => {
      if (request.url?.endsWith(zip) !== true) return false;
      response.writeHead(302, { location: `${other.url}/evil.zip?token=1` }).end();
      return true;
    };
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/source-not-allowed");
    expect(refused.text).toContain(
      `${here.mirror.url}/files/acme/demo/v1.0.0/${zip} leads to ${other.url}/evil.zip, another source than ${here.mirror.url}`,
    );
    expect(other.requests).toEqual([]);
  });

  test("a file's address at another source, and one that is not https", async () => {
    const here = await scene();
    for (const address of [
      "https://example.invalid/x.zip",
      "http://example.invalid/x.zip",
      "file:///etc/passwd",
    ]) {
      here.mirror.interfere = (request, response) => {
        if (!(request.url ?? "").startsWith("/repos/")) return false;
        const asset = { name: zip, browser_download_url: address, digest: `sha256:${"0".repeat(64)}` };
        response.end(JSON.stringify({ tag_name: "v1.0.0", assets: [asset] }));
        return true;
      };
      const refused = await refusal(here.resolver.pin(use.package, "v1.0.0", undefined));
      expect(refused.code).toBe("extension/source-not-allowed");
    }
  });

  test("redirects within the source are followed, but not forever", async () => {
    const here = await scene();
    let left = 3;
    here.mirror.interfere = (request, response) => {
      if (request.url?.endsWith(zip) !== true || left === 0) return false;
      left -= 1;
      response.writeHead(302, { location: request.url }).end();
      return true;
    };
    await here.resolver.resolve(use, undefined, normally);
    left = 100;
    const other = resolverIn(join(here.folder, "other"), { releasesUrl: here.mirror.url });
    const refused = await refusal(other.resolve(use, undefined, normally));
    expect(refused.text).toContain("it redirects more than 5 times");
    expect(left).toBe(94);
  });

  test("a user's name and a password in an address are neither sent nor shown", async () => {
    const here = await scene();
    const withUser = here.mirror.url.replace("http://", "http://me:secret@");
    for (const releasesUrl of [withUser, `${here.mirror.url}/?token=secret`]) {
      const refused = await refusal(resolverIn("/nowhere", { releasesUrl }).newest(use.package));
      expect(refused.code).toBe("extension/source-not-allowed");
      expect(refused.text).not.toContain("secret");
    }
    here.mirror.interfere = (request, response) => {
      if (request.url?.endsWith(zip) !== true) return false;
      response.writeHead(302, { location: `${withUser}/evil.zip` }).end();
      return true;
    };
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/source-not-allowed");
    expect(refused.text).not.toContain("secret");
  });

  test("a file of checksums that takes long to understand", async () => {
    const line = `${"a".repeat(64)}  a${" ".repeat(100_000)}b\n`;
    expect(readChecksums(line.repeat(20), "x").size).toBe(1);
  });

  test("an answer without an end is not kept in memory", async () => {
    const here = await scene();
    here.mirror.interfere = (_request, response) => {
      response.end(Buffer.alloc(17 * 1024 ** 2, " "));
      return true;
    };
    const refused = await refusal(here.resolver.newest(use.package));
    expect(refused.code).toBe("extension/unreachable");
    expect(refused.text).toContain("the answer is too long");
  });

  test("a mirror that is not https", async () => {
    const refused = await refusal(
      resolverIn("/nowhere", { releasesUrl: "http://example.invalid" }).newest(use.package),
    );
    expect(refused.code).toBe("extension/source-not-allowed");
    expect(refused.text).toContain("releasesUrl is not https: http://example.invalid/");
  });

  test.each([
    ["github.com/acme/demo@v1", ["github.com/other/*", "npm:*"]],
    ["npm:demo@1", ["github.com/**"]],
    ["./demo/../../demo", ["./demo/**"]],
    ["mcpvals:sql", []],
  ])("%s is asked for nowhere when only %s is allowed", async (text, allowedSources) => {
    const here = await scene();
    const resolver = resolverIn(here.folder, { releasesUrl: here.mirror.url, allowedSources });
    const refused = await refusal(resolver.resolve({ package: text, dir: here.folder }, undefined, normally));
    expect(refused.code).toBe("extension/source-not-allowed");
    expect(here.mirror.requests).toEqual([]);
  });

  test("a source that is allowed", async () => {
    const here = await scene();
    const resolver = resolverIn(here.folder, {
      releasesUrl: here.mirror.url,
      allowedSources: ["github.com/acme/*"],
    });
    expect((await resolver.resolve(use, undefined, normally)).extension.version).toBe("v1.0.0");
  });
});

/** Members of a tar that are one file with a name of any length. */
function longName(name: string): ArchiveMember[] {
  const text = ` path=${name}x\n`;
  const length = [5, 6].find((digits) => String(Buffer.byteLength(text) + digits).length === digits) ?? 3;
  const content = `${Buffer.byteLength(text) + length}${text}`;
  return [{ name: "pax", type: "ExtendedHeader", content }, { name: "x" }];
}

describe("an archive that does harm", () => {
  const innocent = executable("demo", "#!/bin/sh\n");
  const random = { name: "demo", content: randomBytes(300_000), mode: 0o100755 };
  const cases: readonly [string, () => Promise<Buffer> | Buffer, string, string][] = [
    ["zip: a name with ..", () => zipOf([innocent, { name: "../evil" }]), ".zip", "../evil"],
    ["zip: .. in the middle", () => zipOf([innocent, { name: "a/../../evil" }]), ".zip", "evil"],
    ["zip: an absolute name", () => zipOf([innocent, { name: "/tmp/evil" }]), ".zip", "/tmp/evil"],
    ["zip: a drive", () => zipOf([innocent, { name: "C:/evil" }]), ".zip", "C:/evil"],
    ["zip: backslashes", () => zipOf([innocent, { name: "..\\evil" }]), ".zip", "evil"],
    [
      "zip: a link",
      () => zipOf([{ name: "demo", content: "/bin/sh", mode: 0o120777 }]),
      ".zip",
      "has a link",
    ],
    ["zip: a device", () => zipOf([{ name: "demo", mode: 0o020666 }]), ".zip", "neither a file nor a folder"],
    [
      "zip: names that differ by case",
      () => zipOf([innocent, { name: "DEMO" }]),
      ".zip",
      `both "demo" and "DEMO"`,
    ],
    ["zip: a name twice", () => zipOf([innocent, { name: "data" }, { name: "data" }]), ".zip", `both "data"`],
    ["zip: a file that is a folder", () => zipOf([innocent, { name: "demo/x" }]), ".zip", `both "demo"`],
    [
      "zip: a device of Windows",
      () => zipOf([innocent, { name: "a/NUL.txt" }]),
      ".zip",
      "is a device on Windows",
    ],
    [
      "zip: names of another form",
      () => zipOf([innocent, { name: "\u00e9" }, { name: "e\u0301" }]),
      ".zip",
      "both",
    ],
    [
      "zip: a control character",
      () => zipOf([innocent, { name: "a\u001b[2J" }]),
      ".zip",
      "a control character",
    ],
    ["zip: a dot in the middle", () => zipOf([innocent, { name: "a/./evil" }]), ".zip", "leaves its folder"],
    ["zip: a dot at the end", () => zipOf([innocent, { name: "a./evil" }]), ".zip", "ends in a dot"],
    ["zip: none at all", () => Buffer.from("this is no zip"), ".zip", "cannot be unpacked"],
    ["zip: an empty one", () => zipOf([]), ".zip", "has no files"],
    ["tar: a name with ..", () => tarOf([innocent, { name: "../evil" }]), ".tar.gz", "../evil"],
    ["tar: an absolute name", () => tarOf([innocent, { name: "/tmp/evil" }]), ".tar.gz", "/tmp/evil"],
    ["tar: a deep name", () => tarOf([innocent, ...longName("a/".repeat(20_000))]), ".tgz", "is too long"],
    ["tar: a long name", () => tarOf([innocent, ...longName("a".repeat(256))]), ".tgz", "is too long"],
    ["tar: a drive", () => tarOf([innocent, { name: "C:/evil" }]), ".tgz", "C:/evil"],
    ["tar: backslashes", () => tarOf([innocent, { name: "a\\..\\evil" }]), ".tgz", "backslash"],
    [
      "tar: a link that leads out",
      () => tarOf([innocent, { name: "out", type: "SymbolicLink", linkpath: "/tmp" }, { name: "out/evil" }]),
      ".tar.gz",
      "a link",
    ],
    [
      "tar: a hard link",
      () => tarOf([{ name: "demo", type: "Link", linkpath: "/bin/sh" }]),
      ".tar.gz",
      "a link",
    ],
    [
      "tar: a device",
      () => tarOf([innocent, { name: "null", type: "CharacterDevice" }]),
      ".tar.gz",
      "neither",
    ],
    ["tar: a pipe", () => tarOf([innocent, { name: "pipe", type: "FIFO" }]), ".tar.gz", "neither"],
    [
      "tar: names that differ by case",
      () => tarOf([innocent, { name: "Demo" }]),
      ".tgz",
      `both "demo" and "Demo"`,
    ],
    ["tar: none at all", () => Buffer.from("this is no tar"), ".tar.gz", "cannot be unpacked"],
    ["tar: cut off", () => tarOf([random]).subarray(0, 150_000), ".tar.gz", "cannot be"],
  ];

  test.each(cases)("%s", async (_, make, ending, text) => {
    const here = await scene();
    replaceRelease(here, { tag: "v1.0.0", files: { [`demo-${platform}${ending}`]: await make() } });
    const before = await readdir(here.folder);
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/unsafe-archive");
    expect(refused.text).toContain(text);
    await expectEmptyCache(here);
    expect((await readdir(here.folder)).filter((name) => name !== "cache")).toEqual(before);
  });

  test("what comes behind the end of a tar is not read", async () => {
    const here = await scene();
    const tar = gunzipSync(tarOf([executable(`demo-${platform}`, here.program)]));
    const endless = gzipSync(Buffer.concat([tar, Buffer.alloc(200 * 1024 ** 2)]), { level: 1 });
    replaceRelease(here, { tag: "v1.0.0", files: { [`demo-${platform}.tgz`]: endless } });
    await here.resolver.resolve(use, undefined, normally);
  });

  test("a manifest that is not valid is refused before anything is kept", async () => {
    const here = await scene();
    const { files } = await upstreamRelease("v1.0.0", here.program);
    replaceRelease(here, {
      tag: "v1.0.0",
      files: { ...files, "extension.yaml": "name: demo\nversion: 1\n" },
    });
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/invalid-manifest");
    expect(refused.text).toContain("extension.yaml of github.com/acme/demo v1.0.0");
    await expectEmptyCache(here);
  });

  test("an archive without a program is refused with what it has", async () => {
    const here = await scene();
    const archive = await zipOf([executable("a", "a"), executable("b", "b")]);
    replaceRelease(here, { tag: "v1.0.0", files: { [zip]: archive } });
    const refused = await refusal(here.resolver.resolve(use, undefined, normally));
    expect(refused.code).toBe("extension/not-found");
    expect(refused.text).toContain("It has a, b.");
    await expectEmptyCache(here);
  });
});
