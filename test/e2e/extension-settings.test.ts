import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { folderOf, runCli } from "../support/cli.ts";
import { startReleaseMirror } from "../support/release-mirror.ts";
import { shopRelease } from "../support/shop-extension.ts";

function task(name: string, version: string): object {
  return {
    kind: "Task",
    apiVersion: "mcp-eval/v1",
    metadata: { name },
    spec: {
      imports: [{ package: `github.com/acme/shop@${version}`, as: "shop" }],
      prompt: "Look.",
      verify: [{ "shop.look": {} }],
    },
  };
}

function reasons({ trials }: RunResult): unknown {
  return Object.fromEntries(
    trials.map(({ task: name, grades }) => [
      name,
      grades.find(({ grader }) => grader === "verify-steps")?.reason,
    ]),
  );
}

it("are those of the eval: where from, where to, and the versions of one package for each task", async () => {
  await using mirror = await startReleaseMirror({ "acme/shop": ["2.0.0", "1.1.0"].map(shopRelease) });
  const evalFile = (who: string, shop: object): object => ({
    kind: "Eval",
    metadata: { name: who },
    config: {
      taskSets: [{ glob: "../tasks/*.json" }],
      extensions: { releasesUrl: mirror.url, cacheDir: "../kept", ...shop },
    },
  });
  using folder = folderOf({
    ".git/HEAD": "",
    "tasks/old.json": task("old", "v1"),
    "tasks/new.json": task("new", "v2"),
    "evals/own.json": evalFile("own", {}),
    "evals/one.json": evalFile("one", {
      shop: { package: "github.com/acme/shop@v1.1.0", config: { task: "{task.name}" } },
    }),
  });
  const run = async (file: string): Promise<RunResult> => {
    const args = ["run", file, "--agent", "null", "--reporter", "json"];
    const { stdout, stderr } = await runCli(args, { cwd: folder.path });
    if (stdout === "") throw new Error(stderr);
    return JSON.parse(stdout) as RunResult;
  };
  const own = await run("evals/own.json");
  expect(reasons(own)).toEqual({
    new: expect.stringContaining("this is 2.0.0 with"),
    old: expect.stringContaining("this is 1.1.0 with"),
  });
  expect(own.environment.extensions?.map(({ version }) => version)).toEqual(["v2.0.0", "v1.1.0"]);
  expect(reasons(await run("evals/one.json"))).toEqual({
    new: expect.stringContaining('this is 1.1.0 with {"task":"new"}'),
    old: expect.stringContaining('this is 1.1.0 with {"task":"old"}'),
  });
  expect(readdirSync(join(folder.path, "kept", "github.com", "acme", "shop")).toSorted()).toEqual([
    "v1.1.0",
    "v2.0.0",
  ]);
  expect(readdirSync(folder.path)).toContain("mcp-eval.lock");
}, 60_000);
