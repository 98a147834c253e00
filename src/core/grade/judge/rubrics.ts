import type { Rubric } from "./judge-prompt.ts";

/** A rubric that a grader can name. */
export interface NamedRubric extends Rubric {
  readonly levels: readonly number[];
  /** Lowest score that passes, unless the grader says another. */
  readonly threshold: number;
}

function levels(descriptions: Readonly<Record<string, string>>): Pick<NamedRubric, "text" | "levels"> {
  // Keys that look like whole numbers would come first.
  const scores = Object.entries(descriptions).map(([score, text]) => [Number(score), text] as const);
  const ordered = scores.toSorted(([a], [b]) => a - b);
  return {
    text: ordered.map(([score, text]) => `- ${score}: ${text}`).join("\n"),
    levels: ordered.map(([score]) => score),
  };
}

/** Puts a sentence before the levels. */
function rubric(
  question: string,
  threshold: number,
  descriptions: Readonly<Record<string, string>>,
): NamedRubric {
  const { text, levels: scores } = levels(descriptions);
  return { text: `${question}\n${text}`, levels: scores, threshold };
}

/** The rubrics that come with mcpvals, by name. */
export const rubrics: Readonly<Record<string, NamedRubric>> = {
  tool_call_accuracy: rubric(
    "How good are the tool calls as a whole: were the right tools called, with the right arguments, and no others? Compare " +
      "them with the definitions of the tools on offer.",
    0.75,
    {
      0: "the calls have nothing to do with what the user asked, or there are none although the task needs some",
      0.25: "a needed call is missing, or arguments are wrong or made up, so that the task could not be done",
      0.5: "the calls serve the task, but several of them were unnecessary or repeated",
      0.75: "the calls did what was needed after a failed or wrong call that the assistant corrected",
      1: "every call was needed, right at the first try, and none is missing",
    },
  ),
  tool_selection: rubric(
    "Were the right tools chosen? Look at the names and definitions of the tools only, not at arguments or results.",
    1,
    {
      0: "a tool that the task needs was not called, or a tool was called that the task does not need",
      1: "exactly the tools were called that the task needs, or none where it needs none",
    },
  ),
  tool_input_accuracy: rubric(
    "Were the arguments of all calls right? They have to come from what the user said or from results of earlier calls, " +
      "have the type and format that the tool's input schema asks for, include every required parameter and no unknown " +
      "one, and fit what the user wants.",
    1,
    {
      0: "an argument of a call breaks one of these conditions",
      1: "the arguments of every call keep all of these conditions",
    },
  ),
  tool_output_utilization: rubric(
    "Did the assistant use what the tools returned correctly? Compare each claim of its messages that rests on a tool with " +
      "the results in the record.",
    1,
    {
      0: "a claim contradicts a result, is not in any result, or leaves out a result or an error that the user has to know",
      1: "all claims agree with the results, and nothing that matters is left out",
    },
  ),
  task_completion: rubric(
    "Was everything done that the user asked for, as far as the record shows it? What the assistant only says that it did is " +
      "not done.",
    1,
    {
      0: "a part of what the user asked for was not done, or its outcome is wrong",
      0.5: "the main part was done and is right, and a minor part is missing",
      1: "everything was done, and its outcome is right",
    },
  ),
};
