import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult } from "../../src/model/result.ts";
import { folderOf, type HereOutcome, runHere } from "../support/cli.ts";
import { everythingServer } from "../support/programs.ts";
import { configFile, fixtureServer } from "../e2e/support.ts";

const file = "mcp-eval.config.json";

/** Suites with one test of `add` each, by name with the sum that it expects of 1 and 2. */
function sums(expected: Readonly<Record<string, string>>): Config {
  return {
    server: fixtureServer(),
    toolHealthSuites: Object.entries(expected).map(([name, expectedResult]) => ({
      name,
      tests: [{ name: "add", args: { a: 1, b: 2 }, expectedResult }],
    })),
  };
}

describe("--last-failed", () => {
  it("runs what did not pass in the last run of the file, until nothing is left", async () => {
    using folder = folderOf({
      ...configFile(sums({ right: "3", wrong: "4", "also wrong": "5" })),
      "other.json": sums({ other: "4" }),
    });
    const run = (...args: readonly string[]): Promise<HereOutcome> =>
      runHere(["run", ...args], { cwd: folder.path });
    const again = async (): Promise<readonly [number | null, readonly string[]]> => {
      const { code, stdout } = await run("--last-failed", "--reporter", "json");
      return [code, (JSON.parse(stdout) as RunResult).trials.map(({ suite }) => suite ?? "")];
    };
    expect(await run("--last-failed")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("there is no earlier run of this file"),
    });
    expect(await run()).toMatchObject({ code: 1 });
    expect(await run("other.json")).toMatchObject({ code: 1 });
    expect(await again()).toEqual([1, ["wrong", "also wrong"]]);
    writeFileSync(
      join(folder.path, file),
      JSON.stringify(sums({ right: "9", wrong: "3", "also wrong": "5" })),
    );
    expect(await again()).toEqual([1, ["wrong", "also wrong"]]);
    writeFileSync(
      join(folder.path, file),
      JSON.stringify(sums({ right: "9", wrong: "3", "also wrong": "3" })),
    );
    expect(await again()).toEqual([0, ["also wrong"]]);
    expect(await run("--last-failed")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("every task passed in the last run"),
    });
  });

  it("runs what checked nothing, which leaves a run incomplete, and so does retry --errors", async () => {
    using folder = folderOf(
      configFile({
        server: fixtureServer(),
        agent: { type: "scripted", plan: { silent: [] } },
        workflows: [
          {
            name: "silent",
            steps: [{ user: "Say nothing." }],
            graders: [{ type: "text", config: { not_contains: ["error"] } }],
          },
        ],
      }),
    );
    for (const args of [["run"], ["run", "--last-failed"], ["retry", "--errors"]]) {
      const { code, stdout, stderr } = await runHere([...args, "--reporter", "json"], { cwd: folder.path });
      expect([code, stderr]).toEqual([3, ""]);
      expect((JSON.parse(stdout) as RunResult).summary).toMatchObject({ total: 1, skip: 1 });
    }
  });
});

describe("--coverage", () => {
  it("names what no test uses, in the report and in show", async () => {
    using folder = folderOf(
      configFile({
        servers: {
          everything: { transport: "stdio", command: process.execPath, args: [everythingServer] },
          idle: fixtureServer(),
        },
        toolHealthSuites: [
          {
            name: "suite",
            server: "everything",
            tests: [{ name: "get-annotated-message", args: { messageType: "error" } }],
          },
        ],
      }),
    );
    const { code, stdout, stderr } = await runHere(["run", "--coverage"], { cwd: folder.path });
    expect(code, stderr).toBe(0);
    const section = stdout.slice(stdout.indexOf("Not used by any test"), stdout.indexOf("1 passed"));
    expect(section).toMatch(/everything\n {4}tools: echo, (?!.*get-annotated-message)/);
    expect(section).toMatch(/^ {4}parameters: get-annotated-message.includeImage$/m);
    expect(section).toMatch(/^ {4}tools whose errors no test expects: get-annotated-message$/m);
    expect(section).toMatch(/^ {4}resources: demo:.*demo:\/\/resource\/dynamic\/text\/\{resourceId\}/m);
    expect(section).toMatch(/^ {4}prompts: simple-prompt/m);
    expect(section).toMatch(/^ {2}idle {2}no test used it$/m);
    expect(stdout).toMatch(
      /used 1\/13 tools \(\d+ %\), 1\/\d+ parameters \(\d+ %\), 0\/\d+ resources \(0 %\), 0\/4 prompts \(0 %\)/,
    );
    const shown = await runHere(["show", "--coverage"], { cwd: folder.path });
    expect(shown.stdout).toContain(section);
    const markdown = await runHere(["show", "--coverage", "--reporter", "markdown"], { cwd: folder.path });
    const listed = markdown.stdout.slice(markdown.stdout.indexOf("## Not used by any test"));
    expect(listed).toMatch(/^- \*\*everything\*\*\n {2}- tools: echo, /m);
    expect(listed).toMatch(/^ {2}- tools whose errors no test expects: get-annotated-message$/m);
    expect(listed).toMatch(/^- \*\*idle\*\*: no test used it$/m);
  });
});
