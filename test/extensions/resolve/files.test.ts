import { chmod, mkdir, open, readdir, readFile, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { LockFile } from "../../../src/extensions/lock-file.ts";
import { unpackArchive } from "../../../src/extensions/resolve/archive.ts";
import { hashTree, type Tree } from "../../../src/extensions/resolve/cache.ts";
import { readLock, writeLock } from "../../../src/extensions/resolve/files.ts";
import { type ArchiveMember, tarOf, zipOf } from "../../support/release-mirror.ts";
import { expectRefusal, temporaryFolder } from "./resolving.ts";

describe.each([
  [".zip", zipOf],
  [".tar.gz", async (list: readonly ArchiveMember[]) => tarOf(list)],
])("an archive %s", (ending, make) => {
  const members: readonly ArchiveMember[] = [
    { name: "sub/", type: "Directory", mode: 0o040700 },
    { name: "sub/start", content: "#!/bin/sh\n", mode: 0o100755 },
    { name: "large", content: "x".repeat(1_000_000), mode: 0o104644 },
    { name: "empty", content: "" },
    { name: "ünïcode", content: "ü" },
  ];
  const unpack = async (options: Partial<Parameters<typeof unpackArchive>[2]> = {}) => {
    const home = await temporaryFolder();
    const [path, folder] = [join(home, `archive${ending}`), join(home, "files")];
    await mkdir(folder);
    await writeFile(path, await make(members));
    const { signal } = new AbortController();
    return { folder, executables: await unpackArchive(path, folder, { shown: "it", signal, ...options }) };
  };

  test("files, folders and the executable bit", async () => {
    const { folder, executables } = await unpack();
    expect(executables).toEqual(new Set(["sub/start"]));
    for (const { name, content } of members.slice(1)) {
      expect(await readFile(join(folder, name), "utf8")).toBe(content);
    }
    expect((await stat(join(folder, "sub/start"))).mode & 0o7777).toBe(0o755);
    expect((await stat(join(folder, "large"))).mode & 0o7777).toBe(0o644);
  });

  test("more bytes or more files than are allowed", async () => {
    const long = unpack({ limits: { bytes: 999_999, files: 10 } });
    await expectRefusal(long, "unsafe-archive", "it unpacks to more than 1 MB");
    const many = unpack({ limits: { bytes: 2_000_000, files: 4 } });
    await expectRefusal(many, "unsafe-archive", "it has more than 4 files");
    await unpack({ limits: { bytes: 2_000_000, files: 5 } });
  });

  test("an aborted run ends with its reason", async () => {
    const signal = AbortSignal.abort(new Error("interrupted"));
    await expect(unpack({ signal })).rejects.toThrow("interrupted");
  });
});

test("the hash of a folder is the same for the same files, and another one for any change", async () => {
  const hashOf = (folder: string): Promise<Tree> =>
    hashTree(folder, { executables: new Set(), signal: new AbortController().signal });
  const make = async (): Promise<string> => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, "a"));
    await writeFile(join(folder, "a", "b"), "x".repeat(3_000_000));
    await writeFile(join(folder, "a-b"), "");
    return folder;
  };
  const folder = await make();
  const first = await hashOf(folder);
  expect(first.files).toMatchObject([
    { path: "a-b", bytes: 0 },
    { path: "a/b", bytes: 3_000_000 },
  ]);
  const { hash, files } = await hashOf(await make());
  expect({ hash, files }).toEqual({ hash: first.hash, files: first.files });
  const seen = new Set([first.hash]);
  const changes: readonly (() => Promise<void>)[] = [
    () => writeFile(join(folder, "a", "b"), `${"x".repeat(2_999_999)}y`),
    () => rename(join(folder, "a-b"), join(folder, "a-c")),
    () => rename(join(folder, "a-c"), join(folder, "a", "c")),
    () => chmod(join(folder, "a", "c"), 0o744),
    () => writeFile(join(folder, "new"), ""),
  ];
  for (const change of changes) {
    await change();
    seen.add((await hashOf(folder)).hash);
  }
  await mkdir(join(folder, "empty"));
  seen.add((await hashOf(folder)).hash);
  expect(seen.size).toBe(changes.length + 1);
});

describe("a lock", () => {
  const file = { name: "demo.zip", hash: `sha256:${"a".repeat(64)}`, tree: `sha256:${"b".repeat(64)}` };
  const entry = { package: "github.com/acme/demo", version: "v1.0.0", files: { "linux-amd64": file } };
  const extensions = { "github.com/z/z@v1": entry, "github.com/acme/demo@v1": entry };
  const lock: LockFile = { version: 1, extensions };
  const empty: LockFile = { version: 1, extensions: {} };

  test("is read as it was written, also from folders below; equal locks have equal text", async () => {
    const folder = await temporaryFolder();
    const below = join(folder, "a", "b");
    await mkdir(below, { recursive: true });
    const path = join(folder, "mcp-eval.lock");
    await writeLock(path, lock);
    expect(await readLock(below)).toEqual({ path, lock });
    expect(await readdir(folder)).toEqual(["a", "mcp-eval.lock"]);
    const text = await readFile(path, "utf8");
    expect(text.indexOf("github.com/acme/demo@v1")).toBeLessThan(text.indexOf("github.com/z/z@v1"));
    const reversed = Object.fromEntries(Object.entries(extensions).toReversed());
    await writeLock(path, { version: 1, extensions: reversed });
    expect(await readFile(path, "utf8")).toBe(text);
  });

  test("is replaced at once: who reads the old one reads all of it", async () => {
    const path = join(await temporaryFolder(), "mcp-eval.lock");
    await writeLock(path, lock);
    const before = await readFile(path, "utf8");
    await using file = await open(path);
    await writeLock(path, empty);
    expect(await file.readFile("utf8")).toBe(before);
    expect((await readLock(join(path, ".."))).lock).toEqual(empty);
  });

  test("outside of the repository does not count", async () => {
    const folder = await temporaryFolder();
    const repository = join(folder, "repository");
    await mkdir(join(repository, ".git"), { recursive: true });
    await mkdir(join(repository, "evals"));
    await writeLock(join(folder, "mcp-eval.lock"), lock);
    const none = { path: join(repository, "evals", "mcp-eval.lock"), lock: empty };
    expect(await readLock(join(repository, "evals"))).toEqual(none);
    await writeLock(join(repository, "mcp-eval.lock"), lock);
    expect((await readLock(join(repository, "evals"))).path).toBe(join(repository, "mcp-eval.lock"));
  });

  test.each([
    ["version: 1\nextensions:\n  a: {", "is not valid YAML"],
    ["version: 1\nextensions: {}\nextensions: {}\n", "is not valid YAML"],
    ["version: 2\nextensions: {}\n", "another version of mcpvals"],
    ["version: 1\nextensions: {a: {package: a}}\n", "extensions"],
    [undefined, "cannot be read: it is not a regular file"],
  ])("%j is refused", async (text, reason) => {
    const folder = await temporaryFolder();
    const path = join(folder, "mcp-eval.lock");
    await (text === undefined ? mkdir(path) : writeFile(path, text));
    await expectRefusal(readLock(folder), "invalid-lock", path, reason);
  });

  test("that cannot be written leaves nothing behind, and is named with its path", async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, "mcp-eval.lock"));
    await expect(writeLock(join(folder, "mcp-eval.lock"), lock)).rejects.toThrow();
    expect(await readdir(folder)).toEqual(["mcp-eval.lock"]);
    const path = join(folder, "none", "mcp-eval.lock");
    await expectRefusal(writeLock(path, lock), "unwritable", `${path} cannot be written: ENOENT`);
  });
});
