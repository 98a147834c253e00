import { McpvalsError } from "../../../src/core/errors/error.ts";
import { load } from "../../../src/load/load.ts";

/** A config to load, as the command line gives it in JSON. */
export interface LoadJob {
  readonly cwd: string;
  readonly source: string;
  readonly timeoutMs?: number;
}

// Loads configs as the CLI would and prints the outcomes as JSON: inside vitest an import would go vitest's own way.
const outcomes: unknown[] = [];
for (const job of JSON.parse(process.argv[2] ?? "[]") as LoadJob[]) outcomes.push(await outcomeOf(job));
console.log(JSON.stringify(outcomes));

async function outcomeOf(job: LoadJob): Promise<unknown> {
  try {
    const loaded = await load({ ...job, sources: [job.source], environment: {} });
    return { name: loaded.eval.name, tasks: loaded.eval.tasks.map((task) => task.name) };
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details, cause } = error;
    return { ...details, code, message, cause: cause instanceof Error ? cause.name : typeof cause };
  }
}
