import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { folderOf, runCli } from "../support/cli.ts";
import { type RealAgent, realAgents } from "./agents.ts";
import { startFakeModel } from "./fake-model.ts";
import { everything, processesOf, server, writeFiles } from "./support.ts";

const types = ["acp", "command"] as const;
/** Says that it may reach out into the world. */
const harmful = "gzip-file-as-resource";

interface Played {
  readonly code: number | null;
  readonly trial: TrialResult | undefined;
  /** Uses of tools, as `mcpvals show --tools` prints them. */
  readonly uses: readonly { readonly source: string }[];
  readonly stderr: string;
}

interface Setup {
  readonly agent?: object;
  /** Called in the place of `echo`. */
  readonly tool?: string;
  /** The model answers everything with this HTTP status. */
  readonly refuses?: number;
  /** The user's own config has a server of the same name. */
  readonly hasOwn?: boolean;
  readonly faults?: readonly object[];
}

/** Has a real program do one task: call `echo` and say what came of it. Nothing of it is left then. */
async function play({ preset, home, env }: RealAgent, type: string, setup: Setup = {}): Promise<Played> {
  const { tool = "echo" } = setup;
  const archive = { name: "a.gz", data: "data:text/plain,hello", outputType: "resource" };
  await using model = await startFakeModel({
    tool,
    args: tool === "echo" ? { message: "hello" } : archive,
    words: "The server said: Echo: hello",
    ...(setup.refuses === undefined ? {} : { refuses: setup.refuses }),
  });
  const config = {
    servers: { everything: { ...server, ...(setup.faults === undefined ? {} : { faults: setup.faults }) } },
    agents: { it: { type, preset, env: env(model.url), home: "user", ...setup.agent } },
    workflows: [
      {
        name: "echo",
        steps: [{ user: "Use the echo tool.", expectedState: "Echo: hello" }],
        expectTools: [tool],
      },
    ],
    limits: { trial: "10m" },
  };
  using folder = folderOf({ "mcp-eval.config.json": config });
  const own = setup.hasOwn === true ? { name: "everything", command: "node", args: everything } : undefined;
  writeFiles(join(folder.path, "home"), home(model.url, own));
  const { code, stdout, stderr } = await runCli(["run", "--reporter", "json"], {
    cwd: folder.path,
    env: { HOME: join(folder.path, "home"), PATH: process.env["PATH"] ?? "" },
  });
  const result = JSON.parse(stdout) as RunResult;
  const shown = await runCli(["show", "--tools"], { cwd: folder.path });
  const lines = shown.stdout.trim().split("\n");
  expect(processesOf(folder.path)).toEqual([]);
  return {
    code,
    trial: result.trials[0],
    uses: lines.flatMap((line) => (line === "" ? [] : [JSON.parse(line) as { source: string }])),
    stderr,
  };
}

describe.each(realAgents)("$preset", (agent) => {
  test.each(types)("finds the tool and calls it, as %s", async (type) => {
    const { code, trial, uses, stderr } = await play(agent, type);
    expect({ code, error: trial?.error, grades: trial?.grades }, stderr).toMatchObject({
      code: 0,
      error: undefined,
    });
    expect(trial?.tools).toMatchObject({
      serversUsed: ["everything"],
      servers: { everything: { calls: 1, errors: 0, distinctTools: 1 } },
    });
    expect(trial?.warnings ?? []).toEqual([]);
    expect(trial?.ran?.programs?.join()).toMatch(/\d+\.\d+\.\d+/);
    if (agent.tellsUsage[type]) expect(trial?.usage?.inputTokens).toBeGreaterThan(0);
    expect(uses.filter(({ source }) => source.startsWith("mcp:"))).toMatchObject([
      {
        source: "mcp:everything",
        server: "everything",
        serverTool: "echo",
        args: { message: "hello" },
        isError: false,
      },
    ]);
  });

  // Longer than Claude Code, Qwen Code and opencode wait by default; opencode has one limit for this and for calls.
  test.each(types)("does not fail by a server that is slow to list its tools, as %s", async (type) => {
    const faults = [{ kind: "delay", method: "tools/list", delay: "40s" }];
    const { trial, stderr } = await play(agent, type, { faults });
    expect(
      [trial?.verdict, trial?.error?.code, trial?.tools?.mcpToolCalls],
      JSON.stringify(trial) + stderr,
    ).toEqual(agent.preset === "opencode" ? ["error", "agent/no-connection", 0] : ["pass", undefined, 1]);
  });

  test.each(types)("is an error when its model refuses, as %s", async (type) => {
    const { code, trial, stderr } = await play(agent, type, { refuses: 400 });
    expect([code, trial?.verdict, trial?.error?.code], stderr).toEqual([3, "error", "agent/failed"]);
  });

  // Codex and Copilot do not ask where a tool says that it does no harm, as `echo` does.
  test.each([
    ["allow", 0, "pass", 1],
    ["deny", 1, "fail", 0],
  ])("asks before it changes something: %s", async (permissions, code, verdict, calls) => {
    const played = await play(agent, "acp", { agent: { permissions }, tool: harmful });
    const { trial, stderr } = played;
    expect([played.code, trial?.verdict, trial?.tools?.mcpToolCalls], stderr).toEqual([code, verdict, calls]);
  });

  test.each(types)("does not pass for a server of the user's own, as %s", async (type) => {
    const { trial, stderr } = await play(agent, type, { hasOwn: true });
    const calls = trial?.tools?.mcpToolCalls;
    // Codex refuses a config in which the two are merged.
    const isKnown = trial?.verdict === "pass" ? calls === 1 : trial?.verdict === "error";
    expect(isKnown, JSON.stringify(trial) + stderr).toBe(true);
  });
});
