import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { check } from "../../src/check.ts";
import { McpvalsError } from "../../src/base/error.ts";
import { evaluate, formatReport } from "../../src/evaluate.ts";
import { folderOf, root } from "../support/cli.ts";
import { configFile, fixtureServer, toolTest, trialOf } from "../e2e/support.ts";

const badServer = ["node", join(root, "examples/bad-server/server.mjs")];

it("gives each trial's calls with arguments and results, passed or not, and the run folder", async () => {
  const { toolHealthSuites: _, ...config } = toolTest("add");
  using folder = folderOf({});
  const evaluation = await evaluate(
    {
      ...config,
      toolHealthSuites: [
        {
          name: "suite",
          tests: [
            { name: "add", description: "right", args: { a: 2, b: 3 }, expectedResult: 5 },
            { name: "add", description: "wrong", args: { a: 2, b: 3 }, expectedResult: 6 },
          ],
        },
      ],
    },
    { cwd: folder.path },
  );
  const calls = ["suite/right", "suite/wrong"].map(
    (task) => evaluation.evidence[trialOf(evaluation, task).id]?.calls,
  );
  const call = { tool: "add", args: { a: 2, b: 3 }, result: { content: [{ type: "text", text: "5" }] } };
  expect(calls).toMatchObject([[call], [call]]);
  expect(existsSync(join(evaluation.folder ?? "", "result.json"))).toBe(true);
});

it("writes the report of the command line from a result, also one that was stored as JSON", async () => {
  const evaluation = await evaluate(toolTest("add", { args: { a: 2, b: 3 }, expectedResult: 6 }), {
    output: false,
  });
  const report = formatReport(JSON.parse(JSON.stringify(evaluation)) as typeof evaluation);
  expect(report).toContain("expected 6");
  expect(report).toContain('call      add {"a":2,"b":3}');
  expect(report).toMatch(/\n {2}FAIL {3}exit 1\n/);
});

it("checks a server and gives its findings, errors first", async () => {
  const { findings, verdict, folder, ...rest } = await check(badServer, {
    output: false,
    calls: "none",
    disable: ["definition/no-description"],
  });
  expect({ verdict, folder }).toEqual({ verdict: "fail", folder: undefined });
  expect(findings[0]).toMatchObject({ severity: "error" });
  const codes = findings.map(({ code }) => code);
  expect(codes).not.toContain("definition/no-description");
  // Only when it is enabled.
  expect(codes).not.toContain("client/openai-strict");
  expect(formatReport({ verdict, ...rest })).toContain(findings[0]?.message);
});

it("checks the server of a config that is named", async () => {
  using folder = folderOf(
    configFile({
      servers: { fine: fixtureServer(), other: fixtureServer() },
      toolHealthSuites: [{ name: "suite", tests: [{ name: "add", server: "fine" }] }],
    }),
  );
  const options = { cwd: folder.path, output: false, calls: "none" } as const;
  const { trials } = await check("mcp-eval.config.json", { ...options, server: "other" });
  expect([...new Set(trials.map(({ task }) => task.split(":")[0]))]).toEqual(["other"]);
  await expect(check("mcp-eval.config.json", { ...options, server: "othr" })).rejects.toThrow(
    'no server is named "othr"',
  );
});

it("refuses wrong options and codes, with what was probably meant", async () => {
  const refused = (options: object): Promise<unknown> =>
    check(badServer, options).then(
      () => "no error",
      (error: unknown) => [(error as McpvalsError).message, (error as McpvalsError).details.hint],
    );
  expect(await refused({ calss: "all" })).toEqual([
    'check has no option "calss"',
    expect.stringContaining('"calls"'),
  ]);
  expect(await refused({ disable: ["definition/no-descripton"] })).toEqual([
    'no finding has the code "definition/no-descripton"',
    expect.stringContaining('"definition/no-description"'),
  ]);
});

it("refuses options that do not fit the target, by their names", async () => {
  const url = "http://127.0.0.1:1/mcp";
  const misplaced = /^headers and bearerEnv are for a URL$/;
  await expect(check(badServer, { bearerEnv: "TOKEN" })).rejects.toThrow(misplaced);
  await expect(check(url, { server: "a" })).rejects.toThrow(/^server is for a file with servers$/);
  await expect(check(url, { bearerEnv: "GONE" })).rejects.toThrow(
    /^bearerEnv: no variable of this name is set$/,
  );
  await expect(check([])).rejects.toThrow(/^the target must be a URL/);
});

it("compares the definitions with a snapshot, which it writes when it is told to", async () => {
  using folder = folderOf({});
  const options = { cwd: folder.path, output: false, calls: "none", snapshot: "listing.json" } as const;
  const { command, args = [] } = fixtureServer();
  await check([command, ...args], { ...options, update: true });
  const codes = async (...flags: readonly string[]): Promise<readonly string[]> => {
    const { findings } = await check([command, ...args, ...flags], options);
    return findings.map(({ code }) => code).filter((code) => code.startsWith("stability/"));
  };
  expect(await codes()).toEqual([]);
  expect(await codes("--no-tools")).toContain("stability/snapshot");
});
