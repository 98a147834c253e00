import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Config } from "../../src/core/formats/config/config-schema.ts";
import { evaluate } from "../../src/evaluate.ts";
import { startRun } from "../support/faults.ts";
import { hostileServer } from "../support/hostile.ts";
import { root } from "../support/cli.ts";

// Claim: no trial takes a gigabyte, whatever an agent program writes, and the run goes on. docs/security.md.

type Kind = "acp" | "lines";

/** Two workflows: one whose agent attacks, one whose agent says `done`. */
function config(kind: Kind, ...attack: readonly string[]): Config {
  const program = join(root, "test/fixtures/agents/hostile-agent.mjs");
  const agentOf = (...args: readonly string[]): NonNullable<Config["agents"]>[string] => {
    const base = { command: process.execPath, args: [program, ...args] };
    return kind === "acp"
      ? { type: "acp", ...base }
      : { type: "command", output: "claude-code", stdin: true, ...base };
  };
  return {
    server: hostileServer(),
    timeout: 60_000,
    agents: { bad: agentOf(kind, ...attack), good: { type: "scripted", plan: { w: [{ say: "done" }] } } },
    workflows: [{ name: "w", steps: [{ user: "hi", expectedState: "done" }] }],
  };
}

async function outcomesOf(kind: Kind, ...attack: readonly string[]): Promise<string[]> {
  const result = await evaluate(config(kind, ...attack), { output: false, agents: ["bad", "good"] });
  return result.trials.map(({ verdict, error }) =>
    error === undefined ? verdict : `${verdict} ${error.code}: ${error.message}`,
  );
}

describe("an agent program", () => {
  const deep = "wrote a message nested more than 400 levels deep";
  const heavy = "wrote a message of so many values that it would take more than 128 MiB of memory";

  it.each<[string, string, Kind, string[]]>([
    ["a message nested 50,000 levels deep", `agent bad ${deep}`, "acp", ["deep", "count=2", "bytes=100000"]],
    ["a message of 3 million objects", `agent bad ${heavy}`, "acp", ["wide", "bytes=9000000"]],
    [
      "a line without end",
      "agent bad wrote a message of more than 10485760 bytes",
      "acp",
      ["line", "count=20", "bytes=1000000"],
    ],
    [
      "a message in 100 pieces of 1 MB",
      "the agent said more than 10485760 characters at once",
      "acp",
      ["chunks", "count=100", "bytes=1000000"],
    ],
    [
      "a request 20,001 times",
      "agent bad asked for something more than 20000 times in one trial",
      "acp",
      ["asked", "count=20001", "bytes=1"],
    ],
    [
      "a line nested 50,000 levels deep",
      `agent bad could not act: it ${deep}`,
      "lines",
      ["deep", "bytes=100000"],
    ],
    [
      "a line of 3 million objects",
      `agent bad could not act: it ${heavy}`,
      "lines",
      ["wide", "bytes=9000000"],
    ],
  ])("that writes %s breaks its own trial", async (_what, message, kind, attack) => {
    expect(await outcomesOf(kind, ...attack)).toEqual([
      expect.stringMatching(`^error agent/(?:protocol|failed): ${message}$`),
      "pass",
    ]);
  });

  it.each<[string, string[]]>([
    ["asks for permission with 9 MB, without end", ["asked", "count=1000", "bytes=9000000"]],
    ["thinks 9 MB, without end", ["thoughts", "count=1000", "bytes=9000000"]],
  ])("that %s may write 256 MiB", async (_what, attack) => {
    using run = startRun(config("acp", ...attack), { args: ["--agent", "bad", "--agent", "good"] });
    const { result, peak } = await run.ended();
    expect(result.trials.map(({ verdict, error }) => [verdict, error?.message])).toEqual([
      ["error", "agent bad wrote more than 256 MiB in one trial"],
      ["pass", undefined],
    ]);
    expect(peak).toBeLessThan(1000);
  });
});
