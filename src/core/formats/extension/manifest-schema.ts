import * as z from "zod";
import { anyJson, closedObject, filledText } from "../config/config-fields.ts";
import { extensionPhases } from "./manifest.ts";
import { typedArgs } from "./typed-args.ts";

/** What stands after `ALIAS.` in a task. */
const operationName = z.string().regex(/^\S+$/, { error: "must be a name without spaces" });

const operation = closedObject({
  description: z.string().optional(),
  params: anyJson.optional(),
  args: typedArgs.optional(),
  phases: z.array(z.enum(extensionPhases)).min(1).optional(),
});

const listed = closedObject({
  name: operationName,
  description: z.string().optional(),
  args: typedArgs.nullable().optional(),
});

/** An `extension.yaml`. What other keys there are at its root is nobody's business. */
export const manifestSchema = z.object({
  name: filledText,
  version: filledText,
  description: z.string().optional(),
  protocol: z.enum(["json-rpc", "one-shot"]).optional(),
  program: filledText.optional(),
  requires: z
    .array(closedObject({ command: filledText }))
    .nullable()
    .optional(),
  operations: z.record(operationName, operation).optional(),
  actions: z.array(listed).optional(),
  checks: z.array(listed).optional(),
});

/** A manifest as its schema gives it. */
export type ParsedManifestDocument = z.output<typeof manifestSchema>;
