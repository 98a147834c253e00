import { createHash } from "node:crypto";
import { mkdirSync, mkdtempDisposableSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import { lookAtWorkspace, readNamedFile } from "../../src/graders/workspace-files.ts";
import { folderOf } from "../support/cli.ts";

async function look(workspace: string, ...names: readonly string[]) {
  const { signal } = new AbortController();
  const all = [];
  for await (const found of lookAtWorkspace(names, { workspace, signal })) all.push(found);
  return all;
}
const hashOf = (text: string | Buffer): string => createHash("sha256").update(text).digest("hex");

it("says what is at paths, with text or hash", async () => {
  using folder = folderOf({ "a.md": "Straße\n", "dir/b.md": "b", "[id].ts": "literal", "i.ts": "glob" });
  const { path } = folder;
  writeFileSync(join(path, "binary"), Buffer.from([0xff, 0xfe]));
  writeFileSync(join(path, "large.txt"), "x".repeat(300_000));
  writeFileSync(join(path, "huge.txt"), "");
  truncateSync(join(path, "huge.txt"), 101 * 1024 * 1024);
  const found = await look(
    path,
    "a.md",
    "dir",
    "none",
    "a.md/none",
    "[id].ts",
    "binary",
    "large.txt",
    "huge.txt",
  );
  const file = { kind: "file" };
  expect(found).toEqual([
    {
      name: "a.md",
      files: [{ ...file, path: "a.md", size: 8, sha256: hashOf("Straße\n"), text: "Straße\n" }],
    },
    { name: "dir", files: [{ path: "dir", kind: "folder" }] },
    { name: "none", files: [] },
    { name: "a.md/none", files: [] },
    { name: "[id].ts", files: [expect.objectContaining({ path: "[id].ts", text: "literal" })] },
    {
      name: "binary",
      files: [{ ...file, path: "binary", size: 2, sha256: hashOf(Buffer.from([0xff, 0xfe])) }],
    },
    {
      name: "large.txt",
      files: [{ ...file, path: "large.txt", size: 300_000, sha256: hashOf("x".repeat(300_000)) }],
    },
    { name: "huge.txt", files: [{ ...file, path: "huge.txt", size: 101 * 1024 * 1024 }] },
  ]);
});

it("finds the files that fit a glob, hidden ones included, in one order", async () => {
  using folder = folderOf({
    "b.ts": "",
    "a.ts": "",
    "sub/c.ts": "",
    "sub/deep/d.ts": "",
    ".env.ts": "",
    "node_modules/x/e.ts": "",
    ".git/f.ts": "",
  });
  const names = ["*.ts", "**/*.ts", "sub/*.ts", "{a,sub/c}.ts", "node_modules/*/*.ts", "*.js"];
  const found = await look(folder.path, ...names);
  expect(found.map(({ files }) => files.map((file) => file.path))).toEqual([
    [".env.ts", "a.ts", "b.ts"],
    [".env.ts", "a.ts", "b.ts", "sub/c.ts", "sub/deep/d.ts"],
    ["sub/c.ts"],
    ["a.ts", "sub/c.ts"],
    ["node_modules/x/e.ts"],
    [],
  ]);
});

it("follows links inside the workspace only", async () => {
  using outside = folderOf({ "secret.txt": "secret" });
  using folder = folderOf({ "real.txt": "real", "sub/x.txt": "x" });
  const links = {
    "in.txt": "real.txt",
    "out.txt": join(outside.path, "secret.txt"),
    away: outside.path,
    "sub/up": "..",
    broken: "nothing",
    loop: "loop",
  };
  for (const [name, target] of Object.entries(links)) symlinkSync(target, join(folder.path, name));
  const names = ["in.txt", "out.txt", "away/secret.txt", "away", "sub/up/real.txt", "broken", "loop", "**/*"];
  const found = await look(folder.path, ...names);
  const shown = found.map(({ files }) => files.map(({ kind, text }) => text ?? kind));
  expect(shown.slice(0, -1)).toEqual([["real"], ["link"], ["link"], ["link"], ["real"], ["link"], ["link"]]);
  expect(JSON.stringify(found)).not.toContain('secret"');
  expect(found.at(-1)?.files.map(({ path, kind }) => `${path} ${kind}`)).toEqual([
    "away link",
    "broken link",
    "in.txt file",
    "loop link",
    "out.txt link",
    "real.txt file",
    "sub/up folder",
    "sub/x.txt file",
  ]);
});

it("says of what it could not read that something may be there", async () => {
  using folder = folderOf({ "a.tmp": "", "utf16.txt": "p\0a\0s\0s\0" });
  const odd = (name: string): Buffer =>
    Buffer.concat([Buffer.from(`${folder.path}/`), Buffer.from(name, "latin1")]);
  mkdirSync(odd("d\xff"));
  writeFileSync(odd("\xff.bak"), "");
  const [inFolder, file, utf16] = await look(folder.path, "**/*.tmp", "*.bak", "utf16.txt");
  expect(inFolder).toMatchObject({
    files: [{ path: "a.tmp" }],
    incomplete: "the folder d\uFFFD/ could not be read",
  });
  expect(file).toMatchObject({ files: [], incomplete: "\uFFFD.bak could not be read" });
  expect(utf16?.files[0]).not.toHaveProperty("text");
});

it("bounds what is recorded, and says so", async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), "mcpvals-"));
  const add = (name: string, text: string): void => {
    const path = join(folder.path, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  };
  for (let index = 0; index < 101; index += 1) add(`many/${String(index).padStart(3, "0")}`, "");
  for (let index = 0; index < 17; index += 1) add(`large/${index}`, "x".repeat(256 * 1024));
  const [many, large] = await look(folder.path, "many/*", "large/*");
  expect([many?.files.length, many?.incomplete]).toEqual([
    100,
    expect.stringContaining("more than 100 files"),
  ]);
  expect(large?.files.filter(({ text }) => text === undefined)).toHaveLength(1);
});

it("ends when the trial ends", async () => {
  using folder = folderOf({ a: "" });
  const found = lookAtWorkspace(["a"], {
    workspace: folder.path,
    signal: AbortSignal.abort(new Error("over")),
  });
  await expect(found.next()).rejects.toThrow("over");
});

it("reads files that settings name", async () => {
  using folder = folderOf({ "golden/a.txt": "a" });
  expect(await readNamedFile(folder.path, "golden/a.txt")).toEqual({
    size: 1,
    sha256: hashOf("a"),
    text: "a",
  });
  await expect(readNamedFile(folder.path, "none.txt")).rejects.toThrow("cannot read none.txt: ENOENT");
  await expect(readNamedFile(folder.path, "golden")).rejects.toThrow("cannot read golden: it is not a file");
});
