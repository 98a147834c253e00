import { execFileSync } from "node:child_process";
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { isBuiltin } from "node:module";
import { delimiter, dirname, join, relative, sep } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, root, runShell } from "../support/cli.ts";
import { gradesOf, toolTest, trialOf } from "./support.ts";

interface Manifest {
  readonly version: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;

/** Every package that the dependencies need, as the lockfile has it, as a local folder: npm then asks no registry. */
function localPackages(): Readonly<Record<string, string>> {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, { readonly dev?: true; readonly optional?: true }>>;
  };
  return Object.fromEntries(
    Object.entries(lock.packages)
      .filter(([path, { dev, optional }]) => path !== "" && dev === undefined && optional === undefined)
      .map(([path]) => [path.replace("node_modules/", ""), `file:${join(root, path)}`]),
  );
}

describe("the package", () => {
  const project = folderOf({
    "package.json": { name: "project", private: true, type: "module", overrides: localPackages() },
    "example.ts": readFileSync(join(root, "test/fixtures/vitest-project/example.ts"), "utf8"),
    "mcp-eval.config.json": toolTest("bad-output"),
  });
  const cwd = project.path;
  const tarball = `mcpvals-${manifest.version}.tgz`;
  const installed = join(cwd, "node_modules/mcpvals");

  beforeAll(async () => {
    // Without scripts: the build has been made, and making it again would pull it away under other tests.
    const pack = await runShell(`npm pack --ignore-scripts --pack-destination "${cwd}"`, {
      cwd: root,
      env: { HOME: cwd },
    });
    expect(pack.code).toBe(0);
    // Without scripts here too: a folder, other than a package of a registry, would be built by those of its own.
    const install = await runShell(`npm install --offline --ignore-scripts ./${tarball}`, { cwd });
    expect([install.code, install.stderr]).toEqual([0, expect.not.stringContaining("npm error")]);
  });
  afterAll(() => project[Symbol.dispose]());

  const files = (): string[] =>
    readdirSync(installed, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(installed, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))
      .toSorted();

  it("has the files that are meant for users, and no others", () => {
    const others = files().filter((file) => !/^dist\/[\w-]+\.(?:js|d\.ts)$/.test(file));
    const below = (folder: string): string[] =>
      globSync(`${folder}/**/*`, { cwd: root })
        .filter((name) => statSync(join(root, name)).isFile())
        .map((name) => name.replaceAll(sep, "/"));
    expect(others.toSorted()).toEqual(
      [
        "CHANGELOG.md",
        "AGENTS.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "README.md",
        "package.json",
        "dist/licences.txt",
        ...[
          "csv/main.py",
          "kubernetes/main.js",
          "sql/main.js",
          "kubernetes/licences.txt",
          "sql/licences.txt",
        ].map((name) => `dist/extensions/${name}`),
        ...["app.css", "app.js", "index.html"].map((name) => `dist/dashboard/${name}`),
        ...["csv", "kubernetes", "sql"].map((name) => `dist/extensions/${name}/extension.yaml`),
        ...["csv", "kubernetes", "sql"].map((name) => `extensions/${name}/README.md`),
        ...below("docs").filter((name) => !name.startsWith("docs/images/")),
        ...below("examples"),
        ...below("schemas"),
      ].toSorted(),
    );
    expect(files()).toEqual(expect.arrayContaining(["dist/main.js", "dist/index.js", "dist/index.d.ts"]));
  });

  it("has what its pages lead to", () => {
    const pages = files().filter((file) => file.endsWith(".md"));
    const links = pages.flatMap((page) => {
      const text = readFileSync(join(installed, page), "utf8").replaceAll(/^```[^]*?^```$/gm, "");
      return [...text.matchAll(/\]\((?!\w+:|#)([^)#\s]+)/g)].map(([, target = ""]) => ({ page, target }));
    });
    const dead = links.filter(({ page, target }) => !existsSync(join(installed, dirname(page), target)));
    expect(dead).toEqual([]);
    expect(links.length).toBeGreaterThan(20);
  });

  it("names no path of the machine that it was built on", () => {
    for (const file of files()) {
      expect([file, readFileSync(join(installed, file), "utf8").includes(root)]).toEqual([file, false]);
    }
  });

  it("needs only what it declares", () => {
    const missing = new Set<string>();
    for (const file of files().filter((name) => /^dist\/.*\.(?:js|d\.ts)$/.test(name))) {
      const text = readFileSync(join(installed, file), "utf8");
      for (const [, name = ""] of text.matchAll(
        /(?:\bfrom|^import|\bimport\()\s*"((?:node:)?[@a-z][\w./-]*)"/gm,
      )) {
        const base = name
          .split("/")
          .slice(0, name.startsWith("@") ? 2 : 1)
          .join("/");
        const declared = base in manifest.dependencies || base in manifest.peerDependencies;
        if (!isBuiltin(name) && !declared) missing.add(`${base} in ${file}`);
      }
    }
    expect([...missing]).toEqual([]);
  });

  it("works as a command, by two names", async () => {
    for (const name of ["mcpvals", "mcp-eval"])
      expect(await runShell(`npx ${name} --version`, { cwd })).toMatchObject({
        code: 0,
        stdout: `${manifest.version}\n`,
      });
    const run = await runShell("node_modules/.bin/mcpvals run --reporter json", { cwd });
    expect([run.code, run.stderr]).toEqual([1, ""]);
    // The worker that validates is a file of its own in the package.
    const trial = trialOf(JSON.parse(run.stdout) as RunResult, "suite/bad-output");
    expect(gradesOf(trial)).toMatchObject({ "tool-call-health": "fail 0" });
    expect(trial.grades[0]?.reason).toContain("violates its outputSchema");
  });

  it("checks, tests and runs a server in a folder with nothing but a client's file", async () => {
    const args = [join(root, "test/fixtures/servers/notes-server.mjs")];
    const file = { mcpServers: { notes: { command: "node", args } } };
    const fresh = join(cwd, "fresh");
    mkdirSync(fresh);
    writeFileSync(join(fresh, ".mcp.json"), JSON.stringify(file));
    const mcpvals = (command: string): ReturnType<typeof runShell> =>
      runShell(`../node_modules/.bin/mcpvals ${command}`, { cwd: fresh, env: { HOME: cwd } });
    const check = await mcpvals("check");
    expect([check.code, check.stdout]).toEqual([0, expect.stringContaining("PASS")]);
    expect(readdirSync(fresh).toSorted()).toEqual([".mcp.json", ".mcpvals"]);
    expect(await mcpvals("init --yes")).toMatchObject({ code: 0 });
    const run = await mcpvals("run");
    expect([run.code, run.stdout]).toEqual([0, expect.stringContaining("3 passed")]);
  });

  // Its types are checked in test/library/vitest.slow.test.ts.
  it("works as a library", async () => {
    const server = join(root, "test/fixtures/servers/fixture-server.mjs");
    const run = await runShell(`node example.ts "${server}"`, { cwd });
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(run.stdout).toBe(
      "0 1 call healthy | result: the number found is 5, expected 5\n" +
        "config/not-found Name a config, a task or an Eval, a folder that has some, or a glob.\n",
    );
  });

  it("passes the trial that a release makes of it on each system", async () => {
    const tried = await runShell(`node "${join(root, "scripts/try-package.ts")}" "${cwd}"`, { cwd });
    expect(tried).toMatchObject({ code: 0, stdout: expect.stringContaining(" works with Node ") as string });
  });

  it("publishes its schemas", async () => {
    const script = `import config from "mcpvals/schemas/config.schema.json" with { type: "json" }; console.log(config.title)`;
    const shown = await runShell(`node --input-type=module --eval '${script}'`, { cwd });
    expect(shown.stdout).toBe("mcpvals config\n");
  });

  const old = olderNode();
  it.runIf(old !== undefined)("says which Node it needs, under one that is too old", async () => {
    const run = await runShell(`"${old}" node_modules/mcpvals/dist/main.js`, { cwd });
    expect([run.code, run.stdout, run.stderr]).toEqual([
      2,
      "",
      expect.stringMatching(/^mcpvals needs Node >= 22\.13; this is \d+\.\d+\.\d+\. .*node@24\n$/),
    ]);
  });
});

/** A Node on the PATH that mcpvals does not support, if there is one. */
function olderNode(): string | undefined {
  const found = (process.env["PATH"] ?? "")
    .split(delimiter)
    .map((folder) => join(folder, "node"))
    .filter((file) => existsSync(file));
  return [...new Set(found.map((file) => realpathSync(file)))].find((file) => {
    const [major = 0, minor = 0] = execFileSync(file, ["--version"], { encoding: "utf8" })
      .slice(1)
      .split(".")
      .map(Number);
    return major < 22 || (major === 22 && minor < 13);
  });
}
