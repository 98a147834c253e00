import { McpvalsError, serializeError } from "../../base/error.ts";
import { modelId } from "../../model/agent.ts";
import type { JudgeSpec } from "../../model/eval.ts";
import type { Task } from "../../model/task.ts";
import { graderKind, skip } from "../grader.ts";
import { judgePrompt } from "./judge-prompt.ts";
import { scoreForm } from "./verdict-forms.ts";
import { judgedEvents } from "./votes.ts";

/** Name of the grades of the judge of workflows. */
export const judgeName = "llm-judge";

/**
 * Asks the judge of an eval for a score from 0 to 1 of what an agent did in a workflow; it passes from the judge's threshold on. It
 * rests on the last assistant message and the tool calls. Without a usable verdict, for whatever reason, the grade is an error without
 * a score.
 */
export const llmJudge = graderKind({
  type: judgeName,
  forms: ["workflow"],
  settingsOf: (task: Task, judge: JudgeSpec | undefined) => (canBeJudged(task) ? judge : undefined),
  async grade({ passThreshold: threshold }, trajectory, { askJudge }) {
    if (trajectory.task.turns.length === 0) return skip("no agent took part");
    const evidence = judgedEvents(trajectory);
    try {
      const prompt = (nonce: string) => judgePrompt(trajectory, { nonce });
      const { verdict, ...asked } = await askJudge({ prompt, form: scoreForm });
      const { score, reason } = verdict;
      const judge = { ...asked, threshold, votes: [score] };
      return { verdict: score >= threshold ? "pass" : "fail", score, reason, evidence, judge };
    } catch (error) {
      if (!(error instanceof McpvalsError) || error.kind === "interrupted") throw error;
      return { verdict: "error", score: null, reason: error.message, evidence, error: serializeError(error) };
    }
  },
});

/** Whether the judge of workflows has something to judge in a task. */
export function canBeJudged({ turns, form }: Pick<Task, "turns" | "form">): boolean {
  return turns.length > 0 && form !== "task";
}

/** The judge of a grader. Throws `config/no-judge` when there is none. */
export function judgeOf(spec: JudgeSpec | undefined, model: string | undefined): JudgeSpec {
  if (model !== undefined) {
    const isOfServer = spec?.baseURL !== undefined && !model.includes("/");
    return isOfServer ? { ...spec, model } : { model: modelId(model) ?? model, passThreshold: 1 };
  }
  if (spec !== undefined) return spec;
  throw new McpvalsError("config/no-judge", "a grader asks a judge, and none is configured");
}
