import { McpvalsError } from "../core/errors/error.ts";
import type { TrialContext } from "../steps/step-runner.ts";

/** The trial of a task without a file of its own: its steps call tools and nothing else. */
export function plainTrial(task: string): TrialContext {
  return {
    task,
    prompt: "",
    dir: "",
    workspace: "",
    allowOutside: false,
    env: {},
    declared: {},
    agent: undefined,
    judge: undefined,
    extensions: {
      execute: ({ extension }) =>
        Promise.reject(
          new McpvalsError("task/extension", `there is no extension that is named "${extension}"`),
        ),
    },
    validateSchema: () => Promise.resolve({ status: "unusable", reason: "nothing validates here" }),
    outputs: new Map(),
    failed: new Set(),
    history: () => ({ toolCalls: [], resourceReads: [], promptGets: [] }),
    releasePorts: () => Promise.resolve(),
    adopt: () => undefined,
  };
}
