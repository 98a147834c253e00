import * as z from "zod";
import { closedObject, filledText, optional } from "../formats/config/config-fields.ts";
import { agentGrade, type GraderCheck, graderKind, qualified } from "./grader.ts";
import { routeOf } from "./measurements/route.ts";
import { nameOfUse } from "./tool-uses.ts";

const target = closedObject({
  server: optional(filledText, "Name of the server."),
  tool: optional(filledText, "Name of the tool."),
}).refine(({ server, tool }) => (server ?? tool) !== undefined, { error: "must have server or tool" });

const config = closedObject({
  expect: z
    .union([z.literal("none"), target])
    .describe("The server and tool that the prompt should lead to; `none`: no tool of a server."),
  calls: optional(
    z.enum(["first", "any"]),
    "`first`: the agent's first call of a server's tool decides. `any`: one of its calls must be the expected one.",
    "`first`",
  ),
});

/** Did the prompt lead to the right tool? Score = what was right / what was expected of server and tool. */
export const toolRouting = graderKind({
  type: "tool_routing",
  description:
    "Whether the agent's first call of a server's tool, successful or not, is one of the expected server and tool, or whether it called none. The result of a run has the matrix of expected and called tools, with precision and recall.",
  config,
  example: { expect: { server: "notes", tool: "create_note" } },
  servers: ({ expect }) => (expect === "none" || expect.server === undefined ? [] : [expect.server]),
  grade(wanted, trajectory) {
    const { isCorrect, call, later } = routeOf(wanted, trajectory);
    const evidence = [call, later].flatMap((use) => (use === undefined ? [] : [use.seq]));
    const called =
      call === undefined
        ? "no tool of a server was called"
        : isCorrect && wanted.calls === "any"
          ? `${nameOfUse(call)} was called`
          : `the first call was of ${nameOfUse(call)}`;
    const after = later === undefined ? "" : `, the expected ${nameOfUse(later)} only later`;
    const { expect } = wanted;
    const check = (passed: boolean, what: string): GraderCheck => ({
      passed,
      reason: passed ? called : `${called}${after}; expected: ${what}`,
      evidence,
    });
    if (expect === "none") return agentGrade([check(isCorrect, "none")], trajectory);
    const { server, tool } = expect;
    const name =
      server !== undefined && tool !== undefined ? qualified({ server, name: tool }) : (tool ?? server);
    const checks = [check(isCorrect, name ?? "")];
    // The right server with another tool is half of it.
    const isHalf = !isCorrect && tool !== undefined && call?.source === `mcp:${server ?? ""}`;
    return agentGrade(isHalf ? [check(true, name ?? ""), ...checks] : checks, trajectory);
  },
});
