import type { Diagnostic } from "../core/errors/error.ts";
import {
  chooseAgents,
  type CompleteProgram,
  defaultAgent,
  modelAgent,
  presetAgent,
  undeclaredAgents,
} from "../core/formats/config/agent.ts";
import { suggestion } from "../core/formats/did-you-mean.ts";
import { modelId } from "../core/formats/eval-file/parse-eval-file.ts";
import type { AgentSpec, JudgeSpec } from "../core/formats/model.ts";
import type { FileProblems } from "./file-problems.ts";
import type { Surroundings } from "./surroundings.ts";

export interface RequestOptions {
  readonly problems: FileProblems;
  readonly complete: CompleteProgram;
}

/**
 * The agents that play: those asked for, else those that are declared, else the default one. A name of nothing goes to
 * the problems.
 */
export function requestedAgents(
  declared: readonly AgentSpec[],
  requested: readonly string[],
  { problems, complete }: RequestOptions,
): readonly AgentSpec[] {
  const byName = new Map(declared.map((agent) => [agent.name, agent]));
  return chooseAgents({ declared: [...byName.keys()], requested }).flatMap((choice): AgentSpec[] => {
    switch (choice.kind) {
      case "declared": {
        const agent = byName.get(choice.name);
        return agent === undefined ? [] : [agent];
      }
      case "builtin":
        return [{ type: choice.name, name: choice.name }];
      case "preset":
        return [presetAgent(choice.name, complete)];
      case "model":
        return [modelAgent(choice.model, choice.model)];
      case "unknown":
        problems.add([unknownAgent(choice.name, [...byName.keys()])]);
        return [];
      case "inline":
      case "default":
        return [modelAgent(defaultAgent.name, defaultAgent.model)];
    }
  });
}

function unknownAgent(name: string, declared: readonly string[]): Diagnostic {
  return {
    code: "config/unknown-reference",
    message: `no agent is named ${JSON.stringify(name)}`,
    hint: `${suggestion(name, [...declared, ...undeclaredAgents], "agents")} A model id is written PROVIDER/MODEL.`,
  };
}

const usualThreshold = 0.8;
const usualJudge = "openai/gpt-4o";

/** The judge that was asked for on the command line; undefined when none was. */
export function requestedJudge(
  { judge, judgeModel }: Pick<Surroundings, "judge" | "judgeModel">,
  passThreshold: number = usualThreshold,
): JudgeSpec | undefined {
  if (judgeModel === undefined) return judge === true ? { model: usualJudge, passThreshold } : undefined;
  return { model: modelId(judgeModel, "openai") ?? judgeModel, passThreshold };
}
