import { type CliOptions, type CliOutcome, runCli } from "./cli.ts";

export type SourceOutcome = CliOutcome;

/** Runs the built command line to its end, with PATH and HOME alone in its environment. */
export function runSource(args: readonly string[], options: CliOptions): Promise<CliOutcome> {
  return runCli(args, options);
}
