import * as z from "zod";
import { closedObject, filledText, optional } from "../model/fields.ts";
import { agentGrade, type GraderCheck, declaredKind, misspelling, qualified } from "./grader.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import { isOfServer, serverIn } from "../trace/agent-acts.ts";
import { type ToolUse, toolUses } from "./tool-uses.ts";
import type { Grade } from "../model/grade.ts";

const target = z.lazy(() =>
  closedObject({
    server: optional(filledText, "Name of the server."),
    tool: optional(filledText, "Name of the tool, also as SERVER.NAME."),
  }).refine(({ server, tool }) => (server ?? tool) !== undefined, { error: "must have server or tool" }),
);

const config = z.lazy(() =>
  closedObject({
    expect: z
      .union([z.literal("none"), target])
      .describe("The server and tool that the prompt should lead to; `none`: no tool of a server."),
    calls: optional(
      z.enum(["first", "any"]),
      "`first`: the agent's first call of a server's tool decides. `any`: one of its calls must be the expected one.",
      "`first`",
    ),
  }),
);

/** Where a prompt should lead. */
export type RoutingConfig = z.output<typeof config>;

/** Did the prompt lead to the right tool? Score 0.5 for the right server with another tool. */
export const toolRouting = declaredKind({
  type: "tool_routing",
  description:
    "Whether the agent's first call of a server's tool, successful or not, is one of the expected server and tool, or whether it called none. The result of a run has the matrix of expected and called tools, with precision and recall.",
  config,
  example: { expect: { server: "notes", tool: "create_note" } },
  servers: ({ expect }) => (expect === "none" || expect.server === undefined ? [] : [expect.server]),
  grade(wanted, trajectory) {
    const { isCorrect, call, later } = routeOf(wanted, trajectory);
    const evidence = [call, later].flatMap((use) => (use === undefined ? [] : [use.seq]));
    let called = "no tool of a server was called";
    if (call !== undefined)
      called =
        isCorrect && wanted.calls === "any"
          ? `${call.name} was called`
          : `the first call was of ${call.name}`;
    const after = later === undefined ? "" : `, the expected ${later.name} only later`;
    const { expect } = wanted;
    const check = (passed: boolean, what: string): GraderCheck => ({
      passed,
      reason: passed ? called : `${called}${after}; expected: ${what}`,
      evidence,
    });
    if (expect === "none") return agentGrade([check(isCorrect, "none")], trajectory);
    const { server, tool } = resolved(expect, trajectory);
    const name = targetName(expect);
    const misspelt = tool === undefined ? undefined : misspelling(tool, trajectory, server);
    const checks = [check(isCorrect, misspelt === undefined ? name : `${name}; ${misspelt}`)];
    // The right server with another tool is half of it.
    const isHalf = !isCorrect && tool !== undefined && call?.source === `mcp:${server ?? ""}`;
    return agentGrade(isHalf ? [check(true, name), ...checks] : checks, trajectory);
  },
});

type Target = z.output<typeof target>;

/** A server, a tool, or a tool of a server, as messages name it. */
export function targetName({ server, tool }: Target): string {
  if (server !== undefined && tool !== undefined) return qualified({ server, name: tool });
  return tool ?? server ?? "";
}

/** Where a prompt led. */
export interface Route {
  readonly isCorrect: boolean;
  /** The call that decides; undefined: no tool of a server was called. */
  readonly call: ToolUse | undefined;
  /** The expected call, if it came after a wrong one. */
  readonly later: ToolUse | undefined;
  /** Undefined if no tool is expected by name. */
  readonly tools: Routed | undefined;
  readonly servers: Routed | undefined;
}

/** An expected and a called tool, or server; `none`: none. */
export interface Routed {
  readonly expected: string;
  readonly called: string;
}

const none = "none";

/** Follows a prompt to the tool that the agent called: the first one, or with `calls: any` the expected one if it was called. */
export function routeOf({ expect, calls = "first" }: RoutingConfig, trajectory: Trajectory): Route {
  const made = toolUses(trajectory).filter((use) => isOfServer(use) || use.isUnknown);
  const [first] = made;
  const target = expect === none ? none : resolved(expect, trajectory);
  const fits = (use: ToolUse): boolean => target !== none && reaches(use, target);
  const reached = made.find(fits);
  const call = calls === "any" ? (reached ?? first) : first;
  const isCorrect = target === none ? call === undefined : call !== undefined && call === reached;
  const calledTool = call === undefined ? none : call.name;
  const calledServer = call === undefined ? none : serverOf(call);
  let expectedTool: string | undefined = none;
  let expectedServer: string | undefined = none;
  if (target !== none) {
    const { tool, server = onlyServerOf(tool, trajectory) } = target;
    const name = server === undefined ? tool : `${server}.${tool}`;
    expectedServer = isCorrect ? calledServer : server;
    expectedTool = isCorrect ? calledTool : name;
    if (tool === undefined) expectedTool = undefined;
  }
  return {
    isCorrect,
    call,
    later: isCorrect ? undefined : reached,
    tools: expectedTool === undefined ? undefined : { expected: expectedTool, called: calledTool },
    servers: expectedServer === undefined ? undefined : { expected: expectedServer, called: calledServer },
  };
}

/** What a prompt should lead to (`positive`), or should not. */
export interface TriggerTest extends Target {
  readonly skill?: string | undefined;
  readonly mode: "positive" | "negative";
}

/** What the prompt of a trigger test should have led to, and what it led to; for a skill, by the verdict of its grade. */
export function triggered(
  { skill, mode, ...target }: TriggerTest,
  { verdict }: Pick<Grade, "verdict">,
  trajectory: Trajectory,
): Partial<Record<"tools" | "servers" | "skills", Routed>> {
  const name = skill ?? targetName(target);
  let kind: "tools" | "servers" | "skills" = target.tool === undefined ? "servers" : "tools";
  if (skill !== undefined) kind = "skills";
  const isPositive = mode === "positive";
  const isTriggered =
    skill === undefined
      ? routeOf({ expect: target, calls: "any" }, trajectory).isCorrect
      : isPositive === (verdict === "pass");
  return { [kind]: { expected: isPositive ? name : none, called: isTriggered ? name : none } };
}

/** A target by its server and the tool's own name, where the tool is written as SERVER.NAME. */
export function resolved(target: Target, { tools }: Pick<Trajectory, "tools">): Target {
  const { server, tool } = target;
  if (tool === undefined || tools.some(({ name }) => name === tool)) return target;
  const found = tools.find((each) => qualified(each) === tool && (server ?? each.server) === each.server);
  return found === undefined ? target : { server: found.server, tool: found.name };
}

function reaches(use: ToolUse, { server, tool }: Target): boolean {
  return (server === undefined || serverOf(use) === server) && (tool === undefined || use.tool === tool);
}

/** A tool that no server offers belongs to none of them. */
function serverOf(use: ToolUse): string {
  return serverIn(use) ?? "unknown";
}

function onlyServerOf(tool: string | undefined, { tools }: Trajectory): string | undefined {
  const [server, ...others] = new Set(tools.filter(({ name }) => name === tool).map((each) => each.server));
  return others.length === 0 ? server : undefined;
}
