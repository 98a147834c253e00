import type { Step } from "../core/formats/step.ts";
import { allOfStep } from "./all-of.ts";
import { anyOfStep } from "./any-of.ts";
import { commandStep } from "./command.ts";
import { extensionStep } from "./extension.ts";
import { fileStep } from "./file.ts";
import { foreachStep } from "./foreach.ts";
import { groupStep } from "./group.ts";
import { httpStep } from "./http.ts";
import { llmStep } from "./llm.ts";
import { mcpStep } from "./mcp.ts";
import { notStep } from "./not.ts";
import { scriptStep } from "./script.ts";
import type { StepRunner } from "./step-runner.ts";

/** Every type of step, one line each. */
const runners: { readonly [T in Step["type"]]: StepRunner<Extract<Step, { type: T }>> } = {
  command: commandStep,
  http: httpStep,
  file: fileStep,
  llm: llmStep,
  script: scriptStep,
  mcp: mcpStep,
  extension: extensionStep,
  foreach: foreachStep,
  anyOf: anyOfStep,
  allOf: allOfStep,
  not: notStep,
  group: groupStep,
};

/** The runner of a step's type. */
export function runnerOf<S extends Step>(step: S): StepRunner<S> {
  // The table gives each type its own runner, which the compiler cannot follow through an index.
  return runners[step.type] as unknown as StepRunner<S>;
}
