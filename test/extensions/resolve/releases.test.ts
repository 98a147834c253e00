import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { type MirrorRelease, startReleaseMirror, tarOf, zipOf } from "../../support/release-mirror.ts";
import {
  executable,
  manifestText,
  normally,
  platform,
  refusal,
  resolverIn,
  temporaryFolder,
  upstreamRelease,
} from "./resolving.ts";

const program = "#!/bin/sh\necho hello\n";
const use = (version = ""): { package: string; dir: string } => ({
  package: `github.com/acme/demo${version}`,
  dir: "/",
});

/** Both halves of the platform's name as others write them. */
const [os = "", arch = ""] = platform.split("-");
const otherArch = arch === "amd64" ? "x86_64" : "aarch64";

describe("a release becomes verified files", () => {
  const layouts: readonly [string, () => Promise<MirrorRelease["files"]>, string][] = [
    [
      "a zip with a program of its name",
      async () => ({ [`demo-${platform}.zip`]: await zipOf([executable(`demo-${platform}`, program)]) }),
      `demo-${platform}`,
    ],
    ["a bare program", async () => ({ [`demo-${platform}`]: program }), `demo-${platform}`],
    [
      "a tar.gz with a folder around all",
      async () => ({
        [`demo_1.0.0_${os}_${otherArch}.tar.gz`]: tarOf([
          { name: "demo-1.0.0/", type: "Directory", mode: 0o755 },
          { name: "demo-1.0.0/extension.yaml", content: manifestText },
          executable("demo-1.0.0/demo", program),
          { name: "demo-1.0.0/README.md", content: "read me" },
        ]),
      }),
      "demo-1.0.0/demo",
    ],
    ["a tgz", async () => ({ [`demo.${os}.${arch}.tgz`]: tarOf([executable("demo", program)]) }), "demo"],
    [
      "a portable zip whose manifest names the program",
      async () => ({
        "demo-any.zip": await zipOf([
          { name: "extension.yaml", content: `${manifestText}program: ./bin/start\n` },
          { name: "bin/start", content: program },
          executable("bin/other", "#!/bin/sh\n"),
        ]),
      }),
      "bin/start",
    ],
    [
      "a zip with one executable of any name",
      async () => ({
        [`demo-${platform}.zip`]: await zipOf([executable("x/start", program), { name: "x/data" }]),
      }),
      "x/start",
    ],
  ];

  test.each(layouts)("%s", async (_, files, path) => {
    const made = { "extension.yaml": manifestText, ...(await files()) };
    await using mirror = await startReleaseMirror({ "acme/demo": [{ tag: "v1.0.0", files: made }] });
    const folder = await temporaryFolder();
    const resolver = resolverIn(folder, { releasesUrl: mirror.url });
    const { extension, locked } = await resolver.resolve(use("@v1"), undefined, normally);
    expect(extension).toMatchObject({ package: "github.com/acme/demo@v1", version: "v1.0.0" });
    expect(extension.program).toBe(join(extension.folder, path));
    expect(extension.manifest).toMatchObject({ name: "demo", protocol: "json-rpc" });
    expect(await readFile(extension.program, "utf8")).toBe(program);
    expect((await stat(extension.program)).mode & 0o777).toBe(0o755);
    const [name = "", content = ""] = Object.entries(made).find(([each]) => each !== "extension.yaml") ?? [];
    const sums = Object.entries(made).map(([each, bytes]) => `${hash("sha256", bytes)}  ${each}\n`);
    expect(locked).toEqual({
      package: "github.com/acme/demo",
      version: "v1.0.0",
      checksums: `sha256:${hash("sha256", sums.join(""))}`,
      files: {
        [name.includes("any") ? "any" : platform]: {
          name,
          hash: `sha256:${hash("sha256", content)}`,
          tree: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        },
      },
    });
  });

  test("what is locked and cached needs no request at all", async () => {
    await using mirror = await startReleaseMirror({
      "acme/demo": [await upstreamRelease("v1.0.0", program)],
    });
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const first = await resolver.resolve(use("@v1"), undefined, normally);
    mirror.requests.splice(0);
    const how = { frozen: true, offline: true };
    const again = { ...first, extension: { ...first.extension, recheck: expect.any(Function) } };
    expect(await resolver.resolve(use("@v1"), first.locked, how)).toEqual(again);
    expect(await resolver.pin(use("@v1").package, "1.0.0", first.locked)).toEqual(first.locked);
    expect(mirror.requests).toEqual([]);
  });

  test("the lock's version is used although there is a newer one, fetched anew into an empty cache", async () => {
    await using mirror = await startReleaseMirror({
      "acme/demo": [await upstreamRelease("v1.0.0", program)],
    });
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const { locked } = await resolver.resolve(use("@v1"), undefined, normally);
    mirror.releases.get("acme/demo")?.unshift(await upstreamRelease("v1.1.0", "#!/bin/sh\n"));
    const elsewhere = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const again = await elsewhere.resolve(use("@v1"), locked, { frozen: true, offline: false });
    expect(again.extension.version).toBe("v1.0.0");
    expect(again.locked).toEqual(locked);
    expect(await elsewhere.newest(use("@v1").package)).toBe("v1.1.0");
  });

  test("another platform's entry of the lock stays, and this one's is added to it", async () => {
    await using mirror = await startReleaseMirror({
      "acme/demo": [await upstreamRelease("v1.0.0", program)],
    });
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const { locked } = await resolver.resolve(use("@v1"), undefined, normally);
    if (locked === undefined) throw new Error("there is no entry");
    const other = {
      name: "demo-plan9-mips.zip",
      hash: `sha256:${"a".repeat(64)}`,
      tree: `sha256:${"b".repeat(64)}`,
    };
    const before = { ...locked, files: { "plan9-mips": other } };
    const again = await resolver.resolve(use("@v1"), before, { frozen: true, offline: false });
    expect(again.locked?.files).toEqual({ "plan9-mips": other, ...locked.files });
  });

  test.each<[string, Partial<MirrorRelease>, string]>([
    ["another version", { checksums: false, digests: true }, "v0.9.0"],
    ["other checksums", {}, "v1.0.0"],
  ])("another platform's entry of the lock goes when it is of %s", async (_, rest, version) => {
    await using mirror = await startReleaseMirror({
      "acme/demo": [await upstreamRelease("v1.0.0", program, rest)],
    });
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const { locked } = await resolver.resolve(use("@v1"), undefined, normally);
    if (locked === undefined) throw new Error("there is no entry");
    const { checksums } = locked;
    const hash = `sha256:${"a".repeat(64)}`;
    const previous = {
      ...locked,
      version,
      ...(checksums === undefined ? {} : { checksums: hash }),
      files: { "plan9-mips": { name: "demo-plan9-mips.zip", hash, tree: hash } },
    };
    expect(await resolver.pin(use("@v1").package, "v1.0.0", previous)).toEqual(locked);
  });

  test("the checksums that are locked are those of now, also around a file that is cached", async () => {
    const release = await upstreamRelease("v1.0.0", program);
    await using mirror = await startReleaseMirror({ "acme/demo": [release] });
    const folder = await temporaryFolder();
    const resolver = resolverIn(folder, { releasesUrl: mirror.url });
    const { locked } = await resolver.resolve(use("@v1"), undefined, normally);
    mirror.releases.set("acme/demo", [{ ...release, files: { ...release.files, more: "more" } }]);
    const later = await resolver.resolve(use("@v1"), undefined, normally);
    expect(later.locked?.files).toEqual(locked?.files);
    expect(later.locked?.checksums).not.toBe(locked?.checksums);
    const elsewhere = resolverIn(join(folder, "other"), { releasesUrl: mirror.url });
    expect((await elsewhere.resolve(use("@v1"), later.locked, normally)).locked).toEqual(later.locked);
  });

  test("what is fetched is told", async () => {
    await using mirror = await startReleaseMirror({
      "acme/demo": [await upstreamRelease("v1.0.0", program)],
    });
    const told: string[] = [];
    const onProgress = (message: string): void => void told.push(message);
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url, onProgress });
    await resolver.resolve(use("@v1"), undefined, normally);
    expect(told).toEqual([`fetching demo-${platform}.zip of github.com/acme/demo v1.0.0 (0.0 MB)`]);
  });
});

describe("which version is meant", () => {
  const tags = ["nightly", "v2.0.0-rc.1", "v1.10.0", "v1.9.3", "1.2.5", "v1.2.4", "v0.9.0", "v1.11.0-beta"];
  const releases = tags.map((tag) => ({ tag, prerelease: tag.includes("-"), files: {} }));
  const draft = { tag: "v1.99.0", draft: true, files: {} };

  test.each([
    ["@v1", "v1.10.0"],
    ["@1", "v1.10.0"],
    ["@v1.2", "1.2.5"],
    ["@v1.9.3", "v1.9.3"],
    ["@1.9.3", "v1.9.3"],
    ["@v1.2.5", "1.2.5"],
    ["@v2.0.0-rc.1", "v2.0.0-rc.1"],
    ["@nightly", "nightly"],
    ["@v0", "v0.9.0"],
  ])("%s is %s", async (version, expected) => {
    await using mirror = await startReleaseMirror({ "acme/demo": [draft, ...releases] });
    const resolver = resolverIn("/nowhere", { releasesUrl: mirror.url });
    expect(await resolver.newest(use(version).package)).toBe(expected);
  });

  test.each(["", "@latest"])("%s is the newest release that is no preview", async (version) => {
    const list = [
      { tag: "v3.0.0-rc.1", prerelease: true, files: {} },
      { tag: "v2.1.0", files: {} },
      ...releases,
    ];
    await using mirror = await startReleaseMirror({ "acme/demo": list });
    const resolver = resolverIn("/nowhere", { releasesUrl: mirror.url });
    expect(await resolver.newest(use(version).package)).toBe("v2.1.0");
  });

  test("all pages are looked at", async () => {
    const many = Array.from({ length: 250 }, (_, index) => ({ tag: `v2.${index}.0`, files: {} }));
    await using mirror = await startReleaseMirror({ "acme/demo": [...many, { tag: "v1.0.0", files: {} }] });
    const resolver = resolverIn("/nowhere", { releasesUrl: mirror.url });
    expect(await resolver.newest(use("@v1").package)).toBe("v1.0.0");
    expect(mirror.requests).toHaveLength(3);
  });

  test.each([
    ["@v7", "github.com/acme/demo has no release v7. It has nightly, v2.0.0-rc.1,"],
    ["@v1.9.9", "github.com/acme/demo has no release v1.9.9. It has nightly, v2.0.0-rc.1,"],
  ])("%s is not there", async (version, text) => {
    await using mirror = await startReleaseMirror({ "acme/demo": releases });
    const resolver = resolverIn("/nowhere", { releasesUrl: mirror.url });
    const refused = await refusal(resolver.newest(use(version).package));
    expect(refused.code).toBe("extension/not-found");
    expect(refused.text).toContain(text);
  });

  test("a repository that is not there", async () => {
    await using mirror = await startReleaseMirror();
    const refused = await refusal(
      resolverIn("/nowhere", { releasesUrl: mirror.url }).newest(use("@v1").package),
    );
    expect(refused.code).toBe("extension/not-found");
    expect(refused.text).toContain("no public repository acme/demo");
  });
});

describe("what cannot be had", () => {
  test("a platform that the release has no file for", async () => {
    const files = { "demo-plan9-mips.zip": "x", "other.txt": "y" };
    await using mirror = await startReleaseMirror({ "acme/demo": [{ tag: "v1.0.0", files }] });
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    expect(await refusal(resolver.resolve(use("@v1"), undefined, normally))).toEqual({
      code: "extension/not-found",
      text: `github.com/acme/demo v1.0.0 has no file for ${platform}. It has demo-plan9-mips.zip, other.txt, checksums.sha256. Expected is a name such as demo-${platform}.zip.`,
    });
  });

  test("frozen: what is not in the lock", async () => {
    const resolver = resolverIn(await temporaryFolder());
    const refused = await refusal(resolver.resolve(use("@v1"), undefined, { frozen: true, offline: false }));
    expect(refused).toEqual({
      code: "extension/not-locked",
      text: "github.com/acme/demo@v1 is not in the lock, and nothing else may be used (frozen). ",
    });
  });

  test("offline: what is not in the cache, locked or not; the newest that fits is taken when it is", async () => {
    const list = [await upstreamRelease("v1.1.0", program), await upstreamRelease("v1.0.0", program)];
    await using mirror = await startReleaseMirror({ "acme/demo": list });
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const offline = { frozen: false, offline: true };
    const refused = await refusal(resolver.resolve(use("@v1"), undefined, offline));
    expect(refused.code).toBe("extension/unreachable");
    expect(refused.text).toContain("mcpvals extensions add github.com/acme/demo@v1");
    const locked = await resolver.pin(use("@v1").package, "v1.0.0", undefined);
    await resolver.pin(use("@v1").package, "v1.1.0", undefined);
    mirror.requests.splice(0);
    expect((await resolver.resolve(use("@v1"), undefined, offline)).extension.version).toBe("v1.1.0");
    expect((await resolver.resolve(use("@v1"), locked, offline)).extension.version).toBe("v1.0.0");
    const other = { ...locked, version: "v1.0.5" };
    expect((await refusal(resolver.resolve(use("@v1"), other, offline))).code).toBe("extension/unreachable");
    expect(mirror.requests).toEqual([]);
  });

  test("a server that is away is told with its address", async () => {
    const mirror = await startReleaseMirror();
    await mirror[Symbol.asyncDispose]();
    const refused = await refusal(
      resolverIn("/nowhere", { releasesUrl: mirror.url }).newest(use("@v1").package),
    );
    expect(refused.code).toBe("extension/unreachable");
    expect(refused.text).toContain(
      `${mirror.url}/repos/acme/demo/releases could not be fetched: fetch failed: connect`,
    );
  });

  test("a server's error is tried once more", async () => {
    await using mirror = await startReleaseMirror({ "acme/demo": [{ tag: "v1.0.0", files: {} }] });
    let failures = 1;
    mirror.interfere = (_, response) => {
      if (failures === 0) return false;
      failures -= 1;
      response.writeHead(502).end();
      return true;
    };
    const resolver = resolverIn("/nowhere", { releasesUrl: mirror.url });
    expect(await resolver.newest(use("@v1").package)).toBe("v1.0.0");
    failures = 2;
    const refused = await refusal(resolver.newest(use("@v1").package));
    expect(refused.text).toContain("could not be fetched: the server answered 502 Bad Gateway");
    expect(failures).toBe(0);
  });

  test("a limit of requests says when more are allowed", async () => {
    await using mirror = await startReleaseMirror();
    mirror.interfere = (_, response) => {
      response.writeHead(403, { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000000" }).end();
      return true;
    };
    const refused = await refusal(
      resolverIn("/nowhere", { releasesUrl: mirror.url }).newest(use("@v1").package),
    );
    expect(refused.code).toBe("extension/unreachable");
    expect(refused.text).toContain(
      "its limit of requests is used up; more are allowed from 2023-11-14T22:13:20.000Z on",
    );
    expect(mirror.requests).toHaveLength(1);
  });

  test("a file that is too large is not even asked for", async () => {
    await using mirror = await startReleaseMirror();
    mirror.interfere = (request, response) => {
      const address = `${mirror.url}/files/demo`;
      const digest = `sha256:${"0".repeat(64)}`;
      const asset = {
        name: `demo-${platform}`,
        size: 501 * 1024 ** 2,
        browser_download_url: address,
        digest,
      };
      response.end(
        JSON.stringify(request.url?.includes("/tags/") ? { tag_name: "v1.0.0", assets: [asset] } : []),
      );
      return true;
    };
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const refused = await refusal(resolver.resolve(use("@v1.0.0"), undefined, normally));
    expect(refused.code).toBe("extension/integrity");
    expect(refused.text).toContain("is larger than the limit of 500 MB");
    expect(mirror.requests).toEqual(["/repos/acme/demo/releases/tags/v1.0.0"]);
  });

  test("an aborted run ends with its reason", async () => {
    await using mirror = await startReleaseMirror();
    const end = new AbortController();
    mirror.interfere = () => {
      end.abort(new Error("interrupted"));
      return true;
    };
    const resolver = resolverIn("/nowhere", { releasesUrl: mirror.url, signal: end.signal });
    await expect(resolver.newest(use("@v1").package)).rejects.toThrow("interrupted");
  });
});

describe("the cache", () => {
  test("two resolvers at once both succeed, and one entry is there", async () => {
    await using mirror = await startReleaseMirror({
      "acme/demo": [await upstreamRelease("v1.0.0", program)],
    });
    const folder = await temporaryFolder();
    const results = await Promise.all(
      Array.from({ length: 6 }, () =>
        resolverIn(folder, { releasesUrl: mirror.url }).resolve(use("@v1"), undefined, normally),
      ),
    );
    expect(new Set(results.map(({ extension }) => extension.program)).size).toBe(1);
    const home = join(folder, "cache", "github.com", "acme", "demo", "v1.0.0");
    const [entry = "", ...others] = await readdir(home);
    expect(others).toEqual([]);
    expect(entry).toBe(`${platform}-${results[0]?.locked?.files[platform]?.hash.slice(7, 19)}`);
    expect(await readdir(join(home, entry))).toEqual(["extension.json", "files"]);
  });

  test("two processes at once both succeed", async () => {
    await using mirror = await startReleaseMirror({
      "acme/demo": [await upstreamRelease("v1.0.0", program)],
    });
    const folder = await temporaryFolder();
    // Both have asked for the file before either gets it.
    const waiting: (() => void)[] = [];
    mirror.interfere = (request, response) => {
      if (request.url?.endsWith(`${platform}.zip`) !== true || waiting.length === 2) return false;
      waiting.push(() => response.writeHead(302, { location: `${request.url}?again` }).end());
      if (waiting.length === 2) for (const go of waiting) go();
      return true;
    };
    const module = pathToFileURL(join(import.meta.dirname, "../../../src/extensions/resolve/resolver.ts"));
    const options = { cacheDir: join(folder, "cache"), releasesUrl: mirror.url, home: folder, env: {} };
    const code = `
      const { createResolver } = await import(${JSON.stringify(module.href)});
      const resolver = createResolver({ ...${JSON.stringify(options)}, signal: new AbortController().signal });
      const how = { frozen: false, offline: false };
      const { extension } = await resolver.resolve(${JSON.stringify(use("@v1"))}, undefined, how);
      process.stdout.write(extension.program);`;
    const run = (): Promise<{ stdout: string }> =>
      promisify(execFile)(process.execPath, ["--input-type=module", "--eval", code], { env: {} });
    const [first, second] = await Promise.all([run(), run()]);
    expect(first.stdout).toBe(second.stdout);
    expect(await readFile(first.stdout, "utf8")).toBe(program);
    expect(waiting).toHaveLength(2);
    expect(await readdir(join(folder, "cache", "github.com", "acme", "demo", "v1.0.0"))).toHaveLength(1);
  });

  test("it is listed with sizes and last uses, and emptied", async () => {
    const list = [await upstreamRelease("v1.1.0", program), await upstreamRelease("v1.0.0", program)];
    await using mirror = await startReleaseMirror({ "acme/demo": list });
    const folder = await temporaryFolder();
    const resolver = resolverIn(folder, { releasesUrl: mirror.url });
    expect(await resolver.cached()).toEqual([]);
    const before = Date.now() - 2000;
    await resolver.pin(use().package, "v1.0.0", undefined);
    await resolver.resolve(use("@v1"), undefined, normally);
    const cached = await resolver.cached();
    const bytes = program.length + manifestText.length;
    expect(cached).toMatchObject([
      { package: "github.com/acme/demo", version: "v1.0.0", platform, bytes },
      { package: "github.com/acme/demo", version: "v1.1.0", platform, bytes },
    ]);
    for (const { usedAt } of cached) expect(usedAt.getTime()).toBeGreaterThan(before);
    for (const version of cached) await resolver.remove(version);
    expect(await resolver.cached()).toEqual([]);
    expect(await readdir(join(folder, "cache"))).toEqual([]);
  });

  test("pin changes to another version and back, the second time without a request", async () => {
    const list = [await upstreamRelease("v1.1.0", program), await upstreamRelease("v1.0.0", program)];
    await using mirror = await startReleaseMirror({ "acme/demo": list });
    const resolver = resolverIn(await temporaryFolder(), { releasesUrl: mirror.url });
    const old = await resolver.pin(use("@v1").package, "v1.0.0", undefined);
    const { locked } = await resolver.resolve(use("@v1"), undefined, normally);
    expect(locked?.version).toBe("v1.1.0");
    mirror.requests.splice(0);
    expect(await resolver.pin(use("@v1").package, "v1.0.0", locked)).toEqual(old);
    expect(mirror.requests).toEqual([]);
  });
});
