import { graderKind, skip } from "./grader.ts";

/** What another tool says of a trial that it ran. It gives no verdict: mcpvals has no evidence of it. */
export const reportedVerdict = graderKind({
  type: "reported-verdict",
  forms: ["workflow"],
  applies: ({ transcript }) => transcript?.reported !== undefined,
  grade(_, { transcript }) {
    const { by = "", verdict = "", reason = "" } = transcript?.reported ?? {};
    const why = reason === "" ? "" : `: ${reason}`;
    return skip(`${by} reported ${verdict}${why}`, transcript === undefined ? [] : [transcript.seq]);
  },
});
