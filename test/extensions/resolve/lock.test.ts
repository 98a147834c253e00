import { mkdir, open, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { LockFile } from "../../../src/core/formats/extension/lock-file.ts";
import { readLock, writeLock } from "../../../src/extensions/resolve/files.ts";
import { refusal, temporaryFolder } from "./resolving.ts";

const file = { name: "demo.zip", hash: `sha256:${"a".repeat(64)}`, tree: `sha256:${"b".repeat(64)}` };
const entry = { package: "github.com/acme/demo", version: "v1.0.0", files: { "linux-amd64": file } };
const lock: LockFile = { version: 1, extensions: { "npm:z@1": entry, "github.com/acme/demo@v1": entry } };

test("what was written is read, from folders below too", async () => {
  const folder = await temporaryFolder();
  const below = join(folder, "a", "b");
  await mkdir(below, { recursive: true });
  const path = join(folder, "mcp-eval.lock");
  await writeLock(path, lock);
  expect(await readLock(below)).toEqual({ path, lock });
  expect(await readdir(folder)).toEqual(["a", "mcp-eval.lock"]);
  const text = await readFile(path, "utf8");
  expect(text.indexOf("github.com/acme/demo@v1")).toBeLessThan(text.indexOf("npm:z@1"));
  const { extensions } = lock;
  await writeLock(path, {
    version: 1,
    extensions: Object.fromEntries(Object.entries(extensions).toReversed()),
  });
  expect(await readFile(path, "utf8")).toBe(text);
});

test("whoever is reading a lock when it is written reads the whole one of before", async () => {
  const path = join(await temporaryFolder(), "mcp-eval.lock");
  await writeLock(path, lock);
  const before = await readFile(path, "utf8");
  await using file = await open(path);
  await writeLock(path, { version: 1, extensions: {} });
  expect(await file.readFile("utf8")).toBe(before);
  expect((await readLock(join(path, ".."))).lock.extensions).toEqual({});
});

test("a lock outside of the repository does not count", async () => {
  const folder = await temporaryFolder();
  const repository = join(folder, "repository");
  await mkdir(join(repository, ".git"), { recursive: true });
  await mkdir(join(repository, "evals"));
  await writeLock(join(folder, "mcp-eval.lock"), lock);
  const none = { path: join(repository, "evals", "mcp-eval.lock"), lock: { version: 1, extensions: {} } };
  expect(await readLock(join(repository, "evals"))).toEqual(none);
  await writeLock(join(repository, "mcp-eval.lock"), lock);
  expect((await readLock(join(repository, "evals"))).path).toBe(join(repository, "mcp-eval.lock"));
});

test.each([
  ["version: 1\nextensions:\n  a: {", "is not valid YAML"],
  ["version: 1\nextensions: {}\nextensions: {}\n", "is not valid YAML"],
  ["version: 2\nextensions: {}\n", "another version of mcpvals"],
  ["version: 1\nextensions: {a: {package: a}}\n", "extensions"],
])("%j is refused", async (text, reason) => {
  const folder = await temporaryFolder();
  await writeFile(join(folder, "mcp-eval.lock"), text);
  const refused = await refusal(readLock(folder));
  expect(refused.code).toBe("extension/invalid-lock");
  expect(refused.text).toContain(join(folder, "mcp-eval.lock"));
  expect(refused.text).toContain(reason);
});

test("what cannot be read is refused", async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, "mcp-eval.lock"));
  const refused = await refusal(readLock(folder));
  expect(refused).toEqual({
    code: "extension/invalid-lock",
    text: expect.stringContaining("cannot be read: it is not a regular file"),
  });
});

test("a lock that cannot be written leaves nothing behind", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "mcp-eval.lock");
  await mkdir(path);
  await expect(writeLock(path, lock)).rejects.toThrow();
  expect(await readdir(folder)).toEqual(["mcp-eval.lock"]);
});

test("a lock that cannot be written says so, with its path", async () => {
  const path = join(await temporaryFolder(), "none", "mcp-eval.lock");
  const error = await refusal(writeLock(path, lock));
  expect(error).toMatchObject({ code: "extension/unwritable" });
  expect(error.text).toContain(`${path} cannot be written: ENOENT`);
});
