import * as z from "zod";
import { text } from "../../model/fields.ts";
import { mapValues, withoutUndefined } from "../../base/json.ts";
import { type ServerSpec, serverModel } from "../../model/server.ts";
import { type GraderSpec, type Task, taskModel } from "../../model/task.ts";

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

/** A task as one document, for other tools: the task and its servers as the model has them, with the files that it names. */
export const taskExportSchema = z
  .strictObject({
    schema: z.literal("mcpvals.task/2").describe("Name and version of this format."),
    task: taskModel.describe("Everything explicit, templates as they were written; paths are relative."),
    servers: z.record(text, serverModel).describe("Servers of the task itself, by name."),
    artifacts: z.array(artifact).describe("All files that the task uses."),
  })
  .meta({ title: "mcpvals task export", description: "A portable task as one self-contained document." });

export interface TaskExport {
  readonly schema: "mcpvals.task/2";
  readonly task: Task;
  readonly servers: Readonly<Record<string, ServerSpec>>;
  readonly artifacts: readonly Artifact[];
}
export type Artifact = Readonly<z.output<typeof artifact>>;

/** Makes one document of a task from a file of its own; `servers` are its own, as the file says them. */
export function exportTask(
  task: Task,
  servers: Readonly<Record<string, ServerSpec>>,
  artifacts: readonly Artifact[],
): TaskExport {
  const { location: _, portable: own, ...rest } = task;
  if (own === undefined) throw new Error(`${task.name} is not a task from a file of its own`);
  const { repository: __, ...portable } = own;
  return {
    schema: "mcpvals.task/2",
    task: withoutUndefined({
      ...rest,
      graders: task.graders?.map(unplaced),
      portable: withoutUndefined({
        ...portable,
        file: portable.file.replace(/^.*[/\\]/, ""),
        dir: ".",
        extensions: portable.extensions && mapValues(portable.extensions, unplaced),
      }),
    }),
    servers,
    artifacts,
  };
}

/** A part of a task without its place in a file; its folder is that of the task. */
function unplaced<T extends Pick<GraderSpec, "dir" | "location" | "places">>(
  part: T,
): Omit<T, "location" | "places"> & { readonly dir: string } {
  const { location: _, places: __, ...rest } = part;
  return { ...rest, dir: "." };
}
