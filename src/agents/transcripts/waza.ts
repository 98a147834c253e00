import * as z from "zod";
import { type JsonObject, withoutUndefined } from "../../base/json.ts";
import { parseAs } from "../../base/parse-as.ts";
import { jsonObject, text } from "../../model/fields.ts";
import type { ReportedVerdict } from "../../model/grade.ts";
import { jsonOf, messageEvent, textOf, type WireObject } from "../programs/preset.ts";
import { noPrompt, type TranscriptEntry, type TranscriptFormat, unknownAgent } from "./transcript.ts";

/** The results that waza writes of an eval: one JSON document. */
export const wazaResults: TranscriptFormat = {
  program: "waza",
  place: "the file of waza run -o FILE",
  recognises: ({ eval_name: name, config, tasks }) =>
    typeof name === "string" && typeof config === "object" && Array.isArray(tasks),
  createReader: () => ({ read, finish: () => [] }),
  subagentTools: new Set(),
  // Its engine puts the server before the tool, with a dash that its own tools do not have.
  originIn: (name) => (name.includes("-") ? "unknown" : undefined),
};

const validation = z.object({ passed: z.boolean(), feedback: text.nullish() });

const event = z.object({
  type: text,
  content: text.nullish(),
  message: text.nullish(),
  arguments: jsonObject.nullish(),
  success: z.boolean().nullish(),
  tool_call_id: text.nullish(),
  tool_name: text.nullish(),
  tool_result: z.unknown().optional(),
});

const resultsSchema = z.object({
  eval_name: text,
  config: z.object({ model_id: text.nullish(), engine_type: text.nullish() }),
  tasks: z.array(
    z.object({
      test_id: text,
      display_name: text.nullish(),
      runs: z.array(
        z.object({
          status: text,
          validations: z.record(text, validation).nullish(),
          transcript: z.array(event).nullish(),
          final_output: text.nullish(),
          error_msg: text.nullish(),
        }),
      ),
    }),
  ),
});

type Run = z.output<typeof resultsSchema>["tasks"][number]["runs"][number];

/** Throws an Error for a document that is not as the tool writes it. */
function read(document: WireObject): readonly TranscriptEntry[] {
  const { config, tasks } = parseAs(resultsSchema, document, "no result file of waza");
  const { model_id: model, engine_type: engine } = config;
  // What its engine starts.
  const agent = engine === "copilot-sdk" ? "copilot" : (textOf(engine) ?? unknownAgent);
  return tasks.flatMap(({ test_id: id, display_name: name, runs }) =>
    runs.flatMap((run): readonly TranscriptEntry[] => [
      withoutUndefined({
        kind: "trial" as const,
        agent,
        task: textOf(name) ?? id,
        attemptOf: runs.length > 1 ? id : undefined,
        reported: reportOf(run),
      }),
      ...(textOf(model) === undefined ? [] : [{ kind: "ran", model: textOf(model) ?? "" } as const]),
      ...entriesOf(run),
    ]),
  );
}

function reportOf({ status, validations, error_msg: error }: Run): ReportedVerdict {
  const failed = Object.entries(validations ?? {}).flatMap(([name, { passed, feedback }]) =>
    passed ? [] : [`${name}: ${feedback ?? "failed"}`],
  );
  const verdict = status === "passed" ? "pass" : status === "failed" ? "fail" : "error";
  const other = verdict === "error" && status !== "error" ? [`status ${status}`] : [];
  return { by: "waza", verdict, reason: [...other, textOf(error), ...failed].filter(Boolean).join("; ") };
}

function entriesOf(run: Run): readonly TranscriptEntry[] {
  const events = run.transcript ?? [];
  const isTold = events.some(({ type }) => type === "user.message");
  const names = new Map<string, { readonly name: string; readonly args: JsonObject | undefined }>();
  const uses = events.filter(({ type }) => type.startsWith("tool.execution_"));
  const told = events.flatMap((each): readonly TranscriptEntry[] => {
    const { type, content, message, tool_call_id: callId, tool_name: tool, success } = each;
    const words = textOf(content) ?? textOf(message);
    switch (type) {
      case "user.message":
        return [{ kind: "user", text: words ?? "" }];
      case "assistant.message":
        return [...messageEvent(words)];
      case "tool.execution_start":
      case "tool.execution_complete": {
        if (typeof callId !== "string") return [];
        const before = names.get(callId);
        const name = textOf(tool) ?? before?.name;
        if (name === undefined) return [];
        const args = Object.keys(each.arguments ?? {}).length > 0 ? each.arguments : before?.args;
        names.set(callId, { name, args: args ?? undefined });
        const use = withoutUndefined({ kind: "tool" as const, callId, name, args: args ?? undefined });
        if (type === "tool.execution_start") return [{ ...use, status: "started" }];
        const result = jsonOf(each.tool_result);
        return [
          withoutUndefined({
            ...use,
            status: success === true ? "completed" : "failed",
            result,
          }) as TranscriptEntry,
        ];
      }
      default:
        return [];
    }
  });
  const hasWords = told.some(({ kind }) => kind === "message");
  const isError = run.status !== "passed" && run.status !== "failed";
  return [
    ...(isTold ? [] : [{ kind: "user", text: "" } as const, ...noPrompt]),
    ...told,
    // All messages in one, where there are no others.
    ...(hasWords ? [] : messageEvent(run.final_output)),
    isError
      ? { kind: "failed", message: textOf(run.error_msg) ?? `waza says ${run.status}` }
      : { kind: "end", reason: "done" },
    ...(uses.length === 0
      ? []
      : [
          {
            kind: "remark",
            text: "waza keeps of the arguments of a call only path, file_text, command, description and skill: the others are unknown",
          } as const,
        ]),
  ];
}
