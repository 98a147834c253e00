import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { graderKinds, gradersOf } from "../src/graders/kinds.ts";
import { trialResult } from "../src/report/result.ts";
import type { TraceEvent } from "../src/model/event.ts";
import { buildTrajectory } from "../src/trace/trajectory.ts";
import type { Plan } from "../src/model/plan.ts";
import { Journal } from "../src/store/journal.ts";
import { builtMain } from "../test/support/cli.ts";
import { AgentTrial } from "../test/support/grading.ts";
import { gradeContext, workflowTask } from "../test/support/trial-events.ts";
import { processTime, type Row } from "./measure.ts";

/** Trials that are measured together; the fastest of so many such batches counts, since whatever else runs slows the processor down. */
const trials = 10_000;
const measured = 250;
const batches = 8;
const calls = 50;
/** Graders that wait for a program, a model or a file. */
const waiting: readonly string[] = ["program", "script", "code", "prompt", "file", "diff", "tool_routing"];

/** Graders of an ordinary eval, which `grade` has from its config. */
const usual: readonly string[] = ["behavior", "text", "tool_calls", "tool_constraint", "action_sequence"];

/** Ten thousand trials of an agent with 50 calls, graded in memory and from disk. */
export async function grading(): Promise<readonly Row[]> {
  return [await inMemory(), await fromDisk()];
}

/** Trials that are read and graded by every type of grader that waits for nothing. */
async function inMemory(): Promise<Row> {
  const { events } = new AgentTrial((trial) => {
    for (let call = 0; call < calls; call++) {
      const args = {
        path: `/projects/${call % 40}`,
        filter: { state: "open", labels: ["a", "b"] },
        limit: call,
      };
      if (call % 10 === 9) trial.fail("delete", args, "this project cannot be deleted");
      else trial.use(call % 3 === 0 ? "list" : "get", args, `Project ${call}: ${"open issue ".repeat(30)}`);
    }
    trial.emit({ type: "agent.message", turn: 0, text: `There are 4 notes. ${"All is well. ".repeat(40)}` });
  });
  const kinds = Object.values(graderKinds).filter(({ type }) => !waiting.includes(type));
  const declared = kinds.map(({ type, config, example }) => {
    const settings = type === "behavior" ? { ...example, ...limits } : example;
    return {
      type,
      name: type,
      weight: 1,
      required: true,
      config: config.parse(settings) as object,
      dir: "/",
    };
  });
  const task = { ...workflowTask(), graders: declared } as ReturnType<typeof workflowTask>;
  const graders = gradersOf(task);
  const context = gradeContext();
  const stored = JSON.stringify(events);
  const grade = async (attempt: number, read: readonly TraceEvent[]): Promise<void> => {
    const trial = { id: `t${attempt}`, task: task.name, agent: "agent", attempt };
    const trajectory = buildTrajectory(trial, task, read);
    const grades = graders.map(async (grader) => ({
      grader: grader.name,
      ...(await grader.grade(trajectory, context)),
    }));
    trialResult(trajectory, await Promise.all(grades));
  };
  // Time of this thread's processor, which does not depend on what else runs.
  let seconds = Infinity;
  for (let batch = 1; batch <= batches; batch++) {
    // No trial shares objects with another, for which something may be remembered.
    const read = Array.from({ length: measured }, () => JSON.parse(stored) as readonly TraceEvent[]);
    const started = process.threadCpuUsage();
    for (const [index, each] of read.entries()) await grade(index + 1, each);
    const { user, system } = process.threadCpuUsage(started);
    seconds = Math.min(seconds, ((user + system) / 1e6 / measured) * trials);
  }
  return {
    name: `grading ${trials} trials of ${calls} calls with ${graders.length} graders`,
    measured: `${seconds.toFixed(1)} s of the processor`,
    floor: "-",
    target: "under 10 s",
    holds: seconds < 10,
  };
}

/** The command `grade` for a run of as many trials, all alike. */
async function fromDisk(): Promise<Row> {
  const cwd = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  try {
    writeFileSync(join(cwd, "mcp-eval.config.json"), JSON.stringify(config()));
    // All trials fail, and the run does not.
    const allowed = ["--threshold", "passRate=0", "--threshold", "score=0.1"];
    await processTime(process.execPath, [builtMain, "run", ...allowed], { cwd });
    const runs = join(cwd, ".mcpvals", "runs");
    await repeatTrial(join(runs, readdirSync(runs)[0] ?? ""));
    const ms = await processTime(process.execPath, [builtMain, "grade", ...allowed], { cwd });
    return {
      name: `mcpvals grade, ${trials} stored trials of ${calls} calls, ${usual.length} graders declared`,
      measured: `${(ms / 1000).toFixed(1)} s`,
      floor: "-",
      target: "under 25 s",
      holds: ms < 25_000,
    };
  } finally {
    rmSync(cwd, { recursive: true, force: true });
  }
}

/** Its tools are those that the examples of graders name. */
function config(): object {
  const text = `Project: ${"open issue ".repeat(30)}`;
  const tools = {
    search_issues: { responses: [{ return: text }] },
    get_issue: { responses: [{ return: text }] },
    close_issue: { responses: [{ error: "this project cannot be deleted" }] },
  };
  const plan = Array.from({ length: calls }, (_, call) => ({
    call: call % 10 === 9 ? "close_issue" : call % 3 === 0 ? "search_issues" : "get_issue",
    args: { path: `/projects/${call % 40}`, filter: { state: "open", labels: ["a", "b"] }, limit: call },
  }));
  const graders = Object.values(graderKinds)
    .filter(({ type }) => usual.includes(type))
    .map(({ type, example }) => ({
      type,
      config: type === "behavior" ? { ...example, ...limits } : example,
    }));
  return {
    servers: {
      tracker: { transport: "mock", mock: { tools } },
      notes: { transport: "mock", mock: { tools } },
    },
    agent: {
      type: "scripted",
      plan: { go: [...plan, { say: `There are 4 notes. ${"All is well. ".repeat(40)}` }] },
    },
    workflows: [{ name: "go", servers: ["tracker"], steps: [{ user: "go" }] }],
    graders,
  };
}

/** Turns a run of one trial into one of many. */
async function repeatTrial(folder: string): Promise<void> {
  const [planFile, journalFile] = [join(folder, "plan.json"), join(folder, "journal.jsonl")];
  const plan = JSON.parse(readFileSync(planFile, "utf8")) as Plan;
  const lines = readFileSync(journalFile, "utf8").trimEnd().split("\n");
  const events = lines.map((line) => (JSON.parse(line) as { event: TraceEvent }).event);
  const attempts = Array.from({ length: trials }, (_, index) => index + 1);
  const all = attempts.flatMap((attempt) =>
    plan.trials.map((trial) => ({ ...trial, id: `t${attempt}`, attempt })),
  );
  writeFileSync(planFile, JSON.stringify({ ...plan, trials: all }));
  rmSync(journalFile);
  await using journal = new Journal(folder);
  for (const { id } of all)
    for (const event of events)
      journal.append({ ...event, trial: id }, JSON.stringify({ ...event, trial: id }));
}

const limits = {
  max_tool_calls: 60,
  max_mcp_calls: 60,
  max_tool_errors: 10,
  max_duplicate_calls: 5,
  max_duration_ms: 60_000,
  required_tools: ["get_issue"],
  forbidden_tools: ["drop"],
};
