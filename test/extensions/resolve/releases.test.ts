import { hash } from "node:crypto";
import { mkdir, readdir, readFile, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaultSandbox } from "../../../src/model/sandbox.ts";
import type { Task } from "../../../src/model/task.ts";
import { prepareExtensions } from "../../../src/extensions/prepare-extensions.ts";
import { readLock, writeLock } from "../../../src/extensions/resolve/files.ts";
import { type FetchOptions, fetchSource } from "../../../src/extensions/resolve/releases.ts";
import { type MirrorRelease, tarOf, zipOf } from "../../support/release-mirror.ts";
import {
  executable,
  expectRefusal,
  fromCache,
  manifestText,
  normally,
  platform,
  releaseScene,
  resolverIn,
  temporaryFolder,
  upstreamRelease,
} from "./resolving.ts";

const program = "#!/bin/sh\necho hello\n";
const name = "github.com/acme/demo@v1";
const use = { package: name, dir: "/" };
const noHash = `sha256:${"a".repeat(64)}`;

/** A mirror with versions of the same program, newest first, and what resolving the newest into the cache gave. */
async function resolvedScene(versions: readonly string[], rest: Partial<MirrorRelease> = {}) {
  const here = await releaseScene(
    ...(await Promise.all(versions.map((tag) => upstreamRelease(tag, program, rest)))),
  );
  const { extension, locked } = await here.resolver.resolve(use, undefined, normally);
  if (locked === undefined) throw new Error("there is no entry");
  return { ...here, extension, locked };
}

describe("a release becomes verified files", () => {
  /** Both halves of the platform's name as others write them. */
  const [os = "", arch = ""] = platform.split("-");
  const otherArch = arch === "amd64" ? "x86_64" : "aarch64";

  test.each<[string, () => Promise<MirrorRelease["files"]>, string]>([
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
      "a zip with several programs of its name, of which the outermost counts",
      async () => ({
        [`demo-${platform}.zip`]: await zipOf([
          executable("lib/old/demo", "#!/bin/sh\n"),
          executable("bin/demo", program),
        ]),
      }),
      "bin/demo",
    ],
    [
      "a zip with one executable of any name",
      async () => ({
        [`demo-${platform}.zip`]: await zipOf([executable("x/start", program), { name: "x/data" }]),
      }),
      "x/start",
    ],
  ])("%s", async (_, files, path) => {
    const made = { "extension.yaml": manifestText, ...(await files()) };
    const { resolver } = await releaseScene({ tag: "v1.0.0", files: made });
    const { extension, locked } = await resolver.resolve(use, undefined, normally);
    expect(extension).toMatchObject({
      package: name,
      version: "v1.0.0",
      program: join(extension.folder, path),
      manifest: { name: "demo", protocol: "json-rpc" },
    });
    expect(await readFile(extension.program, "utf8")).toBe(program);
    expect((await stat(extension.program)).mode & 0o777).toBe(0o755);
    const [asset = "", content = ""] = Object.entries(made).find(([each]) => each !== "extension.yaml") ?? [];
    const sums = Object.entries(made).map(([each, bytes]) => `${hash("sha256", bytes)}  ${each}\n`);
    const tree = expect.stringMatching(/^sha256:[0-9a-f]{64}$/);
    const file = { name: asset, hash: `sha256:${hash("sha256", content)}`, tree };
    expect(locked).toEqual({
      package: "github.com/acme/demo",
      version: "v1.0.0",
      checksums: `sha256:${hash("sha256", sums.join(""))}`,
      files: { [asset.includes("any") ? "any" : platform]: file },
    });
  });

  test("what is locked and cached needs no request at all", async () => {
    const { mirror, resolver, extension, locked } = await resolvedScene(["v1.0.0"]);
    mirror.requests.splice(0);
    const again = { extension: { ...extension, recheck: expect.any(Function) }, locked };
    expect(await resolver.resolve(use, locked, fromCache)).toEqual(again);
    expect(await resolver.pin(name, "1.0.0", locked)).toEqual(locked);
    expect(mirror.requests).toEqual([]);
  });

  test("the lock's version is used although there is a newer one, fetched anew into an empty cache", async () => {
    const { elsewhere, publish, locked } = await resolvedScene(["v1.0.0"]);
    publish(await upstreamRelease("v1.1.0", "#!/bin/sh\n"), await upstreamRelease("v1.0.0", program));
    const again = await elsewhere().resolve(use, locked, { frozen: true, offline: false });
    expect(again).toMatchObject({ extension: { version: "v1.0.0" }, locked });
    expect(await elsewhere().newest(name)).toBe("v1.1.0");
  });

  test("another platform's entry of the lock stays, and this one's is added to it", async () => {
    const { resolver, locked } = await resolvedScene(["v1.0.0"]);
    const other = { name: "demo-plan9-mips.zip", hash: noHash, tree: noHash };
    const before = { ...locked, files: { "plan9-mips": other } };
    const again = await resolver.resolve(use, before, { frozen: true, offline: false });
    expect(again.locked?.files).toEqual({ "plan9-mips": other, ...locked.files });
  });

  test.each<[string, Partial<MirrorRelease>, object]>([
    ["another version", { checksums: false, digests: true }, { version: "v0.9.0" }],
    ["other checksums", {}, { checksums: noHash }],
  ])("another platform's entry of the lock goes when it is of %s", async (_, rest, change) => {
    const { resolver, locked } = await resolvedScene(["v1.0.0"], rest);
    const files = { "plan9-mips": { name: "demo-plan9-mips.zip", hash: noHash, tree: noHash } };
    expect(await resolver.pin(name, "v1.0.0", { ...locked, ...change, files })).toEqual(locked);
  });

  test("the checksums that are locked are those of now, also around a file that is cached", async () => {
    const { resolver, elsewhere, publish, locked } = await resolvedScene(["v1.0.0"]);
    const release = await upstreamRelease("v1.0.0", program);
    publish({ ...release, files: { ...release.files, more: "more" } });
    const later = await resolver.resolve(use, undefined, normally);
    expect(later.locked?.files).toEqual(locked.files);
    expect(later.locked?.checksums).not.toBe(locked.checksums);
    const messages: string[] = [];
    const other = elsewhere("x", { onProgress: (message) => messages.push(message) });
    expect((await other.resolve(use, later.locked, normally)).locked).toEqual(later.locked);
    expect(messages).toEqual([`fetching demo-${platform}.zip of github.com/acme/demo v1.0.0 (0.0 MB)`]);
  });
});

describe("which version is meant", () => {
  const tags = ["nightly", "v2.0.0-rc.1", "v1.10.0", "v1.9.3", "1.2.5", "v1.2.4", "v0.9.0", "v1.11.0-beta"];
  const releases = tags.map((tag) => ({ tag, prerelease: tag.includes("-"), files: {} }));
  const draft = { tag: "v1.99.0", draft: true, files: {} };
  const later = [
    { tag: "v3.0.0-rc.1", prerelease: true, files: {} },
    { tag: "v2.1.0", files: {} },
  ];

  test.each<[string, string, (readonly MirrorRelease[])?]>([
    ["@v1", "v1.10.0"],
    ["@1.9.3", "v1.9.3"],
    ["@v1.2.5", "1.2.5"],
    ["@v2.0.0-rc.1", "v2.0.0-rc.1"],
    ["@nightly", "nightly"],
    ["", "v2.1.0", later],
    ["@latest", "v2.1.0", later],
  ])("%s is %s", async (version, expected, others = []) => {
    const { resolver } = await releaseScene(draft, ...others, ...releases);
    expect(await resolver.newest(`github.com/acme/demo${version}`)).toBe(expected);
  });

  test("all pages are looked at", async () => {
    const many = Array.from({ length: 250 }, (_, index) => ({ tag: `v2.${index}.0`, files: {} }));
    const { resolver, mirror } = await releaseScene(...many, { tag: "v1.0.0", files: {} });
    expect(await resolver.newest(name)).toBe("v1.0.0");
    expect(mirror.requests).toHaveLength(3);
  });

  test.each([
    ["acme/demo@v7", "github.com/acme/demo has no release v7. It has nightly, v2.0.0-rc.1,"],
    ["acme/demo@v1.9.9", "github.com/acme/demo has no release v1.9.9. It has nightly, v2.0.0-rc.1,"],
    ["acme/none@v1", "no public repository acme/none"],
  ])("%s is not there", async (wanted, text) => {
    const { resolver } = await releaseScene(...releases);
    await expectRefusal(resolver.newest(`github.com/${wanted}`), "not-found", text);
  });
});

test.each([true, false])("the lock is left as it is when it is frozen: %s", async (frozen) => {
  const { folder, mirror, locked } = await resolvedScene(["v1.0.0"]);
  const files = { "plan9-mips": { name: "demo-plan9-mips.zip", hash: noHash, tree: noHash } };
  const path = join(folder, "mcp-eval.lock");
  await writeLock(path, { version: 1, extensions: { [name]: { ...locked, files } } });
  const spec = { alias: "x", package: name, dir: folder, config: {}, env: {}, sandbox: defaultSandbox };
  await prepareExtensions({
    tasks: [{ name: "t", portable: { dir: folder, extensions: { x: spec } } } as unknown as Task],
    uses: new Map(),
    dir: folder,
    cwd: folder,
    places: { cacheDir: join(folder, "cache"), releasesUrl: mirror.url, home: "/nowhere", env: {} },
    validateSchema: () => Promise.resolve({ status: "valid" }),
    secrets: [],
    signal: new AbortController().signal,
    frozen,
  });
  const { lock } = await readLock(folder);
  expect(Object.keys(lock.extensions[name]?.files ?? {})).toHaveLength(frozen ? 1 : 2);
});

describe("what cannot be had", () => {
  test("a draft, which only its authors are shown", async () => {
    const { answer, resolver } = await releaseScene();
    const release = { tag_name: "v1.0.0", draft: true, assets: [] };
    answer("/tags/v1.0.0", (response) => response.end(JSON.stringify(release)));
    await expectRefusal(resolver.newest(`${name}.0.0`), "not-found", "has no release v1.0.0");
  });

  test("a platform that the release has no file for", async () => {
    const files = { "demo-plan9-mips.zip": "x", "other.txt": "y" };
    const { resolver } = await releaseScene({ tag: "v1.0.0", files });
    expect(await expectRefusal(resolver.resolve(use, undefined, normally), "not-found")).toBe(
      `github.com/acme/demo v1.0.0 has no file for ${platform}. It has demo-plan9-mips.zip, other.txt, checksums.sha256. Expected is a name such as demo-${platform}.zip.`,
    );
  });

  test("frozen: what is not in the lock", async () => {
    const work = resolverIn(await temporaryFolder()).resolve(use, undefined, {
      frozen: true,
      offline: false,
    });
    expect(await expectRefusal(work, "not-locked")).toBe(
      "github.com/acme/demo@v1 is not in the lock, and nothing else may be used (frozen). ",
    );
  });

  test("offline: what is not in the cache, locked or not; the newest that fits is taken when it is", async () => {
    const versions = await Promise.all(["v1.1.0", "v1.0.0"].map((tag) => upstreamRelease(tag, program)));
    const { resolver, mirror } = await releaseScene(...versions);
    const offline = { frozen: false, offline: true };
    const add = "mcpvals extensions add github.com/acme/demo@v1";
    await expectRefusal(resolver.resolve(use, undefined, offline), "unreachable", add);
    const locked = await resolver.pin(name, "v1.0.0", undefined);
    await resolver.pin(name, "v1.1.0", undefined);
    mirror.requests.splice(0);
    expect((await resolver.resolve(use, undefined, offline)).extension.version).toBe("v1.1.0");
    expect((await resolver.resolve(use, locked, offline)).extension.version).toBe("v1.0.0");
    await expectRefusal(resolver.resolve(use, { ...locked, version: "v1.0.5" }, offline), "unreachable");
    expect(mirror.requests).toEqual([]);
  });

  test("a server that is away is told with its address", async () => {
    const { mirror, resolver } = await releaseScene();
    await mirror[Symbol.asyncDispose]();
    const text = `${mirror.url}/repos/acme/demo/releases could not be fetched: fetch failed: connect`;
    await expectRefusal(resolver.newest(name), "unreachable", text);
  });

  test("a server's error is tried once more", async () => {
    const { mirror, resolver } = await releaseScene({ tag: "v1.0.0", files: {} });
    let failures = 1;
    mirror.interfere = (_, response) => {
      if (failures === 0) return false;
      failures -= 1;
      response.writeHead(502).end();
      return true;
    };
    expect(await resolver.newest(name)).toBe("v1.0.0");
    failures = 2;
    const text = "could not be fetched: the server answered 502 Bad Gateway";
    await expectRefusal(resolver.newest(name), "unreachable", text);
    expect(failures).toBe(0);
  });

  test("a limit of requests says when more are allowed", async () => {
    const { mirror, answer, resolver } = await releaseScene();
    const headers = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000000" };
    answer("", (response) => response.writeHead(403, headers).end());
    const text = "its limit of requests is used up; more are allowed from 2023-11-14T22:13:20.000Z on";
    await expectRefusal(resolver.newest(name), "unreachable", text);
    expect(mirror.requests).toHaveLength(1);
  });

  test("a file that is too large is not even asked for", async () => {
    const { mirror, answer, resolver } = await releaseScene();
    const place = { size: 501 * 1024 ** 2, browser_download_url: `${mirror.url}/files/demo` };
    const asset = { name: `demo-${platform}`, digest: noHash, ...place };
    const release = { tag_name: "v1.0.0", assets: [asset] };
    answer("/tags/v1.0.0", (response) => response.end(JSON.stringify(release)));
    const work = resolver.resolve({ ...use, package: `${name}.0.0` }, undefined, normally);
    await expectRefusal(work, "integrity", "is larger than the limit of 500 MB");
    expect(mirror.requests).toEqual(["/repos/acme/demo/releases/tags/v1.0.0"]);
  });

  test("an aborted run ends with its reason", async () => {
    const { elsewhere, answer } = await releaseScene();
    const end = new AbortController();
    answer("", () => end.abort(new Error("interrupted")));
    await expect(elsewhere("x", { signal: end.signal }).newest(name)).rejects.toThrow("interrupted");
  });

  test.each([
    ["nothing at all", false, { silenceMs: 100 }, "nothing came for 100 ms", 2],
    ["the beginning only", true, { silenceMs: 100 }, "nothing came for 100 ms", 2],
    ["a little again and again", true, { mostMs: 300 }, "it took more than 0.3 seconds", 1],
  ])(
    "a server that sends %s is given up",
    async (_, begins, limits: Partial<FetchOptions>, text, attempts) => {
      const { mirror, answer } = await releaseScene();
      answer("", (response) => {
        if (begins) response.writeHead(200).write("x");
        if (limits.mostMs === undefined) return;
        const drip = setInterval(() => response.write("x"), 20);
        response.on("close", () => clearInterval(drip));
      });
      const { signal } = new AbortController();
      const options = { base: new URL(mirror.url), signal, accept: "*/*", ...limits };
      const work = fetchSource(`${mirror.url}/x?token=1`, options, async (body) => {
        for await (const chunk of body) expect(chunk.length).toBeGreaterThan(0);
      });
      await expectRefusal(work, "unreachable", `${mirror.url}/x could not be fetched: ${text}`);
      expect(mirror.requests).toEqual(Array.from({ length: attempts }, () => "/x?token=1"));
    },
  );
});

describe("the cache", () => {
  test("several resolvers at once succeed, and one entry is there", async () => {
    const { folder, elsewhere } = await releaseScene(await upstreamRelease("v1.0.0", program));
    const results = await Promise.all(
      Array.from({ length: 6 }, () => elsewhere(".").resolve(use, undefined, normally)),
    );
    expect(new Set(results.map(({ extension }) => extension.program)).size).toBe(1);
    const home = join(folder, "cache", "github.com", "acme", "demo", "v1.0.0");
    const entry = `${platform}-${results[0]?.locked?.files[platform]?.hash.slice(7, 19)}`;
    expect(await readdir(home)).toEqual([entry]);
    expect(await readdir(join(home, entry))).toEqual(["extension.json", "files"]);
  });

  test("drafts that are a day old are removed, younger ones are not", async () => {
    const { folder, resolver } = await resolvedScene(["v1.1.0", "v1.0.0"]);
    const home = join(folder, "cache", "github.com", "acme", "demo");
    const hours = { "v1.0.0/.new-old": 25, "v1.1.0/.new-young": 23, ".new-other": 25 };
    for (const [name, age] of Object.entries(hours)) {
      await mkdir(join(home, name, "files"), { recursive: true });
      const made = new Date(Date.now() - age * 60 * 60_000);
      await utimes(join(home, name), made, made);
    }
    await resolver.pin(name, "v1.0.0", undefined);
    const left = (await readdir(home, { recursive: true })).filter((path) => /\.new-[a-z]+$/.test(path));
    expect(left).toEqual(["v1.1.0/.new-young"]);
  });

  test("it is listed with sizes and last uses, and emptied", async () => {
    const before = Date.now() - 2000;
    const { folder, resolver } = await resolvedScene(["v1.1.0", "v1.0.0"]);
    await resolver.pin("github.com/acme/demo", "v1.0.0", undefined);
    const cached = await resolver.cached();
    const entry = { package: "github.com/acme/demo", platform, bytes: program.length + manifestText.length };
    expect(cached).toMatchObject([
      { ...entry, version: "v1.0.0" },
      { ...entry, version: "v1.1.0" },
    ]);
    for (const { usedAt } of cached) expect(usedAt.getTime()).toBeGreaterThan(before);
    for (const version of cached) await resolver.remove(version);
    expect(await resolver.cached()).toEqual([]);
    expect(await readdir(join(folder, "cache"))).toEqual([]);
  });

  test("pin changes to another version and back, the second time without a request", async () => {
    const { resolver, mirror, locked } = await resolvedScene(["v1.1.0", "v1.0.0"]);
    const old = await resolver.pin(name, "v1.0.0", locked);
    expect([locked.version, old.version]).toEqual(["v1.1.0", "v1.0.0"]);
    mirror.requests.splice(0);
    expect(await resolver.pin(name, "v1.1.0", old)).toEqual(locked);
    expect(await resolver.pin(name, "v1.0.0", locked)).toEqual(old);
    expect(mirror.requests).toEqual([]);
  });
});
