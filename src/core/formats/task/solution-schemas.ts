import * as z from "zod";
import { anyObject, closedObject } from "../config/config-fields.ts";
import { argsFit, argsFitError, asksOne, asksOneError, mcpRequestFields } from "./action-schemas.ts";
import { foreachSchema, items } from "./control-schemas.ts";
import { commonFields } from "./step-fields.ts";

/** An action inside a schema; what is in it is checked by itself, see `readSolution`. */
const actionItem = z.custom<unknown>().meta({ $ref: "#/$defs/SolutionAction" });

/** At least one action. */
export const solutionList = z.array(actionItem).min(1);

const { id, outputs } = commonFields;
const fields = {
  id: id.meta({ description: "Name for `{steps.ID.outputs.NAME}` in later actions.", defaultText: "none" }),
  outputs: outputs.meta({
    description: "What later actions may use: templates by name, of `{result}` and `{text}`.",
    defaultText: "none",
  }),
};

/** `mcp` of a solution. */
export const solutionMcpSchema = closedObject({ ...mcpRequestFields, ...fields })
  .refine(asksOne, asksOneError)
  .refine(argsFit, argsFitError)
  .meta({
    oneOf: [{ required: ["tool"] }, { required: ["resource"] }, { required: ["prompt"] }],
    id: "SolutionMcp",
    title: "Solution mcp",
    description: "Asks a server as if the agent had done it: exactly one of `tool`, `resource` and `prompt`.",
  });

/** `SERVER.TOOL` of a solution. */
export const solutionCallSchema = closedObject({
  args: anyObject.default({}).meta({ description: "Arguments of the tool." }),
  ...fields,
}).meta({
  id: "SolutionCall",
  title: "Solution SERVER.TOOL",
  description: "Short for `mcp` with a server and a tool.",
});

/** `say` of a solution. */
export const solutionSaySchema = z.string().meta({
  description: "What the agent answers; this ends the turn.",
});

/** `foreach` of a solution. */
export const solutionForeachSchema = closedObject({
  var: foreachSchema.shape.var,
  in: items.meta({ description: "The items: a list, or a template that gives a JSON list." }),
  steps: solutionList.meta({ description: "What to do for each item." }),
}).meta({
  id: "SolutionForeach",
  title: "Solution foreach",
  description: "Does its actions for every item.",
});
