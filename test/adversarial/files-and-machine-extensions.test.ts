import { existsSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { ExtensionProcess } from "../../src/extensions/host/extension-process.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import { unpackArchive } from "../../src/extensions/resolve/archive.ts";
import {
  markerProgram,
  normally,
  platform,
  resolverIn,
  temporaryFolder,
  upstreamRelease,
} from "../extensions/resolve/resolving.ts";
import { folderOf } from "../support/cli.ts";
import { preparedExtension } from "../support/extensions.ts";
import { startReleaseMirror, tarOf, zipOf } from "../support/release-mirror.ts";

const signal = new AbortController().signal;
const large = "x".repeat(20 * 1024 ** 2);
const bomb = Array.from({ length: 5 }, (_, index) => ({ name: `file${index}`, content: large }));

describe("an archive fills no disk (docs/security.md)", () => {
  it.each([
    [".zip", zipOf],
    [".tar.gz", async (members: typeof bomb) => tarOf(members)],
  ])("a %s that becomes more than a hundred times as large is refused", async (ending, make) => {
    using folder = folderOf({});
    const path = join(folder.path, `it${ending}`);
    writeFileSync(path, await make(bomb));
    const files = join(folder.path, "files");
    mkdirSync(files);
    const refused = unpackArchive(path, files, { shown: "it", signal });
    await expect(refused).rejects.toThrow("it unpacks to more than 64 MB");
    const written = readdirSync(files).reduce((sum, name) => sum + statSync(join(files, name)).size, 0);
    expect(written).toBeLessThanOrEqual(64 * 1024 ** 2);
  });

  it("a tar of endless notes about files is refused", async () => {
    using folder = folderOf({});
    const path = join(folder.path, "it.tgz");
    const record = "900000 comment=";
    const content = `${record}${"x".repeat(900_000 - record.length - 1)}\n`;
    const note = tarOf([{ name: "note", content, type: "ExtendedHeader" }]);
    // The members of a gzip file follow one another; each tar here ends with blocks of zeros, which are left out.
    const block = gzipSync(gunzipSync(note).subarray(0, -1024));
    writeFileSync(path, Buffer.concat(Array.from({ length: 200 }, () => block)));
    const files = join(folder.path, "files");
    mkdirSync(files);
    const refused = unpackArchive(path, files, { shown: "it", signal });
    await expect(refused).rejects.toThrow(McpvalsError);
    await expect(refused).rejects.toThrow("it unpacks to more than 64 MB");
  });
});

describe.skipIf(process.platform === "win32")(
  "a program that was changed after it was verified is not started (docs/security.md)",
  () => {
    it.each([
      [
        "the program",
        (files: string, marker: string) =>
          writeFileSync(join(files, `demo-${platform}`), markerProgram(marker)),
      ],
      ["a file beside it", (files: string) => writeFileSync(join(files, "preload.js"), "")],
    ])("%s", async (_, change) => {
      const folder = await temporaryFolder();
      const marker = join(folder, "marker");
      await using mirror = await startReleaseMirror({
        "acme/demo": [await upstreamRelease("v1.0.0", "#!/bin/sh\n")],
      });
      const resolver = resolverIn(folder, { releasesUrl: mirror.url });
      const use = { package: "github.com/acme/demo@v1", dir: "/" };
      const { extension: resolved } = await resolver.resolve(use, undefined, normally);
      const start = async (): Promise<void> => {
        const running = await ExtensionProcess.start({
          extension: { ...preparedExtension("one-shot.py"), resolved },
          place: { cwd: folder, env: {}, read: [], write: [] },
          protocol: "one-shot",
          emit: () => 0,
        });
        await running.stop();
      };
      await start();
      // What was only looked at, or has another time, is what it was.
      utimesSync(resolved.program, 1, 1);
      await start();
      change(resolved.folder, marker);
      await expect(start()).rejects.toMatchObject({ code: "extension/integrity" });
      expect(existsSync(marker)).toBe(false);
    });
  },
);
