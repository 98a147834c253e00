import { randomUUID } from "node:crypto";
import { McpvalsError, serializeError } from "../core/errors/error.ts";
import type { JudgeSpec } from "../core/formats/model.ts";
import type { Grade, Grader } from "../core/grade/grader.ts";
import { judgePrompt } from "../core/grade/judge-prompt.ts";
import type { Trajectory } from "../core/trace/trajectory.ts";
import { askJudge, type AskOptions } from "./ask-judge.ts";
import { scoreForm } from "./verdict-form.ts";

/** `emit` is that of the trial that is graded. */
export interface JudgeOptions extends AskOptions {
  /** Gives a text that nobody can know before. Default: a random UUID. */
  readonly nonce?: () => string;
}

const name = "llm-judge";

/**
 * Makes a grader that asks a language model for a score from 0 to 1; the grade passes at the spec's threshold. It
 * rests on the last assistant message and the tool calls. Without a usable verdict, for whatever reason, the grade is
 * an error without a score: `judge/no-verdict`, or the code that says why the model could not be asked.
 *
 * `grade` throws only the signal's reason.
 */
export function createJudge(spec: JudgeSpec, options: JudgeOptions): Grader {
  return {
    name,
    async grade(trajectory): Promise<Grade> {
      const evidence = evidenceOf(trajectory);
      if (trajectory.task.turns.length === 0) {
        return { grader: name, verdict: "skip", score: null, reason: "no agent took part", evidence };
      }
      try {
        const prompt = judgePrompt(trajectory, { nonce: (options.nonce ?? randomUUID)() });
        const { score, reason } = await askJudge({ prompt, form: scoreForm }, spec, options);
        return {
          grader: name,
          verdict: score >= spec.passThreshold ? "pass" : "fail",
          score,
          reason,
          evidence,
        };
      } catch (error) {
        options.signal.throwIfAborted();
        if (!(error instanceof McpvalsError)) throw error;
        return {
          grader: name,
          verdict: "error",
          score: null,
          reason: error.message,
          evidence,
          error: serializeError(error),
        };
      }
    },
  };
}

function evidenceOf({ events, calls }: Trajectory): number[] {
  const message = events.findLast((event) => event.type === "agent.message");
  const seqs = calls.filter((call) => call.step === undefined).map((call) => call.seq);
  return [...seqs, ...(message === undefined ? [] : [message.seq])].toSorted((a, b) => a - b);
}
