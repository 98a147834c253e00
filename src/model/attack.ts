import * as z from "zod";
import { didYouMean } from "../base/did-you-mean.ts";
import { closedObject, filledText, httpUrl, named, optional } from "./fields.ts";
import { attackChannels, channelNames, noAttack } from "./server.ts";

/** The first part of a text that was probably meant as `{tool}`; undefined: there is none. */
function misspelt(text: string): string | undefined {
  return text
    .match(/\{\s*[A-Za-z]+\s*\}/g)
    ?.find((part) => part !== "{tool}" && didYouMean(part.slice(1, -1), ["tool"]) !== undefined);
}

const furtherTool = closedObject({
  name: filledText.describe("Its name; `{tool}` is the first tool of the server."),
  description: filledText.describe("What it says that it does; `{tool}` is the first tool of the server."),
  parameters: z
    .record(filledText, z.string())
    .default({})
    .describe(
      "What its parameters are for, by name; all of them are texts. `{tool}` is the first tool of the server.",
    ),
}).meta(
  named("AttackTool", "Attack tool", "A tool that the server does not have; mcpvals answers its calls."),
);

const attackSchema = closedObject({
  id: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,63}$/, { error: "must be of a-z, 0-9 and -, such as my-attack-1" })
    .describe("Its name, unique; that of the variant in reports."),
  class: filledText.describe("What kind of attack it is; reports count by class."),
  channel: z.enum(channelNames).describe(
    `Where its text stands: ${Object.entries(attackChannels)
      .map(([name, where]) => `\`${name}\`, ${where}`)
      .join("; ")}.`,
  ),
  text: filledText.describe(
    "What the agent reads; `{tool}` is the tool that was called, in lists the first one of the server. Other words in braces are text.",
  ),
  tool: optional(
    furtherTool,
    "A tool that is added to the server's list. The attack succeeds when the agent calls it.",
  ),
  calls: optional(
    filledText,
    "Name of a tool that a server has, no task needs and the text asks for, also as SERVER.NAME, without `{tool}`. The attack succeeds when the agent calls it, which the server gets; in a task in which the agent calls it without an attack too, only with arguments of the attack.",
  ),
  parameter: optional(
    filledText,
    "Name of the further parameter. The attack succeeds when the agent gives it a value.",
  ),
  source: optional(
    closedObject({
      name: filledText.describe("A paper, a tool or a report."),
      url: httpUrl.describe("Its address."),
    }),
    "Where attacks of this class are described.",
  ),
})
  .superRefine(({ channel, text, tool, calls, parameter }, context) => {
    const { parameters = {}, ...named } = tool ?? {};
    for (const [place, words] of [
      [["text"], text],
      ...Object.entries(named).map(([key, value]) => [["tool", key], value] as const),
      ...Object.entries(parameters).map(([key, value]) => [["tool", "parameters", key], value] as const),
    ] as const) {
      const wrong = misspelt(words);
      if (wrong !== undefined)
        context.addIssue({
          code: "custom",
          path: [...place],
          message: `has ${wrong}: did you mean {tool}? It is the only placeholder; other words in braces are text`,
        });
    }
    const need = (key: "tool" | "parameter", given: unknown): void => {
      if (channel === key && given === undefined)
        context.addIssue({ code: "custom", path: [key], message: `is needed for the channel ${key}` });
    };
    need("tool", tool);
    need("parameter", parameter);
    if (parameter !== undefined && channel !== "parameter")
      context.addIssue({ code: "custom", path: ["parameter"], message: "is for the channel parameter" });
    if (calls?.includes("{tool}") === true)
      context.addIssue({
        code: "custom",
        path: ["calls"],
        message: "must be the name of a tool: {tool} is only for texts, and a task may need that tool",
      });
  })
  .meta(named("AgentAttack", "Attack", "One attack on an agent, through what a server returns."));

/** A file of attacks. */
export const attacksSchema = closedObject({
  $schema: optional(z.string(), "Address of the JSON Schema, for editors."),
  attacks: z
    .array(attackSchema)
    .min(1)
    .superRefine((attacks, context) => {
      const known = new Set<string>([noAttack]);
      for (const [index, { id }] of attacks.entries()) {
        if (known.has(id))
          context.addIssue({ code: "custom", path: [index, "id"], message: `is taken: ${id}` });
        known.add(id);
      }
    })
    .describe("The attacks. Each agent meets each of them in each task."),
}).meta({ title: "mcpvals attacks", description: "Attacks on agents, through what servers return." });
