import * as z from "zod";
import { closedObject, filledText, named, optional, patternText } from "../model/fields.ts";
import { withoutUndefined } from "../base/json.ts";
import type { AssertionSet, CallPattern, SkillPattern } from "../model/model.ts";

const server = filledText.describe("Name of the server.");

const toolPattern = closedObject({
  server,
  tool: optional(z.string(), "Name of the tool."),
  toolPattern: optional(patternText, "Regular expression (RE2) found in the name."),
}).meta({
  id: "ToolPattern",
  title: "Tool calls",
  description: "Matches calls of a tool; without name and pattern, of any tool.",
});

const resourcePattern = closedObject({
  server,
  uri: optional(z.string(), "URI of the resource."),
  uriPattern: optional(patternText, "Regular expression (RE2) found in the URI."),
}).meta(named("ResourcePattern", "Reads of resources", "Matches reads; without URI and pattern, any."));

const promptPattern = closedObject({
  server,
  prompt: optional(z.string(), "Name of the prompt."),
  promptPattern: optional(patternText, "Regular expression (RE2) found in the name."),
}).meta(named("PromptPattern", "Prompts", "Matches prompts; without name and pattern, any."));

const orderedCall = closedObject({
  type: z.enum(["tool", "resource", "prompt"]).describe("The kind of call."),
  server,
  name: z.string().describe("Name of the tool or prompt, or URI of the resource."),
}).meta({ id: "OrderedCall", title: "Call", description: "One call, by its exact name." });

const skillPattern = closedObject({
  skill: optional(z.string(), "Name of the skill."),
  skillPattern: optional(
    patternText,
    "Regular expression (RE2) that must match in the arguments of the load.",
  ),
}).meta({
  id: "SkillPattern",
  title: "Skill",
  description: "Matches loads of a skill; without name and pattern, of any skill.",
});

const calls = z.int().min(0).optional();

/** Assertions about the calls of an agent. */
export const assertionsSchema = closedObject({
  toolsUsed: optional(z.array(toolPattern), "Every entry matches a successful call."),
  requireAny: optional(z.array(toolPattern), "At least one entry matches a successful call."),
  toolsNotUsed: optional(z.array(toolPattern), "No entry matches any call, not even a failed one."),
  minToolCalls: calls.describe("Minimum number of successful tool calls, over all servers."),
  maxToolCalls: calls.describe("Maximum number of tool calls, over all servers."),
  resourcesRead: optional(z.array(resourcePattern), "Every entry matches a successful read."),
  resourcesNotRead: optional(z.array(resourcePattern), "No entry matches any read."),
  promptsUsed: optional(z.array(promptPattern), "Every entry matches a prompt that the agent got."),
  promptsNotUsed: optional(z.array(promptPattern), "No entry matches a prompt that the agent got."),
  callOrder: optional(
    z.array(orderedCall),
    "These calls succeeded in this order; others may come in between.",
  ),
  noDuplicateCalls: optional(z.boolean(), "No tool was called twice with equal arguments."),
  skillsLoaded: optional(
    z.array(skillPattern),
    "Every entry matches a skill that the agent loaded. Needs `skills`.",
  ),
  skillsNotLoaded: optional(
    z.array(skillPattern),
    "No entry matches a skill that the agent loaded. Needs `skills`.",
  ),
})
  .refine(({ minToolCalls = 0, maxToolCalls = Infinity }) => minToolCalls <= maxToolCalls, {
    error: "has a maxToolCalls below minToolCalls",
  })
  .meta({ id: "Assertions", title: "Assertions", description: "Assertions about the agent's calls." });

export type ParsedAssertions = z.output<typeof assertionsSchema>;

/** Assertions as the model has them. */
export function assertionSet(parsed: ParsedAssertions): AssertionSet {
  const { minToolCalls, maxToolCalls, callOrder, noDuplicateCalls } = parsed;
  return withoutUndefined({
    toolsUsed: patterns(parsed.toolsUsed, "tool"),
    requireAny: patterns(parsed.requireAny, "tool"),
    toolsNotUsed: patterns(parsed.toolsNotUsed, "tool"),
    minToolCalls,
    maxToolCalls,
    resourcesRead: patterns(parsed.resourcesRead, "uri"),
    resourcesNotRead: patterns(parsed.resourcesNotRead, "uri"),
    promptsUsed: patterns(parsed.promptsUsed, "prompt"),
    promptsNotUsed: patterns(parsed.promptsNotUsed, "prompt"),
    callOrder,
    noDuplicateCalls,
    skillsLoaded: skillPatterns(parsed.skillsLoaded),
    skillsNotLoaded: skillPatterns(parsed.skillsNotLoaded),
  });
}

/** An empty name or pattern is as if it were absent. */
function patterns<K extends "tool" | "uri" | "prompt">(
  list:
    | readonly ({ readonly server: string } & { readonly [P in K | `${K}Pattern`]?: string | undefined })[]
    | undefined,
  key: K,
): readonly CallPattern[] | undefined {
  return list?.map((each) =>
    withoutUndefined({
      server: each.server,
      name: each[key] || undefined,
      pattern: each[`${key}Pattern`] || undefined,
    }),
  );
}

function skillPatterns(list: ParsedAssertions["skillsLoaded"]): readonly SkillPattern[] | undefined {
  return list?.map(({ skill, skillPattern }) =>
    withoutUndefined({ skill: skill || undefined, pattern: skillPattern || undefined }),
  );
}
