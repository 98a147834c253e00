import { graderKinds } from "../../graders/kinds.ts";
import { relative } from "node:path";
import type { Command } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { type GraderSpec, simulatedUserOf, type Task } from "../../model/task.ts";
import { usesJudge } from "../../model/step.ts";
import type { Eval } from "../../model/eval.ts";
import { actingAgents, lifetimeOf } from "../../model/plan.ts";
import { countOf, visibleText } from "../../base/visible-text.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import { load } from "../../formats/load.ts";
import { checkExtensions, checkGraders, prepare, requireWorkspaces } from "../../run/prepare.ts";
import {
  addQueryFlags,
  type ConfigQuery,
  duration,
  queryOf,
  type SetExitCode,
  type SourceFlags,
  wholeNumber,
} from "../flags.ts";
import { workingFolder, writeJson, writeNotes, writeOut, hideSecrets } from "../terminal.ts";
import { showWaiting } from "../waiting.ts";
import type { ValidateRunFlags } from "./validate-run.ts";

interface ValidateFlags extends SourceFlags, ValidateRunFlags {
  readonly run?: boolean;
}

/** `mcpvals validate`: checks files without starting anything; with `--run` it proves their tasks. */
export function define(command: Command, setExitCode: SetExitCode): void {
  addQueryFlags(command)
    .option(
      "--run",
      "run each task: doing nothing must fail, its solution must pass, and both must restore the original state",
    )
    .option(
      "-j, --concurrency <n>",
      "with --run: number of tasks that run at once (default: 4)",
      wholeNumber(1024),
    )
    .option("-o, --output <dir>", "with --run: folder to store the runs (default: not stored)")
    .option("--timeout <duration>", "with --run: time limit of a trial, such as 30s", duration)
    .option("--strict", "with --run: tasks with unmet requirements are errors, not skipped")
    .option("--frozen", "with --run: use only extensions in mcp-eval.lock")
    .option("--releases-url <url>", "with --run: URL of the releases API of extensions")
    .action(async (sources: readonly string[], { run = false, ...flags }: ValidateFlags) => {
      const query = queryOf(sources, flags);
      if (!run) return setExitCode(await execute(query));
      const { executeValidateRun } = await import("./validate-run.ts");
      setExitCode(await executeValidateRun(query, flags));
    });
}

/** Returns the exit code: 0 for valid files, 2 for others. */
async function execute({ load: options, filters, json }: ConfigQuery): Promise<number> {
  try {
    const cwd = workingFolder();
    const selected = prepare(await load({ ...options, cwd, lookOnly: true }), filters);
    hideSecrets(selected.secrets);
    requireWorkspaces(selected);
    using waiting = showWaiting("trying the graders");
    await checkGraders(selected);
    waiting[Symbol.dispose]();
    const extensionNotes = await checkExtensions(selected, cwd);
    const missing = [...(await judgeNotes(selected)), ...userNotes(selected)];
    const notes = [...selected.notes, ...missing, ...extensionNotes];
    const loaded = { ...selected, notes };
    const report = { valid: true, ...counts(loaded), notes: loaded.notes };
    if (json) writeJson(report, 2);
    else {
      writeOut(sentence(loaded));
      writeNotes(loaded);
    }
    return 0;
  } catch (error) {
    if (!json || !(error instanceof McpvalsError) || error.kind !== "usage") throw error;
    const { code, message, details } = error;
    const diagnostics = details.diagnostics ?? [{ code, message, ...details }];
    writeJson({ valid: false, diagnostics }, 2);
    return 2;
  }
}

/** Tasks that are named in one note. */
const maxNames = 10;

/** Whether a grader asks the judge of the eval. */
function asksJudge({ type, config }: GraderSpec): boolean {
  const judge = graderKinds[type]?.judge?.(config);
  return judge !== undefined && judge.model === undefined;
}

/** Notes about tasks that need a judge that is not available. */
async function judgeNotes({ eval: spec, judgeError }: LoadedConfig): Promise<readonly string[]> {
  if (spec.judge !== undefined) return [];
  const asking = spec.tasks
    .filter(({ verify, graders = [] }) => usesJudge(verify) || graders.some(asksJudge))
    .map(({ name }) => JSON.stringify(name));
  if (asking.length === 0) return [];
  const names = someOf(asking);
  const unset = (judgeError?.details.diagnostics ?? []).map(({ message }) => message).join("; ");
  const why = unset === "" ? "no judge is configured" : unset;
  return [`${why}: the tasks that ask a judge cannot run without --judge MODEL: ${names}`];
}

function someOf(names: readonly string[]): string {
  const more = names.length > maxNames ? ` and ${names.length - maxNames} more` : "";
  return `${names.slice(0, maxNames).join(", ")}${more}`;
}

/** A note about tasks whose simulated user no model plays. */
function userNotes({ eval: { tasks, userModel } }: LoadedConfig): readonly string[] {
  const played = tasks.filter((task) => simulatedUserOf(task)?.kind === "model");
  if (userModel !== undefined || played.length === 0) return [];
  const names = someOf(played.map(({ name }) => JSON.stringify(name)));
  return [`no model plays simulated users: these tasks cannot run without --user-model MODEL: ${names}`];
}

function counts({ eval: spec, file }: LoadedConfig) {
  const count = (form: Task["form"]): number => spec.tasks.filter((task) => task.form === form).length;
  const own = Object.values(spec.taskServers ?? {}).flatMap((servers) => Object.keys(servers));
  return {
    file,
    name: spec.name,
    servers: [...new Set([...Object.keys(spec.servers), ...own])],
    agents: actingAgents(spec).map((agent) => agent.name),
    variants: (spec.variants ?? []).map((variant) => variant.name),
    workflows: count("workflow"),
    toolTests: count("tool-test"),
    tasks: count("task"),
  };
}

/** Who plays simulated users, with the number of tasks. */
function usersOf({ tasks, userModel }: Eval): readonly string[] {
  const users = tasks.flatMap((task) => simulatedUserOf(task) ?? []);
  const counted = Map.groupBy(users, ({ kind }) =>
    kind === "script" ? "written replies" : userModel?.model,
  );
  return [...counted].map(([who = "no model yet", all]) => `${who} (${countOf(all.length, "task")})`);
}

/** What there is, and what a run does with servers and agents where the file says more of it than their names. */
function sentence(loaded: LoadedConfig): string {
  const { workflows, toolTests, tasks, servers, variants } = counts(loaded);
  const kinds = Object.entries({ workflow: workflows, "tool test": toolTests, task: tasks })
    .filter(([, count]) => count > 0)
    .map(([what, count]) => `${count} ${what}${count === 1 ? "" : "s"}`);
  const started = servers.length === 0 ? "no servers" : `servers ${servers.join(", ")}`;
  const shown = relative(workingFolder(), loaded.file ?? loaded.dir) || ".";
  const lifetimes = Object.entries(loaded.eval.servers)
    .filter(([, server]) => server.lifetime !== undefined)
    .map(([name, server]) => `${name} ${lifetimeOf(server)}`);
  const programs = actingAgents(loaded.eval)
    .filter(({ type }) => type === "acp" || type === "command")
    .map(({ name, type }) => `${name} ${type}`);
  const users = usersOf(loaded.eval);
  const facts = Object.entries({ lifetimes, variants, agents: programs, "simulated users": users })
    .filter(([, values]) => values.length > 0)
    .map(([what, values]) => `${what}: ${values.join(", ")}`);
  const first = `${shown} is valid: ${[...kinds, started].join(", ")}`;
  return [first, ...facts].map((line) => visibleText(line)).join("\n");
}
