import { writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { McpvalsError } from "../../../src/base/error.ts";
import { load } from "../../../src/formats/load.ts";

/** A config to load, as the command line gives it in JSON. */
export interface LoadJob {
  readonly cwd: string;
  readonly source: string;
  readonly timeoutMs?: number;
  /** Files that are changed after it was loaded; it is then loaded again. */
  readonly changes?: Readonly<Record<string, string>>;
}

// Loads configs as the CLI would and prints the outcomes as JSON: inside vitest an import would go vitest's own way.
const outcomes: unknown[] = [];
for (const job of JSON.parse(process.argv[2] ?? "[]") as LoadJob[]) outcomes.push(await outcomeOf(job));
console.log(JSON.stringify(outcomes));

async function outcomeOf({ changes, ...job }: LoadJob): Promise<unknown> {
  try {
    const loaded = await load({ ...job, sources: [job.source], environment: {} });
    if (changes !== undefined) {
      for (const [name, text] of Object.entries(changes)) writeFileSync(join(job.cwd, name), text);
      const { imports } = loaded;
      return {
        ...((await outcomeOf(job)) as object),
        imports: imports.map((path) => relative(job.cwd, path)),
      };
    }
    return { name: loaded.eval.name, tasks: loaded.eval.tasks.map((task) => task.name) };
  } catch (error) {
    if (!(error instanceof McpvalsError)) throw error;
    const { code, message, details, cause } = error;
    return { ...details, code, message, cause: cause instanceof Error ? cause.name : typeof cause };
  }
}
