import * as z from "zod";
import { closedObject, filledText } from "../config/config-fields.ts";
import { triggerAccuracy } from "../graders.ts";
import { type JsonObject, type KeyPath, withoutUndefined } from "../json.ts";

const prompts = z
  .array(
    closedObject({
      prompt: filledText.describe("What the user says."),
      reason: z.string().optional().describe("Why it should, or should not."),
      confidence: z
        .enum(["", "high", "medium"])
        .default("high")
        .describe("How sure that is: `medium` counts half in `trigger_accuracy`."),
    }),
  )
  .default([]);

/** A `trigger_tests.yaml` of waza: prompts that should lead to a skill, and prompts that should not. A server or tool is an addition. */
export const triggerTestsSchema = closedObject({
  $schema: z.string().optional(),
  skill: filledText.optional().describe("Name of the skill."),
  server: filledText.optional().describe("Name of a server, instead of a skill."),
  tool: filledText.optional().describe("Name of a tool, instead of a skill."),
  should_trigger_prompts: prompts,
  should_not_trigger_prompts: prompts,
})
  .refine(({ skill, server, tool }) => (skill ?? server ?? tool) !== undefined, {
    path: ["skill"],
    error: "or write server, or tool",
  })
  .refine(({ skill, server, tool }) => skill === undefined || (server ?? tool) === undefined, {
    path: ["skill"],
    error: "must have no server or tool beside it",
  })
  .refine((tests) => tests.should_trigger_prompts.length + tests.should_not_trigger_prompts.length > 0, {
    path: ["should_trigger_prompts"],
    error: "or write should_not_trigger_prompts",
  });

/** The document of a task that a prompt stands for, and the place of the prompt. */
export interface TriggerTask {
  readonly path: KeyPath;
  readonly document: JsonObject;
}

const modes = [
  { key: "should_trigger_prompts", id: "should-trigger", mode: "positive" },
  { key: "should_not_trigger_prompts", id: "should-not-trigger", mode: "negative" },
] as const;

/** Makes a task of each prompt, in the order of the file. */
export function tasksOfTriggerTests(tests: z.output<typeof triggerTestsSchema>): readonly TriggerTask[] {
  const { skill, server, tool } = tests;
  return modes.flatMap(({ key, id, mode }) =>
    tests[key].map(({ prompt, reason, confidence }, index): TriggerTask => {
      const weight = confidence === "medium" ? 0.5 : 1;
      const config = withoutUndefined({ skill, server, tool, mode });
      const document = withoutUndefined({
        id: `${id}-${index + 1}`,
        description: reason,
        tags: ["trigger"],
        inputs: { prompt },
        graders: [{ type: "trigger", name: triggerAccuracy, weight, config }],
      });
      return { path: [key, index], document };
    }),
  );
}
