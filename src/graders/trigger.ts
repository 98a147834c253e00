import * as z from "zod";
import { closedObject, filledText, optional } from "../model/fields.ts";
import { skillInvocation } from "./action-sequence.ts";
import { agentGrade, declaredKind, misspelling, skip } from "./grader.ts";
import { resolved, routeOf, targetName } from "./tool-routing.ts";
import { skillLoads } from "./tool-uses.ts";

const config = z.lazy(() =>
  closedObject({
    skill: optional(filledText, "Name of the skill."),
    server: optional(filledText, "Name of the server."),
    tool: optional(filledText, "Name of the tool, also as SERVER.NAME; with `server`, of that server."),
    mode: z
      .enum(["positive", "negative"])
      .default("positive")
      .describe("`positive`: the prompt must lead to it. `negative`: it must not."),
  }).refine(({ skill, server, tool }) => (skill === undefined) !== ((server ?? tool) === undefined), {
    error: "must have a skill, or a server or tool, and not both",
  }),
);

/** Did the prompt lead to a skill, server or tool, where it should, and only there? */
export const trigger = declaredKind({
  type: "trigger",
  description:
    "Whether the prompt led the agent to a skill, a server or a tool, as it should or should not. It did when the agent loaded the skill, as far as it reports that, or called a tool of the server, with success or not. The result of a run has the matrix, with precision and recall.",
  config,
  example: { server: "notes", mode: "negative" },
  servers: ({ server }) => (server === undefined ? [] : [server]),
  grade({ skill, server, tool, mode }, trajectory, context) {
    const isPositive = mode === "positive";
    if (skill !== undefined) {
      const { given, loads } = skillLoads(trajectory);
      if (!isPositive && loads.length === 0 && given?.includes(skill) === false)
        return skip(`the agent was not given the skill ${skill}`);
      const key = isPositive ? "required_skills" : "forbidden_skills";
      return skillInvocation.grade(skillInvocation.config.parse({ [key]: [skill] }), trajectory, context);
    }
    const { isCorrect, call } = routeOf({ expect: { server, tool }, calls: "any" }, trajectory);
    const target = resolved({ server, tool }, trajectory);
    const name = targetName({ server, tool });
    const isOffered = trajectory.tools.some(
      (each) => (target.server ?? each.server) === each.server && (target.tool ?? each.name) === each.name,
    );
    const misspelt = isCorrect || tool === undefined ? undefined : misspelling(tool, trajectory, server);
    if (!isPositive && !isCorrect && !isOffered && misspelt === undefined)
      return skip(tool === undefined ? `${name} offers no tool` : `no server offers ${name}`);
    const hint = misspelt === undefined ? "" : `; no server offers a tool of this name, ${misspelt}`;
    const reason = isCorrect ? `${call?.name ?? name} was called` : `${name} was not called${hint}`;
    const evidence = isCorrect && call !== undefined ? [call.seq] : [];
    // A misspelt name of a tool cannot be in a call.
    const passed = isCorrect === isPositive && misspelt === undefined;
    return agentGrade([{ passed, reason, evidence }], trajectory);
  },
});
