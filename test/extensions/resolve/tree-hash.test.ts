import { chmod, mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hashTree, type Tree } from "../../../src/extensions/resolve/cache.ts";
import { temporaryFolder } from "./resolving.ts";

async function hashOf(folder: string): Promise<Tree> {
  return hashTree(folder, { executables: new Set(), signal: new AbortController().signal });
}

test("it is the same for the same files, and another one for any change", async () => {
  const make = async (): Promise<string> => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, "a"));
    await writeFile(join(folder, "a", "b"), "x".repeat(3_000_000));
    await writeFile(join(folder, "a-b"), "");
    return folder;
  };
  const folder = await make();
  const first = await hashOf(folder);
  expect(first.files.map(({ path, bytes }) => [path, bytes])).toEqual([
    ["a-b", 0],
    ["a/b", 3_000_000],
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
  expect(seen.size).toBe(changes.length + 1);
  await mkdir(join(folder, "empty"));
  seen.add((await hashOf(folder)).hash);
  expect(seen.size).toBe(changes.length + 1);
});
