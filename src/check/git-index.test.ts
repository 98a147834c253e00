import { execFileSync } from "node:child_process";
import { readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { folderOf } from "../../test/support/cli.ts";
import { gitEntries } from "./git-index.ts";

it.each([2, 4])("an index of Git, version %s, is the same until an entry changes", (version) => {
  using folder = folderOf({ "a.txt": "a", "folder/another.txt": "b" });
  const git = (...args: readonly string[]): unknown => execFileSync("git", args, { cwd: folder.path });
  const read = (): Buffer => readFileSync(join(folder.path, ".git/index"));
  git("init", "--quiet");
  git("add", "--all");
  git("update-index", "--index-version", String(version));
  const [whole, entries] = [read(), gitEntries(read())];
  expect(entries?.includes("another.txt") === true || version === 4).toBe(true);
  utimesSync(join(folder.path, "a.txt"), 1000, 1000);
  git("update-index", "--refresh");
  expect([read().equals(whole), gitEntries(read())]).toEqual([false, entries]);
  writeFileSync(join(folder.path, "a.txt"), "c");
  git("add", "a.txt");
  expect(gitEntries(read())).not.toEqual(entries);
});
