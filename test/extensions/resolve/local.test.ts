import { hash } from "node:crypto";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "vitest";
import { resolveBundled, type ResolvedExtension } from "../../../src/extensions/resolve/program.ts";
import {
  expectRefusal,
  fromCache,
  manifestText,
  normally,
  resolverIn,
  temporaryFolder,
} from "./resolving.ts";

/** Writes files into a folder of its own; those that begin with a shebang are executable. */
async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, ".."), { recursive: true });
    await writeFile(join(folder, name), content);
    if (content.startsWith("#!")) await chmod(join(folder, name), 0o755);
  }
  return folder;
}

async function resolveIn(folder: string, text: string): Promise<ResolvedExtension> {
  const use = { package: text, dir: folder };
  const { extension, locked } = await resolverIn(folder).resolve(use, undefined, fromCache);
  expect(locked).toBeUndefined();
  return extension;
}

describe("a path", () => {
  test.each([
    ["./demo", "demo"],
    ["~/demo", "demo"],
    ["./main.mjs", "main.mjs"],
    ["sub/start", "sub/start"],
    ["./package", "package/bin/start.js"],
    ["./described", "described/start"],
  ])("%s is the program %s", async (text, program) => {
    const folder = await folderWith({
      demo: "#!/bin/sh\n",
      "main.mjs": "",
      "sub/start": "#!/bin/sh\n",
      "package/package.json": JSON.stringify({ name: "@acme/x", bin: { x: "./bin/start.js", y: "y.js" } }),
      "package/bin/start.js": "",
      "described/extension.yaml": `${manifestText}program: start\n`,
      "described/start": "#!/bin/sh\n",
    });
    const found = await resolveIn(folder, text);
    expect(found).toMatchObject({ package: text, program: join(folder, program) });
    expect(found).not.toHaveProperty("version");
    expect(found.hash).toBe(`sha256:${hash("sha256", await readFile(join(folder, program)))}`);
    expect(found.manifest?.name).toBe(text === "./described" ? "demo" : undefined);
  });

  test("absolute ones, and addresses of files", async () => {
    const folder = await folderWith({ demo: "#!/bin/sh\n" });
    const program = join(folder, "demo");
    expect((await resolveIn("/", program)).program).toBe(program);
    expect((await resolveIn("/", pathToFileURL(program).href)).program).toBe(program);
  });

  test.each([
    ["", true],
    ["program: demo\n", true],
    ["program: other\n", false],
  ])("the manifest beside a program is its own with %j: %s", async (line, isOwn) => {
    const folder = await folderWith({ demo: "#!/bin/sh\n", "extension.yaml": manifestText + line });
    expect((await resolveIn(folder, "./demo")).manifest !== undefined).toBe(isOwn);
  });

  test.each([
    ["./nothing", "there is no extension"],
    ["./data.txt", "data.txt is not executable Make it executable: chmod +x data.txt."],
    ["./start.py", "and begin it with #!/usr/bin/env python3"],
    ["./empty", "names no program"],
    ["./gone", "there is no file"],
    ["./several", "has several programs, a, b, and none has the name of the package, several"],
    ["./inherited", "none has the name of the package, constructor"],
  ])("%s is refused: %s", async (text, reason) => {
    const folder = await folderWith({
      "data.txt": "",
      "start.py": "",
      "empty/README.md": "",
      "gone/extension.yaml": `${manifestText}program: gone\n`,
      "several/package.json": JSON.stringify({ bin: { a: "a.js", b: "b.js" } }),
      "inherited/package.json": JSON.stringify({ name: "constructor", bin: { a: "a.js", b: "b.js" } }),
    });
    await expectRefusal(resolveIn(folder, text), "not-found", reason);
  });

  test.each(["../demo", "bin/../../demo", "/bin/sh", "..\\demo", "C:/demo"])(
    "a package.json that names a program outside of its folder is refused: %s",
    async (bin) => {
      const folder = await folderWith({
        demo: "#!/bin/sh\n",
        "package/package.json": JSON.stringify({ bin }),
      });
      await expectRefusal(resolveIn(folder, "./package"), "unsafe-archive", `leaves the package: ${bin}`);
    },
  );

  test("a manifest that cannot be read is refused", async () => {
    const folder = await folderWith({ "demo/demo": "#!/bin/sh\n", "demo/extension.yaml/x": "" });
    const text = "extension.yaml cannot be read: it is not a regular file";
    await expectRefusal(resolveIn(folder, "./demo/demo"), "invalid-manifest", text);
  });

  test.each([
    [
      "name: a\n version: 1\n",
      /extension\.yaml is not valid YAML: Nested mappings .* at line 1, column 7 ?$/,
    ],
    [
      "name: demo\nversion: 1.0.0\noperations: { look: { phases: [verfy] } }\n",
      /extension\.yaml: operations\.look\.phases\[0\] must be "setup", "verify" or "cleanup" Did you mean "verify"\?$/,
    ],
  ])("its manifest is named by its path when it is wrong: %j", async (manifest, text) => {
    const folder = await folderWith({ "demo/demo": "#!/bin/sh\n", "demo/extension.yaml": manifest });
    const refused = await expectRefusal(resolveIn(folder, "./demo"), "invalid-manifest");
    expect(refused).toMatch(text);
    expect(refused.startsWith(join(folder, "demo", "extension.yaml"))).toBe(true);
  });

  test("it has no versions", async () => {
    const resolver = resolverIn("/nowhere");
    await expectRefusal(resolver.newest("./demo"), "invalid-package");
    await expectRefusal(resolver.newest("what"), "invalid-package");
    await expectRefusal(
      resolver.resolve({ package: "what", dir: "/" }, undefined, normally),
      "invalid-package",
    );
  });
});

describe("one that comes with mcpvals", () => {
  const ref = (extension: string) => ({ kind: "bundled", name: `mcpvals:${extension}`, extension }) as const;

  test.each([
    ["built", { "sql/main.js": "", "sql/extension.yaml": manifestText }, "main.js"],
    ["source", { "sql/main.ts": "", "sql/extension.yaml": `${manifestText}program: main.js\n` }, "main.ts"],
    [
      "named",
      { "sql/run.py": "#!/bin/sh\n", "sql/extension.yaml": `${manifestText}program: run.py\n` },
      "run.py",
    ],
  ])("%s", async (_, files, program) => {
    const extensions = await folderWith(files);
    const found = await resolveBundled(ref("sql"), { extensions });
    expect(found).toMatchObject({
      package: "mcpvals:sql",
      version: "1.0.0",
      folder: join(extensions, "sql"),
      program: join(extensions, "sql", program),
      manifest: { name: "demo" },
      hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    });
  });

  test("a name that there is not is refused with those that there are", async () => {
    const text = `mcpvals comes with no extension sqll. Did you mean "sql"?`;
    await expectRefusal(resolveIn("/", "mcpvals:sqll"), "not-found", text, "kubernetes");
  });
});
