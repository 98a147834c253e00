import * as z from "zod";
import { closedObject, optional } from "../model/fields.ts";
import { holdsForAll } from "../expect/weak-expectations.ts";
import { shortened } from "../base/visible-text.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import { namedTools, namesNoToolTwice, requiredAndForbidden, toolChecks } from "./behavior.ts";
import {
  callSchema,
  describeCall,
  requireUsableSchemas,
  usesThatFit,
  type WantedCall,
} from "./call-matchers.ts";
import {
  agentGrade,
  type GradeContext,
  type GraderCheck,
  declaredKind,
  listed,
  misspelling,
} from "./grader.ts";
import { isOfServer, serverIn } from "../trace/agent-acts.ts";
import { namesOf, seqsOf, successfulUses, type ToolUse, toolUses } from "./tool-uses.ts";

const count = z.int().min(0);

const namesSomething = "must have tool, tool_pattern, source, args or a pattern";

function hasCondition({ success: _success, ...wanted }: WantedCall): boolean {
  return Object.values(wanted).some((value) => value !== undefined);
}

function hasOneName({ tool, tool_pattern }: WantedCall): boolean {
  return tool === undefined || tool_pattern === undefined;
}

const oneName = "must not have both tool and tool_pattern";

const expectedCall = z.lazy(() =>
  closedObject({
    ...callSchema.unwrap().shape,
    min: optional(count, "Least number of such calls.", "1"),
    max: optional(count, "Most such calls, failed ones included unless `success` is given."),
  })
    .refine(({ min: _min, max: _max, ...wanted }) => hasCondition(wanted), { error: namesSomething })
    .refine(hasOneName, { error: oneName })
    .refine(({ min = 1, max = Infinity }) => min <= max, {
      error: "has a max below min, which is 1 unless given",
    })
    .refine(({ min = 1, max }) => !holdsForAll({ min, max }), {
      error: "could not fail: there are never fewer than 0 calls",
    }),
);

const rejectedCall = z.lazy(() =>
  callSchema.refine(hasCondition, { error: namesSomething }).refine(hasOneName, { error: oneName }),
);

const expectedCalls = z.lazy(() =>
  z
    .array(expectedCall)
    .default([])
    .describe(
      "Calls that must have been made with success, each on its own; with `success: false`, without.",
    ),
);

const constraintConfig = z.lazy(() =>
  closedObject({
    expect_tools: expectedCalls,
    reject_tools: z
      .array(rejectedCall)
      .default([])
      .describe(
        "Calls that must not have been made, not even without success; with `success`, only such calls.",
      ),
  }).refine(({ expect_tools, reject_tools }) => expect_tools.length + reject_tools.length > 0, {
    error: "must have an entry in expect_tools or reject_tools",
  }),
);

/** Were calls with these tools, servers and arguments made, or not? Score = entries that hold / entries. */
export const toolConstraint = declaredKind({
  type: "tool_constraint",
  description:
    "Calls that the agent must or must not have made, by tool, server, arguments, outcome and number. All entries must hold.",
  config: constraintConfig,
  example: {
    expect_tools: [{ tool: "get_issue", source: "mcp:tracker", args: { number: { range: { gte: 1 } } } }],
    reject_tools: [{ tool: "/delete_.*/" }],
  },
  servers: ({ expect_tools, reject_tools }) => serversOf([...expect_tools, ...reject_tools]),
  prepare: ({ expect_tools, reject_tools }, context) => ({
    expect_tools: requireUsableSchemas(expect_tools, context),
    reject_tools: requireUsableSchemas(reject_tools, context),
  }),
  async grade({ expect_tools, reject_tools }, trajectory, context) {
    const rejected = reject_tools.map((wanted) => rejectedCheck(wanted, trajectory, context));
    const checks = [...expectedChecks(expect_tools, trajectory, context), ...rejected];
    return agentGrade(await Promise.all(checks), trajectory);
  },
});

const callsConfig = z.lazy(() =>
  closedObject({
    ...namedTools,
    min_calls: optional(count, "Least number of uses of any tools that succeeded."),
    max_calls: optional(count, "Most uses of any tools, failed ones included. 0: none."),
    expect: expectedCalls,
  })
    .refine(
      (all) =>
        Object.entries(all).some(([key, value]) =>
          Array.isArray(value)
            ? value.length > 0
            : value !== undefined && !(key === "min_calls" && value === 0),
        ),
      { error: "must have a tool, a number of calls or an entry in expect" },
    )
    .refine(({ min_calls = 0, max_calls = Infinity }) => min_calls <= max_calls, {
      error: "has a max_calls below min_calls",
    })
    .refine(namesNoToolTwice, { error: requiredAndForbidden }),
);

/** Were these tools called, and as often as expected? Score = checks that hold / checks that are made. */
export const toolCalls = declaredKind({
  type: "tool_calls",
  description:
    "Tools that the agent must or must not have used, and how often it may use tools. All must hold.",
  config: callsConfig,
  example: { required_tools: ["search_issues"], forbidden_tools: ["delete_issue"], max_calls: 4 },
  servers: ({ expect }) => serversOf(expect),
  prepare: ({ expect }, context) => ({ expect: requireUsableSchemas(expect, context) }),
  async grade(wanted, trajectory, context) {
    const expected = await Promise.all(expectedChecks(wanted.expect, trajectory, context));
    return agentGrade(
      [...toolChecks(wanted, trajectory), ...numberChecks(wanted, trajectory), ...expected],
      trajectory,
    );
  },
});

function serversOf(wanted: readonly WantedCall[]): readonly string[] {
  return wanted.flatMap(({ source = "" }) => serverIn({ source }) ?? []);
}

function numberChecks(
  { min_calls, max_calls }: Pick<z.output<typeof callsConfig>, "min_calls" | "max_calls">,
  trajectory: Trajectory,
): readonly GraderCheck[] {
  const worked = successfulUses(trajectory);
  const all = toolUses(trajectory);
  const checks: GraderCheck[] = [];
  if (min_calls !== undefined)
    checks.push(
      numberCheck(worked, worked.length >= min_calls, `at least ${min_calls} that succeed expected`),
    );
  if (max_calls !== undefined)
    checks.push(numberCheck(all, all.length <= max_calls, `at most ${max_calls} allowed`));
  return checks;
}

function numberCheck(uses: readonly ToolUse[], passed: boolean, wanted: string): GraderCheck {
  const names = uses.length === 0 ? "" : ` (${listed(namesOf(uses), 5)})`;
  return { passed, reason: `${calls(uses.length)}${names}, ${wanted}`, evidence: seqsOf(uses) };
}

function calls(number: number): string {
  return `${number} call${number === 1 ? "" : "s"}`;
}

function expectedChecks(
  entries: readonly z.output<typeof expectedCall>[],
  trajectory: Trajectory,
  context: GradeContext,
): readonly Promise<GraderCheck>[] {
  const uses = toolUses(trajectory);
  return entries.map(async ({ min = 1, max, ...wanted }) => {
    const found = await usesThatFit(wanted, uses, context);
    const counted = wanted.success === false ? found : found.filter(({ worked }) => worked);
    const what = describeCall(wanted);
    if (max !== undefined && found.length > max)
      return {
        passed: false,
        reason: `${calls(found.length)} of ${what}, at most ${max} allowed`,
        evidence: seqsOf(found),
      };
    if (counted.length >= min)
      return { passed: true, reason: `${calls(counted.length)} of ${what}`, evidence: seqsOf(counted) };
    const failed = found.find(({ failure }) => failure !== undefined);
    const why =
      failed === undefined || wanted.success === false
        ? ""
        : `; it failed: ${shortened(failed.failure ?? "", 200)}`;
    const number =
      min === 1
        ? `no ${wanted.success === false ? "" : "successful "}call`
        : `${calls(counted.length)} with success`;
    const least = min === 1 ? "" : `, at least ${min} expected`;
    const misspelt = found.length > 0 ? "" : misspellingNote(wanted, trajectory);
    const made = found.length > 0 || uses.length === 0 ? "" : `; called: ${listed(namesOf(uses), 10)}`;
    return {
      passed: false,
      reason: `${number} of ${what}${least}${why}${misspelt}${made}`,
      evidence: seqsOf(found),
    };
  });
}

async function rejectedCheck(
  wanted: WantedCall,
  trajectory: Trajectory,
  context: GradeContext,
): Promise<GraderCheck> {
  const { source } = wanted;
  const isOwn = source === "builtin" || source === "skill";
  // A reported use of unknown origin may be of the agent's own tool or the load of a skill.
  const uses = isOwn
    ? toolUses(trajectory).map((use) => (use.source === "unknown" ? { ...use, source } : use))
    : toolUses(trajectory);
  const found = await usesThatFit(wanted, uses, context);
  const what = describeCall(wanted);
  // A misspelt name of a tool cannot be in a call.
  const misspelt = found.length > 0 ? "" : misspellingNote(wanted, trajectory);
  const reason =
    found.length === 0
      ? `no call of ${what}${misspelt}`
      : `${calls(found.length)} of ${what}, which is rejected`;
  return { passed: found.length === 0 && misspelt === "", reason, evidence: seqsOf(found) };
}

/** A hint where the name of a tool must be a misspelt; else "". */
function misspellingNote({ tool, source = "" }: WantedCall, trajectory: Trajectory): string {
  if (tool === undefined || (source !== "" && !isOfServer({ source }))) return "";
  const misspelt = misspelling(tool, trajectory, serverIn({ source }));
  return misspelt === undefined ? "" : `; no server offers a tool of this name, ${misspelt}`;
}
