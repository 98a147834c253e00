import { resolve } from "node:path";
import { agentPresetFacts } from "../../core/formats/agent-presets.ts";
import type { AgentFile } from "../../core/formats/eval-file/parse-agent-file.ts";
import type { KeyPath } from "../../core/formats/key-path.ts";
import type { AgentSpec } from "../../core/formats/model.ts";
import { placeProblems } from "../../core/formats/place-problems.ts";
import { pathKind } from "../path-kind.ts";
import type { EvalContext } from "./eval-context.ts";

interface Refusal {
  readonly message: string;
  readonly hint: string;
  /** Absent: at the skills as a whole. */
  readonly path?: KeyPath;
}

/**
 * The agent with the eval's skills; `own` is where its own file says that it looks for them. An agent that cannot have any
 * goes to the problems; those that play what is written need none.
 */
export function withSkills(agent: AgentSpec, own: AgentFile["skills"], context: EvalContext): AgentSpec {
  const { file, dir, problems, document } = context;
  if (file.skills === undefined || ["scripted", "oracle", "null"].includes(agent.type)) return agent;
  const folders = file.skills.map((path) => resolve(dir, path));
  const given = skillsOf(agent, own, folders);
  if (!("message" in given)) return { ...agent, ...given };
  const { message, hint, path = ["config", "skills"] } = given;
  const problem = { code: "config/invalid-value", message, hint, path, at: "value" } as const;
  problems.add(placeProblems([problem], document.locate), document.source);
  return agent;
}

function skillsOf(
  agent: AgentSpec,
  own: AgentFile["skills"],
  folders: readonly string[],
): Pick<Extract<AgentSpec, { type: "acp" }>, "skills"> | Refusal {
  const named = `the agent ${JSON.stringify(agent.name)}`;
  if (agent.type !== "acp" && agent.type !== "command") {
    const hint = "Use an agent that is a program, such as --agent claude-code.";
    return { message: `${named} is a model, which has no skills`, hint };
  }
  const place = own ?? (agent.preset === undefined ? undefined : agentPresetFacts[agent.preset].skills);
  if (place === undefined) {
    const hint = "Say so in its file: skills: {mountPath: FOLDER, toolName: TOOL}; or give it a preset.";
    return { message: `it is not known where ${named} looks for skills`, hint };
  }
  if (agent.cwd !== undefined) {
    const hint = "Leave out its cwd, so that it works in a fresh workspace.";
    return { message: `${named} works in a folder of its own, where no skills are copied`, hint };
  }
  const lost = folders.findIndex((folder) => pathKind(folder) !== "folder");
  if (lost === -1) return { skills: { ...place, folders } };
  const path = ["config", "skills", "sources", lost, "path"];
  return {
    message: `there is no folder ${folders[lost]}`,
    hint: "Paths start from the eval's folder.",
    path,
  };
}
