import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RunResult } from "../../src/core/report/result.ts";
import { folderOf, root, runCli } from "../support/cli.ts";
import { realAgents } from "./agents.ts";
import { startFakeModel } from "./fake-model/fake-model.ts";

const server = {
  transport: "stdio",
  command: "node",
  args: [join(root, "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio"],
};

describe.each(realAgents)("$preset", ({ preset, home, env, tellsUsage }) => {
  test.each(["acp", "command"] as const)(
    "finds the tool and calls it, as %s",
    { timeout: 120_000 },
    async (type) => {
      await using model = await startFakeModel({
        tool: "echo",
        args: { message: "hello" },
        words: "The server said: Echo: hello",
      });
      const config = {
        servers: { everything: server },
        agents: { it: { type, preset, env: env(model.url), inheritEnv: ["HOME"] } },
        workflows: [
          {
            name: "echo",
            steps: [{ user: "Echo hello with the echo tool.", expectedState: "Echo: hello" }],
            expectTools: ["echo"],
          },
        ],
        limits: { trial: "90s" },
      };
      using folder = folderOf({ "mcp-eval.config.json": config });
      for (const [name, content] of Object.entries(home(model.url))) {
        const file = join(folder.path, "home", name);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, content);
      }
      mkdirSync(join(folder.path, "home"), { recursive: true });
      const outcome = await runCli(["run", "--reporter", "json"], {
        cwd: folder.path,
        env: { HOME: join(folder.path, "home"), PATH: process.env["PATH"] ?? "" },
      });
      const result = JSON.parse(outcome.stdout) as RunResult;
      const [trial] = result.trials;
      expect(
        { code: outcome.code, error: trial?.error, grades: trial?.grades },
        outcome.stderr,
      ).toMatchObject({
        code: 0,
        error: undefined,
      });
      expect(trial?.tools).toMatchObject({
        serversUsed: ["everything"],
        servers: { everything: { calls: 1, errors: 0, distinctTools: 1 } },
      });
      expect(trial?.warnings ?? []).toEqual([]);
      if (tellsUsage[type]) expect(trial?.usage?.inputTokens).toBeGreaterThan(0);
      const shown = await runCli(["show", "--tools"], { cwd: folder.path });
      const uses = shown.stdout
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as { source: string });
      expect(uses.filter(({ source }) => source.startsWith("mcp:"))).toMatchObject([
        {
          source: "mcp:everything",
          server: "everything",
          serverTool: "echo",
          args: { message: "hello" },
          isError: false,
        },
      ]);
      expect(processesOf(folder.path)).toEqual([]);
    },
  );
});

/** Processes whose environment names a folder. */
function processesOf(folder: string): readonly string[] {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readFileSync(join("/proc", name, "environ"), "latin1").includes(folder);
    } catch {
      return false;
    }
  });
}
