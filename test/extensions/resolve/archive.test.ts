import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { unpackArchive } from "../../../src/extensions/resolve/archive.ts";
import { type ArchiveMember, tarOf, zipOf } from "../../support/release-mirror.ts";
import { refusal, temporaryFolder } from "./resolving.ts";

const members: readonly ArchiveMember[] = [
  { name: "sub/", type: "Directory", mode: 0o040700 },
  { name: "sub/start", content: "#!/bin/sh\n", mode: 0o100755 },
  { name: "large", content: "x".repeat(1_000_000), mode: 0o104644 },
  { name: "empty", content: "" },
  { name: "ünïcode", content: "ü" },
];

async function unpack(
  bytes: Buffer,
  ending: string,
  options: Partial<Parameters<typeof unpackArchive>[2]> = {},
): Promise<{ folder: string; executables: ReadonlySet<string> }> {
  const home = await temporaryFolder();
  const folder = join(home, "files");
  await mkdir(folder);
  await writeFile(join(home, `archive${ending}`), bytes);
  const signal = new AbortController().signal;
  const work = unpackArchive(join(home, `archive${ending}`), folder, { shown: "it", signal, ...options });
  return { folder, executables: await work };
}

describe.each([
  [".zip", zipOf],
  [".tar.gz", async (list: readonly ArchiveMember[]) => tarOf(list)],
])("%s", (ending, make) => {
  test("files, folders and the executable bit", async () => {
    const { folder, executables } = await unpack(await make(members), ending);
    expect(executables).toEqual(new Set(["sub/start"]));
    for (const { name, content } of members.slice(1)) {
      expect(await readFile(join(folder, name), "utf8")).toBe(content);
    }
    expect((await stat(join(folder, "sub/start"))).mode & 0o7777).toBe(0o755);
    expect((await stat(join(folder, "large"))).mode & 0o7777).toBe(0o644);
  });

  test("more bytes or more files than are allowed", async () => {
    const bytes = await make(members);
    const long = await refusal(unpack(bytes, ending, { limits: { bytes: 999_999, files: 10 } }));
    expect(long).toMatchObject({ code: "extension/unsafe-archive" });
    expect(long.text).toContain("it unpacks to more than 1 MB");
    const many = await refusal(unpack(bytes, ending, { limits: { bytes: 2_000_000, files: 4 } }));
    expect(many.text).toContain("it has more than 4 files");
  });

  test("an aborted run ends with its reason", async () => {
    const signal = AbortSignal.abort(new Error("interrupted"));
    await expect(unpack(await make(members), ending, { signal })).rejects.toThrow("interrupted");
  });
});
