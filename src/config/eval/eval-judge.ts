import type { Diagnostic } from "../../core/errors/error.ts";
import { modelId } from "../../core/formats/eval-file/model-id.ts";
import type { JudgeRef } from "../../core/formats/eval-file/eval-file.ts";
import type { JudgeSpec } from "../../core/formats/model.ts";
import { variableNamed } from "../environment.ts";
import { requestedJudge } from "../requested-agents.ts";
import type { EvalContext } from "./eval-context.ts";
import { referredModel } from "./eval-agents.ts";

export interface EvalJudge {
  readonly judge: JudgeSpec | undefined;
  readonly notes: readonly string[];
  /** What is wrong with the judge alone: of no interest to a run that asks none. */
  readonly problems: readonly Diagnostic[];
}

const usualThreshold = 0.8;

/** The judge of an eval: the one asked for, else its own. */
export async function evalJudge(context: EvalContext): Promise<EvalJudge> {
  const { file, surroundings } = context;
  const own = file.judge;
  const passThreshold = own?.passThreshold ?? usualThreshold;
  const asked = surroundings.judgeModel !== undefined || own === undefined;
  if (asked) return { judge: requestedJudge(surroundings, passThreshold), notes: [], problems: [] };
  if (own.kind === "env") return fromVariables(own, passThreshold, context);
  const { model: agent, notes } = await referredModel(own.agent, context);
  if (agent === undefined) return { judge: undefined, notes, problems: [] };
  const { model, baseURL, apiKey } = agent;
  const judge = {
    model,
    passThreshold,
    ...(baseURL === undefined ? {} : { baseURL }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  return { judge, notes, problems: [] };
}

type VariableJudge = Extract<JudgeRef, { kind: "env" }>;

function fromVariables(names: VariableJudge, passThreshold: number, context: EvalContext): EvalJudge {
  const baseURL = read(names.baseURL, context);
  const apiKey = read(names.apiKey, context);
  const model = read(names.model, context);
  const problems = [names.baseURL, names.apiKey, names.model]
    .filter((name) => read(name, context) === undefined)
    .map((name) => unset(name, context));
  if (baseURL === undefined || apiKey === undefined || model === undefined)
    return { judge: undefined, notes: [], problems };
  const judge = { model: modelId(model, "openai") ?? model, baseURL, apiKey, passThreshold };
  return { judge, notes: [], problems };
}

function read(name: string, { surroundings }: EvalContext): string | undefined {
  const { overrides, environment } = surroundings;
  return (variableNamed(name, overrides) ?? variableNamed(name, environment)) || undefined;
}

function unset(name: string, { document }: EvalContext): Diagnostic {
  const location = document.locate({ path: ["config", "llmJudge"], at: "value" });
  const message = `llmJudge: the variable ${name} is not set`;
  const hint = `Set ${name}, pass --env ${name}=VALUE, or choose another judge with --judge MODEL.`;
  return { code: "config/unset-variable", message, hint, ...(location === undefined ? {} : { location }) };
}
