import * as z from "zod";
import type { JsonObject } from "../model.ts";
import { json, milliseconds, object, stepExportSchema, texts } from "./step-export-schema.ts";

const text = z.string();
const call = { server: text.exactOptional(), id: text.exactOptional(), outputs: texts.exactOptional() };

const solutionAction: z.ZodType<JsonObject> = z
  .lazy(
    (): z.ZodType<JsonObject> =>
      z.discriminatedUnion("kind", actionKinds()) as unknown as z.ZodType<JsonObject>,
  )
  .meta({
    id: "SolutionAction",
    description: "One thing that solves the task, as if the agent had done it.",
  });

function actionKinds() {
  return [
    z.strictObject({ kind: z.literal("tool"), ...call, tool: text, args: object }),
    z.strictObject({ kind: z.literal("resource"), ...call, uri: text }),
    z.strictObject({ kind: z.literal("prompt"), ...call, prompt: text, args: object }),
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
  .meta({ id: "Requirement", description: "Something that must be there before the task can run." });

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
  .meta({ id: "Sandbox", description: "What confines the program." });

const server = z
  .discriminatedUnion("transport", [
    z.strictObject({
      transport: z.literal("stdio"),
      command: text,
      args: z.array(text),
      env: texts.describe("What the task itself says of the environment."),
      cwd: text.describe("Relative to the task's folder."),
      sandbox: sandbox.exactOptional(),
      ...sharedServer,
    }),
    z.strictObject({
      transport: z.enum(["shttp", "sse"]),
      url: text,
      headers: texts,
      ...sharedServer,
    }),
  ])
  .meta({
    id: "Server",
    description: "How a server of the task is started or reached; texts may be templates.",
  });

const artifact = z
  .strictObject({
    path: text.describe("Relative to the task's folder, with `/`."),
    role: z.enum(["fixture", "script", "prompt", "extension"]).describe("What the task uses the file for."),
    mode: text.describe("Permission bits in octal, such as `0755`."),
    bytes: z.int().min(0),
    sha256: text.regex(/^[0-9a-f]{64}$/).describe("Of the file's bytes, in hexadecimal."),
    text: text.describe("The file, when it is UTF-8 text.").exactOptional(),
    base64: text.describe("The file, when it is not.").exactOptional(),
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
      .describe("The form of the file; the last two are older ones."),
    prompt: z.array(text).describe("What the agent is told, turn by turn; empty: no agent takes part."),
    env: texts.describe("Variables for all steps, as templates."),
    inheritEnv: z
      .union([z.literal(true), z.array(text)])
      .describe("Variables of the shell that the task's processes get besides a small safe set; true: all."),
    requires: z.array(requirement),
    servers: z.record(text, server).describe("Servers of the task itself, by name."),
    fixtures: z.array(text).describe("Paths that are copied into the workspace, each under its last name."),
    setup: z.array(stepExportSchema).describe("In order; a failure is an error of the trial."),
    verify: z.array(stepExportSchema).describe("In order; a check that does not hold fails the trial."),
    cleanup: z.array(stepExportSchema).describe("In the order of the file; the last one is run first."),
    solution: z.array(solutionAction).describe("How the task can be solved.").exactOptional(),
    limits: z.strictObject({
      timeoutMs: milliseconds.describe("For setup, agent and verify together.").exactOptional(),
      cleanupTimeoutMs: milliseconds,
    }),
    trials: z.int().min(1).describe("Attempts, when the task asks for a number of its own.").exactOptional(),
    stateProbe: z.array(text).describe("`STEP` or `STEP.OUTPUT`: what must be the same before and after."),
    artifacts: z.array(artifact).describe("Every file that the task names, each once."),
  })
  .meta({ title: "mcpvals task export", description: "A portable task as one self-contained document." });

export type TaskExport = z.output<typeof taskExportSchema>;
export type Artifact = TaskExport["artifacts"][number];

/** The JSON Schema (2020-12) of an exported task, as published in `schemas/task-export.schema.json`. */
export function taskExportJsonSchema(): JsonObject {
  const { $schema, ...rest } = z.toJSONSchema(taskExportSchema, { target: "draft-2020-12" });
  return { $schema: $schema ?? "", $id: "urn:mcpvals:task-export", ...(rest as JsonObject) };
}
