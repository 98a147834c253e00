import { resultText } from "../checks/result-text.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Json, JsonObject } from "../formats/model.ts";
import { agentCalls, type AgentCall } from "./agent-calls.ts";
import type { EventOf, TraceEvent } from "./events.ts";

/** Of how many calls it is told that they failed; of the others, how many there are. */
const most = 10;
const shownText = 300;

/**
 * Calls of a task's own solution that failed, each in a sentence: it plays on, so that only this tells of a tool that is
 * not called so. Other agents may fail as they like.
 */
export function solutionWarnings(events: readonly TraceEvent[]): string[] {
  if (!events.some((event) => event.type === "agent.started" && event.kind === "oracle")) return [];
  const failures = [...failedCalls(events), ...rejectedCalls(events)].toSorted((a, b) => a.seq - b.seq);
  const rest = failures.length - most;
  return [
    ...new Set(failures.slice(0, most).map(({ name, why }) => `solution: ${name} failed: ${clipped(why)}`)),
    ...(rest > 0 ? [`solution: ${rest} more calls failed`] : []),
  ];
}

interface Failure {
  readonly seq: number;
  readonly name: string;
  readonly why: string;
}

function failedCalls(events: readonly TraceEvent[]): readonly Failure[] {
  const answers = answersOf(events);
  return agentCalls(events).calls.flatMap((call): Failure[] => {
    const why = failureOf(answers.get(call.seq));
    return why === undefined ? [] : [{ seq: call.seq, name: nameOf(call), why }];
  });
}

/** Calls that reached no server; steps have none of these. */
function rejectedCalls(events: readonly TraceEvent[]): readonly Failure[] {
  return events.flatMap((event) =>
    event.type === "tool.rejected" ? [{ seq: event.seq, name: event.tool, why: event.reason }] : [],
  );
}

/** The first answer to every request, by the number of the request's event. */
function answersOf(events: readonly TraceEvent[]): ReadonlyMap<number, JsonObject> {
  const open = new Map<string, number>();
  const answers = new Map<number, JsonObject>();
  for (const event of events) {
    if (event.type !== "mcp.message" || !isJsonObject(event.message)) continue;
    const key = keyOf(event, event.message);
    if (key === undefined) continue;
    const asked = open.get(key);
    if (event.direction === "client-to-server" && event.message["method"] !== undefined)
      open.set(key, event.seq);
    else if (event.direction === "server-to-client" && asked !== undefined && !("method" in event.message)) {
      answers.set(asked, event.message);
      open.delete(key);
    }
  }
  return answers;
}

function keyOf({ server }: EventOf<"mcp.message">, { id }: JsonObject): string | undefined {
  return typeof id === "string" || typeof id === "number" ? JSON.stringify([server, id]) : undefined;
}

/** In what words a call failed; undefined when it did not. */
function failureOf(answer: JsonObject | undefined): string | undefined {
  if (answer === undefined) return "there was no answer";
  const { result } = answer;
  if (!isJsonObject(result)) return messageOf(answer["error"]);
  return result["isError"] === true ? resultText(result) || "it failed without a word" : undefined;
}

function messageOf(error: Json | undefined): string {
  const message = isJsonObject(error) ? error["message"] : undefined;
  return typeof message === "string" && message !== "" ? message : "it failed without a word";
}

function nameOf({ server, name, type }: AgentCall): string {
  return type === "resource" ? `${name} of ${server}` : `${server}.${name}`;
}

function clipped(text: string): string {
  const line = text.trim().replaceAll(/\s*\n\s*/g, " ");
  return line.length <= shownText ? line : `${line.slice(0, shownText).toWellFormed()}…`;
}
