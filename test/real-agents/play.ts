import { join } from "node:path";
import { expect } from "vitest";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { folderOf, runCli } from "../support/cli.ts";
import type { RealAgent } from "./agents.ts";
import { type FakeModelOptions, startFakeModel, tokens } from "./fake-model.ts";
import { processesOf, server, writeFiles } from "./support.ts";

export const types = ["acp", "command"] as const;
export type Type = (typeof types)[number];

/** What the model calls, unless a test says otherwise. */
export const echo = { tool: "echo", args: { message: "hello" } };

export interface Played {
  readonly code: number | null;
  readonly trial: TrialResult | undefined;
  readonly agent: RunResult["environment"]["agents"][number] | undefined;
  /** Requests to the model that offer tools, which those for titles and the like do not. */
  readonly asked: readonly string[];
  /** Uses of the program's own tools, by whether they failed. */
  readonly ownUses: readonly boolean[];
  /** What the model said of its answers. */
  readonly counted: { readonly input: number; readonly output: number; readonly requests: number };
  readonly output: string;
}

/** Has a real program do one task with these settings. */
export async function play(
  { preset, away, awayArgs, login }: RealAgent,
  type: Type,
  settings: object,
  model: Partial<FakeModelOptions> = {},
  limits: { readonly trial: string; readonly maxTurns?: number } = { trial: "10m" },
): Promise<Played> {
  await using fake = await startFakeModel({
    ...echo,
    words: "The server said: Echo: hello",
    ...model,
  });
  const extraArgs = type === "command" ? (awayArgs?.(fake.url) ?? []) : [];
  const config = {
    servers: { everything: server },
    agents: { it: { type, preset, env: away(fake.url), extraArgs, ...settings } },
    workflows: [
      { name: "echo", steps: [{ user: "Use the tool.", expectedState: "hello" }], expectTools: ["echo"] },
    ],
    limits,
  };
  using folder = folderOf({ "mcp-eval.config.json": config });
  // Gemini CLI asks Google about its login, which is not on loopback.
  if (preset !== "gemini") writeFiles(join(folder.path, "home"), login("login-token-0123456789abcdef"));
  const { code, stdout, stderr } = await runCli(["run", "--reporter", "json"], {
    cwd: folder.path,
    env: { HOME: join(folder.path, "home"), PATH: process.env["PATH"] ?? "" },
  });
  const { trials, environment } = JSON.parse(stdout) as RunResult;
  const shown = await runCli(["show", "--tools"], { cwd: folder.path });
  const uses = shown.stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { readonly source: string; readonly isError?: boolean });
  expect(processesOf(folder.path)).toEqual([]);
  return {
    code,
    trial: trials[0],
    agent: environment.agents[0],
    asked: fake.requests.filter((request) => /"tools":\[\{/.test(request)),
    ownUses: uses.flatMap(({ source, isError }) => (source.startsWith("mcp:") ? [] : [isError === true])),
    counted: {
      input: fake.requests.length * tokens.input,
      output: fake.requests.length * tokens.output,
      requests: fake.requests.length,
    },
    output: stdout + stderr,
  };
}
