import type * as z from "zod";
import type {
  check,
  eventStamp,
  EventMembers,
  fileContentSchema,
  phase,
  stepOutcome,
  trialOutcome,
  workspaceFile,
} from "./event-schema.ts";
import type { Model, turnEnd } from "./fields.ts";
import type { JudgeRecord } from "./grade.ts";

// The members of events and their meaning are in event-schema.ts, which no run loads.

/** `mcp.message` has the messages unchanged; tool calls are a view of them (see trajectory.ts). */
export type EventType = keyof EventMembers;

/** Every type of event; a record, so that none can be missing. */
const known: Readonly<Record<EventType, true>> = {
  "trial.started": true,
  "phase.started": true,
  "phase.finished": true,
  "workspace.created": true,
  "server.started": true,
  "server.failed": true,
  "server.late": true,
  "server.ready": true,
  "server.stderr": true,
  "server.stdout": true,
  "server.invalid_output": true,
  "server.output_omitted": true,
  "server.lost": true,
  "server.exited": true,
  "server.stopped": true,
  "mcp.message": true,
  "http.response": true,
  "gateway.connected": true,
  "gateway.disconnected": true,
  "request.held": true,
  "server.limit_changed": true,
  "fault.injected": true,
  "fault.unmet": true,
  "attack.prepared": true,
  "attack.injected": true,
  "attack.compared": true,
  "tools.hidden": true,
  "tool.refused": true,
  "transcript.read": true,
  "agent.started": true,
  "agent.reported": true,
  "turn.started": true,
  "user.finished": true,
  "agent.message": true,
  "turn.finished": true,
  "agent.tool": true,
  "agent.permission": true,
  "agent.usage": true,
  "agent.output": true,
  "agent.exited": true,
  "client_config.written": true,
  "skills.copied": true,
  "tool.rejected": true,
  "model.called": true,
  "model.retried": true,
  "model.waiting": true,
  "model.limit_changed": true,
  "step.started": true,
  "step.finished": true,
  "extension.started": true,
  "extension.log": true,
  "extension.stderr": true,
  "extension.invalid_output": true,
  "extension.output_omitted": true,
  "extension.exited": true,
  "probe.started": true,
  "probe.finished": true,
  "server.access": true,
  "http.session": true,
  "http.preflight": true,
  "endpoint.requested": true,
  "secret.sent": true,
  "conformance.checked": true,
  "workspace.files": true,
  "state.compared": true,
  "trial.finished": true,
  "calls.invalid": true,
  "trial.graded": true,
};

export const eventTypes: readonly string[] = Object.keys(known);

export function isEventType(type: unknown): type is EventType {
  return typeof type === "string" && Object.hasOwn(known, type);
}

export type TurnEnd = z.output<typeof turnEnd>;
/** What is known of the content of a file. */
export type FileContent = Model<typeof fileContentSchema>;
export type WorkspaceFile = Model<typeof workspaceFile>;
export type Phase = z.output<typeof phase>;
/** The outcome of one expectation of a step. */
export type Check = Model<typeof check>;
export type StepOutcome = z.output<typeof stepOutcome>;
/** How a trial's execution ended; only a completed trial is graded, apart from an attack that succeeded. */
export type TrialOutcome = z.output<typeof trialOutcome>;
export type EventStamp = Model<typeof eventStamp>;

/** An event without its stamp. */
export type EventBody = {
  [T in EventType]: Readonly<{ type: T } & EventMembers[T]>;
}[EventType] &
  Pick<EventStamp, "series">;

export type TraceEvent = EventStamp & EventBody;

export type EventOf<T extends EventBody["type"]> = Extract<TraceEvent, { readonly type: T }>;

/** The events of a list by type. Some thirty types of each trial are asked for, and to compare strings read from a journal is slow. */
const indexes = new WeakMap<
  readonly TraceEvent[],
  { readonly length: number; readonly byType: ReadonlyMap<EventType, readonly TraceEvent[]> }
>();

/** The events of one type, in their order. */
export function eventsOf<T extends EventBody["type"]>(
  events: readonly TraceEvent[],
  type: T,
): readonly EventOf<T>[] {
  let index = indexes.get(events);
  // The list of a trial that goes on grows.
  if (index?.length !== events.length) {
    index = { length: events.length, byType: Map.groupBy(events, (event) => event.type) };
    indexes.set(events, index);
  }
  return (index.byType.get(type) ?? []) as readonly EventOf<T>[];
}

/** Records an event and gives its number; 0 for one that is not recorded, since the record has ended. Never throws. */
export type Emit = (event: EventBody) => number;

/** One question to the judge about a text. */
export interface JudgeQuestion {
  /** Whether all of the reference must be in the text, or nothing else either; or whether it satisfies a rubric. */
  readonly kind: "contains" | "exact" | "rubric";
  /** The reference, or the rubric. */
  readonly reference: string;
  /** What the agent was told. */
  readonly prompt: string;
  /** What is judged. */
  readonly input: string;
}

/** What the judge answers; the score is from 0 to 1. */
export interface JudgeAnswer {
  readonly judge: JudgeRecord;
  readonly passed: boolean;
  readonly score: number;
  readonly reason: string;
}

/** Stands in `attack.compared` for the arguments of calls of which there are too many. */
export const unrecordedArgs = "…";
