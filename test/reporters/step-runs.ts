import type { Json, JsonObject, PortableTask, Task } from "../../src/core/formats/model.ts";
import type { CommandStep, Step } from "../../src/core/formats/step.ts";
import type { Check, EventBody, Grade, Phase, StepOutcome } from "../../src/core/trace/events.ts";
import { verifySteps } from "../../src/core/grade/verify-steps.ts";
import { buildTrajectory } from "../../src/core/trace/trajectory.ts";
import { warningsOf } from "../../src/core/trace/warnings.ts";
import { gradeContext } from "../support/trial-events.ts";
import { type SampleTrial, trialOf, type TrialOptions } from "./samples.ts";

/** A task from a file of its own; its verify steps have these ids. */
export function portableTask(
  name: string,
  verify: readonly (string | { readonly id: string; readonly name: string })[],
  portable: Partial<PortableTask> = {},
): Task {
  return {
    name,
    form: "task",
    servers: [],
    turns: [{ user: "Do it." }],
    expectTools: [],
    verify: verify.map(commandStep),
    parallel: true,
    portable: {
      format: "mcp-eval/v1",
      file: `/srv/tasks/${name}/task.yaml`,
      dir: `/srv/tasks/${name}`,
      env: {},
      setup: [],
      cleanup: [],
      fixtures: [],
      requires: [],
      tags: [],
      labels: {},
      cleanupTimeoutMs: 60_000,
      stateProbe: [],
      randomPorts: [],
      assertions: [],
      inheritEnv: [],
      ...portable,
    },
  };
}

function commandStep(named: string | { readonly id: string; readonly name: string }): Step {
  const step: CommandStep = {
    type: "command",
    ...(typeof named === "string" ? { id: named } : named),
    timeoutMs: 60_000,
    run: "true",
    env: {},
    expect: { exitCode: 0 },
  };
  return step;
}

export interface StepOptions {
  readonly type?: string;
  readonly phase?: Phase;
  readonly parent?: string;
  readonly name?: string;
  readonly attempt?: number;
  readonly input?: JsonObject;
  readonly checks?: readonly Check[];
  readonly outcome?: StepOutcome;
  readonly outputs?: JsonObject;
  readonly error?: Extract<EventBody, { type: "step.finished" }>["error"];
  readonly ignored?: true;
}

/** The events of one attempt of a step, those of what it does between its start and its end. */
export function stepEvents(
  step: string,
  options: StepOptions = {},
  inside: readonly EventBody[] = [],
): EventBody[] {
  const { type = "command", phase = "verify", parent, attempt = 1, input = {}, name } = options;
  const { checks = [], outputs, error, ignored } = options;
  const outcome = options.outcome ?? (checks.every((check) => check.passed) ? "passed" : "failed");
  const place = { phase, step, attempt, ...(parent === undefined ? {} : { parent }) };
  return [
    { type: "step.started", stepType: type, ...place, ...(name === undefined ? {} : { name }), input },
    ...inside,
    {
      type: "step.finished",
      ...place,
      outcome,
      checks,
      durationMs: 3,
      ...(outputs === undefined ? {} : { outputs }),
      ...(error === undefined ? {} : { error }),
      ...(ignored === undefined ? {} : { ignored }),
    },
  ];
}

export function failedCheck(name: string, message: string, expected: Json, actual: Json): Check {
  return { name, passed: false, expected, actual, message };
}

export function heldCheck(name: string, message = "as expected"): Check {
  return { name, passed: true, expected: null, actual: null, message };
}

/** A completed trial of a task with the grade and the warnings that its events give. */
export async function gradedTrial(
  task: Task,
  events: readonly EventBody[],
  options: TrialOptions = {},
): Promise<SampleTrial> {
  const all: EventBody[] = [
    { type: "workspace.created", path: "/tmp/mcpvals-workspace", fixtures: [] },
    ...events,
  ];
  const { events: stamped } = trialOf(task, { ...options, events: all });
  const trial = { id: "t1", task: task.name, agent: options.agent ?? null, attempt: options.attempt ?? 1 };
  const trajectory = buildTrajectory(trial, task, stamped);
  const graded: Grade = await verifySteps.grade(trajectory, gradeContext());
  const warnings = warningsOf(trajectory);
  return trialOf(task, {
    ...options,
    events: all,
    grades: [graded],
    ...(warnings.length === 0 ? {} : { warnings }),
  });
}
