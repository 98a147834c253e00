import { type Json, type JsonObject, withoutUndefined } from "../../src/base/json.ts";
import type { PortableTask, Task } from "../../src/model/task.ts";
import type { CommandStep } from "../../src/model/step.ts";
import type { Check, EventBody, EventOf } from "../../src/model/event.ts";
import { verifySteps } from "../../src/graders/verify-steps.ts";
import { buildTrajectory } from "../../src/trace/trajectory.ts";
import { warningsOf } from "../../src/trace/warnings.ts";
import { portableTask as taskFromFile } from "../support/portable.ts";
import { gradeOf } from "../support/trial-events.ts";
import { type SampleTrial, trialOf, workflow } from "./samples.ts";

/** A task from a file of its own; its verify steps have these ids, or an id and a name. */
export function portableTask(
  name: string,
  verify: readonly (string | readonly [id: string, name: string])[],
  portable: Partial<PortableTask> = {},
): Task {
  const dir = `/srv/tasks/${name}`;
  return taskFromFile(
    { file: `${dir}/task.yaml`, dir, ...portable },
    {
      ...workflow(name),
      form: "task",
      servers: [],
      turns: [{ user: "Do it." }],
      expectTools: [],
      verify: verify.map((step): CommandStep => {
        const label = typeof step === "string" ? { id: step } : { id: step[0], name: step[1] };
        return {
          type: "command",
          ...label,
          timeoutMs: 60_000,
          run: "true",
          env: {},
          expect: { exitCode: 0 },
        };
      }),
    },
  );
}

type StepEnd = EventOf<"step.finished">;

type EndOptions = Pick<StepEnd, "phase" | "parent" | "attempt" | "checks" | "outcome" | "error" | "ignored">;

interface StepOptions extends Partial<EndOptions> {
  readonly type?: string;
  readonly name?: string;
  readonly input?: JsonObject;
}

/** The events of one attempt of a step, those of what it does between its start and its end. */
export function stepEvents(
  step: string,
  { type = "command", phase = "verify", attempt = 1, parent, name, input = {}, ...end }: StepOptions = {},
  inside: readonly EventBody[] = [],
): EventBody[] {
  const { checks = [] } = end;
  const place = withoutUndefined({ phase, step, attempt, parent });
  const outcome = checks.every((check) => check.passed) ? "passed" : "failed";
  return [
    withoutUndefined({ type: "step.started", stepType: type, name, input, ...place } as const),
    ...inside,
    { outcome, checks, durationMs: 3, ...end, type: "step.finished", ...place },
  ];
}

export function failedCheck(name: string, message: string, expected: Json, actual: Json): Check {
  return { name, passed: false, expected, actual, message };
}

export function heldCheck(name: string, message = "as expected"): Check {
  return { name, passed: true, expected: null, actual: null, message };
}

/** A completed trial of a task by the oracle, with the grade and the warnings that its events give. */
export async function gradedTrial(task: Task, events: readonly EventBody[]): Promise<SampleTrial> {
  const created: EventBody = { type: "workspace.created", path: "/tmp/mcpvals-workspace", fixtures: [] };
  const options = { agent: "oracle", events: [created, ...events] };
  const trial = { id: "t1", task: task.name, agent: "oracle", attempt: 1 };
  const trajectory = buildTrajectory(trial, task, trialOf(task, options).events);
  const grades = [await gradeOf(verifySteps, trajectory)];
  return trialOf(task, { ...options, grades, warnings: warningsOf(trajectory) });
}
