import * as z from "zod";
import { closedObject, filledText, optional, passingScore } from "../model/fields.ts";
import { suggestion } from "../base/did-you-mean.ts";
import { McpvalsError } from "../base/error.ts";
import type { NamedFile } from "./declared.ts";
import { declaredKind, type KindContext, nothingDone, passOrFail, skip } from "./grader.ts";
import { rubrics } from "./judge/judge-prompt.ts";
import { judgeByComparison, judgeByRubric, judgedEvents } from "./judge/votes.ts";
import { defaultThreshold } from "../model/agent.ts";
import { finalMessage } from "../trace/trajectory.ts";

const names = Object.keys(rubrics);

/** One word is meant as a name. */
export const rubricText = filledText.refine((text) => !/^\w+$/.test(text) || Object.hasOwn(rubrics, text), {
  error: ({ input }) =>
    `is not a rubric of that name, and too short to be one. ${suggestion(String(input), names, "rubrics")}`,
});

const config = z.lazy(() =>
  closedObject({
    rubric: optional(
      rubricText,
      `What decides about the score, in your own words, or the name of a rubric: ${names.map((name) => `\`${name}\``).join(", ")}.`,
    ),
    prompt: optional(filledText, "The same as a `rubric` in your own words."),
    rubric_file: optional(filledText, "A text file with the rubric."),
    mode: z
      .enum(["pointwise", "pairwise"])
      .default("pointwise")
      .describe(
        "`pointwise`: a score for the trial. `pairwise`: whether the agent's last message is better than the reference; the judge is asked in both orders, of which the weaker verdict counts; one that prefers the same position in both contradicts itself, which is not a verdict (an error) unless other votes decide.",
      ),
    reference: optional(filledText, "The answer to compare with, for `pairwise`."),
    reference_file: optional(filledText, "A text file with that answer."),
    threshold: optional(
      passingScore,
      "Lowest score that passes. `pairwise` gives 1 for much better, 0.75 for slightly better, 0.5 for as good, 0.25 for slightly and 0 for much worse.",
      "0.8, or that of the named rubric; for `pairwise` 0.5",
    ),
    votes: z
      .int()
      .min(1)
      .max(15)
      .refine((votes) => votes % 2 === 1, { error: "must be odd, so that most votes agree with the median" })
      .default(1)
      .describe("How often the judge is asked. The score is the median; the grade shows all of them."),
    model: optional(filledText, "Model to ask, as `PROVIDER/MODEL`.", "that of the eval's judge"),
    second_model: optional(
      filledText,
      "Another model, best of another maker, that is asked the same. The grade does not depend on it; it says whether both agree, and the run how often they do.",
    ),
  })
    .refine((all) => given(all, ["rubric", "prompt", "rubric_file"]) <= 1, {
      error: "must have only one of rubric, prompt and rubric_file",
    })
    .refine((all) => all.mode === "pairwise" || given(all, ["rubric", "prompt", "rubric_file"]) > 0, {
      error: "must have a rubric, which says what decides about the score",
    })
    .refine((all) => given(all, ["reference", "reference_file"]) === (all.mode === "pairwise" ? 1 : 0), {
      error: "must have one of reference and reference_file for mode: pairwise, and none otherwise",
    }),
);

/** Its settings. */
export type PromptSettings = z.output<typeof config>;

function given<K extends string>(all: Readonly<Partial<Record<K, unknown>>>, keys: readonly K[]): number {
  return keys.filter((key) => all[key] !== undefined).length;
}

/** How does a language model score the trial? Score = the median of its scores. */
export const prompt = declaredKind({
  type: "prompt",
  description:
    "Asks a language model, the judge, which gets the task, the tools on offer, the agent's calls with arguments and results, and its messages. Passes from `threshold` on. Without a verdict it is an error.",
  config,
  example: { rubric: "tool_output_utilization", votes: 3 },
  judge: askedJudge,
  files(all: PromptSettings) {
    return filesOf(all);
  },
  async grade(all, trajectory, context) {
    const nothing = nothingDone(trajectory);
    if (nothing !== undefined) return skip(nothing);
    const { mode } = all;
    const judging = { votes: all.votes, ...askedJudge(all) };
    const [text, reference] = await Promise.all([
      all.rubric ?? all.prompt ?? readTextFile(all.rubric_file, context),
      all.reference ?? readTextFile(all.reference_file, context),
    ]);
    const named = all.rubric === undefined ? undefined : rubrics[all.rubric];
    if (mode === "pointwise") return judgeByRubric(named ?? { text }, judging, trajectory, context);
    if ((finalMessage(trajectory)?.text ?? "").trim() === "") {
      const reason = "the agent gave no answer that could be compared";
      return passOrFail(0, 1, { reason, evidence: judgedEvents(trajectory) });
    }
    const criteria = named?.text ?? text;
    return judgeByComparison({ reference, criteria }, judging, trajectory, context);
  },
});

function askedJudge({ model, second_model: second, mode, rubric = "", ...all }: PromptSettings) {
  const ofMode = mode === "pairwise" ? 0.5 : (rubrics[rubric]?.threshold ?? defaultThreshold);
  return { model, second, threshold: all.threshold ?? ofMode };
}

const fileKeys = ["rubric_file", "reference_file"] as const;

function filesOf(config: PromptSettings): readonly NamedFile[] {
  return fileKeys.flatMap((key) => {
    const file = config[key];
    return file === undefined ? [] : [{ path: [key], file }];
  });
}

/** The text of a file, which must not be blank; "" without a file. */
async function readTextFile(file: string | undefined, { dir, readFile }: KindContext): Promise<string> {
  if (file === undefined) return "";
  const { text = "" } = await readFile(dir, file);
  if (text.trim() === "")
    throw new McpvalsError("config/invalid-value", `${file} has no text`, {
      hint: "Write the rubric or the answer into it, as UTF-8.",
    });
  return text;
}
