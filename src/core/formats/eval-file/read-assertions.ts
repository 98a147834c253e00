import { assertionKinds } from "../assertion-kinds.ts";
import type { AssertionSet, CallPattern, SkillPattern } from "../model.ts";
import { withoutUndefined } from "../without-undefined.ts";
import type { ParsedAssertions } from "./eval-schema.ts";

/** The assertions of a task set in the model's form; undefined when they say nothing. */
export function readAssertions(parsed: ParsedAssertions | undefined): AssertionSet | undefined {
  if (parsed === undefined) return undefined;
  const set: AssertionSet = withoutUndefined({
    toolsUsed: tools(parsed.toolsUsed),
    requireAny: tools(parsed.requireAny),
    toolsNotUsed: tools(parsed.toolsNotUsed),
    minToolCalls: parsed.minToolCalls,
    maxToolCalls: parsed.maxToolCalls,
    resourcesRead: resources(parsed.resourcesRead),
    resourcesNotRead: resources(parsed.resourcesNotRead),
    promptsUsed: prompts(parsed.promptsUsed),
    promptsNotUsed: prompts(parsed.promptsNotUsed),
    callOrder: parsed.callOrder,
    noDuplicateCalls: parsed.noDuplicateCalls,
    skillsLoaded: skills(parsed.skillsLoaded),
    skillsNotLoaded: skills(parsed.skillsNotLoaded),
  });
  const kinds = assertionKinds(set);
  return kinds.length === 0 ? undefined : set;
}

function tools(list: ParsedAssertions["toolsUsed"]): readonly CallPattern[] | undefined {
  return list?.map(({ server, tool, toolPattern }) => callPattern(server, tool, toolPattern));
}

function resources(list: ParsedAssertions["resourcesRead"]): readonly CallPattern[] | undefined {
  return list?.map(({ server, uri, uriPattern }) => callPattern(server, uri, uriPattern));
}

function prompts(list: ParsedAssertions["promptsUsed"]): readonly CallPattern[] | undefined {
  return list?.map(({ server, prompt, promptPattern }) => callPattern(server, prompt, promptPattern));
}

function skills(list: ParsedAssertions["skillsLoaded"]): readonly SkillPattern[] | undefined {
  return list?.map(({ skill, skillPattern }) =>
    withoutUndefined({ skill: skill || undefined, pattern: skillPattern || undefined }),
  );
}

/** An empty name or pattern is as if it were absent. */
function callPattern(server: string, name: string | undefined, pattern: string | undefined): CallPattern {
  return withoutUndefined({ server, name: name || undefined, pattern: pattern || undefined });
}
