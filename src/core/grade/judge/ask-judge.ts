import type { JudgePrompt } from "./judge-prompt.ts";
import type { VerdictForm } from "./verdict-forms.ts";

/** One question to a judge. */
export interface JudgeRequest<V> {
  /** Writes it around an unpredictable text; the system message depends on nothing else of the trial. */
  readonly prompt: (nonce: string) => JudgePrompt;
  readonly form: VerdictForm<V>;
  /** A model other than that of the eval's judge. */
  readonly model?: string | undefined;
}

/** What a judge said, and who it was. */
export interface JudgeResponse<V> {
  readonly verdict: V;
  readonly model: string;
  /** `sha256:HEX` of its instructions: those of every trial that is judged the same way. */
  readonly prompt: string;
}

/** Asks a judge. Rejects with `judge/no-verdict` without a usable verdict, and with what the model throws. */
export type AskJudge = <V>(request: JudgeRequest<V>) => Promise<JudgeResponse<V>>;
