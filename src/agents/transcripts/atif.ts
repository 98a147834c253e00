import { createHash } from "node:crypto";
import type * as z from "zod";
import { asObject, canonicalJson, type Json, type JsonObject, withoutUndefined } from "../../base/json.ts";
import { parseAs } from "../../base/parse-as.ts";
import {
  atifCallExtra,
  atifExtra,
  atifMinor,
  type AtifRecord,
  atifRecordSchema,
  atifResultExtra,
  atifSchema,
  type AtifStep,
  type AtifTrajectory,
  atifVersion,
} from "../../model/atif.ts";
import type { Usage } from "../../model/grade.ts";
import { messageEvent, sessionEvent, type WireObject } from "../programs/preset.ts";
import { textOfParts, timeOf, type TranscriptEntry, type TranscriptFormat } from "./transcript.ts";

/** A trajectory of ATIF: one JSON document, whichever program wrote it. */
export const atifTranscript: TranscriptFormat = {
  program: "atif",
  place: "trajectory.json of Harbor and other tools, and mcpvals export --format atif",
  recognises: ({ schema_version: version }) => typeof version === "string" && version.startsWith("ATIF-"),
  createReader: () => ({ read, finish: () => [] }),
  subagentTools: new Set(),
  originIn(name, agent) {
    const [, server, tool] = /^mcp__(.+?)__(.+)$/s.exec(name) ?? [];
    if (server !== undefined && tool !== undefined) return { server, tool };
    // Of this program it is known that its own tools are named otherwise.
    return agent === "claude-code" ? undefined : "unknown";
  },
};

/** Throws an Error for a document that is not as the format says. */
function read(document: WireObject): readonly TranscriptEntry[] {
  const { schema_version: version } = document;
  const minor = Number(/^ATIF-v1\.(\d{1,4})$/.exec(String(version))?.[1] ?? Number.NaN);
  if (Number.isNaN(minor))
    throw new Error(
      `it has the version ${JSON.stringify(version)}; mcpvals reads ATIF-v1.0 to ${atifVersion}`,
    );
  const trajectory = parseAs(atifSchema, document, "no trajectory of ATIF") as AtifTrajectory;
  const record = recordOf(document, trajectory);
  if (record !== undefined && "events" in record) return [{ kind: "trial", record }];
  const { agent, session_id: session, steps, continued_trajectory_ref: continued } = trajectory;
  const program = agent.version === "unknown" ? agent.name : `${agent.name} ${agent.version}`;
  return [
    { kind: "trial", agent: agent.name, failures: failuresIn(trajectory) },
    ...sessionEvent(session),
    { kind: "ran", program },
    ...(minor > atifMinor ? [remark(`it is of ${String(version)}, which is newer than mcpvals knows`)] : []),
    ...(record === undefined ? [] : [remark(record.remark)]),
    ...steps.flatMap((step) => entriesOf(step, trajectory)),
    ...usagesOf(trajectory),
    ...(typeof continued === "string" ? [remark(`it goes on in another file, ${continued}`)] : []),
    ...remarksOn(steps),
  ];
}

function remark(text: string): TranscriptEntry {
  return { kind: "remark", text };
}

/** What mcpvals has recorded of the trajectory; or why that is not used. */
function recordOf(
  { extra, steps }: WireObject,
  { schema_version: version }: AtifTrajectory,
): AtifRecord | { readonly remark: string } | undefined {
  const given = asObject(extra)[atifExtra];
  if (given === undefined) return undefined;
  parseAs(atifRecordSchema, given, `${version} with a record that this version of mcpvals cannot read`);
  // What was parsed is a copy, which may differ.
  const record = given as AtifRecord;
  if (record.events.some(({ seq }, index) => seq !== index + 1))
    throw new Error("the record in it has a gap");
  return hashOfSteps(steps) === record.steps
    ? record
    : { remark: "its steps were changed since mcpvals wrote it, so that only they were read" };
}

/** A hash of the steps of a trajectory, whatever the order of their members. */
export function hashOfSteps(steps: unknown): string {
  return createHash("sha256")
    .update(canonicalJson(steps as Json))
    .digest("hex");
}

/** Whether it says of its calls whether they failed, for which the format itself has no place. */
function failuresIn({ steps }: AtifTrajectory): "unknown" | undefined {
  const results = steps.flatMap(({ observation }) => observation?.results ?? []);
  return results.every(({ extra }) => typeof endOf(extra)?.isError === "boolean") ? undefined : "unknown";
}

function endOf(extra: JsonObject | null | undefined): z.output<typeof atifResultExtra> | undefined {
  return atifResultExtra.safeParse(extra?.[atifExtra]).data;
}

/** What a step says. `parentCallId`: it is one of a subagent that this use started, whose words are not for the user. */
function entriesOf(
  step: AtifStep,
  trajectory: AtifTrajectory,
  parentCallId?: string,
): readonly TranscriptEntry[] {
  if (step.is_copied_context === true) return [];
  const at = timeOf(step.timestamp);
  const text = textOfContent(step.message);
  if (step.source !== "agent")
    return step.source === "user" && parentCallId === undefined ? [{ kind: "user", text, at }] : [];
  const { model_name: model, tool_calls: calls, observation } = step;
  const results = observation?.results ?? [];
  const named = model ?? trajectory.agent.model_name;
  const resultsOf = Map.groupBy(results, ({ source_call_id: id }) => id);
  const isAnswered = results.some(({ source_call_id: id }) => typeof id !== "string");
  const of = parentCallId === undefined ? {} : { parentCallId };
  return [
    ...(typeof named === "string" ? [{ kind: "ran", model: named, at } as const] : []),
    ...(parentCallId === undefined ? messageEvent(text).map((event) => ({ ...event, at })) : []),
    ...(calls ?? []).flatMap((call): readonly TranscriptEntry[] => {
      const { tool_call_id: callId, function_name: name, arguments: args, extra } = call;
      const origin = atifCallExtra.safeParse(extra?.[atifExtra]).data;
      const use = { kind: "tool", callId, name, args, at, ...of, ...(origin && { origin }) } as const;
      const ends = resultsOf.get(callId) ?? [];
      const inner = subagentsOf(ends, trajectory).flatMap((each) =>
        each.steps.flatMap((innerStep) => entriesOf(innerStep, each, callId)),
      );
      const begun: readonly TranscriptEntry[] = [{ ...use, status: "started" }, ...inner];
      // A result without its call may be of any call of the step.
      if (ends.length === 0) return isAnswered ? [...begun, { ...use, status: "completed" }] : begun;
      return [
        ...begun,
        ...ends.map((result) => {
          const { isError, durationMs } = endOf(result.extra) ?? {};
          return withoutUndefined({
            ...use,
            status: isError === true ? "failed" : "completed",
            result: result.content == null ? undefined : textOfContent(result.content),
            durationMs: durationMs ?? undefined,
          }) as TranscriptEntry;
        }),
      ];
    }),
  ];
}

function textOfContent(content: AtifStep["message"]): string {
  return typeof content === "string" ? content : textOfParts(content);
}

type Result = NonNullable<AtifStep["observation"]>["results"][number];

/** The trajectories of subagents that stand in the same document. */
function subagentsOf(
  results: readonly Result[],
  { subagent_trajectories: all }: AtifTrajectory,
): readonly AtifTrajectory[] {
  const ids = new Set(
    results.flatMap(({ subagent_trajectory_ref: refs }) => refs?.map(({ trajectory_id: id }) => id) ?? []),
  );
  return (all ?? []).filter(({ trajectory_id: id }) => typeof id === "string" && ids.has(id));
}

/** The tokens of all steps, as far as they are known; the sums of the document win. */
function usagesOf({ steps, final_metrics: totals }: AtifTrajectory): readonly TranscriptEntry[] {
  const { total_prompt_tokens: input, total_completion_tokens: output } = totals ?? {};
  if (typeof input === "number" && typeof output === "number")
    return [
      { kind: "usage", usage: usageOf([input, output, totals?.total_cached_tokens, totals?.total_cost_usd]) },
    ];
  const asked = steps.filter(
    (step) => step.source === "agent" && step.llm_call_count !== 0 && step.is_copied_context !== true,
  );
  const known = asked.flatMap(({ metrics }): Usage[] => {
    const { prompt_tokens: prompt, completion_tokens: completion } = metrics ?? {};
    return typeof prompt === "number" && typeof completion === "number"
      ? [usageOf([prompt, completion, metrics?.cached_tokens, metrics?.cost_usd])]
      : [];
  });
  const isPartial = known.length < asked.length;
  return known.map((usage) => ({
    kind: "usage",
    usage: isPartial ? { ...usage, isPartial } : usage,
  }));
}

/** Programs write a cost of 0 where they do not know it. */
function usageOf([input, output, cached, dollars]: readonly [
  number,
  number,
  (number | null | undefined)?,
  (number | null | undefined)?,
]): Usage {
  return withoutUndefined({
    inputTokens: input,
    outputTokens: output,
    cacheReadTokens: cached ?? undefined,
    cost: dollars == null || dollars === 0 ? undefined : { amount: dollars, currency: "USD" },
  });
}

function remarksOn(steps: AtifTrajectory["steps"]): readonly TranscriptEntry[] {
  const results = steps.flatMap(({ observation }) => observation?.results ?? []);
  const refs = results.flatMap(({ subagent_trajectory_ref: all }) => all ?? []);
  const said: readonly (readonly [boolean, string])[] = [
    [
      steps.some(({ is_copied_context: isCopied }) => isCopied === true),
      "steps that it has from an earlier trajectory are left out",
    ],
    [steps.some(({ source }) => source === "system"), "messages of the system are left out"],
    [
      steps.some(({ tool_calls: calls, observation }) => {
        const ids = new Set<unknown>(calls?.map(({ tool_call_id: id }) => id));
        return observation?.results.some(({ source_call_id: id }) => !ids.has(id)) === true;
      }),
      "it has results without the calls that they are of, which are left out",
    ],
    [
      refs.some(({ trajectory_id: id }) => typeof id !== "string"),
      "it does not have what subagents did whose trajectories are in other files",
    ],
  ];
  return said.flatMap(([holds, text]) => (holds ? [remark(text)] : []));
}
