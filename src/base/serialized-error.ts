import * as z from "zod";
import { errorCatalogue, type ErrorCode, type ErrorKind } from "./catalogue.ts";

const errorCodes = Object.keys(errorCatalogue) as ErrorCode[];
const errorKinds = [
  "usage",
  "environment",
  "timeout",
  "interrupted",
  "bug",
] as const satisfies readonly ErrorKind[];

export const errorSchema = z
  .strictObject({
    code: z.enum(errorCodes).describe("Permanent code of the error; docs/errors.md lists them all."),
    kind: z
      .enum(errorKinds)
      .describe(
        "Cause: the user (usage), the environment, a time limit (timeout), an interruption, or a bug in mcpvals.",
      ),
    message: z.string().describe("Error message."),
    hint: z.string().describe("How to fix it.").exactOptional(),
    detail: z.string().describe("Additional text, such as the end of a server's stderr.").exactOptional(),
  })
  .meta({ id: "Error", description: "An error as plain data." });

/** An error as it stands in a trace or a result: plain JSON. */
export type SerializedError = Readonly<z.output<typeof errorSchema>>;
