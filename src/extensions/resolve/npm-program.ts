import { McpvalsError } from "../../core/errors/error.ts";
import { withDeadline } from "../../process/deadline.ts";
import { findProgram } from "../../process/find-program.ts";
import { ProgramOutput } from "../../process/program-output.ts";
import { spawnProcess } from "../../process/spawn.ts";

export interface NpmRun {
  /** The command with its options. */
  readonly args: readonly string[];
  /** What the command is about; none of it is taken for an option. */
  readonly operands: readonly string[];
  /** Absolute folder. */
  readonly cwd: string;
  /** Complete environment; its PATH is where npm is found. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

const mostMs = 5 * 60_000;
/** The user's own settings count, but a registry that is away is told soon. */
const always = [
  "--fetch-retries=1",
  "--fetch-retry-mintimeout=300",
  "--no-update-notifier",
  "--no-audit",
  "--no-fund",
];

/**
 * Runs the user's own npm and gives what it writes on stdout. Throws McpvalsError `extension/not-found` for what the registry
 * does not have, `extension/integrity` for what is not what the registry says, else `extension/unreachable`.
 */
export async function runNpm({ args, operands, cwd, env, signal }: NpmRun): Promise<string> {
  const command = await findProgram("npm", { env, cwd });
  if (command === undefined) {
    throw new McpvalsError(
      "extension/unreachable",
      "npm was not found on PATH, and packages of npm: come through it.",
      {
        hint: "Install npm, which comes with Node, or use a path to the extension.",
      },
    );
  }
  const child = await spawnProcess({ command, args: [...args, ...always, "--", ...operands], env, cwd });
  const shown = `npm ${args[0]} ${operands[0]}`;
  const output = new ProgramOutput();
  output.attach(child);
  child.stdin.end();
  try {
    const onTimeout = (): Error => failure(shown, "it did not end within 5 minutes", output.stderr.text);
    const { exitCode } = await withDeadline(() => child.exited, { ms: mostMs, signal, onTimeout });
    await output.settle(1000);
    output.stop();
    if (exitCode === 0) return output.stdout.text;
    throw refusal(shown, output);
  } finally {
    await child.stop({ stdinMs: 0 });
  }
}

function refusal(shown: string, output: ProgramOutput): McpvalsError {
  const written = `${output.stderr.text}\n${output.stdout.text}`;
  const [, code = ""] = /\b(E404|ETARGET|ENOVERSIONS|EINTEGRITY)\b/.exec(written) ?? [];
  const detail = output.stderr.text.trim();
  if (code === "EINTEGRITY") {
    const message = `npm got a file that is not what the registry says it is: ${mismatch(written)} Nothing of it was run.`;
    return new McpvalsError("extension/integrity", message, {
      detail,
      hint: "It was damaged on the way, or somebody changed it. Do not use that version before you know why.",
    });
  }
  if (code !== "") {
    return new McpvalsError("extension/not-found", `${shown}: the registry has no such package or version.`, {
      detail,
    });
  }
  return failure(shown, "it failed", detail);
}

function failure(shown: string, what: string, stderr: string): McpvalsError {
  const detail = stderr.trim().slice(-4096);
  return new McpvalsError("extension/unreachable", `${shown}: ${what}.`, {
    ...(detail === "" ? {} : { detail }),
    hint: "Try the same command yourself; npm's own settings name the registry. Once it is cached and locked, no network is needed.",
  });
}

/** What npm wanted and what it got. */
function mismatch(text: string): string {
  const [, sums = "its checksum differs"] = /(wanted \S+ but got \S+?)\.?(?:\s|$)/.exec(text) ?? [];
  return `${sums}.`;
}
