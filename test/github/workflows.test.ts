import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { folderOf, root, runShell } from "../support/cli.ts";

interface Step {
  readonly run?: string;
  readonly uses?: string;
  readonly with?: Readonly<Record<string, string>>;
}

interface Workflow {
  readonly permissions: unknown;
  readonly jobs: Readonly<Record<string, { readonly needs?: string; readonly steps: readonly Step[] }>>;
}

interface Manifest {
  readonly version: string;
  readonly scripts: Readonly<Record<string, string>>;
}

const { version, scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;

describe.each(globSync(".github/workflows/*.yml", { cwd: root }))("the workflow %s", (file) => {
  const { jobs, permissions } = parse(readFileSync(join(root, file), "utf8")) as Workflow;
  const steps = Object.values(jobs).flatMap((job) => job.steps);
  const lines = steps.map(({ run = "" }) => run).join("\n");
  const named = (pattern: RegExp): string[] => [...lines.matchAll(pattern)].map(([, name = ""]) => name);

  it("waits for jobs that there are, and runs scripts that there are", () => {
    const needed = Object.values(jobs).flatMap(({ needs }) => needs ?? []);
    expect(needed.filter((name) => !Object.hasOwn(jobs, name))).toEqual([]);
    expect(named(/\bnpm run (\S+)/g).filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
    expect(named(/\bnode (\S+)/g).filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  it("downloads only artifacts that a job has uploaded", () => {
    const names = (action: string): readonly (string | undefined)[] =>
      steps.filter(({ uses }) => uses?.startsWith(action)).map((step) => step.with?.["name"]);
    const uploaded = names("actions/upload-artifact@");
    expect(names("actions/download-artifact@").filter((name) => !uploaded.includes(name))).toEqual([]);
  });

  it("may write nothing but where a job asks for it", () => {
    expect(permissions).toEqual({ contents: "read" });
  });
});

describe("a release", () => {
  const release = (tag: string, folder: string): ReturnType<typeof runShell> =>
    runShell(`node "${join(root, "scripts/release.ts")}" ${tag} "${folder}"`, { cwd: root });

  it("of this version may be made, with its entry of the changelog as notes", async () => {
    const checked = await release(`v${version}`, root);
    expect([checked.code, checked.stderr]).toEqual([0, ""]);
    expect(readFileSync(join(root, "CHANGELOG.md"), "utf8")).toContain(`## ${version}\n\n${checked.stdout}`);
  });

  it("is refused where tag, changelog or pages are of another version or name", async () => {
    using project = folderOf({
      "package.json": { name: "@me/mcpvals", version: "1.2.0" },
      "CHANGELOG.md": "# Changes\n\n## 1.1.0\n\nOld.\n",
      "README.md":
        "```sh\nnpm install --save-dev PATH/me-mcpvals-1.2.0.tgz @me/mcpvals\nnpm install mcpvals\n```\n",
      "docs/guide.md": "Install it: `npm i @me/mcpvals@1.1.0`.\n",
    });
    const refused = await release("v1.2.1", project.path);
    expect([refused.code, refused.stdout, refused.stderr.trimEnd().split("\n")]).toEqual([
      1,
      "",
      [
        "the tag is v1.2.1, and package.json has the version 1.2.0",
        "the first entry of CHANGELOG.md is 1.1.0, not 1.2.0",
        "README.md:3 installs mcpvals; the package is @me/mcpvals, 1.2.0",
        "docs/guide.md:1 installs @me/mcpvals@1.1.0; the package is @me/mcpvals, 1.2.0",
      ],
    ]);
  });
});
