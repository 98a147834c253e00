import { Command, CommanderError } from "commander";
import { McpvalsError } from "../core/errors/error.ts";
import { tellUncaught } from "../process/uncaught.ts";
import { quotedLines, visibleText, withoutCommands } from "../core/text/visible-text.ts";
import { version } from "../core/version.ts";
import { extensionsCommand } from "./commands/extensions.ts";
import { listCommand } from "./commands/list.ts";
import { migrateCommand } from "./commands/migrate.ts";
import { runCommand } from "./commands/run.ts";
import { showCommand } from "./commands/show.ts";
import { taskCommand } from "./commands/task.ts";
import { validateCommand } from "./commands/validate.ts";
import { finishOutput, writeError } from "./terminal.ts";

/** Runs one command line, without the program's name, and gives the exit code. Never throws. */
export async function runProgram(args: readonly string[]): Promise<number> {
  process.on("uncaughtException", takeUncaught);
  let code = 0;
  const program = createProgram((exitCode) => {
    code = exitCode;
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    code = await reportError(error);
  }
  const failure = await finishOutput();
  if (failure === undefined) return code;
  writeError(`stdout could not be written: ${failure.message}`);
  return code === 0 ? 3 : code;
}

/** An error that comes again and again, such as that of a timer, ends the process in the end. */
const mostUncaught = 100;
let uncaught = 0;

/**
 * What nobody catches ends the trials that are at work, since one of them has caused it, and the run goes on. Outside of
 * trials it ends the process, but not with the exit code of a failed evaluation; servers are killed on the way out.
 */
function takeUncaught(error: unknown): void {
  uncaught += 1;
  if (uncaught <= mostUncaught && tellUncaught(error)) return;
  writeError(bugReport(error));
  process.exit(3);
}

/** Every command, one line each. */
const commands = [
  runCommand,
  listCommand,
  validateCommand,
  showCommand,
  migrateCommand,
  taskCommand,
  extensionsCommand,
];

/** What the exit codes mean, as the help says it. */
export const exitCodes =
  "0 pass, 1 fail, 2 wrong use or file, 3 incomplete (errors or timeouts), 130 interrupted";

/** The program with all of its commands; a command gives its exit code to `setExitCode`. */
export function createProgram(setExitCode: (code: number) => void): Command {
  const program = new Command("mcpvals")
    .description("Find out whether an MCP server does its job, and whether agents can use it.")
    .version(version, "-v, --version")
    .exitOverride()
    .showSuggestionAfterError()
    .showHelpAfterError("(mcpvals --help lists the commands)")
    .addHelpText("after", `\nExit codes: ${exitCodes}`);
  for (const create of commands)
    program.addCommand(create(setExitCode).exitOverride().showSuggestionAfterError());
  makeErrorsPrintable(program);
  return program;
}

/** What was written on the command line may have come from anywhere, and stands in Commander's messages. */
function makeErrorsPrintable(command: Command): void {
  command.configureOutput({
    outputError: (text, write) => {
      const [, message = "", suggestion = ""] =
        /^(.*?)(\n\(Did you mean [^\n]*\))?$/s.exec(text.trimEnd()) ?? [];
      write(`${visibleText(message)}${withoutCommands(suggestion)}\n`);
    },
  });
  for (const each of command.commands) makeErrorsPrintable(each);
}

async function reportError(error: unknown): Promise<number> {
  // Commander has already written its message, or the help that was asked for.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  const { renderError } = await import("../core/errors/render.ts");
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
