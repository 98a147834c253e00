import { hash, randomBytes } from "node:crypto";
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import type { LockedExtension } from "../../../src/extensions/lock-file.ts";
import { nameChecker } from "../../../src/extensions/resolve/archive.ts";
import { hashTree, recordedFiles } from "../../../src/extensions/resolve/cache.ts";
import { readChecksums } from "../../../src/extensions/resolve/releases.ts";
import {
  type ArchiveMember,
  checksumsOf,
  type MirrorRelease,
  startReleaseMirror,
  tarOf,
  zipOf,
} from "../../support/release-mirror.ts";
import {
  executable,
  expectRefusal,
  fromCache,
  manifestText,
  markerProgram,
  normally,
  platform,
  releaseScene,
  upstreamRelease,
} from "./resolving.ts";

const use = { package: "github.com/acme/demo@v1", dir: "/" };
const zip = `demo-${platform}.zip`;
const noHash = `sha256:${"0".repeat(64)}`;
const evil = "#!/bin/sh\necho evil\n";

/** A mirror with the release v1.0.0, whose program leaves a file behind when it is run; nothing may ever run it. */
async function scene(rest: Partial<MirrorRelease> = {}) {
  const here = await releaseScene();
  const program = markerProgram(join(here.folder, "marker"));
  onTestFinished(() => expect(stat(join(here.folder, "marker"))).rejects.toThrow("ENOENT"));
  here.publish(await upstreamRelease("v1.0.0", program, rest));
  const resolve = (locked?: LockedExtension, how = normally) => here.resolver.resolve(use, locked, how);
  /** Nothing of the package is in the cache, not even a part of it. */
  const expectEmptyCache = async (name = "."): Promise<void> => {
    const names = await readdir(join(here.folder, name, "cache"), { recursive: true }).catch(() => []);
    expect(names).toEqual([]);
  };
  return { ...here, program, resolve, expectEmptyCache };
}

/** The same with the release in the cache. `file` is its entry in the lock, `record` the path of its record. */
async function cachedScene(rest: Partial<MirrorRelease> = {}) {
  const here = await scene(rest);
  const { extension, locked } = await here.resolve();
  const file = locked?.files[platform];
  if (locked === undefined || file === undefined) throw new Error("there is no entry");
  const record = join(extension.folder, "..", "extension.json");
  const changeRecord = async (changes: object): Promise<void> => {
    const before = JSON.parse(await readFile(record, "utf8")) as object;
    await writeFile(record, JSON.stringify({ ...before, ...changes }));
  };
  return { ...here, extension, locked, file, record, changeRecord };
}

describe("a changed cache", () => {
  test.each<[string, (folder: string) => Promise<void>, string]>([
    [
      "another program",
      (folder) => writeFile(join(folder, `demo-${platform}`), evil),
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
  ])("%s is refused, with and without a lock", async (_, change, text) => {
    const { resolver, resolve, extension, locked } = await cachedScene();
    expect(await resolver.verify(use.package, locked)).toEqual([]);
    await change(extension.folder);
    for (const entry of [locked, undefined])
      await expectRefusal(resolve(entry), "integrity", text, extension.folder);
    expect(await resolver.verify(use.package, locked)).toEqual([expect.stringContaining(text)]);
    await expectRefusal(resolver.pin(use.package, "v1.0.0", locked), "integrity");
  });

  test("a program that was changed together with its record is neither run, locked nor pinned", async () => {
    const { resolver, resolve, extension, locked, file, changeRecord } = await cachedScene();
    await writeFile(extension.program, evil);
    const { signal } = new AbortController();
    const tree = await hashTree(extension.folder, { executables: new Set(), signal });
    await changeRecord({ tree: tree.hash, files: recordedFiles(tree) });
    const asLocked = `${file.tree}, as locked`;
    await expectRefusal(resolve(locked, fromCache), "integrity", asLocked);
    await expectRefusal(resolve(), "integrity", "as it was fetched now");
    await expectRefusal(resolver.pin(use.package, "v1.0.0", locked), "integrity", asLocked);
  });

  test("nothing that a changed record says gets into a lock that has the version", async () => {
    const { resolve, locked, changeRecord } = await cachedScene();
    await changeRecord({ name: "evil", checksums: noHash, tree: noHash });
    expect((await resolve(locked, fromCache)).locked).toEqual(locked);
  });

  test.each([
    ["for another platform is not taken for this one's", { platform: "plan9-mips" }, false],
    ["of another version than its folder is damaged", { version: "v1.2.0" }, true],
    ["of another file than its folder is damaged", { hash: noHash }, true],
  ])("a record %s", async (_, changes, isDamaged) => {
    const { resolver, resolve, changeRecord } = await cachedScene();
    await changeRecord(changes);
    const [cached] = await resolver.cached();
    expect([cached?.version, cached?.isDamaged ?? false]).toEqual(["v1.0.0", isDamaged]);
    await expectRefusal(resolve(undefined, { frozen: false, offline: true }), "unreachable");
  });

  test("a damaged record is refused and listed, and does not affect another version", async () => {
    const here = await cachedScene();
    await writeFile(here.record, `{"package":"github.com/acme/other"}`);
    await expectRefusal(here.resolve(here.locked), "integrity", "extension.json is damaged");
    here.publish(await upstreamRelease("v1.1.0", here.program));
    const { locked } = await here.resolve();
    await here.resolve(locked, fromCache);
    const cached = await here.resolver.cached();
    const damaged = {
      package: "github.com/acme/demo",
      version: "v1.0.0",
      platform,
      bytes: 0,
      isDamaged: true,
    };
    expect(cached).toMatchObject([damaged, { version: "v1.1.0" }]);
    expect(cached[1]).not.toHaveProperty("isDamaged");
    for (const version of cached) await here.resolver.remove(version);
    await here.expectEmptyCache();
  });

  test("nothing outside of it is removed, nor all of it", async () => {
    const { resolver, folder } = await cachedScene();
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
    const { resolver, folder, extension, record } = await cachedScene();
    const text = await readFile(record, "utf8");
    for (const place of [
      "mine-0123456789ab",
      "npm/x-0123456789ab",
      "github.com/a/b/c/files/d-0123456789ab",
    ]) {
      await mkdir(join(folder, "cache", place), { recursive: true });
      await writeFile(join(folder, "cache", place, "extension.json"), text);
    }
    await symlink(join(extension.folder, "../../.."), join(folder, "cache", "github.com", "acme", "link"));
    expect(await resolver.cached()).toHaveLength(1);
  });
});

describe("a lock that disagrees", () => {
  const otherHash = `expected ${noHash}, as locked, found sha256:`;
  const noFile = "is not one of its files";

  test.each<[object, object, string, string]>([
    [{}, { tree: noHash }, "integrity", otherHash],
    [{}, { hash: noHash }, "integrity", otherHash],
    [{}, { name: "../../../../../../../marker" }, "integrity", noFile],
    [{}, { name: "extension.json" }, "integrity", noFile],
    [{}, { name: "/bin/sh" }, "integrity", noFile],
    [{ version: "1.0.0" }, {}, "integrity", "1.0.0, as locked, found v1.0.0"],
    [{ package: "github.com/evil/demo" }, {}, "invalid-lock", "github.com/evil/demo"],
  ])("entry %j, file %j", async (entry, change, code, text) => {
    const { resolve, locked, file } = await cachedScene();
    const other = { ...locked, ...entry, files: { [platform]: { ...file, ...change } } };
    await expectRefusal(resolve(other), code, text);
  });

  test("frozen: an entry that says nothing of this platform, nor what the release's checksums are", async () => {
    const { locked, file, elsewhere, mirror } = await cachedScene({ checksums: false, digests: true });
    const other = { ...locked, files: { "plan9-mips": { ...file, name: "demo-plan9-mips.zip" } } };
    mirror.requests.length = 0;
    const work = elsewhere().resolve(use, other, { frozen: true, offline: false });
    await expectRefusal(work, "not-locked");
    expect(mirror.requests).toEqual([]);
  });
});

describe("a changed release", () => {
  test("other checksums than were locked", async () => {
    const { program, publish, elsewhere, locked } = await cachedScene();
    const changed = await upstreamRelease("v1.0.0", `${program}# evil\n`);
    const resolve = () => elsewhere().resolve(use, locked, normally);
    publish(changed);
    const found = `found sha256:${hash("sha256", checksumsOf(changed.files))}`;
    const expected = `expected ${locked.checksums}, as locked, ${found}`;
    await expectRefusal(resolve(), "integrity", "checksums.sha256 of github.com/acme/demo v1.0.0", expected);
    publish({ ...changed, checksums: false, digests: true });
    await expectRefusal(resolve(), "integrity", "found a release without any");
  });

  test("the same checksums around another file", async () => {
    const { program, locked, file, publish, elsewhere, expectEmptyCache } = await cachedScene();
    const { files } = await upstreamRelease("v1.0.0", program);
    const changed = await upstreamRelease("v1.0.0", `${program}# evil\n`);
    publish({ ...changed, checksums: { text: checksumsOf(files) } });
    for (const entry of [locked, undefined]) {
      const name = `${zip} of github.com/acme/demo v1.0.0 does not match`;
      const work = elsewhere().resolve(use, entry, normally);
      await expectRefusal(work, "integrity", name, `expected ${file.hash}, found sha256:`);
    }
    await expectEmptyCache("other");
  });

  test("a release of another tag than was asked for", async () => {
    const { answer, resolver } = await scene();
    answer("/tags/v1.0.0", (response) => response.end(JSON.stringify({ tag_name: "v9.9.9", assets: [] })));
    const work = resolver.newest("github.com/acme/demo@v1.0.0");
    await expectRefusal(work, "unreachable", "the answer is the release v9.9.9, not v1.0.0");
  });

  test.each(["v1.0.0-🎉", "../../evil", `v1.0.0-${"x".repeat(400)}`])(
    "a tag with odd characters stays a name of one folder: %s",
    async (tag) => {
      const { folder, program, publish, resolver } = await scene();
      publish(await upstreamRelease(tag, program));
      const latest = { ...use, package: "github.com/acme/demo" };
      const { locked, extension } = await resolver.resolve(latest, undefined, normally);
      expect(locked?.version).toBe(tag);
      expect(relative(join(folder, "cache"), extension.folder).split(sep)).toHaveLength(6);
      expect(await readdir(folder)).toEqual(["cache"]);
      await resolver.resolve(latest, locked, fromCache);
      expect(await resolver.cached()).toMatchObject([{ version: tag }]);
    },
  );

  test("a file that was locked is gone", async () => {
    const { publish, elsewhere, locked } = await cachedScene();
    publish({ tag: "v1.0.0", files: { [`demo-${platform}.tgz`]: "x" } });
    const work = elsewhere().resolve(use, locked, normally);
    await expectRefusal(work, "not-found", `no file ${zip} any more, which is locked`);
  });
});

describe("checksums that do not vouch", () => {
  type Files = MirrorRelease["files"];

  test.each<[string, (files: Files) => Partial<MirrorRelease>, string]>([
    ["a wrong one", (files) => listing({ ...files, [zip]: "other" }), "found sha256:"],
    [
      "none for the file",
      () => listing({ "extension.yaml": manifestText }),
      `checksums.sha256 of github.com/acme/demo v1.0.0 does not list ${zip}`,
    ],
    [
      "none for the manifest",
      (files) => listing({ [zip]: files[zip] ?? "" }),
      "does not list extension.yaml",
    ],
    [
      "a wrong one of the manifest",
      (files) => listing({ ...files, "extension.yaml": "other" }),
      "extension.yaml of github.com/acme/demo v1.0.0 does not match",
    ],
    [
      "two for one file",
      (files) => ({ checksums: { text: checksumsOf(files) + checksumsOf({ [zip]: "other" }) } }),
      `two different checksums for ${zip}`,
    ],
    [
      "one that the API's digest contradicts",
      (files) => ({ digests: true, ...listing({ ...files, [zip]: "other" }) }),
      "as its API says",
    ],
    ["none at all", () => ({ checksums: false }), `${zip} of github.com/acme/demo v1.0.0 cannot be verified`],
  ])("%s", async (_, change, text) => {
    const { program, publish, resolve, expectEmptyCache } = await scene();
    const release = await upstreamRelease("v1.0.0", program);
    publish({ ...release, ...change(release.files) });
    await expectRefusal(resolve(), "integrity", text);
    await expectEmptyCache();
  });

  function listing(files: Files): Partial<MirrorRelease> {
    return { checksums: { text: checksumsOf(files) } };
  }

  test("others than the API's digest of them tells, although they list the files as they are", async () => {
    const { program, answer, resolve, expectEmptyCache } = await scene({ digests: true });
    const { files } = await upstreamRelease("v1.0.0", program);
    answer("checksums.sha256", (response) => response.end(checksumsOf({ ...files, more: "more" })));
    expect(await expectRefusal(resolve(), "integrity")).toMatch(/^checksums\.sha256 of .* as its API says/);
    await expectEmptyCache();
  });

  test.each([
    ["checksums.txt", "*"],
    ["SHA256SUMS", " ./"],
    ["demo_1.0.0_checksums.txt", " "],
  ])("%s counts too, with %s before names", async (name, mark) => {
    const { program, publish, resolve } = await scene();
    const release = await upstreamRelease("v1.0.0", program);
    const text = checksumsOf(release.files)
      .replaceAll("  ", ` ${mark}`)
      .toUpperCase()
      .replaceAll(/ .*/g, (each) => each.toLowerCase());
    publish({ ...release, checksums: { name, text: text.replaceAll("\n", "\r\n") } });
    expect((await resolve()).locked?.checksums).toMatch(/^sha256:/);
  });

  test("without them the digests of the API count, or what the user has given", async () => {
    const { program, publish, elsewhere, extension, locked, file } = await cachedScene({
      checksums: false,
      digests: true,
    });
    expect(extension.manifest?.name).toBe("demo");
    expect(locked).not.toHaveProperty("checksums");
    publish(await upstreamRelease("v1.0.0", program, { checksums: false }));
    const sha256 = file.hash.replace("sha256:", "").toUpperCase();
    const given = await elsewhere().resolve(use, undefined, { ...normally, sha256 });
    expect(given.extension.manifest).toBeUndefined();
    const wrong = elsewhere("third").resolve(use, undefined, { ...normally, sha256: "0".repeat(64) });
    await expectRefusal(wrong, "integrity", `expected ${noHash}, found ${file.hash}`);
  });

  test("what the user has given must fit what is cached and locked, and what the release says of itself", async () => {
    const { resolve, locked, elsewhere } = await cachedScene();
    const sha256 = "0".repeat(64);
    const given = `expected ${noHash}, as given`;
    await expectRefusal(resolve(locked, { ...fromCache, sha256 }), "integrity", given);
    await expectRefusal(elsewhere().resolve(use, undefined, { ...normally, sha256 }), "integrity", given);
  });
});

describe("the way here", () => {
  test("a download that ends early, with and without an announced length", async () => {
    const { mirror, answer, resolve, expectEmptyCache } = await scene();
    answer(zip, (response) => {
      response.writeHead(200, { "content-length": "1000" });
      response.write("short", () => response.destroy());
    });
    await expectRefusal(resolve(), "unreachable", `${zip} could not be fetched: terminated`);
    expect(mirror.requests.filter((path) => path.endsWith(zip))).toHaveLength(2);
    answer(zip, (response) => response.end("short"));
    expect(await expectRefusal(resolve(), "integrity")).toMatch(/in 5 of \d+ bytes/);
    await expectEmptyCache();
  });

  test("a redirect to another source", async () => {
    const { mirror, answer, resolve } = await scene();
    await using other = await startReleaseMirror();
    answer(zip, (response) => response.writeHead(302, { location: `${other.url}/evil.zip?token=1` }).end());
    const leads = `${mirror.url}/files/acme/demo/v1.0.0/${zip} leads to ${other.url}/evil.zip, another source than ${mirror.url}`;
    await expectRefusal(resolve(), "source-not-allowed", leads);
    expect(other.requests).toEqual([]);
  });

  test("a file's address at another source", async () => {
    const { answer, resolver } = await scene();
    const asset = { name: zip, browser_download_url: "https://example.invalid/x.zip", digest: noHash };
    const release = { tag_name: "v1.0.0", assets: [asset] };
    answer("/tags/v1.0.0", (response) => response.end(JSON.stringify(release)));
    await expectRefusal(resolver.pin(use.package, "v1.0.0", undefined), "source-not-allowed");
  });

  test("redirects within the source are followed, but not forever", async () => {
    const { mirror, resolve, elsewhere } = await scene();
    let left = 3;
    mirror.interfere = (request, response) => {
      if (request.url?.endsWith(zip) !== true || left === 0) return false;
      left -= 1;
      response.writeHead(302, { location: request.url }).end();
      return true;
    };
    await resolve();
    left = 100;
    const work = elsewhere().resolve(use, undefined, normally);
    await expectRefusal(work, "unreachable", "it redirects more than 5 times");
    expect(left).toBe(94);
  });

  test("a user's name and a password in an address are neither sent nor shown", async () => {
    const { mirror, answer, resolve, elsewhere } = await scene();
    const withUser = mirror.url.replace("http://", "http://me:secret@");
    for (const releasesUrl of [withUser, `${mirror.url}/?token=secret`]) {
      const work = elsewhere("x", { releasesUrl }).newest(use.package);
      expect(await expectRefusal(work, "source-not-allowed")).not.toContain("secret");
    }
    answer(zip, (response) => response.writeHead(302, { location: `${withUser}/evil.zip` }).end());
    expect(await expectRefusal(resolve(), "source-not-allowed")).not.toContain("secret");
  });

  test("a file of checksums that takes long to understand", async () => {
    const line = `${"a".repeat(64)}  a${" ".repeat(100_000)}b\n`;
    expect(readChecksums(line.repeat(20), "x").size).toBe(1);
  });

  test("an answer without an end is not kept in memory", async () => {
    const { answer, resolver } = await scene();
    answer("", (response) => response.end(Buffer.alloc(17 * 1024 ** 2, " ")));
    await expectRefusal(resolver.newest(use.package), "unreachable", "the answer is too long");
  });

  test("a source that is not allowed is never asked", async () => {
    const { mirror, elsewhere } = await scene();
    const other = elsewhere("x", { allowedSources: ["github.com/other/*", "npm:*"] });
    await expectRefusal(other.resolve(use, undefined, normally), "source-not-allowed");
    expect(mirror.requests).toEqual([]);
    const allowed = elsewhere("x", { allowedSources: ["github.com/acme/*"] });
    expect((await allowed.resolve(use, undefined, normally)).extension.version).toBe("v1.0.0");
  });
});

describe("an archive that does harm", () => {
  const first = executable("demo", "#!/bin/sh\n");
  const link = { name: "out", type: "SymbolicLink", linkpath: "/tmp" } as const;

  test.each<[readonly string[], string]>([
    [["../evil"], "leaves its folder"],
    [["a/../../evil"], "leaves its folder"],
    [["a/./evil"], "leaves its folder"],
    [["/tmp/evil"], "is absolute"],
    [["a//evil"], "an empty part"],
    [["C:/evil"], "a colon"],
    [["a\\..\\evil"], "a backslash"],
    [["a\u001b[2J"], "a control character"],
    [["a./evil"], "ends in a dot"],
    [["a /evil"], "ends in a dot or a space"],
    [["a/NUL.txt"], "is a device on Windows"],
    [["a/".repeat(600)], "is too long"],
    [["a".repeat(256)], "a part that is too long"],
    [["demo", "DEMO"], `both "demo" and "DEMO"`],
    [["data", "data"], `both "data"`],
    [["demo", "demo/x"], `both "demo"`],
    [["\u00e9", "e\u0301"], "both"],
  ])("names %j", (names, text) => {
    const check = nameChecker("it");
    const last = names.at(-1) ?? "";
    for (const name of names.slice(0, -1)) expect(check(name, "file")).toBe(name);
    expect(() => check(last, "file")).toThrow(text);
  });

  /** A member of a tar with a name of any length. */
  function longName(name: string): ArchiveMember[] {
    const text = ` path=${name}\n`;
    const content = `${Buffer.byteLength(text) + 5}${text}`;
    return [{ name: "pax", type: "ExtendedHeader", content }, { name: "x" }];
  }

  test.each<[".zip" | ".tgz", string, readonly ArchiveMember[], string]>([
    [".zip", "a name with ..", [first, { name: "../evil" }], "../evil"],
    [".zip", "a link", [{ name: "demo", content: "/bin/sh", mode: 0o120777 }], "has a link"],
    [".zip", "a device", [{ name: "demo", mode: 0o020666 }], "neither a file nor a folder"],
    [".zip", "names that differ by case", [first, { name: "DEMO" }], `both "demo" and "DEMO"`],
    [".zip", "no member", [], "has no files"],
    [".tgz", "a name with ..", [first, { name: "../evil" }], "../evil"],
    [".tgz", "a deep name", [first, ...longName("a/".repeat(20_000))], "is too long"],
    [".tgz", "a link that leads out", [first, link, { name: "out/evil" }], "a link"],
    [".tgz", "a hard link", [{ name: "demo", type: "Link", linkpath: "/bin/sh" }], "a link"],
    [".tgz", "a device", [first, { name: "null", type: "CharacterDevice" }], "neither"],
    [".tgz", "a pipe", [first, { name: "pipe", type: "FIFO" }], "neither"],
  ])("%s: %s", async (ending, _, members, text) => {
    await expectUnsafe(ending, ending === ".zip" ? await zipOf(members) : tarOf(members), text);
  });

  const cut = tarOf([executable("demo", randomBytes(200_000).toString("hex"))]).subarray(0, 150_000);

  test.each([
    [".zip", Buffer.from("this is not a zip"), "cannot be unpacked"],
    [".tar.gz", Buffer.from("this is not a tar"), "cannot be unpacked"],
    [".tar.gz", cut, "cannot be"],
  ])("%s that is damaged", expectUnsafe);

  async function expectUnsafe(ending: string, archive: Buffer, text: string): Promise<void> {
    const { folder, publish, resolve, expectEmptyCache } = await scene();
    publish({ tag: "v1.0.0", files: { [`demo-${platform}${ending}`]: archive } });
    await expectRefusal(resolve(), "unsafe-archive", text);
    await expectEmptyCache();
    expect((await readdir(folder)).filter((name) => name !== "cache")).toEqual([]);
  }

  test("what comes behind the end of a tar is not read", async () => {
    const { program, publish, resolve } = await scene();
    const tar = gunzipSync(tarOf([executable(`demo-${platform}`, program)]));
    const endless = gzipSync(Buffer.concat([tar, Buffer.alloc(200 * 1024 ** 2)]), { level: 1 });
    publish({ tag: "v1.0.0", files: { [`demo-${platform}.tgz`]: endless } });
    await resolve();
  });

  test("a manifest that is not valid is refused before anything is kept", async () => {
    const { program, publish, resolve, expectEmptyCache } = await scene();
    const { files } = await upstreamRelease("v1.0.0", program);
    publish({ tag: "v1.0.0", files: { ...files, "extension.yaml": "name: demo\nversion: 1\n" } });
    await expectRefusal(resolve(), "invalid-manifest", "extension.yaml of github.com/acme/demo v1.0.0");
    await expectEmptyCache();
  });

  test("an archive without a program is refused with what it has", async () => {
    const { publish, resolve, expectEmptyCache } = await scene();
    const archive = await zipOf([executable("a", "a"), executable("b", "b")]);
    publish({ tag: "v1.0.0", files: { [zip]: archive } });
    await expectRefusal(resolve(), "not-found", "It has a, b.");
    await expectEmptyCache();
  });
});
