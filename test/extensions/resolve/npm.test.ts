import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { ResolvedExtension } from "../../../src/extensions/resolve/program.ts";
import { expectRefusal, fromCache, manifestText, resolverIn, temporaryFolder } from "./resolving.ts";

async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

/** A package with a program and a manifest, installed in a folder. */
function installed(place: string, manifest: object = { version: "1.2.0", bin: "./main.js" }) {
  return {
    [`${place}/package.json`]: JSON.stringify(manifest),
    [`${place}/main.js`]: "",
    [`${place}/extension.yaml`]: manifestText,
  };
}

async function resolveIn(dir: string, text: string): Promise<ResolvedExtension> {
  const { extension, locked } = await resolverIn(dir).resolve({ package: text, dir }, undefined, fromCache);
  expect(locked).toBeUndefined();
  return extension;
}

test.each(["npm:@acme/demo", "npm:@acme/demo@1", "npm:@acme/demo@1.2.0", "npm:@acme/demo@>=1 <2"])(
  "%s is the nearest installed package, with what it depends on",
  async (text) => {
    const folder = await folderWith({
      ...installed("node_modules/@acme/demo", { version: "9.0.0", bin: "main.js" }),
      ...installed("project/node_modules/@acme/demo"),
      "project/evals/x": "",
    });
    const home = join(folder, "project/node_modules/@acme/demo");
    expect(await resolveIn(join(folder, "project/evals"), text)).toMatchObject({
      package: text,
      version: "1.2.0",
      folder: home,
      program: join(home, "main.js"),
      dependencies: [join(folder, "project/node_modules"), join(folder, "node_modules")],
      manifest: { name: "demo" },
      hash: expect.stringMatching(/^sha256:/),
    });
  },
);

test("a linked package is used where the link leads", async () => {
  const folder = await folderWith({ ...installed("packages/demo"), "node_modules/x/x": "" });
  await symlink(join(folder, "packages/demo"), join(folder, "node_modules/demo"), "junction");
  expect(await resolveIn(folder, "npm:demo")).toMatchObject({
    folder: join(folder, "packages/demo"),
    dependencies: [join(folder, "node_modules")],
  });
});

test.each([
  ["npm:other", "the npm package other is not installed in", "npm install --save-dev other."],
  ["npm:other@^2", "the npm package other is not installed in", `npm install --save-dev "other@^2".`],
  ["npm:demo@2", "has version 1.2.0 of the npm package demo, but npm:demo@2", `--save-dev "demo@2".`],
  ["npm:nameless@1", "has version unknown of the npm package nameless", `--save-dev "nameless@1".`],
  ["npm:without", "names no program", "bin in its package.json"],
  ["npm:broken", "the package.json of", "is not valid"],
])("%s is refused: %s", async (text, ...texts) => {
  const folder = await folderWith({
    ...installed("node_modules/demo"),
    ...installed("node_modules/nameless", { bin: "main.js" }),
    ...installed("node_modules/without", { version: "1.0.0" }),
    "node_modules/broken/package.json": "{",
  });
  await expectRefusal(resolveIn(folder, text), "not-found", ...texts);
});

test("a package above the repository is not used", async () => {
  const folder = await folderWith({ ...installed("node_modules/demo"), "repository/.git/x": "" });
  await expectRefusal(resolveIn(join(folder, "repository"), "npm:demo"), "not-found", "is not installed");
});

test("it has no versions to choose from, and no tags", async () => {
  const folder = await folderWith(installed("node_modules/demo"));
  await expectRefusal(resolverIn(folder).newest("npm:demo"), "invalid-package", "npm installs those");
  const text = "npm:demo@next does not have a version or a range";
  await expectRefusal(resolveIn(folder, "npm:demo@next"), "invalid-package", text);
});
