import { resolve } from "node:path";
import type { Command } from "commander";
import { readTranscripts } from "../../agents/transcripts/find-transcripts.ts";
import { exact } from "../../base/json.ts";
import { countOf, visibleText } from "../../base/visible-text.ts";
import { environment } from "../../formats/environment.ts";
import { readPrices } from "../../formats/prices.ts";
import { FileProblems } from "../../formats/read/document.ts";
import { collectSecrets } from "../../formats/secrets.ts";
import { transcriptAgent } from "../../model/agent.ts";
import type { TrialResult } from "../../model/result.ts";
import { exitCode } from "../../report/result.ts";
import { importRun } from "../../run/import-run.ts";
import { collect, type SetExitCode } from "../flags.ts";
import {
  abortOnInterrupt,
  hideSecrets,
  workingFolder,
  writeJson,
  writeNotes,
  writeOut,
} from "../terminal.ts";

interface ImportFlags {
  readonly output?: string;
  readonly server?: readonly string[];
  readonly prices?: string;
  readonly json?: boolean;
}

/** `mcpvals import`: writes sessions of agent programs as a run. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument(
      "<transcripts...>",
      "files that Claude Code, Codex or Gemini CLI wrote, or opencode export printed, trajectories of ATIF, result files of mcpchecker (gevals) and waza, and folders with some",
    )
    .option(
      "-s, --server <name>",
      "name of a server of the sessions, for tools whose names do not tell it, such as those of opencode; repeatable",
      collect,
    )
    .option("--prices <file>", "file with what models cost")
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .option("--json", "print the result of the run as JSON")
    .action(async (paths: readonly string[], flags: ImportFlags) => {
      setExitCode(await execute(paths, flags));
    });
}

/** Imports. Returns the exit code: a session that is an error leaves open what happened in it. */
async function execute(
  paths: readonly string[],
  { output, server = [], prices: file, json }: ImportFlags,
): Promise<number> {
  using interrupt = abortOnInterrupt();
  const { signal } = interrupt;
  const cwd = workingFolder();
  const secrets = collectSecrets({
    document: undefined,
    variables: new Map(),
    overrides: {},
    environment: environment(),
  });
  hideSecrets(secrets);
  const problems = new FileProblems();
  const prices = file === undefined ? undefined : await readPrices(resolve(cwd, file), { cwd, problems });
  problems.throwIfAny(secrets);
  const notes: string[] = [];
  const sessions = readTranscripts(paths, { cwd, signal, onLeftOut: (message) => notes.push(message) });
  const { result, folder } = await importRun(sessions, {
    cwd,
    servers: server,
    prices,
    secrets,
    signal,
    ...exact({ output }),
  });
  writeNotes({ notes });
  const errors = result.trials.filter(({ verdict }) => verdict === "error").length;
  const code = errors === 0 ? 0 : exitCode("incomplete");
  if (json === true) {
    writeJson(result, 2);
    return code;
  }
  const programs = new Set(
    result.environment.agents.flatMap(({ type, name }) => (type === transcriptAgent ? name : [])),
  );
  const isRecord = ({ agent }: TrialResult): boolean => !programs.has(agent ?? "");
  const lines = result.trials.flatMap((trial) => [
    `${trial.id}  ${trial.task}${isRecord(trial) ? `: ${trial.verdict}` : ""}`,
    `    ${describe(trial)}`,
    ...(trial.error === undefined ? [] : [`    error: ${trial.error.message}`]),
    ...(trial.error?.hint === undefined ? [] : [`    hint: ${trial.error.hint}`]),
    ...(trial.warnings ?? []).slice(1).map((warning) => `    note: ${warning}`),
  ]);
  const records = result.trials.filter(isRecord).length;
  const others = result.trials.length - records;
  const broken = result.trials.filter((trial) => trial.verdict === "error" && !isRecord(trial)).length;
  const end = [
    "",
    ...(records === 0
      ? []
      : [`${countOf(records, "trial")} imported as mcpvals recorded it, with the verdict above.`]),
    ...(others === 0
      ? []
      : [
          `${countOf(others, "session")} imported, without a verdict: nothing is expected of ${others === 1 ? "it" : "them"} yet.`,
        ]),
    ...(broken === 0
      ? []
      : [`${countOf(broken, "session")} with an error, which cannot be graded: exit code ${code}`]),
    ...(errors === broken
      ? []
      : [`${countOf(errors - broken, "recorded trial")} with an error: exit code ${code}`]),
    "See what happened: npx mcpvals show --trial ID, npx mcpvals dashboard",
    "Grade with the graders of a config: npx mcpvals grade --config FILE",
    folder,
  ];
  writeOut([...lines, ...end].map((line) => `${visibleText(line)}\n`).join(""));
  return code;
}

/** What is known of a session, in words. */
function describe({ agent, ran, tools, usage, reported }: TrialResult): string {
  const calls = countOf(tools?.mcpToolCalls ?? 0, "call");
  const servers = tools?.serversUsed ?? [];
  const others = (tools?.toolCalls ?? 0) - (tools?.mcpToolCalls ?? 0);
  const least = usage?.isPartial === true ? "at least " : "";
  return [
    ...(reported === undefined ? [] : [`${reported.by} reported ${reported.verdict}`]),
    ...new Set([ran?.programs?.join(", ") ?? agent ?? "", ...(ran?.models ?? [])]),
    `${calls} of tools of servers${servers.length === 0 ? "" : ` (${servers.join(", ")})`}`,
    countOf(others, "use").concat(" of other tools"),
    usage === undefined
      ? "tokens unknown"
      : `${least}${countOf(usage.inputTokens, "token")} in, ${countOf(usage.outputTokens, "token")} out`,
  ].join("; ");
}
