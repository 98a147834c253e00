import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { folderOf } from "../../test/support/cli.ts";
import { createBundle, unpackBundle } from "./bundle.ts";

const files = {
  "evals/task.yaml": "kind: Task\n",
  "evals/run.sh": "#!/bin/sh\n",
  "server.js": "1\n",
  ".env": "KEY=secret-of-the-env\n",
  ".env.local": "x",
  "node_modules/a/index.js": "x",
  ".mcpvals/runs/x": "x",
  "keys/id_rsa": "x",
  "keys/server.pem": "x",
};

const paths = async (root: string): Promise<readonly string[]> =>
  (await createBundle(root, { secrets: [] })).manifest.files.map(({ path }) => path);

it("has what belongs to an eval, and gives it back as it was", async () => {
  using from = folderOf(files);
  using to = folderOf({});
  chmodSync(join(from.path, "evals/run.sh"), 0o755);
  symlinkSync("../server.js", join(from.path, "evals/link.js"));
  symlinkSync("/etc/hostname", join(from.path, "evals/outside"));
  const { manifest, read } = await createBundle(from.path, { secrets: [] });
  expect(manifest.files.map(({ path }) => path)).toEqual([
    "evals/link.js",
    "evals/run.sh",
    "evals/task.yaml",
    "server.js",
  ]);
  const byHash = new Map(manifest.files.map((file) => [file.sha256, file]));
  const target = join(to.path, "bundle");
  const give = async (sha256: string): Promise<Uint8Array> => read(byHash.get(sha256) ?? { path: "" });
  await unpackBundle(manifest, give, target);
  expect(readFileSync(join(target, "evals/link.js"), "utf8")).toBe("1\n");
  expect(statSync(join(target, "evals/run.sh")).mode & 0o111).toBe(0o111);
  expect((await createBundle(target, { secrets: [] })).manifest).toEqual(manifest);
});

it("leaves out what git ignores, and changes with every file", async () => {
  using folder = folderOf({ ...files, ".gitignore": "*.js\n" });
  execFileSync("git", ["init", "-q"], { cwd: folder.path });
  expect(await paths(folder.path)).toEqual([".gitignore", "evals/run.sh", "evals/task.yaml"]);
  const before = (await createBundle(folder.path, { secrets: [] })).manifest.sha256;
  writeFileSync(join(folder.path, "evals/task.yaml"), "kind: task\n");
  expect((await createBundle(folder.path, { secrets: [] })).manifest.sha256).not.toBe(before);
});

it("refuses a file with a secret, without showing it", async () => {
  using folder = folderOf(files);
  const secrets = [{ name: "API_KEY", value: "value-of-the-key" }];
  const refusal = async (name: string, content: string): Promise<unknown> => {
    const path = join(folder.path, name);
    writeFileSync(path, content);
    const error: unknown = await createBundle(folder.path, { secrets }).catch((cause: unknown) => cause);
    rmSync(path);
    return error;
  };
  const encoded = Buffer.from("user:value-of-the-key").toString("base64");
  const hex = Buffer.from("value-of-the-key").toString("hex");
  // Within the value a line ends.
  const padded = Buffer.from(`${"x".repeat(50)}value-of-the-key`).toString("base64");
  const wrapped = (lineEnd: string): string => padded.replaceAll(/.{76}/g, `$&${lineEnd}`);
  for (const [name, content, message] of [
    ["config.ts", "const key = 'value-of-the-key';", "config.ts has the value of a secret: API_KEY"],
    ["a.json", `{"auth": "Basic ${encoded}"}`, "a.json has the value of a secret: API_KEY base64"],
    ["a.bin", `\0\xff${hex}\0`, "a.bin has the value of a secret: API_KEY hex"],
    ["a.pem.txt", wrapped("\n"), "a.pem.txt has the value of a secret: API_KEY base64"],
    ["a.yaml", `key: |\n  ${wrapped("\r\n  ")}`, "a.yaml has the value of a secret: API_KEY base64"],
    ["value-of-the-key.txt", "", "the name [secret:API_KEY].txt has the value of a secret: API_KEY"],
  ] as const)
    expect(await refusal(name, content)).toMatchObject({ code: "bundle/secret", message });
  // A part of one where a line ends is none.
  expect(await refusal("a.txt", "value-of\n")).toHaveProperty("manifest");
});

it("takes no file for what it is not, and leaves nothing half-written", async () => {
  using from = folderOf({ "a.txt": "a", "b.txt": "b" });
  using to = folderOf({});
  const { manifest } = await createBundle(from.path, { secrets: [] });
  const target = join(to.path, "bundle");
  await expect(unpackBundle(manifest, async () => Buffer.from("a"), target)).rejects.toMatchObject({
    code: "store/corrupt",
  });
  for (const path of ["../outside", "/outside"]) {
    const leaving = { ...manifest, files: [{ path, sha256: manifest.files[0]?.sha256 ?? "" }] };
    await expect(unpackBundle(leaving, async () => Buffer.from("a"), target)).rejects.toMatchObject({
      code: "store/corrupt",
    });
  }
  const linking = { ...manifest, files: [{ path: "in", link: "../../etc" }] };
  await expect(unpackBundle(linking, async () => Buffer.from("a"), target)).rejects.toMatchObject({
    code: "store/corrupt",
  });
  expect([existsSync(target), readdirSync(to.path)]).toEqual([false, []]);
});
