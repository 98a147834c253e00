import { lstat, rm, rmdir } from "node:fs/promises";
import { excerpt } from "../core/checks/excerpt.ts";
import { expandTextExpectation } from "../core/checks/expand-expectation.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { JsonObject } from "../core/formats/model.ts";
import type { FileStep } from "../core/formats/step.ts";
import type { Expander } from "../core/templates/expand.ts";
import { inFilePath } from "../core/templates/places.ts";
import { checkFile, modeText } from "./files/check-file.ts";
import { orAbsent } from "./files/or-absent.ts";
import type { StepAttempt, StepContext, StepRunner } from "./step-runner.ts";
import { isInWorkspace, resolveTaskPath } from "./files/task-path.ts";
import { writeFileWhole } from "./files/write-file-whole.ts";

/** Makes, removes or looks at a file. */
export const fileStep: StepRunner<FileStep> = {
  type: "file",
  expand: (step, expander) => ({
    ...step,
    path: expander.placed(step.path, inFilePath),
    action: expandAction(step.action, expander),
  }),
  input: ({ path, action }) => ({ path, action: action.kind, ...inputOf(action) }),
  async run(step, context) {
    try {
      return await act(step, context);
    } catch (cause) {
      context.signal.throwIfAborted();
      if (cause instanceof McpvalsError) throw cause;
      const reason = cause instanceof Error ? cause.message : String(cause);
      const doing = `${verbs[step.action.kind]} ${step.path}`;
      throw new McpvalsError("step/cannot-run", `cannot ${doing}: ${reason}`, { cause });
    }
  },
};

const verbs = { create: "write", remove: "remove", check: "look at" } as const;

function expandAction(action: FileStep["action"], expander: Expander): FileStep["action"] {
  switch (action.kind) {
    case "create":
      return { ...action, content: expander.text(action.content) };
    case "remove":
      return action;
    case "check":
      return action.content === undefined
        ? action
        : { ...action, content: expandTextExpectation(action.content, expander) };
  }
}

function inputOf(action: FileStep["action"]): JsonObject {
  if (action.kind !== "create") return {};
  return { mode: modeText(action.mode), content: excerpt(action.content) };
}

function act(step: FileStep, context: StepContext): Promise<StepAttempt> {
  switch (step.action.kind) {
    case "create":
      return create(step.path, step.action, context);
    case "remove":
      return remove(step.path, context);
    case "check":
      return check(step, step.action, context);
  }
}

async function create(
  path: string,
  { content, mode }: Extract<FileStep["action"], { kind: "create" }>,
  { trial, signal }: StepContext,
): Promise<StepAttempt> {
  const target = await resolveTaskPath(path, trial, { forWriting: true });
  const bytes = await writeFileWhole(target, content, { mode, signal });
  const message = `${bytes === 1 ? "1 byte" : `${bytes} bytes`} written to ${path}`;
  return {
    kind: "checked",
    checks: [
      {
        name: "written",
        passed: true,
        expected: modeText(mode),
        actual: modeText(mode),
        message,
        acted: true,
      },
    ],
    values: { content },
  };
}

async function remove(path: string, { trial }: StepContext): Promise<StepAttempt> {
  const target = await resolveTaskPath(path, trial, { forWriting: true });
  const found = await orAbsent(lstat(target));
  if (found?.isDirectory() === true) await removeFolder(target, path, trial);
  else if (found !== undefined) await rm(target, { force: true });
  const message = found === undefined ? `${path} was not there` : `${path} is removed`;
  return {
    kind: "checked",
    checks: [{ name: "removed", passed: true, expected: "nothing", actual: "nothing", message, acted: true }],
  };
}

/** What is in a folder of the task's author goes only one by one; the workspace is the trial's own. */
async function removeFolder(target: string, path: string, trial: StepContext["trial"]): Promise<void> {
  if (await isInWorkspace(target, trial)) return rm(target, { recursive: true, force: true });
  try {
    await rmdir(target);
  } catch (cause) {
    if (!isFull(cause)) throw cause;
    const message = `cannot remove ${path}: it is a folder with something in it, outside the workspace`;
    throw new McpvalsError("step/cannot-run", message, {
      hint: "Remove its files one by one, or work in {workspace}, where whole folders may be removed.",
      cause,
    });
  }
}

function isFull(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOTEMPTY" || code === "EEXIST";
}

async function check(
  step: FileStep,
  expectation: Extract<FileStep["action"], { kind: "check" }>,
  { trial, signal }: StepContext,
): Promise<StepAttempt> {
  const target = await resolveTaskPath(step.path, trial, { forWriting: false });
  const { checks, content } = await checkFile(target, expectation, {
    readsContent: Object.values(step.outputs ?? {}).some((template) => /\{\s*content\b/.test(template)),
    signal,
  });
  return { kind: "checked", checks, ...(content === undefined ? {} : { values: { content } }) };
}
