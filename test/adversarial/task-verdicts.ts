import { join } from "node:path";
import { load } from "../../src/formats/load.ts";
import { McpvalsError } from "../../src/base/error.ts";
import type { TrialResult } from "../../src/model/result.ts";
import { prepare } from "../../src/run/prepare.ts";
import { run } from "../../src/run/run.ts";
import { folderOf, root } from "../support/cli.ts";

/** A step as it is written in a task. */
export type Step = Readonly<Record<string, unknown>>;
/** The steps of a verify phase. */
export type Phase = Step | readonly Step[];

export function command(line: string, rest: object = {}): Step {
  return { command: { run: line, ...rest } };
}

export function script(inline: string, rest: object = {}): Step {
  return { script: { inline, ...rest } };
}

/** Every step that can hold another one. */
export const holders = {
  not: (step: Step): Step => ({ not: step }),
  allOf: (step: Step): Step => ({ allOf: [step] }),
  anyOf: (step: Step): Step => ({ anyOf: [step] }),
  group: (step: Step): Step => ({ group: { steps: [step] } }),
  foreach: (step: Step): Step => ({ foreach: { var: "x", in: [1], steps: [step] } }),
};

/** A task as a file of its own, without an agent unless it has a prompt. */
export function taskOf(name: string, spec: object): object {
  return { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name }, spec };
}

/** The verdict of each task of a folder, then the reason. Agents do nothing. */
export async function verdictsOf(
  files: Readonly<Record<string, unknown>>,
  sources: readonly string[] = "mcp-eval.config.json" in files ? [] : ["."],
): Promise<Readonly<Record<string, string>>> {
  using folder = folderOf(files);
  const { signal } = new AbortController();
  const loaded = prepare(await load({ cwd: folder.path, sources, agents: ["null"], signal }), {
    concurrency: 2,
  });
  const { result } = await run(loaded, { cwd: folder.path, output: false, signal });
  return Object.fromEntries(
    result.trials.map((trial) => [trial.task, `${trial.verdict}: ${reasonOf(trial)}`]),
  );
}

function reasonOf({ error, grades }: TrialResult): string {
  return error?.message ?? grades.map(({ reason }) => reason).join("; ");
}

/** The server `odd`, whose answers are not MCP. */
const config = {
  servers: {
    odd: {
      transport: "stdio",
      command: process.execPath,
      args: [join(root, "test/fixtures/servers/odd-answers.mjs")],
      lifetime: "per_run",
    },
  },
  tasks: ["*.task.json"],
};

/** Runs tasks with these verify phases in one run, and returns those whose verdict and reason do not match. */
export async function phasesWithout(
  expected: RegExp,
  phases: readonly Phase[],
  spec: object = {},
): Promise<readonly unknown[]> {
  const files = phases.map((phase, index) => [
    `${index}.task.json`,
    taskOf(`t${index}`, { verify: [phase].flat(), ...spec }),
  ]);
  const usesServer = /"odd[".:]/.test(JSON.stringify(phases));
  const servers = usesServer ? { "mcp-eval.config.json": config } : {};
  const verdicts = await verdictsOf({ ...Object.fromEntries(files), ...servers });
  return phases.flatMap((phase, index) => {
    const verdict = verdicts[`t${index}`] ?? "no trial";
    return expected.test(verdict) ? [] : [{ phase, verdict }];
  });
}

/** The problems with which the files of a folder are refused, as `LINE: MESSAGE`; undefined when they load. */
export async function refusalOf(files: Readonly<Record<string, unknown>>): Promise<string | undefined> {
  using folder = folderOf(files);
  try {
    const { signal } = new AbortController();
    await load({ cwd: folder.path, sources: ["."], agents: ["null"], signal });
    return undefined;
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { diagnostics = [] } = error.details;
    return (
      diagnostics.map(({ message, location }) => `${location?.line ?? "?"}: ${message}`).join("\n") ||
      error.message
    );
  }
}

/** Loads tasks with these verify phases one by one, and returns those that are not refused with such a message. */
export async function phasesNotRefused(
  expected: RegExp,
  phases: readonly Phase[],
  files: object = {},
): Promise<readonly unknown[]> {
  const refusals = await Promise.all(
    phases.map((phase) => refusalOf({ "t.json": taskOf("t", { verify: [phase].flat() }), ...files })),
  );
  return phases.flatMap((phase, index) => {
    const refusal = refusals[index] ?? "accepted";
    return expected.test(refusal) ? [] : [{ phase, refusal }];
  });
}
