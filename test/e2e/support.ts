import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { procLister } from "../../src/process/process-tree.ts";
import type { Config } from "../../src/formats/config/config-schema.ts";
import type { RunResult, TrialResult } from "../../src/model/result.ts";
import { root } from "../support/cli.ts";

export type ServerConfig = NonNullable<Config["server"]>;

/** The fixture server, with flags for its misbehaviour. */
export function fixtureServer(...flags: readonly string[]): Extract<ServerConfig, { transport: "stdio" }> {
  const program = join(root, "test/fixtures/servers/fixture-server.mjs");
  return { transport: "stdio", command: process.execPath, args: [program, ...flags] };
}

/** A config file, for `runInline` and `folderOf`. */
export function configFile(config: Config): { readonly "mcp-eval.config.json": Config } {
  return { "mcp-eval.config.json": config };
}

/** A suite of one test of one tool. */
export function toolTest(
  tool: string,
  rest: Omit<NonNullable<Config["toolHealthSuites"]>[number]["tests"][number], "name"> = {},
): Config {
  return {
    server: fixtureServer(),
    toolHealthSuites: [{ name: "suite", tests: [{ name: tool, ...rest }] }],
  };
}

/** The one trial of a task. */
export function trialOf(result: RunResult, task: string): TrialResult {
  const trials = result.trials.filter((candidate) => candidate.task === task);
  const [trial] = trials;
  if (trial === undefined || trials.length > 1) throw new Error(`${trials.length} trials of ${task}`);
  return trial;
}

/** Every grade of a trial as `VERDICT SCORE`, by grader. */
export function gradesOf(trial: TrialResult): Readonly<Record<string, string>> {
  return Object.fromEntries(
    trial.grades.map(({ grader, verdict, score }) => [grader, `${verdict} ${score}`]),
  );
}

/** A closed port on loopback. */
export async function closedAddress(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}

/** A variable for a server's `env`, and the living processes that have it. Linux only. */
export function processTag(): {
  readonly env: Readonly<Record<string, string>>;
  living(): Promise<readonly number[]>;
} {
  const value = randomUUID();
  return {
    env: { TEST_TAG: value },
    async living() {
      const all = await procLister.list();
      return all.map(({ pid }) => pid).filter((pid) => procLister.carries(pid, `TEST_TAG=${value}`));
    },
  };
}
