import * as z from "zod";
import { asList, asObject, type Json, type JsonObject, withoutUndefined } from "../../base/json.ts";
import { parseAs } from "../../base/parse-as.ts";
import { json, jsonObject, text } from "../../model/fields.ts";
import type { ReportedVerdict } from "../../model/grade.ts";
import { reportedTokens } from "../acp-updates.ts";
import { messageEvent, textOf, type WireObject } from "../programs/preset.ts";
import { noPrompt, timeOf, type TranscriptEntry, type TranscriptFormat, unknownAgent } from "./transcript.ts";

/** The results that mcpchecker, which was gevals, writes of an eval: one JSON document; in older versions a list. */
export const mcpcheckerResults: TranscriptFormat = {
  program: "mcpchecker",
  place: "mcpchecker-NAME-out.json, in older versions gevals-NAME-out.json",
  recognises(document) {
    const { taskName, taskPassed } = asObject(asList(document["results"])[0]);
    return taskName !== undefined && taskPassed !== undefined;
  },
  createReader: () => ({ read, finish: () => [] }),
  subagentTools: new Set(),
};

const call = z.object({
  serverName: text,
  timestamp: text.nullish(),
  success: z.boolean(),
  error: text.nullish(),
  name: text,
  request: z.object({ Params: z.object({ arguments: json.nullish() }).nullish() }).nullish(),
  result: json.nullish(),
});

const phase = z
  .object({ agentDetails: z.object({ toolCalls: z.array(json).nullish() }).nullish() })
  .nullish();

const resultsSchema = z.object({
  summary: z
    .object({
      agent: z.object({ name: text.nullish(), type: text.nullish(), model: text.nullish() }).nullish(),
    })
    .nullish(),
  results: z.array(
    z.object({
      taskName: text,
      taskPath: text.nullish(),
      taskPassed: z.boolean(),
      taskOutput: text.nullish(),
      taskError: text.nullish(),
      taskJudgeReason: text.nullish(),
      timedOut: z.boolean().nullish(),
      agentExecutionError: z.boolean().nullish(),
      totalRuns: z.int().nullish(),
      assertionResults: z
        .record(
          text,
          z
            .object({ passed: z.boolean(), reason: text.nullish(), details: z.array(text).nullish() })
            .nullable(),
        )
        .nullish(),
      allAssertionsPassed: z.boolean().nullish(),
      callHistory: z
        .object({
          ToolCalls: z.array(call).nullish(),
          ResourceReads: z.array(json).nullish(),
          PromptGets: z.array(json).nullish(),
        })
        .nullish(),
      tokenEstimate: z.object({ actual: jsonObject.nullish() }).nullish(),
      agentOutput: phase,
    }),
  ),
});

type Results = z.output<typeof resultsSchema>;
type Result = Results["results"][number];

/** Throws an Error for a document that is not as the tool writes it. */
function read(document: WireObject): readonly TranscriptEntry[] {
  const { summary, results } = parseAs(resultsSchema, document, "no result file of mcpchecker");
  const { name, type, model } = summary?.agent ?? {};
  const agent = textOf(name) ?? textOf(model) ?? textOf(type) ?? unknownAgent;
  return results.flatMap((result): readonly TranscriptEntry[] => {
    const { taskName: task, taskPath, totalRuns } = result;
    const isRepeated = (totalRuns ?? 1) > 1;
    return [
      withoutUndefined({
        kind: "trial" as const,
        agent,
        task,
        attemptOf: isRepeated ? `${task}\n${taskPath ?? ""}` : undefined,
        reported: reportOf(result),
      }),
      ...(textOf(model) === undefined ? [] : [{ kind: "ran", model: textOf(model) ?? "" } as const]),
      { kind: "user", text: "" },
      ...noPrompt,
      ...callsOf(result),
      ...messageEvent(result.taskOutput),
      ...usageOf(result),
      ...endOf(result),
      ...remarksOn(result),
    ];
  });
}

function reportOf(result: Result): ReportedVerdict {
  const { taskPassed, allAssertionsPassed, taskError, taskJudgeReason, assertionResults } = result;
  const isError = result.timedOut === true || result.agentExecutionError === true;
  const isPassed = taskPassed && allAssertionsPassed !== false;
  const broken = Object.entries(assertionResults ?? {}).flatMap(([name, outcome]) =>
    outcome === null || outcome.passed
      ? []
      : [[`assertion ${name}`, outcome.reason, ...(outcome.details ?? [])].filter(Boolean).join(": ")],
  );
  return {
    by: "mcpchecker",
    verdict: isError ? "error" : isPassed ? "pass" : "fail",
    reason: [...(result.timedOut === true ? ["its time was up"] : []), taskError, taskJudgeReason, ...broken]
      .filter(Boolean)
      .join("; "),
  };
}

/** The calls that its proxy recorded. Each has one time. */
function callsOf({ callHistory }: Result): readonly TranscriptEntry[] {
  const calls = (callHistory?.ToolCalls ?? []).map((each, index) => ({
    ...each,
    callId: `call-${index + 1}`,
    at: timeOf(each.timestamp),
  }));
  calls.sort((a, b) => (a.at ?? 0) - (b.at ?? 0));
  return calls.flatMap(({ callId, at, name, serverName: server, success, error, request, result }) => {
    const args = request?.Params?.arguments ?? undefined;
    const origin = { server, tool: name };
    const use = withoutUndefined({ kind: "tool" as const, callId, name, args, origin, at });
    const isFailed = !success || asObject(result)["isError"] === true;
    const given: Json | undefined = result ?? textOf(error);
    return [
      { ...use, status: "started" as const },
      {
        ...use,
        status: isFailed ? ("failed" as const) : ("completed" as const),
        ...(given === undefined ? {} : { result: given }),
      },
    ];
  });
}

/** What the agent itself reported; an estimate of the tool is none. It is not known whether that is all. */
function usageOf({ tokenEstimate }: Result): readonly TranscriptEntry[] {
  const actual: JsonObject | null | undefined = tokenEstimate?.actual;
  const counts = actual && reportedTokens(actual);
  return counts ? [{ kind: "usage", usage: { ...counts, isPartial: true } }] : [];
}

function endOf({ timedOut, agentExecutionError, taskError }: Result): readonly TranscriptEntry[] {
  if (timedOut === true) return [{ kind: "failed", message: "its time was up" }];
  if (agentExecutionError !== true) return [{ kind: "end", reason: "done" }];
  return [{ kind: "failed", message: textOf(taskError) ?? "mcpchecker does not say why" }];
}

function remarksOn({ callHistory, agentOutput }: Result): readonly TranscriptEntry[] {
  const { ResourceReads: reads, PromptGets: prompts } = callHistory ?? {};
  const own = agentOutput?.agentDetails?.toolCalls ?? [];
  return [
    ...((reads ?? []).length + (prompts ?? []).length > 0
      ? [{ kind: "remark", text: "reads of resources and uses of prompts are left out" } as const]
      : []),
    ...(own.length > 0
      ? [
          {
            kind: "remark",
            text: "uses of the agent's own tools are left out: the file does not tell them from calls of servers",
          } as const,
        ]
      : []),
  ];
}
