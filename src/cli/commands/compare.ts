import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { comparisonMarkdown, comparisonText, compareSides } from "../../report/comparison.ts";
import type { Kind } from "../../report/documents/compare-runs.ts";
import { comparableKinds, type NamedSide, sidesOfRun } from "../../report/documents/compare-sides.ts";
import { defaultRunsFolder } from "../../store/run-folder.ts";
import { addFailOnFlags, type FailOnFlags, type SetExitCode } from "../flags.ts";
import { readSide } from "../sides.ts";
import { columnsOf, writeJson, writeOut } from "../terminal.ts";

interface CompareFlags extends FailOnFlags {
  readonly output?: string;
  readonly by?: Kind;
  readonly about: "these-tasks" | "tasks-like-these";
  readonly format: "text" | "json" | "markdown";
}

/** `mcpvals compare`: says whether one run, variant or agent is better than another, and how sure that is. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument(
      "<sides...>",
      "runs, result files or baselines; the first is what the others are compared with. One run alone: its variants, or its agents",
    )
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .addOption(
      new Option("--by <what>", "compare the variants, or the agents, of one run").choices([
        "variant",
        "agent",
      ]),
    )
    .addOption(
      new Option("--about <question>", "which verdict --fail-on looks at")
        .choices(["these-tasks", "tasks-like-these"])
        .default("these-tasks"),
    );
  addFailOnFlags(command, "the pass rate of a side")
    .addOption(
      new Option("-f, --format <format>", "format of the output")
        .choices(["text", "json", "markdown"])
        .default("text"),
    )
    .action(async (sides: readonly string[], flags: CompareFlags) =>
      setExitCode(await execute(sides, flags)),
    );
}

/** Returns the exit code. Throws McpvalsError of kind `usage`, and that of a run that cannot be read. */
async function execute(names: readonly string[], flags: CompareFlags): Promise<number> {
  const runs = resolve(flags.output ?? defaultRunsFolder);
  const read: NamedSide[] = [];
  for (const name of names) read.push(await readSide(name, runs));
  const { sides, across } = sidesOf(read, flags.by);
  const [first, ...others] = sides;
  if (first === undefined || others.length === 0)
    throw new McpvalsError("usage/invalid-option", "there is nothing to compare with", {
      hint: "Name two runs, or one run with several variants or agents.",
    });
  const reported = sides.find(({ trials }) => trials.some((trial) => trial.reported !== undefined));
  if (flags.failOn !== undefined && reported !== undefined)
    throw new McpvalsError(
      "usage/invalid-option",
      `--fail-on needs verdicts of mcpvals; ${reported.name} has only those that another tool reported`,
      { hint: "Grade that run and compare what comes of it: npx mcpvals grade RUN --config FILE." },
    );
  const document = compareSides([first, ...others], {
    across,
    margin: flags.margin,
    question: flags.about === "these-tasks" ? "these tasks" : "tasks like these",
    failOn: flags.failOn,
  });
  if (flags.format === "json") writeJson(document, 2);
  else if (flags.format === "markdown") writeOut(comparisonMarkdown(document));
  else writeOut(comparisonText(document, columnsOf(process.stdout)));
  return document.failOn?.exitCode ?? 0;
}

/** The sides that are compared: the runs, or the variants or agents of the only one. */
function sidesOf(
  read: readonly NamedSide[],
  by: Kind | undefined,
): { readonly sides: readonly NamedSide[]; readonly across?: Kind } {
  const [only, ...others] = read;
  if (only === undefined || others.length > 0) {
    if (by === undefined) return { sides: read };
    throw new McpvalsError(
      "usage/invalid-option",
      "--by is for one run, whose variants or agents are compared",
      {
        hint: "Name one run, or leave out --by.",
      },
    );
  }
  const kinds = comparableKinds(only);
  if (only.isAttacked === true && (kinds.length === 0 || by === "variant"))
    throw new McpvalsError("usage/invalid-option", `the variants of ${only.name} are attacks`, {
      hint: `npx mcpvals show ${only.name} compares each class of them with the trials without an attack. To compare each attack with itself, name a second run${kinds.length === 0 ? "" : ", or compare the agents: --by agent"}.`,
    });
  return sidesOfRun(only, by);
}
