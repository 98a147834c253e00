import * as z from "zod";
import { anyJson, turnEnd } from "../../model/fields.ts";
import { usageSchema } from "../../model/grade.ts";
import { type Exact, withoutUndefined } from "../../base/json.ts";
import { type AgentAct, agentActs } from "../../trace/agent-acts.ts";
import { eventsOf } from "../../model/event.ts";
import { agentDuration, finalMessage, type Trajectory } from "../../trace/trajectory.ts";
import { toolUses } from "../tool-uses.ts";

const seq = z.int().min(1).describe("Number of the event that began it, which `evidence` can name.");
const turn = z.int().min(0).describe("Number of its turn, counting from 0; absent: outside of turns.");
const error = z.string().describe("Why it failed; absent: it succeeded.");
const count = z.int().min(0);

const request = {
  seq,
  server: z.string(),
  result: anyJson.describe("The result as received; absent: there was none.").exactOptional(),
  error: error.exactOptional(),
};

/**
 * A finished trial as graders of the user's own see it. Members may be added to version 1; what is there stays as it is. Secrets
 * are replaced by `[secret:NAME]` in it.
 */
export const trajectoryRecordSchema = z.lazy(() =>
  z
    .strictObject({
      schema: z.literal("mcpvals.trajectory/1"),
      task: z.strictObject({
        name: z.string(),
        form: z.enum(["workflow", "tool-test", "task", "check"]),
        description: z.string().exactOptional(),
      }),
      trial: z.strictObject({
        id: z.string(),
        agent: z.string().nullable().describe("Name of the agent."),
        variant: z
          .string()
          .describe("Name of the set of servers; absent: there is only one.")
          .exactOptional(),
        attempt: z.int().min(1),
      }),
      output: z
        .string()
        .describe("The last message of the agent's last turn; empty when it said nothing there."),
      turns: z.array(
        z.strictObject({
          prompt: z.string(),
          by: z
            .enum(["user-model", "user-script"])
            .describe("A simulated user said it, which is no evidence. Absent: the task did.")
            .exactOptional(),
          ended: turnEnd.exactOptional(),
        }),
      ),
      messages: z.array(z.strictObject({ seq, turn, text: z.string() })).describe("What the agent said."),
      calls: z
        .array(
          z.strictObject({
            seq,
            turn: turn.exactOptional(),
            tool: z.string().describe("The tool's own name."),
            source: z
              .string()
              .describe(
                "`mcp:SERVER`, `builtin` (a tool of the agent), `skill`, or `unknown` (no such tool).",
              ),
            args: anyJson,
            result: anyJson
              .describe("Of a tool of a server: the `CallToolResult` as received. Absent: there was none.")
              .exactOptional(),
            error: error.exactOptional(),
            durationMs: z.number().min(0).exactOptional(),
            faulted: z
              .literal(true)
              .describe("An injected fault took its answer away, so it says nothing of the agent.")
              .exactOptional(),
          }),
        )
        .describe("Uses of tools by the agent, in the order in which they began; failed ones have `error`."),
      resourceReads: z.array(z.strictObject({ ...request, uri: z.string() })),
      promptGets: z.array(z.strictObject({ ...request, prompt: z.string(), args: anyJson })),
      verify: z
        .array(
          z.strictObject({
            step: z.string(),
            outcome: z.enum(["passed", "failed", "error", "timeout", "skipped"]),
            checks: z.array(z.strictObject({ name: z.string(), passed: z.boolean(), message: z.string() })),
            outputs: z.record(z.string(), anyJson).exactOptional(),
          }),
        )
        .describe("The verify steps of the task, each with its last attempt."),
      files: z
        .array(
          z.strictObject({
            path: z.string().describe("Relative to the workspace."),
            kind: z.enum(["file", "folder", "link", "other"]),
            size: count.exactOptional(),
            sha256: z.string().exactOptional(),
            text: z.string().describe("Absent: it is too long, or no UTF-8 text.").exactOptional(),
          }),
        )
        .describe("What the agent left at the paths of the workspace that graders of the task name."),
      usage: usageSchema.describe("Of the agent's model; absent: not known.").exactOptional(),
      durationMs: z.number().min(0).describe("Time of all of the agent's turns, in milliseconds."),
    })
    .meta({ title: "mcpvals trajectory", description: "A finished trial, as a grader of your own gets it." }),
);

export type TrajectoryRecord = Exact<z.output<typeof trajectoryRecordSchema>>;

/** The record of a trajectory. */
export function recordOf(trajectory: Trajectory): TrajectoryRecord {
  const { task, trial, turns, messages, events, steps, usage } = trajectory;
  const left = eventsOf(events, "workspace.files").flatMap(({ files }) => files);
  const { id, agent, variant, attempt } = trial;
  return withoutUndefined({
    schema: "mcpvals.trajectory/1" as const,
    task: withoutUndefined({ name: task.name, form: task.form, description: task.description }),
    trial: withoutUndefined({ id, agent, variant, attempt }),
    output: finalMessage(trajectory)?.text ?? "",
    turns: turns.map(({ user: prompt, by, end }) => withoutUndefined({ prompt, by, ended: end?.reason })),
    messages: messages.map((message) => ({ seq: message.seq, turn: message.turn, text: message.text })),
    calls: toolUses(trajectory).map((use) =>
      withoutUndefined({
        seq: use.seq,
        tool: use.tool,
        source: use.source,
        args: use.args,
        error: use.failure,
        faulted: use.faulted,
        turn: use.turn,
        result: use.result,
        durationMs: use.durationMs,
      }),
    ),
    resourceReads: requestsOf("resource", trajectory).map(({ read, target: uri }) => ({ ...read, uri })),
    promptGets: requestsOf("prompt", trajectory).map(({ read, target: prompt, args }) => ({
      ...read,
      prompt,
      args,
    })),
    verify: steps.flatMap(({ step, phase, last: { finished } }) => {
      if (phase !== "verify" || finished === undefined) return [];
      const { outcome, outputs } = finished;
      const checks = finished.checks.map(({ name, passed, message }) => ({ name, passed, message }));
      return [withoutUndefined({ step, outcome, checks, outputs })];
    }),
    files: [...new Map(left.map((file) => [file.path, file])).values()],
    usage,
    durationMs: agentDuration(trajectory) ?? 0,
  });
}

function requestsOf(
  type: "resource" | "prompt",
  trajectory: Trajectory,
): (Pick<AgentAct, "target" | "args"> & { readonly read: Omit<RecordedRead, "uri"> })[] {
  return agentActs(trajectory)
    .filter((act) => act.type === type)
    .map(({ target, args, seq: number, server = "", result, failure }) => ({
      target,
      args,
      read: withoutUndefined({ seq: number, server, result, error: failure }),
    }));
}

type RecordedRead = TrajectoryRecord["resourceReads"][number];
