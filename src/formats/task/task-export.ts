import * as z from "zod";
import { json } from "../../model/fields.ts";
import { type JsonObject, withoutUndefined } from "../../base/json.ts";
import type { PortableTask, Task } from "../../model/task.ts";
import type { ServerSpec } from "../../model/server.ts";
import {
  innerLists,
  jsonObject,
  kindOf,
  milliseconds,
  type Step,
  stepModel,
  type StepType,
  stepTypes,
  text,
  texts,
} from "../../model/step.ts";

/** A step as it is exported: the model's, with everything explicit and templates as they were written. */
const stepExportSchema: z.ZodType<JsonObject> = z
  .lazy(
    (): z.ZodType<JsonObject> =>
      z.discriminatedUnion(
        "type",
        stepTypes.map(exportedStep) as [z.ZodObject],
      ) as unknown as z.ZodType<JsonObject>,
  )
  .meta({ id: "Step", description: "A step, which may contain steps." });

const steps = z.array(stepExportSchema);

function exportedStep(type: StepType): z.ZodObject {
  const { model, inner } = kindOf(type);
  return z.strictObject({
    ...stepModel,
    type: z.literal(type),
    ...model,
    ...(type === "extension" ? { package: extensionPackage } : {}),
    ...Object.fromEntries(inner.map((list) => [list, steps])),
  });
}

const extensionPackage = text
  .describe(
    "Where it comes from: `github.com/ORG/REPO@VERSION`, `npm:NAME@VERSION`, `mcpvals:NAME`, or a path relative to the task's folder, whose files are among the artifacts. Absent: only an eval says.",
  )
  .exactOptional();

const call = { server: text.exactOptional(), id: text.exactOptional(), outputs: texts.exactOptional() };

const solutionAction: z.ZodType<JsonObject> = z
  .lazy(
    (): z.ZodType<JsonObject> =>
      z.discriminatedUnion("kind", actionKinds()) as unknown as z.ZodType<JsonObject>,
  )
  .meta({
    id: "SolutionAction",
    description: "An action of the solution.",
  });

function actionKinds() {
  return [
    z.strictObject({ kind: z.literal("tool"), ...call, tool: text, args: jsonObject }),
    z.strictObject({ kind: z.literal("resource"), ...call, uri: text }),
    z.strictObject({ kind: z.literal("prompt"), ...call, prompt: text, args: jsonObject }),
    z.strictObject({ kind: z.literal("say"), text: text.describe("Ends the turn.") }),
    z.strictObject({
      kind: z.literal("foreach"),
      variable: text,
      in: z.union([text, z.array(json)]),
      actions: z.array(solutionAction),
    }),
  ] as const;
}

const requirement = z
  .union([
    z.strictObject({
      kind: z.enum(["command", "env", "server", "platform", "extension"]),
      name: text,
    }),
    z.strictObject({ kind: z.literal("judge") }),
  ])
  .meta({ id: "Requirement", description: "Something that must be available before the task can run." });

const sharedServer = {
  startupTimeoutMs: milliseconds,
  maxMessageBytes: z.int(),
  lifetime: z.enum(["per_trial", "per_task", "per_run"]).exactOptional(),
  required: z.boolean().exactOptional(),
  tools: z.array(text).exactOptional(),
  captureStderr: z.boolean().exactOptional(),
};

const sandbox = z
  .strictObject({
    kind: z.enum(["process", "docker"]),
    network: z.enum(["none", "host"]),
    read: z.array(text),
    write: z.array(text),
    memoryBytes: z.int(),
    processes: z.int(),
    image: text.exactOptional(),
    runtime: z.array(text).exactOptional(),
  })
  .meta({ id: "Sandbox", description: "The sandbox of the program." });

const program = {
  command: text,
  args: z.array(text),
  env: texts.describe("The task's own variables and servers."),
  cwd: text.describe("Relative to the task's folder."),
};

const server = z
  .discriminatedUnion("transport", [
    z.strictObject({
      transport: z.literal("stdio"),
      ...program,
      sandbox: sandbox.exactOptional(),
      ...sharedServer,
    }),
    z.strictObject({
      transport: z.enum(["shttp", "sse"]),
      url: text,
      program: z
        .strictObject(program)
        .describe("Serves at the URL. Absent: the server already runs.")
        .exactOptional(),
      headers: texts,
      ...sharedServer,
    }),
  ])
  .meta({
    id: "Server",
    description: "A server of the task; texts may contain templates.",
  });

const artifact = z
  .strictObject({
    path: text.describe("Relative to the task's folder, with `/`."),
    role: z.enum(["fixture", "script", "prompt", "extension"]).describe("Use of the file in the task."),
    mode: text.describe("Permission bits in octal, such as `0755`."),
    bytes: z.int().min(0),
    sha256: text.regex(/^[0-9a-f]{64}$/).describe("Of the file's bytes, in hexadecimal."),
    text: text.describe("Content of a UTF-8 text file.").exactOptional(),
    base64: text.describe("Content of any other file.").exactOptional(),
  })
  .meta({ id: "Artifact", description: "A file that the task needs: either `text` or `base64`." });

/** A task as one document, for other tools: everything explicit, templates as they were written. */
export const taskExportSchema = z
  .strictObject({
    schema: z.literal("mcpvals.task/1").describe("Name and version of this format."),
    name: text.describe("Unique in a run."),
    description: text.exactOptional(),
    difficulty: text.exactOptional(),
    tags: z.array(text),
    labels: texts,
    format: z
      .enum(["mcp-eval/v1", "script-form", "step-form"])
      .describe("Format of the file; the last two are older formats."),
    prompt: z.array(text).describe("The prompt, turn by turn; empty: no agent takes part."),
    env: texts.describe("Variables for all steps, as templates."),
    inheritEnv: z
      .union([z.literal(true), z.array(text)])
      .describe(
        "Environment variables that the task's processes get in addition to a few basic ones; true: all.",
      ),
    requires: z.array(requirement),
    servers: z.record(text, server).describe("Servers of the task itself, by name."),
    fixtures: z
      .array(text)
      .describe("Paths that are copied into the workspace, each under the last part of its path."),
    setup: steps.describe("Setup steps; a failure makes the trial an error."),
    verify: steps.describe("Verify steps; a failed check fails the trial."),
    cleanup: steps.describe("Cleanup steps in the order of the file; they run in reverse order."),
    solution: z.array(solutionAction).describe("The solution of the task.").exactOptional(),
    limits: z.strictObject({
      timeoutMs: milliseconds.describe("Time limit of setup, agent and verify together.").exactOptional(),
      cleanupTimeoutMs: milliseconds,
    }),
    trials: z.int().min(1).describe("Number of attempts, if the task sets one.").exactOptional(),
    stateProbe: z
      .array(text)
      .describe("`STEP` or `STEP.OUTPUT`: outputs that must be the same before setup and after cleanup."),
    artifacts: z.array(artifact).describe("All files that the task uses."),
  })
  .meta({ title: "mcpvals task export", description: "A portable task as one self-contained document." });

export type TaskExport = z.output<typeof taskExportSchema>;
export type Artifact = TaskExport["artifacts"][number];

/** The JSON Schema (2020-12) of an exported task, as published in `schemas/task-export.schema.json`. */
export function taskExportJsonSchema(): JsonObject {
  const { $schema, ...rest } = z.toJSONSchema(taskExportSchema, { target: "draft-2020-12" });
  return { $schema: $schema ?? "", $id: "urn:mcpvals:task-export", ...(rest as JsonObject) };
}

/** Makes one document of a task from a file of its own; `servers` are its own, as the file says them. */
export function exportTask(
  task: Task,
  servers: Readonly<Record<string, ServerSpec>>,
  artifacts: readonly Artifact[],
): TaskExport {
  const { portable } = task;
  if (portable === undefined) throw new Error(`${task.name} is not a task from a file of its own`);
  const { timeoutMs, cleanupTimeoutMs, inheritEnv } = portable;
  const document = {
    schema: "mcpvals.task/1",
    name: task.name,
    description: task.description,
    difficulty: portable.difficulty,
    tags: portable.tags,
    labels: portable.labels,
    format: portable.format,
    prompt: task.turns.map((turn) => turn.user),
    env: portable.env,
    inheritEnv: inheritEnv,
    requires: portable.requires,
    servers,
    fixtures: portable.fixtures,
    setup: withPackages(portable.setup, portable.extensions),
    verify: withPackages(task.verify, portable.extensions),
    cleanup: withPackages(portable.cleanup, portable.extensions),
    solution: portable.solution,
    limits: withoutUndefined({ timeoutMs, cleanupTimeoutMs }),
    trials: portable.runs,
    stateProbe: portable.stateProbe,
    artifacts,
  };
  // What is undefined has no place in JSON, and the same value under two names is no matter there.
  return JSON.parse(JSON.stringify(document satisfies Record<keyof TaskExport, unknown>)) as TaskExport &
    JsonObject;
}

/** Steps of extensions with the packages that these come from, as far as the task says. */
function withPackages(list: readonly Step[], extensions: PortableTask["extensions"] = {}): readonly object[] {
  return list.map((step) => {
    if (step.type === "extension") return { ...step, package: extensions[step.extension]?.package };
    const inner = Object.entries(step).filter(([key]) => innerLists.some((name) => name === key));
    const within = inner.map(([key, inside]) => [key, withPackages(inside as readonly Step[], extensions)]);
    return { ...step, ...(Object.fromEntries(within) as object) };
  });
}
