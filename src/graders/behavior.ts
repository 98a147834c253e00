import * as z from "zod";
import { closedObject, filledText, optional } from "../model/fields.ts";
import { shortened } from "../base/visible-text.ts";
import { eventsOf } from "../model/event.ts";
import { agentDuration, type Trajectory } from "../trace/trajectory.ts";
import { agentGrade, type GraderCheck, declaredKind, listed, misspelling } from "./grader.ts";
import { nameTest, toolName } from "./call-matchers.ts";
import { isOfServer, serverIn } from "../trace/agent-acts.ts";
import { namesOf, repeatsOf, successfulUses, type ToolUse, toolUses } from "./tool-uses.ts";

const limit = z.int().min(0);
const names = z.array(filledText).default([]);

/** Tools that must, or must not, have been used. */
export const namedTools = {
  required_tools: z
    .array(toolName)
    .default([])
    .describe(
      "Tools that must have been used with success, by their exact names, also as SERVER.NAME; or `/PATTERN/`, a regular expression (RE2) that must match the whole name.",
    ),
  forbidden_tools: z
    .array(toolName)
    .default([])
    .describe("Tools that must not have been used, not even without success; named in the same way."),
};

export const requiredAndForbidden = "must not have a tool in both required_tools and forbidden_tools";

/** Whether no tool is both required and forbidden. */
export function namesNoToolTwice({
  required_tools,
  forbidden_tools,
}: Readonly<Record<"required_tools" | "forbidden_tools", readonly string[]>>): boolean {
  return !required_tools.some((name) => forbidden_tools.includes(name));
}

const config = z.lazy(() =>
  closedObject({
    max_tool_calls: optional(limit, "Most uses of any tools, failed ones included. 0: none."),
    max_mcp_calls: optional(limit, "Most calls of tools of MCP servers, failed ones included. 0: none."),
    max_tool_errors: optional(limit, "Most uses of tools that failed."),
    max_duplicate_calls: optional(
      limit,
      "Most calls that repeat an earlier one: the same tool with equal arguments.",
    ),
    max_tokens: optional(limit, "Most tokens of the agent's model, input and output together."),
    max_duration_ms: optional(
      z.number().positive(),
      "Longest time of all of the agent's turns, in milliseconds.",
    ),
    max_iterations: optional(limit, "Most answers of the agent's model."),
    ...namedTools,
    required_mcp_servers: names.describe("Servers of which a tool must have been called with success."),
    forbidden_mcp_servers: names.describe(
      "Servers of which no tool may have been called; also those that an agent program could have of its own.",
    ),
  })
    .refine(
      (all) =>
        Object.values(all).some((value) => (Array.isArray(value) ? value.length > 0 : value !== undefined)),
      {
        error: "must have a limit, or a tool or server to look for",
      },
    )
    .refine(namesNoToolTwice, { error: requiredAndForbidden })
    .refine((all) => !all.required_mcp_servers.some((name) => all.forbidden_mcp_servers.includes(name)), {
      error: "must not have a server in both required_mcp_servers and forbidden_mcp_servers",
    }),
);

/** Was the agent's use of tools, tokens and time inside its limits? Score = checks that hold / checks that are made. */
export const behavior = declaredKind({
  type: "behavior",
  description:
    "Limits of what the agent did, and tools and servers that it must or must not have used. All must hold. Where the numbers are not known, such as the tokens of an agent that does not report them, the limit fails.",
  config,
  example: { max_mcp_calls: 5, required_mcp_servers: ["notes"], max_tool_errors: 0 },
  servers: ({ required_mcp_servers }) => required_mcp_servers,
  grade(wanted, trajectory) {
    return agentGrade(
      [
        ...limitChecks(wanted, trajectory),
        ...toolChecks(wanted, trajectory),
        ...serverChecks(wanted, trajectory),
      ],
      trajectory,
    );
  },
});

type Behavior = z.output<typeof config>;

function limitChecks(wanted: Behavior, trajectory: Trajectory): readonly GraderCheck[] {
  const uses = toolUses(trajectory);
  const counted = {
    max_tool_calls: { needsCalls: false, what: "tool call", find: () => uses },
    max_mcp_calls: { needsCalls: false, what: "MCP tool call", find: () => uses.filter(isOfServer) },
    max_tool_errors: {
      needsCalls: true,
      what: "failed tool call",
      find: () => uses.filter(({ failure }) => failure !== undefined),
    },
    max_duplicate_calls: { needsCalls: true, what: "repeated call", find: () => repeated(uses) },
  } as const;
  const counts = Object.entries(counted).flatMap(([key, { needsCalls, what, find }]) => {
    const max = wanted[key as keyof typeof counted];
    // Without a call, none could have failed or been repeated.
    if (max === undefined || (needsCalls && uses.length === 0)) return [];
    if (key === "max_tool_errors" && trajectory.transcript?.failuresUnknown === true)
      return [{ ...unknownCheck(`${what}s`, max), evidence: [trajectory.transcript.seq] }];
    const found = find();
    const names = found.length === 0 ? "" : ` (${listed(namesOf(found), 5)})`;
    const check = limitCheck(
      `${found.length} ${what}${found.length === 1 ? "" : "s"}${names}`,
      found.length,
      max,
    );
    return [{ ...check, evidence: found.map(({ seq }) => seq) }];
  });
  return [...counts, ...usageChecks(wanted, trajectory)];
}

/** Calls that repeat an earlier one. */
function repeated(uses: readonly ToolUse[]): readonly ToolUse[] {
  const repeats = repeatsOf(uses);
  return uses.filter((use) => repeats.has(use));
}

function usageChecks(wanted: Behavior, trajectory: Trajectory): readonly GraderCheck[] {
  const { usage, events } = trajectory;
  const { max_tokens, max_iterations, max_duration_ms } = wanted;
  const ended = eventsOf(events, "phase.finished").filter(({ phase }) => phase === "agent");
  const answers = eventsOf(events, "model.called").filter(({ purpose }) => purpose === "agent");
  const known = usage === undefined ? undefined : usage.inputTokens + usage.outputTokens;
  // Of a part it is known only whether it is too much.
  const isOpen = usage?.isPartial === true && (known ?? 0) <= (max_tokens ?? Infinity);
  const tokens = isOpen ? undefined : known;
  const requests = usage?.requests ?? (answers.length > 0 ? answers.length : undefined);
  const duration = agentDuration(trajectory);
  const durationMs = duration === undefined ? undefined : Math.round(duration);
  const evidence = ended.map(({ seq }) => seq);
  const checks: GraderCheck[] = [];
  const limit = (found: number | undefined, unit: string, max: number | undefined): void => {
    if (max !== undefined) checks.push({ ...usageCheck(found, unit, max), evidence });
  };
  limit(tokens, "token", max_tokens);
  limit(requests, "answer of the model", max_iterations);
  limit(durationMs, "ms", max_duration_ms);
  return checks;
}

/** Checks a number that may be unknown. */
function usageCheck(found: number | undefined, unit: string, max: number): Omit<GraderCheck, "evidence"> {
  const [one, ...rest] = unit.split(" ");
  const units = (count: number): string =>
    unit === "ms" || count === 1 ? unit : [`${one ?? ""}s`, ...rest].join(" ");
  if (found === undefined) return unknownCheck(units(2), max);
  return limitCheck(`${found} ${units(found)}`, found, max);
}

function unknownCheck(what: string, max: number): Omit<GraderCheck, "evidence"> {
  return { passed: false, reason: `the number of ${what} is not known, at most ${max} allowed` };
}

function limitCheck(what: string, found: number, max: number): Omit<GraderCheck, "evidence"> {
  return { passed: found <= max, reason: `${what}, at most ${max} allowed` };
}

type FindUses = (uses: readonly ToolUse[], name: string) => readonly ToolUse[];

const ofTool: FindUses = (uses, name) => uses.filter(nameTest(name));
const ofServer: FindUses = (uses, name) => uses.filter((use) => serverIn(use) === name);

/** Checks of tools that must, or must not, have been used. */
export function toolChecks(
  { required_tools, forbidden_tools }: Pick<Behavior, "required_tools" | "forbidden_tools">,
  trajectory: Trajectory,
): readonly GraderCheck[] {
  return [
    ...nameChecks(required_tools, ofTool, true, trajectory),
    ...nameChecks(forbidden_tools, ofTool, false, trajectory),
  ];
}

function serverChecks(
  { required_mcp_servers, forbidden_mcp_servers }: Behavior,
  trajectory: Trajectory,
): readonly GraderCheck[] {
  return [
    ...nameChecks(required_mcp_servers, ofServer, true, trajectory),
    ...nameChecks(forbidden_mcp_servers, ofServer, false, trajectory),
  ];
}

function nameChecks(
  names: readonly string[],
  find: FindUses,
  isWanted: boolean,
  trajectory: Trajectory,
): readonly GraderCheck[] {
  if (names.length === 0) return [];
  const uses = toolUses(trajectory);
  const counted = isWanted ? successfulUses(trajectory) : uses;
  return names.map((name) => {
    const found = find(counted, name);
    const isUsed = found.length > 0;
    const failed =
      isWanted && !isUsed ? find(uses, name).find(({ failure }) => failure !== undefined) : undefined;
    const why =
      failed === undefined ? "" : ` with success (it failed: ${shortened(failed.failure ?? "", 200)})`;
    const misspelt = isUsed || find !== ofTool ? undefined : misspelling(name, trajectory);
    const hint = misspelt === undefined ? "" : `; no server offers a tool of this name, ${misspelt}`;
    const reason = `${name} was ${isUsed ? "" : "not "}used${why}${hint}`;
    const evidence = found.map(({ seq }) => seq);
    // A misspelt name of a tool cannot be in a use.
    return { passed: isUsed === isWanted && misspelt === undefined, reason, evidence };
  });
}
