import { load } from "../../src/load/load.ts";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { TrialResult } from "../../src/core/report/result.ts";
import { prepare } from "../../src/run/prepare.ts";
import { run } from "../../src/run/run.ts";
import { folderOf } from "../support/cli.ts";

/** A task as a file of its own, without an agent unless it has a prompt. */
export function taskOf(name: string, spec: object): object {
  return { kind: "Task", apiVersion: "mcp-eval/v1", metadata: { name }, spec };
}

/** What became of each task of a folder: its verdict, then why. Agents do nothing. */
export async function verdictsOf(
  files: Readonly<Record<string, unknown>>,
  sources: readonly string[] = "mcp-eval.config.json" in files ? [] : ["."],
): Promise<Readonly<Record<string, string>>> {
  using folder = folderOf(files);
  const { signal } = new AbortController();
  const loaded = prepare(await load({ cwd: folder.path, sources, agents: ["null"], signal }), {});
  const { result } = await run(loaded, { cwd: folder.path, output: false, signal });
  return Object.fromEntries(
    result.trials.map((trial) => [trial.task, `${trial.verdict}: ${reasonOf(trial)}`]),
  );
}

function reasonOf({ error, grades }: TrialResult): string {
  return error?.message ?? grades.map(({ reason }) => reason).join("; ");
}

/** The problems with which the files of a folder are refused; undefined when they load. */
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
