import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { fillTemplate, type TemplateValues } from "../../src/agents/agent-program.ts";
import { McpvalsError } from "../../src/base/error.ts";
import type { Json } from "../../src/base/json.ts";
import { parseStrictYaml } from "../../src/base/parse-yaml.ts";
import { envRoot, expanderOf } from "../../src/templates/expand.ts";
import { resolveIn, type Scope } from "../../src/templates/template.ts";
import { ExtensionProcess } from "../../src/extensions/host/extension-process.ts";
import { unpackArchive } from "../../src/extensions/resolve/archive.ts";
import { readLock } from "../../src/extensions/resolve/files.ts";
import { packageProgram, readManifest } from "../../src/extensions/resolve/program.ts";
import { readRegularFile } from "../../src/base/files.ts";
import { findSources } from "../../src/formats/sources.ts";
import { removeFolder } from "../../src/process/folders.ts";
import { readTaskFolder } from "../../src/run/state-comparison.ts";
import { clientAdapters, mergeServers, recoverFolder } from "../../src/agents/write-client-files.ts";
import {
  markerProgram,
  normally,
  platform,
  resolverIn,
  temporaryFolder,
  upstreamRelease,
} from "../extensions/resolve/resolving.ts";
import { failure } from "../formats/support/load.ts";
import { folderOf } from "../support/cli.ts";
import { preparedExtension } from "../support/extensions.ts";
import { startReleaseMirror, tarOf, zipOf } from "../support/release-mirror.ts";
import { command, taskOf, verdictsOf } from "./task-verdicts.ts";

const isWindows = process.platform === "win32";
const mebibyte = 1024 ** 2;

async function errorOf(work: () => unknown): Promise<unknown> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return error;
  }
}

describe("an archive fills no disk", () => {
  const large = "x".repeat(20 * mebibyte);
  const bomb = Array.from({ length: 4 }, (_, index) => ({ name: `file${index}`, content: large }));
  // The members of a gzip file follow one another; each tar here ends with blocks of zeros, which are left out.
  const comment = `900000 comment=${"x".repeat(900_000 - "900000 comment=".length - 1)}\n`;
  const note = gzipSync(
    gunzipSync(tarOf([{ name: "note", content: comment, type: "ExtendedHeader" }])).subarray(0, -1024),
  );

  it.each([
    [".zip", () => zipOf(bomb)],
    [".tar.gz", () => tarOf(bomb)],
    [".tgz of endless notes about files", () => Buffer.concat(Array.from({ length: 150 }, () => note))],
  ])("a %s that becomes more than a hundred times as large is refused", async (kind, make) => {
    using folder = folderOf({ "files/.keep": "" });
    const path = join(folder.path, `it${kind.split(" ")[0]}`);
    const files = join(folder.path, "files");
    writeFileSync(path, await make());
    const { signal } = new AbortController();
    const error = await errorOf(() => unpackArchive(path, files, { shown: "it", signal }));
    expect(error).toBeInstanceOf(McpvalsError);
    expect(String(error)).toContain("it unpacks to more than 64 MB");
    const written = readdirSync(files).reduce((sum, name) => sum + statSync(join(files, name)).size, 0);
    expect(written).toBeLessThanOrEqual(64 * mebibyte);
  });
});

describe.skipIf(isWindows)("a program that was changed after it was verified is not started", () => {
  it.each<[string, (files: string, marker: string) => void]>([
    ["the program", (files, marker) => writeFileSync(join(files, `demo-${platform}`), markerProgram(marker))],
    ["a file beside it", (files) => writeFileSync(join(files, "preload.js"), "")],
  ])("%s", async (_, change) => {
    const folder = await temporaryFolder();
    const marker = join(folder, "marker");
    const releases = { "acme/demo": [await upstreamRelease("v1.0.0", "#!/bin/sh\n")] };
    await using mirror = await startReleaseMirror(releases);
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
    // Neither reading a file nor its time changes what was verified.
    utimesSync(resolved.program, 1, 1);
    await start();
    change(resolved.folder, marker);
    expect([await errorOf(start), existsSync(marker)]).toMatchObject([
      { code: "extension/integrity" },
      false,
    ]);
  });
});

describe("a folder of any shape", () => {
  it.each([
    [".", 100, 1],
    ["**/*.yaml", 101, undefined],
  ])(
    "searched as %s with %i levels is searched, or refused, since a task could be lost",
    async (source, levels, found) => {
      using folder = folderOf({});
      const deep = join(folder.path, ...Array.from({ length: levels }, () => "d"));
      mkdirSync(deep, { recursive: true });
      writeFileSync(join(deep, "task.yaml"), "kind: Task\n");
      const search = (): unknown => findSources([source], { cwd: folder.path, environment: {} });
      if (found !== undefined) return expect(search()).toMatchObject([{ paths: { length: found } }]);
      const message = expect.stringContaining("folders more than 100 levels deep") as string;
      expect(await errorOf(search)).toMatchObject({ code: "config/unreadable", message });
    },
  );

  /** A program that makes folders that no path reaches, and one that is closed, in the folder of its last argument. */
  const shapes = `
const { chmodSync, mkdirSync } = require("node:fs");
process.chdir(process.argv.at(-1));
mkdirSync("closed/a", { recursive: true });
chmodSync("closed", 0);
for (let level = 0; level < 100; level += 1) {
  mkdirSync("d".repeat(200));
  process.chdir("d".repeat(200));
}`;

  it.skipIf(isWindows)(
    "that is too deep, with one that is closed, cannot be compared, and is removed",
    async () => {
      using folder = folderOf({ "work/.keep": "" });
      const path = join(folder.path, "work");
      execFileSync(process.execPath, ["-e", shapes, path]);
      await expect(rm(path, { recursive: true })).rejects.toThrow("ENAMETOOLONG");
      expect(await errorOf(() => readTaskFolder(path, { known: new Map() }))).toMatchObject({
        code: "task/workspace",
        message: expect.stringMatching(/^cannot read all of task folder: /) as string,
      });
      await removeFolder(path);
      expect(existsSync(path)).toBe(false);
      await removeFolder(path);
    },
  );

  it.skipIf(isWindows)("does not turn a failure into an error", async () => {
    const task = taskOf("t", { verify: [command("node shapes.js {workspace}; test -f nope")] });
    expect((await verdictsOf({ "t.json": task, "shapes.js": shapes }))["t"]).toMatch(/^fail: /);
  });
});

describe.skipIf(isWindows)("what is not a regular file, or too large, is never read", () => {
  it.each(["pipe", "/dev/zero", "folder", "large", "/proc/self/mem"])("%s", async (name) => {
    using folder = folderOf({ "folder/x": "", large: "x".repeat(1001) });
    execFileSync("mkfifo", [join(folder.path, "pipe")]);
    const path = name.startsWith("/") ? name : join(folder.path, name);
    expect(await errorOf(() => readRegularFile(path, 1000))).toBeInstanceOf(Error);
  });

  it.runIf(existsSync("/proc/self/status"))(
    "a file of the kernel that says it is empty is read to its limit",
    () => {
      expect(readRegularFile("/proc/self/status", 100_000).toString()).toContain("Pid:");
      expect(() => readRegularFile("/proc/self/status", 10)).toThrow("larger than");
    },
  );

  it.each<[string, (folder: string) => unknown]>([
    ["mcp-eval.lock", readLock],
    ["extension.yaml", (folder) => readManifest(folder, folder)],
    ["package.json", (folder) => packageProgram(folder, folder)],
    [".mcpvals-client-files.json", recoverFolder],
  ])("a pipe or a device called %s ends in an error", async (name, read) => {
    using piped = folderOf({});
    execFileSync("mkfifo", [join(piped.path, name)]);
    using linked = folderOf({});
    symlinkSync("/dev/zero", join(linked.path, name));
    for (const { path } of [piped, linked])
      expect(await errorOf(() => read(path))).toBeInstanceOf(McpvalsError);
  });

  it("and notes of files to restore are not followed through links out of their folder", () => {
    const files = [".codex/config.toml", ".cursor/mcp.json"];
    const own = files.map((file) => [`home/${file}`, "mine"]);
    using folder = folderOf({ ...Object.fromEntries(own), "repo/.codex/.keep": "" });
    const [home, repo] = [join(folder.path, "home"), join(folder.path, "repo")];
    symlinkSync(join(home, ".cursor"), join(repo, ".cursor"));
    symlinkSync(join(home, ".codex/config.toml"), join(repo, ".codex/config.toml"));
    const notes = { pid: 2 ** 30, files: files.map((file) => ({ file, replaced: false })) };
    writeFileSync(join(repo, ".mcpvals-client-files.json"), JSON.stringify(notes));
    expect(() => recoverFolder(repo)).toThrow("leads out of");
    expect(files.map((file) => existsSync(join(home, file)))).toEqual([true, true]);
  });
});

describe("a text is read in time linear to its size, whatever it contains", () => {
  const filled = (part: string): string => part.repeat(Math.floor(250_000 / part.length));

  // Each takes minutes where the time grows with the square of the size, so that the test runs out of time.
  it.each([
    ["tags", filled("!a ")],
    ["closing brackets", filled("]")],
    ["anchors, in an older task", `kind: Task\nsteps: ${filled("&a ")}`],
  ])("a YAML file of %s", async (_, text) => {
    using folder = folderOf({ "mcp-eval.config.yaml": text });
    expect((await failure(folder.path)).kind).toBe("usage");
  });

  it("a manifest with many anchors and aliases", () => {
    const lines = Array.from({ length: 10_000 }, (_, n) => `k${n}: &a${n} x\nz${n}: *a${n}`);
    expect(() => parseStrictYaml(lines.join("\n"))).toThrow("more than 1000 aliases");
  });

  it("a client's config file in one line", () => {
    const keys = Array.from({ length: 60_000 }, (_, index) => `"k${index}":1`);
    const merged = mergeServers(`{${keys.join(",")}}`, { calc: { url: "x" } }, clientAdapters["claude-code"]);
    expect(JSON.parse(merged)).toMatchObject({ k59999: 1, mcpServers: { calc: { url: "x" } } });
  });
});

describe("values that are inserted into one another do not grow without end", () => {
  const tooLong = "more than 16777216 characters";
  const long = "x".repeat(mebibyte);
  const scopeOf = (value: Json): Scope => new Map([["a", resolveIn(value)]]);
  const variables = (count: number, text: (index: number) => string): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`A${index}`, text(index)]));
  const doubling = variables(60, (index) => (index === 0 ? "x" : `{env.A${index - 1}}{env.A${index - 1}}`));
  const copies = variables(20, () => "{env.LONG}");
  const envOf = (declared: Record<string, string>) =>
    envRoot({ overrides: {}, declared, shell: { LONG: long } }, new Map());
  const twenty = (text: string): string[] => Array.from({ length: 20 }, () => text);
  const numbers = { list: Array.from({ length: 100_000 }, () => 1234567890) };
  const paths = { promptJson: "", workspace: "", cwd: "", mcpConfig: "", model: "", session: "" };
  const prompts: TemplateValues = { prompt: long, ...paths, servers: new Map() };

  it.each<[string, () => unknown, string]>([
    [
      "variables of a task that double each other",
      () => envOf(doubling)(["A59"], undefined),
      "task/template",
    ],
    [
      "many long variables of a task",
      () => {
        const env = envOf(copies);
        return Object.keys(copies).map((name) => env([name], undefined));
      },
      "task/template",
    ],
    [
      "outputs of steps that double each other",
      () => {
        for (let value: Json = "x"; ; value = expanderOf(scopeOf(value)).text("{a}{a}"));
      },
      "task/template",
    ],
    ["long texts of one step", () => expanderOf(scopeOf(long)).json(twenty("{a}")), "task/template"],
    [
      "large values of one step",
      () => expanderOf(scopeOf(numbers)).json(twenty("{a | json $.list}")),
      "task/template",
    ],
  ])("%s", async (_, grow, code) => {
    expect(await errorOf(grow)).toMatchObject({ code, message: expect.stringContaining(tooLong) as string });
  });

  it("but to their limits", async () => {
    expect(envOf(doubling)(["A10"], undefined)).toHaveLength(1024);
    expect(fillTemplate("{prompt}{prompt}", prompts)).toHaveLength(2 * mebibyte);
    const error = await errorOf(() => fillTemplate("{prompt}".repeat(1000), prompts));
    expect(error).toMatchObject({ code: "config/invalid-value" });
  });

  const aliases = Array.from({ length: 900 }, (_, index) => `k${index}: *a`).join("\n");
  it.each<[string, unknown]>([
    ["mcp-eval.config.json", { name: "${LONG}".repeat(1000) }],
    ["mcp-eval.config.yaml", `a: &a ${"x".repeat(400_000)}\n${aliases}\n`],
  ])("in %s", async (name, content) => {
    using folder = folderOf({ [name]: content });
    const error = await failure(folder.path, { environment: { LONG: long } });
    expect([error.code, error.message]).toEqual(["config/invalid-value", expect.stringContaining(tooLong)]);
  });
});
