import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { folderOf, runHere } from "../support/cli.ts";
import { configFile } from "./support.ts";

/** A config with one mock and an agent that calls its tools in order, then says what it was told. */
function mockConfig(
  server: Omit<Extract<NonNullable<Config["server"]>, { transport: "mock" }>, "transport">,
  calls: readonly string[],
  rest: Partial<Config> = {},
): Config {
  const plan = [...calls.map((call) => ({ call, args: {} })), { say: "done" }];
  return {
    server: { transport: "mock", ...server },
    agent: { type: "scripted", plan: { go: plan } },
    workflows: [{ name: "go", steps: [{ user: "go", expectedState: "done" }] }],
    ...rest,
  };
}

/** Runs a config and gives what was recorded of each trial. */
async function traces(
  config: Config,
): Promise<{ code: number | null; trials: TraceEvent[][]; stdout: string }> {
  using folder = folderOf(configFile(config));
  const { code, stdout, stderr } = await runHere(["run", "--output", "runs"], { cwd: folder.path });
  if (code === 2) throw new Error(stdout + stderr);
  const [run = ""] = readdirSync(join(folder.path, "runs"));
  const journal = readFileSync(join(folder.path, "runs", run, "journal.jsonl"), "utf8");
  const events = journal
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => (JSON.parse(line) as { event: TraceEvent }).event);
  const trials = [...new Set(events.map(({ trial }) => trial))];
  return {
    code,
    trials: trials.map((trial) => events.filter((event) => event.trial === trial)),
    stdout: stdout + stderr,
  };
}

/** The texts of results of calls, as the agent got them, in order. */
function toldIn(events: readonly TraceEvent[]): string[] {
  return events.flatMap((event) => {
    if (event.type !== "mcp.message" || event.direction !== "server-to-client") return [];
    const { result, error } = event.message as {
      result?: { content?: { text: string }[] };
      error?: { message: string };
    };
    return error === undefined ? (result?.content ?? []).map(({ text }) => text) : [error.message];
  });
}

const visits: Config["server"] & { transport: "mock" } = {
  transport: "mock",
  mock: {
    state: { n: 0 },
    tools: {
      visit: {
        responses: [
          { when: { n: 0 }, set: { n: 1 }, return: "first" },
          { when: { n: 1 }, set: { n: 2 }, return: "second" },
          { return: "more" },
        ],
      },
      hidden: { responses: [{ return: "secret" }] },
    },
  },
};

it("has state for one trial, or for the run", async () => {
  const fresh = await traces(mockConfig({ mock: visits.mock }, ["visit", "visit"], { trials: 2 }));
  expect(fresh.trials.map(toldIn)).toEqual([
    ["first", "second"],
    ["first", "second"],
  ]);
  const shared = mockConfig({ mock: visits.mock, lifetime: "per_run" }, ["visit", "visit"], { trials: 2 });
  const { trials, code, stdout } = await traces(shared);
  expect([code, stdout]).toEqual([0, expect.stringContaining("PASS")]);
  expect(trials.map(toldIn)).toEqual([
    ["first", "second"],
    ["more", "more"],
  ]);
});

it("meets the same faults in every run with the same seed, and others with another", async () => {
  const faults = [{ kind: "error", probability: 0.5, message: "down" }] as const;
  const calls = Array.from({ length: 30 }, () => "visit");
  const run = async (seed: number): Promise<string[][]> => {
    const { trials } = await traces(
      mockConfig({ mock: visits.mock, faults: [...faults] }, calls, { seed, trials: 2 }),
    );
    return trials.map((events) => toldIn(events).map((text) => (text === "down" ? "x" : ".")));
  };
  const [first, again, other] = [await run(1), await run(1), await run(2)];
  expect(first?.flat()).toContain("x");
  expect(first?.flat()).toContain(".");
  expect(again).toEqual(first);
  expect(other).not.toEqual(first);
  expect(first?.[0]).not.toEqual(first?.[1]);
});
