import { type CliOptions, type CliOutcome, runCli } from "./cli.ts";

export type SourceOutcome = Pick<CliOutcome, "code" | "stdout" | "stderr">;

/** Runs the built command line to its end, with PATH and HOME alone in its environment. */
export async function runSource(args: readonly string[], options: CliOptions): Promise<SourceOutcome> {
  const { code, stdout, stderr } = await runCli(args, options);
  return { code, stdout, stderr };
}
