import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { folderOf, runHere } from "../support/cli.ts";

const answers = { tools: { get: { inputSchema: {}, responses: [{ return: "x" }] } } };
const server = { transport: "mock", mock: answers };
const task = (name: string, spec: object): object => ({
  apiVersion: "mcp-eval/v1",
  kind: "Task",
  metadata: { name },
  spec,
});
const files = {
  "mcp-eval.config.json": {
    servers: { db: server, web: server },
    variants: { whole: {}, part: { servers: { web: null } } },
    tasks: ["tasks/*.json"],
  },
  "tasks/a.json": task("needs", { requires: [{ server: "web" }], verify: [{ "web.get": { args: {} } }] }),
  "tasks/b.json": task("plain", { verify: [{ "db.get": { args: {} } }] }),
};

test.each([
  [[], 0, "skip"],
  [["--strict"], 3, "error"],
])(
  "a task is not run in a variant without the server that it requires (%j)",
  async (flags, code, verdict) => {
    using folder = folderOf(files);
    const run = await runHere(["run", "--reporter", "json=result.json", ...flags], { cwd: folder.path });
    expect([run.code, run.stderr]).toEqual([code, ""]);
    const { trials } = JSON.parse(readFileSync(join(folder.path, "result.json"), "utf8")) as RunResult;
    expect(trials.map((trial) => [trial.task, trial.variant, trial.verdict, trial.error?.message])).toEqual([
      ["needs", "whole", "pass", undefined],
      [
        "needs",
        "part",
        verdict,
        'requirements not met: the server "web", which the variant "part" does not have (there are db)',
      ],
      ["plain", "whole", "pass", undefined],
      ["plain", "part", "pass", undefined],
    ]);
  },
);
