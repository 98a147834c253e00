import { Command, CommanderError } from "commander";
import { McpvalsError, renderError } from "../base/error.ts";
import { reportUncaught } from "../process/deadline.ts";
import { quotedLines, visibleText, withoutCommands } from "../base/visible-text.ts";
import { version } from "../base/version.ts";
import type { SetExitCode } from "./flags.ts";
import { wrapText } from "../base/columns.ts";
import { columnsOf, endProcess, finishOutput, hideSecrets, writeError } from "./terminal.ts";

interface CommandEntry {
  readonly description: string;
  readonly alias?: string;
  /** Loads the module that adds the command's arguments, options and action. */
  readonly load: () => Promise<{
    readonly define: (command: Command, setExitCode: SetExitCode) => void;
  }>;
}

const commands: Readonly<Record<string, CommandEntry>> = {
  check: {
    description: "find out what is wrong with a server: protocol, definitions, calls, stability",
    load: () => import("./commands/check.ts"),
  },
  tools: {
    description: "list what a server offers: tools with their parameters, resources, prompts",
    load: () => import("./commands/tools.ts"),
  },
  call: {
    description: "call a tool of a server and print its result",
    load: () => import("./commands/call.ts"),
  },
  init: {
    description: "write a first config, with tool tests made of what the servers answer, or a first task",
    load: () => import("./commands/init.ts"),
  },
  run: {
    alias: "eval",
    description: "run the tasks, workflows and tool tests of a config, an Eval or task files",
    load: () => import("./commands/run.ts"),
  },
  list: {
    description: "list the tasks, workflows and tool tests without starting anything",
    load: () => import("./commands/list.ts"),
  },
  plan: {
    description: "say what a run would do, what it may cost and what it can show, without starting anything",
    load: () => import("./commands/plan.ts"),
  },
  validate: {
    description:
      "check a config, an Eval or tasks without starting anything; with --run, test that each task can fail and can be solved",
    load: () => import("./commands/validate.ts"),
  },
  graders: {
    description: "list the types of graders that files can declare, with their settings",
    load: () => import("./commands/graders.ts"),
  },
  show: {
    alias: "report",
    description: "report a recorded run again, with its exit code, or show the trace of one trial",
    load: () => import("./commands/show.ts"),
  },
  resume: {
    description: "go on with a run that was interrupted or killed: what has ended keeps its verdict",
    load: () => import("./commands/resume.ts"),
  },
  merge: {
    description: "make one run of the parts that run --shard has run",
    load: () => import("./commands/merge.ts"),
  },
  worker: {
    description: "run trials that run --backend gives to several machines",
    load: () => import("./commands/worker.ts"),
  },
  attach: {
    description: "follow a run of several machines until it ends",
    load: () => import("./commands/attach.ts"),
  },
  retry: {
    description: "try again, as a new run, the trials of a run that have no verdict, or its flaky tasks",
    load: () => import("./commands/retry.ts"),
  },
  runs: {
    description: "list recorded runs; delete old ones",
    load: () => import("./commands/runs.ts"),
  },
  compare: {
    description: "say whether one run, variant or agent is better than another, and how sure that is",
    load: () => import("./commands/compare.ts"),
  },
  dashboard: {
    description: "show what runs have recorded in the browser, live while they go on",
    load: () => import("./commands/dashboard.ts"),
  },
  grade: {
    description: "grade a recorded run again, with the graders that its file declares now",
    load: () => import("./commands/grade.ts"),
  },
  import: {
    description: "import sessions that an agent program had without mcpvals, from its own transcripts",
    load: () => import("./commands/import.ts"),
  },
  export: {
    description: "give a recorded run to another tool: spans of OpenTelemetry, or trajectories of ATIF",
    load: () => import("./commands/export.ts"),
  },
  migrate: {
    description: "convert tasks of older formats to mcp-eval/v1, keeping comments",
    load: () => import("./commands/migrate.ts"),
  },
  judge: {
    description: "calibrate a judge against labels of people",
    load: () => import("./commands/judge.ts"),
  },
  task: {
    description: "export a task for other tools",
    load: () => import("./commands/task.ts"),
  },
  extensions: {
    description: "download, lock, verify and test extensions",
    load: () => import("./commands/extensions.ts"),
  },
};

/** Runs one command line, without the program's name, and returns the exit code. Never throws. */
export async function runProgram(args: readonly string[]): Promise<number> {
  process.on("uncaughtException", takeUncaught);
  hideSecrets([]);
  let code = 0;
  const setExitCode = (exitCode: number): void => {
    code = exitCode;
  };
  try {
    const program = await createProgram(setExitCode, args.slice(0, 2));
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    code = await reportError(error);
  }
  const failure = await finishOutput();
  if (failure === undefined) return code;
  writeError(`stdout could not be written: ${failure.message}`);
  return code === 0 ? 3 : code;
}

/**
 * An uncaught error ends the running trials, since one of them caused it, and the run goes on. Without a running trial it
 * ends the process with exit code 3; servers are killed on exit.
 */
function takeUncaught(error: unknown): void {
  if (reportUncaught(error)) return;
  writeError(bugReport(error));
  endProcess(3);
}

/** The line of the help that explains the exit codes. */
export const exitCodes =
  "0 pass, 1 fail, 2 usage or configuration error, 3 incomplete (errors or timeouts), 130 interrupted";

/** The program. Of its commands only those in `words` are complete; without `words` all are. */
export async function createProgram(
  setExitCode: SetExitCode,
  words: readonly string[] = Object.keys(commands),
): Promise<Command> {
  const program = new Command("mcpvals")
    .description("Evaluate MCP servers and the agents that use them.")
    .version(version, "-v, --version")
    .exitOverride()
    .showSuggestionAfterError()
    .showHelpAfterError("(mcpvals --help lists the commands)")
    .addHelpText("after", `\n${wrapText(`Exit codes: ${exitCodes}`, columnsOf(process.stdout)).join("\n")}`);
  for (const [name, { description, alias, load }] of Object.entries(commands)) {
    const command = program.command(name).description(description);
    if (alias !== undefined) command.alias(alias);
    if (words.includes(name) || (alias !== undefined && words.includes(alias)))
      (await load()).define(command, setExitCode);
  }
  makeErrorsPrintable(program);
  return program;
}

/** Commander's messages contain arguments, which may contain control characters. */
function makeErrorsPrintable(command: Command): void {
  command.configureOutput({
    outputError: (text, write) => {
      const [, message = "", suggestion = ""] =
        /^(.*?)(\n\(Did you mean [^\n]*\))?$/s.exec(text.trimEnd()) ?? [];
      // The value of a misspelt option may be a secret.
      const shown = message.replace(/(?<=unknown option '[^'=]*)=.*'$/s, "'");
      write(`${visibleText(shown)}${withoutCommands(suggestion)}\n`);
    },
  });
  for (const each of command.commands) makeErrorsPrintable(each);
}

async function reportError(error: unknown): Promise<number> {
  // Commander has already written its message or help.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof McpvalsError) {
    writeError(renderError(error));
    return error.kind === "interrupted" ? 130 : error.kind === "usage" ? 2 : 3;
  }
  writeError(bugReport(error));
  return 3;
}

function bugReport(error: unknown): string {
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return ["This is a bug in mcpvals; please report it.", ...quotedLines(stack), ""].join("\n");
}
