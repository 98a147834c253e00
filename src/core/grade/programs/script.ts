import { anyObject, closedObject, filledText } from "../../formats/config/config-fields.ts";
import { graderKind, nothingDone, skip } from "../grader.ts";
import { answerFields, findingOf, readAnswer, usualTimeoutMs } from "./answer.ts";
import { type JavaScriptWork, runCode } from "./javascript.ts";
import { recordOf } from "./trajectory-record.ts";

const config = closedObject({
  file: filledText
    .regex(/\.(?:ts|mts|js|mjs)$/, { error: "must be a file that ends in .ts, .mts, .js or .mjs" })
    .describe(
      "The file, relative to the one that declares the grader. Its default export is what `defineGrader` gives.",
    ),
  settings: anyObject.default({}).describe("Settings for it."),
  ...answerFields,
});

/** What does a function of the user's own say of the trial? */
export const script = graderKind({
  type: "script",
  description:
    "Calls a function of a TypeScript or JavaScript file with the trial. It answers with {score, passed, reason, evidence}; a score of null means that there was nothing to judge. It runs in a process of its own: an exception, an endless loop or a crash is an error of this grader alone.",
  config,
  example: { file: "./one-call.ts", settings: { tool: "add" }, timeout: "10s" },
  files: ({ file }) => [{ path: ["file"], file }],
  async grade(wanted, trajectory, { dir, runProgram }) {
    const nothing = nothingDone(trajectory);
    if (nothing !== undefined) return skip(nothing);
    const { file, settings, timeout: timeoutMs = usualTimeoutMs, inheritEnv, threshold } = wanted;
    const record = recordOf(trajectory);
    const work: JavaScriptWork = { kind: "script", file, settings, trajectory: record };
    const answer = await runCode(file, work, { dir, runProgram, inheritEnv, timeoutMs });
    const { length: lastEvent } = trajectory.events;
    return findingOf(readAnswer(answer), { threshold, record, lastEvent });
  },
});
