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
}

const usualThreshold = 0.8;

/** The judge of an eval: the one asked for, else its own. */
export async function evalJudge(context: EvalContext): Promise<EvalJudge> {
  const { file, surroundings } = context;
  const own = file.judge;
  const passThreshold = own?.passThreshold ?? usualThreshold;
  const asked = surroundings.judgeModel !== undefined || own === undefined;
  if (asked) return { judge: requestedJudge(surroundings, passThreshold), notes: [] };
  if (own.kind === "env") return { judge: fromVariables(own, passThreshold, context), notes: [] };
  const { model: agent, notes } = await referredModel(own.agent, context);
  if (agent === undefined) return { judge: undefined, notes };
  const { model, baseURL, apiKey } = agent;
  const judge = {
    model,
    passThreshold,
    ...(baseURL === undefined ? {} : { baseURL }),
    ...(apiKey === undefined ? {} : { apiKey }),
  };
  return { judge, notes };
}

type VariableJudge = Extract<JudgeRef, { kind: "env" }>;

function fromVariables(
  names: VariableJudge,
  passThreshold: number,
  context: EvalContext,
): JudgeSpec | undefined {
  const baseURL = read(names.baseURL, context);
  const apiKey = read(names.apiKey, context);
  const named = read(names.model, context);
  if (baseURL === undefined || apiKey === undefined || named === undefined) return undefined;
  return { model: modelId(named, "openai") ?? named, baseURL, apiKey, passThreshold };
}

function read(name: string, { surroundings, problems, document }: EvalContext): string | undefined {
  const { overrides, environment } = surroundings;
  const value = variableNamed(name, overrides) ?? variableNamed(name, environment);
  if (value !== undefined && value !== "") return value;
  const location = document.locate({ path: ["config", "llmJudge"], at: "value" });
  const message = `llmJudge: the variable ${name} is not set`;
  const hint = `Set ${name}, pass --env ${name}=VALUE, or choose another judge with --judge MODEL.`;
  problems.add(
    [{ code: "config/unset-variable", message, hint, ...(location === undefined ? {} : { location }) }],
    document.source,
  );
  return undefined;
}
