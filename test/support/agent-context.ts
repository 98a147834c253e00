import type { AgentContext } from "../../src/agents/driver.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import type { ServerSession } from "../../src/servers/client/session.ts";

export interface RecordedContext extends AgentContext {
  readonly events: readonly EventBody[];
}

/** What an agent gets for one trial, with everything that it emits kept in `events`. */
export function recordedContext(options: {
  readonly users: readonly string[];
  readonly sessions?: readonly ServerSession[];
  readonly task?: string;
  readonly signal?: AbortSignal;
}): RecordedContext {
  const events: EventBody[] = [];
  return {
    events,
    task: options.task ?? "task",
    turns: options.users.map((user) => ({ user })),
    sessions: options.sessions ?? [],
    endpoints: [],
    workspace: "",
    defer: () => undefined,
    emit: (event) => events.push(event),
    signal: options.signal ?? new AbortController().signal,
    callTimeoutMs: 10_000,
  };
}

/** The events of one type. */
export function eventsOf<T extends EventBody["type"]>(
  events: readonly EventBody[],
  type: T,
): Extract<EventBody, { readonly type: T }>[] {
  return events.filter((event): event is Extract<EventBody, { readonly type: T }> => event.type === type);
}
