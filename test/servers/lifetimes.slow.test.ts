import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import type { Config } from "../../src/formats/config/config-schema.ts";
import { evaluate } from "../../src/evaluate.ts";
import { readJournal } from "../../src/store/journal.ts";
import { fixtureServer } from "../e2e/support.ts";
import { startHttpFixture } from "../fixtures/servers/http-server.ts";
import { livingProcesses } from "../process/support.ts";
import { watchLeftovers } from "../support/leftovers.ts";

const counter: ReturnType<typeof fixtureServer> = {
  transport: "stdio",
  command: process.execPath,
  args: [fileURLToPath(new URL("../fixtures/servers/counter-server.mjs", import.meta.url))],
};
const linux = process.platform === "linux";

it("a server that does not start and is not required is left out of the trial, which goes on", async () => {
  const bad = { ...fixtureServer("--exit=3"), required: false };
  const config: Config = {
    servers: { good: fixtureServer(), bad },
    agent: {
      type: "scripted",
      plan: { w: [{ call: "echo", args: { message: "Hello" } }, { say: "Hello" }] },
    },
    workflows: [{ name: "w", steps: [{ user: "Greet me.", expectedState: "Hello" }] }],
  };
  const { trials } = await evaluate(config, { output: false });
  expect(trials.map(({ verdict, error }) => error?.message ?? verdict)).toEqual(["pass"]);
});

it.runIf(linux)("24 trials at once with three servers each leave no process, port or timer", async () => {
  const web = await startHttpFixture();
  onTestFinished(() => web.close());
  const config: Config = {
    servers: {
      own: counter,
      shared: { ...counter, args: [...(counter.args ?? []), "shared"], lifetime: "per_run" },
      web: { transport: "shttp", url: web.url },
    },
    agents: {
      script: {
        type: "scripted",
        plan: {
          w: [
            { call: "count", server: "own", args: {} },
            { call: "count", server: "shared", args: {} },
            { call: "echo", server: "web", args: { message: "hi" } },
            { say: "Done" },
          ],
        },
      },
    },
    workflows: [{ name: "w", steps: [{ user: "count", expectedState: "Done" }] }],
  };
  const verdicts = async (trials: number): Promise<string[]> => {
    const result = await evaluate(config, { output: false, trials, concurrency: trials });
    return result.trials.map(({ verdict, error }) => error?.message ?? verdict);
  };
  await verdicts(1);
  const nothingIsLeft = watchLeftovers();
  expect(await verdicts(24)).toEqual(Array.from({ length: 24 }, () => "pass"));
  expect(await livingProcesses()).toEqual([]);
  await nothingIsLeft();
});

it("never more trials than a server's maxConcurrent use it at once, of agents, tool tests and several suites", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mcpvals-limit-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const suite = (name: string): NonNullable<Config["toolHealthSuites"]>[number] => ({
    name,
    parallel: true,
    tests: Array.from({ length: 4 }, (_, index) => ({ name: "count", description: `${index}`, args: {} })),
  });
  const config: Config = {
    server: { ...counter, maxConcurrent: 2 },
    agent: { type: "scripted", plan: { w: [{ call: "count", args: {} }, { say: "Done" }] } },
    toolHealthSuites: [suite("one"), suite("two")],
    workflows: [{ name: "w", steps: [{ user: "count", expectedState: "Done" }] }],
  };
  const { trials, folder: run = "" } = await evaluate(config, { output: folder, trials: 2, concurrency: 8 });
  expect(trials.map(({ verdict, error }) => error?.message ?? verdict)).toEqual(trials.map(() => "pass"));
  const { events } = await readJournal(run);
  const users = new Set<string>();
  let most = 0;
  for (const event of events) {
    if (event.type === "server.started") users.add(event.trial);
    if (event.type === "server.stopped") users.delete(event.trial);
    most = Math.max(most, users.size);
  }
  expect(most).toBe(2);
});
