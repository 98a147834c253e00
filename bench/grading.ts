import { gradersOf } from "../src/core/grade/graders.ts";
import { createGraders, graderKinds } from "../src/core/grade/kinds.ts";
import { trialResult } from "../src/core/report/trial-result.ts";
import { buildTrajectory } from "../src/core/trace/trajectory.ts";
import { AgentTrial } from "../test/support/grading.ts";
import { gradeContext, workflowTask } from "../test/support/trial-events.ts";
import type { Row } from "./measure.ts";

/** Trials that are measured together; the fastest of so many such batches counts, since whatever else runs slows the processor down. */
const measured = 250;
const batches = 8;
const calls = 50;
/** Graders that wait for a program, a model or a file. */
const waiting: readonly string[] = ["program", "script", "code", "prompt", "file", "diff", "tool_routing"];

/** Stored trials of an agent with 50 calls, each read and graded by every type of grader that waits for nothing. */
export async function grading(): Promise<readonly Row[]> {
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
  const graders = [...gradersOf(task, undefined), ...createGraders(task.graders ?? [])];
  const context = gradeContext();
  const grade = async (attempt: number): Promise<number> => {
    // What is stored is read for each trial.
    const trial = { id: `t${attempt}`, task: task.name, agent: "agent", attempt };
    const trajectory = buildTrajectory(trial, task, [...events]);
    const grades = await Promise.all(graders.map(async (each) => each.grade(trajectory, context)));
    return trialResult(trajectory, grades).grades.length;
  };
  for (let attempt = 1; attempt <= 200; attempt++) await grade(attempt);
  // Time of this thread's processor, which does not depend on what else runs.
  let seconds = Infinity;
  for (let batch = 1; batch <= batches; batch++) {
    const started = process.threadCpuUsage();
    for (let attempt = 1; attempt <= measured; attempt++) await grade(attempt);
    const { user, system } = process.threadCpuUsage(started);
    seconds = Math.min(seconds, ((user + system) / 1e6 / measured) * 10_000);
  }
  return [
    {
      name: `grading 10,000 trials of ${calls} calls with ${graders.length} graders`,
      measured: `${seconds.toFixed(1)} s of the processor`,
      floor: "-",
      target: "under 10 s",
      holds: seconds < 10,
    },
  ];
}

const limits = {
  max_tool_calls: 60,
  max_mcp_calls: 60,
  max_tool_errors: 10,
  max_duplicate_calls: 5,
  max_duration_ms: 60_000,
  required_tools: ["get"],
  forbidden_tools: ["drop"],
};
