import { isJsonObject, type Json } from "../base/json.ts";
import { visibleText } from "../base/visible-text.ts";
import type { EventOf, TraceEvent } from "../model/event.ts";
import { stepPaths } from "../trace/step-path.ts";
import { describeInput } from "../model/step.ts";

const maxShownText = 400;

/**
 * One line an event: its number, the milliseconds since the trial began, and what happened. Grading may be at any later time, which is not shown. Long texts are cut, and what
 * servers and models wrote cannot drive the reader's terminal.
 */
export function renderTrace(events: readonly TraceEvent[]): string[] {
  const start = events[0]?.at ?? 0;
  const width = String(events.at(-1)?.seq ?? 0).length;
  const lineOf = eventLines(events);
  const ended = events.findLast(({ type }) => type === "trial.finished")?.seq ?? Infinity;
  return events.map((event) => {
    const offset = event.seq > ended ? "" : `${(event.at - start).toFixed(1)} ms`;
    return `${String(event.seq).padStart(width)} ${offset.padStart(12)}  ${lineOf(event)}`;
  });
}

/** What happened, in one line, for each event of a trial. */
export function eventLines(events: readonly TraceEvent[]): (event: TraceEvent) => string {
  const pathOf = stepPaths(events);
  return (event) => visibleText(describe(event, pathOf)).trimEnd();
}

function describe(event: TraceEvent, pathOf: (step: string) => string): string {
  switch (event.type) {
    case "mcp.message":
      return describeMessage(event);
    case "server.stderr":
      return `${event.server} stderr: ${shorten(event.text)}`;
    case "server.stdout":
      return `${event.server} stdout: ${shorten(event.text)}`;
    case "server.invalid_output":
      return `${event.server} stdout, not MCP: ${shorten(event.text)}`;
    case "extension.started": {
      const { extension, package: from, version, protocol, sandbox, pid } = event;
      const named = version === undefined ? from : `${from} (${version})`;
      return `${extension} started: ${named}, ${protocol}, sandbox ${sandbox}, pid ${pid}`;
    }
    case "extension.log":
      return `${event.extension} ${event.level}: ${shorten([event.message, preview(event.data)].join(" ").trim())}`;
    case "extension.stderr":
      return `${event.extension} stderr: ${shorten(event.text)}`;
    case "extension.invalid_output":
      return `${event.extension} stdout, no message: ${shorten(event.text)}`;
    case "agent.output":
      return `agent ${event.stream}: ${shorten(event.text)}`;
    case "agent.tool": {
      const { name, source, status, callId } = event;
      const reported = [event.args, event.result].flatMap((value) =>
        value === undefined ? [] : [preview(value)],
      );
      return withDetails(`agent's tool ${name} (${source}, ${callId}) ${status}`, reported.join(" → "));
    }
    case "agent.message":
      return `assistant: ${shorten(event.text)}`;
    case "turn.started":
      return `${event.by === undefined ? "user" : "simulated user"}: ${shorten(event.user)}`;
    case "user.finished":
      return withDetails(`simulated user ended the conversation: ${event.reason}`, shorten(event.text ?? ""));
    case "trial.graded": {
      const reported = event.grades.map(({ grader, verdict, reason }) => `${grader} ${verdict}: ${reason}`);
      return withDetails(`graded ${event.verdict}`, shorten(reported.join("; ")));
    }
    case "attack.injected":
      return `${clientOf(event)} #${preview(event.id)} injected ${event.part}: ${shorten(injectedText(event))}`;
    case "step.started": {
      const { phase, step, stepType, attempt, input } = event;
      const again = attempt > 1 ? `, attempt ${attempt}` : "";
      const line = shorten(describeInput(stepType, input));
      return withDetails(`${phase}: ${pathOf(step)} begins (${stepType}${again})`, line);
    }
    case "step.finished":
      return describeEnd(event, pathOf);
    default: {
      const { seq: _seq, at: _at, trial: _trial, type, ...rest } = event;
      const fields = Object.entries(rest).map(([key, value]) => `${key}=${preview(value)}`);
      return [type, ...fields].join(" ");
    }
  }
}

/** How a program ended: `with code 1`, `on SIGKILL`. */
export function exitText({
  exitCode,
  signal,
}: Pick<EventOf<"server.exited">, "exitCode" | "signal">): string {
  return exitCode === null ? `on ${signal ?? "a signal"}` : `with code ${exitCode}`;
}

function withDetails(what: string, details: string): string {
  return details === "" ? what : `${what}: ${details}`;
}

/** What an attack has put into a message: each text once, without those of the server that stand before it. */
export function injectedText({ changes }: Pick<EventOf<"attack.injected">, "changes">): string {
  const texts = changes.map(({ server, agent }) => {
    const text = isJsonObject(agent) ? agent["text"] : agent;
    if (typeof text !== "string") return JSON.stringify(agent ?? null);
    return (typeof server === "string" && text.startsWith(server) ? text.slice(server.length) : text).trim();
  });
  return [...new Set(texts)].join("; ");
}

function clientOf({ client, server }: { readonly client?: string; readonly server: string }): string {
  return client === undefined ? server : `${server} (agent ${client})`;
}

function describeMessage({ direction, message, ...sender }: EventOf<"mcp.message">): string {
  const who = clientOf(sender);
  const arrow = direction === "client-to-server" ? `→ ${who}` : `← ${who}`;
  if (!isJsonObject(message)) return `${arrow} ${preview(message)}`;
  const { id, method, params, error, result } = message;
  const numbered = id === undefined ? arrow : `${arrow} #${preview(id)}`;
  if (typeof method === "string") return `${numbered} ${method} ${preview(params)}`;
  return error === undefined
    ? `${numbered} result ${preview(result)}`
    : `${numbered} error ${preview(error)}`;
}

function describeEnd(event: EventOf<"step.finished">, pathOf: (step: string) => string): string {
  const { phase, step, attempt, outcome, checks, outputs, durationMs, error, ignored } = event;
  const notes = [
    `${roundOff(durationMs)} ms`,
    ...(attempt > 1 ? [`attempt ${attempt}`] : []),
    ...(ignored === true ? ["changes no verdict"] : []),
  ];
  const said = [
    ...checks.map((check) => `${check.passed ? "✓" : "✗"} ${check.name}: ${check.message}`),
    ...(error === undefined ? [] : [`${error.code}: ${error.message}`]),
    ...Object.entries(outputs ?? {}).map(([name, value]) => `${name} = ${preview(value)}`),
  ];
  return withDetails(`${phase}: ${pathOf(step)} ${outcome} (${notes.join(", ")})`, shorten(said.join("; ")));
}

function preview(value: Json | undefined): string {
  return value === undefined
    ? ""
    : shorten(typeof value === "number" ? roundOff(value) : JSON.stringify(value));
}

function roundOff(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

function shorten(text: string): string {
  if (text.length <= maxShownText) return text;
  const shown = text.slice(0, maxShownText);
  return `${shown.isWellFormed() ? shown : shown.slice(0, -1)}…`;
}
