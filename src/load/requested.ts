import { McpvalsError } from "../core/errors/error.ts";
import {
  buildAgents,
  chooseAgents,
  type CompleteProgram,
  type DeclaredAgents,
} from "../core/formats/config/agent.ts";
import { modelId } from "../core/formats/eval-file/parse-eval-file.ts";
import type { AgentSpec, JudgeSpec } from "../core/formats/model.ts";
import type { FileProblems } from "./file-problems.ts";
import type { LoadContext } from "./environment.ts";

/** The agents that play: those asked for, else those that are declared, else the default one. An unknown name is a problem. */
export function requestedAgents(
  declared: DeclaredAgents,
  requested: readonly string[],
  { problems, complete }: { readonly problems: FileProblems; readonly complete: CompleteProgram },
): readonly AgentSpec[] {
  const choices = chooseAgents(declared, requested);
  for (const choice of choices)
    if (choice.kind === "unknown")
      problems.add([
        {
          code: "config/unknown-reference",
          message: `no agent is named ${JSON.stringify(choice.name)}`,
          hint: choice.hint,
        },
      ]);
  return buildAgents(choices, complete);
}

const usualThreshold = 0.8;
const usualJudge = "openai/gpt-4o";

/** The judge that was asked for on the command line; undefined when none was. */
export function requestedJudge(
  { judge, judgeModel }: Pick<LoadContext, "judge" | "judgeModel">,
  passThreshold: number = usualThreshold,
): JudgeSpec | undefined {
  if (judgeModel === undefined) return judge === true ? { model: usualJudge, passThreshold } : undefined;
  return { model: modelId(judgeModel, "openai") ?? judgeModel, passThreshold };
}

/** The error for `--mcp-config` beside a file that says itself which servers there are; `shown` is the file in messages. */
export function ownServers(shown: string): McpvalsError {
  return new McpvalsError(
    "usage/invalid-option",
    `${shown} has servers of its own, which --mcp-config does not replace`,
    { hint: "Leave out --mcp-config, or take the servers out of the file." },
  );
}
