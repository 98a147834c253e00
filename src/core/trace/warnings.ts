import { searchableText } from "../checks/result-text.ts";
import { statesText } from "../formats/contains-text.ts";
import { isJsonObject } from "../formats/json.ts";
import { type Step, walkSteps } from "../formats/step.ts";
import { compilePattern } from "../templates/pattern.ts";
import { type AgentCall, agentCalls } from "./agent-calls.ts";
import { matchAgentTools } from "./tool-events.ts";
import type { EventOf, TraceEvent } from "./events.ts";
import { stepPaths, type StepRun, stepRuns } from "./step-runs.ts";
import type { Trajectory } from "./trajectory.ts";
import { lastAnswered, turnEnds } from "./turn-ends.ts";

/**
 * What deserves a look but changes no verdict: a server that writes other things than MCP on stdout, or that answers
 * what it was not asked, be it with a wrong id or twice, or in malformed messages; one that did not end in order; a model that did not end a turn as it should; a call of a
 * task's own solution that failed; a step that failed and was allowed to, in a cleanup say; a verify step that was skipped;
 * a step of a tool test that passed only when it was tried again.
 */
export function warningsOf(events: readonly TraceEvent[]): string[] {
  const noise = new Tally();
  const unasked = new Tally();
  const malformed = new Tally();
  const denials = new Tally();
  const transports = new Map<string, string>();
  const open = new Set<string>();
  for (const event of events) {
    if (event.type === "server.invalid_output") noise.add(event.server, event.text.slice(0, shownText));
    if (event.type === "server.started") transports.set(event.server, event.transport);
    if (event.type === "http.response" && transports.get(event.server) === "shttp" && deniesAnswer(event))
      denials.add(event.server, `HTTP ${event.status}`);
    if (event.type === "mcp.message") readMessage(event, open, unasked);
    if (event.type === "mcp.message" && event.malformed !== undefined)
      malformed.add(event.server, event.malformed);
  }
  return [
    ...noise.map(
      (server, count, first) =>
        `server "${server}" wrote ${count === 1 ? "a line" : `${count} lines`} on stdout that ${count === 1 ? "is" : "are"} not MCP, first ${JSON.stringify(first)}${logsOnStderr}`,
    ),
    ...unasked.map(
      (server, count, first) =>
        `server "${server}" gave ${count === 1 ? "an answer" : `${count} answers`} that no request was waiting for, ${count === 1 ? "" : "first "}with ${first}`,
    ),
    ...malformed.map(
      (server, count, first) =>
        `server "${server}" sent ${count === 1 ? "a malformed message" : `${count} malformed messages, first`}: ${first}; other clients may read it in another way or not at all`,
    ),
    ...denials.map(
      (server, count, first) =>
        `server "${server}" responded to ${count === 1 ? "a request" : `${count} requests`} with ${first}, as if there were nothing to answer`,
    ),
    ...serverEndWarnings(events),
    ...turnWarnings(events),
    ...solutionWarnings(events),
    ...stepWarnings(events),
  ];
}

/** Statuses for what has no answer; over Streamable HTTP the answer to a request comes in its response. */
function deniesAnswer({ method, status, requestIds }: EventOf<"http.response">): boolean {
  return method === "POST" && (status === 202 || status === 204) && requestIds.length > 0;
}

const shownText = 80;
const logsOnStderr = "; logs belong on stderr, other clients may break on them";

function readMessage(event: EventOf<"mcp.message">, open: Set<string>, unasked: Tally): void {
  const { server, client = "", direction, message } = event;
  if (!isJsonObject(message) || message["id"] === undefined) return;
  const id = JSON.stringify(message["id"]);
  const isRequest = message["method"] !== undefined;
  const key = `${server}\n${client}\n${id}`;
  if (direction === "client-to-server" && isRequest) open.add(key);
  if (direction === "client-to-server" || isRequest || open.delete(key)) return;
  const { error } = message;
  const said = isJsonObject(error) && typeof error["message"] === "string" ? `: ${error["message"]}` : "";
  unasked.add(server, `id ${id}${said}`.slice(0, shownText));
}

/** Counts things by server and keeps the first of each. */
class Tally {
  readonly #seen = new Map<string, { readonly first: string; count: number }>();

  add(server: string, text: string): void {
    const seen = this.#seen.get(server);
    if (seen === undefined) this.#seen.set(server, { first: text, count: 1 });
    else seen.count += 1;
  }

  map(write: (server: string, count: number, first: string) => string): string[] {
    return [...this.#seen].map(([server, { first, count }]) => write(server, count, first));
  }
}

type SeenTools = Pick<Trajectory, "task" | "events" | "tools">;

/** Entries of `toolsNotUsed` that fit no tool of their server: that none was called says nothing. */
export function assertionWarnings({ task, events, tools }: SeenTools): string[] {
  const hidden = events.flatMap((event) =>
    event.type === "tools.hidden" ? event.tools.map((name) => ({ server: event.server, name })) : [],
  );
  const forbidden = (task.portable?.assertions ?? []).flatMap(({ toolsNotUsed = [] }) => toolsNotUsed);
  const told = forbidden.flatMap(({ server, name, pattern }) => {
    const offered = [...tools, ...hidden].filter((tool) => tool.server === server);
    if (offered.length === 0 || (name ?? pattern) === undefined) return [];
    const regex = pattern === undefined ? undefined : compilePattern(pattern);
    if (offered.some((tool) => tool.name === name || regex?.test(tool.name) === true)) return [];
    const what = JSON.stringify(name ?? pattern);
    return [
      `toolsNotUsed: ${what} fits no tool of server "${server ?? ""}"; that it was not called says nothing`,
    ];
  });
  return [...new Set(told)];
}

type SeenText = Pick<Trajectory, "task" | "turns" | "steps" | "events">;

/**
 * Checks that hold and that an agent would pass which only repeats what it was told: the expected text stands in a user's
 * turn, and nothing but the agent's own words has it.
 */
export function echoWarnings(seen: SeenText): string[] {
  return [...echoedStates(seen), ...echoedSteps(seen)];
}

const longestShown = 80;

function echoedStates({ task, turns }: SeenText): string[] {
  return turns.flatMap((turn) => {
    const state = task.turns[turn.turn]?.expectedState;
    const message = turn.messages.at(-1);
    if (state === undefined || message === undefined || !statesText(message.text, state)) return [];
    const result = lastAnswered(turn)?.result;
    if (result !== undefined && statesText(searchableText(result), state)) return [];
    const told = turns.some((earlier) => earlier.turn <= turn.turn && statesText(earlier.user, state));
    return told
      ? [
          `turn ${turn.turn + 1}: expectedState ${shown(state)} stands in what the user says, and no tool result has it: an agent that repeats the user would pass`,
        ]
      : [];
  });
}

function echoedSteps({ task, turns, steps, events }: SeenText): string[] {
  const looking = [...walkSteps(task.verify)].filter(looksAtAgent).map(({ id }) => id);
  if (looking.length === 0) return [];
  const pathOf = stepPaths(events);
  // A round of a foreach is called after it: NAME[0].
  const holders = new Set(steps.flatMap(({ parent = "" }) => [parent, parent.replace(/\[\d+\]$/, "")]));
  const found = steps.flatMap(({ step, phase, last }) => {
    const isLooking = looking.some((id) => step === id || step.endsWith(`/${id}`));
    if (phase !== "verify" || !isLooking || holders.has(step) || last?.outcome !== "passed") return [];
    return last.checks.flatMap(({ name, passed, expected }) => {
      const isText =
        passed && /(?:^|\s)(?:contains|equals|exact)$/.test(name) && typeof expected === "string";
      if (!isText || expected.trim() === "") return [];
      return turns.some(({ user }) => statesText(user, expected))
        ? [`"${pathOf(step)}" expects ${shown(expected)}`]
        : [];
    });
  });
  return [...new Set(found)]
    .slice(0, most)
    .map(
      (what) =>
        `verify step ${what} of the agent's answer, which stands in the prompt: an agent that repeats the prompt may pass`,
    );
}

/** Steps that this is told of. */
const most = 10;

/** Whether a step looks at what the agent said. */
function looksAtAgent(step: Step): boolean {
  if ("steps" in step) return false;
  if (step.type === "llm" && step.input === undefined) return true;
  return /\{\s*agent\.output\b/.test(JSON.stringify(step));
}

function shown(text: string): string {
  return JSON.stringify(text.length > longestShown ? `${text.slice(0, longestShown).toWellFormed()}…` : text);
}

const shownError = 300;

/**
 * Calls of a task's own solution that failed, each in a sentence: it plays on, so that only this tells of a tool that is
 * not called so. Other agents may fail as they like.
 */
function solutionWarnings(events: readonly TraceEvent[]): string[] {
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
  return agentCalls(events).calls.flatMap((call): Failure[] =>
    call.failure === undefined ? [] : [{ seq: call.seq, name: nameOf(call), why: call.failure }],
  );
}

/** Calls that reached no server; steps have none of these. */
function rejectedCalls(events: readonly TraceEvent[]): readonly Failure[] {
  return events.flatMap((event) =>
    event.type === "tool.rejected" ? [{ seq: event.seq, name: event.tool, why: event.reason }] : [],
  );
}

function nameOf({ server, name, type }: AgentCall): string {
  return type === "resource" ? `${name} of ${server}` : `${server}.${name}`;
}

function clipped(text: string): string {
  const line = text.trim().replaceAll(/\s*\n\s*/g, " ");
  return line.length <= shownError ? line : `${line.slice(0, shownError).toWellFormed()}…`;
}

/**
 * Servers that did not end in order: that gave no answer to the last ping, or an error; with an exit code when their stdin was closed, which can be a crash; or by themselves,
 * in a trial that this did not break, since its cleanup may have ended them.
 */
function serverEndWarnings(events: readonly TraceEvent[]): string[] {
  const isCompleted = events.some(
    (event) => event.type === "trial.finished" && event.outcome === "completed",
  );
  const byStdin = new Set(
    events.flatMap((event) =>
      event.type === "server.stopped" && event.by === "stdin" ? [event.server] : [],
    ),
  );
  const told = events.flatMap((event) => {
    if (event.type !== "server.exited") return [];
    if (!event.expected)
      return isCompleted ? [`server "${event.server}" ended by itself: ${howOf(event)}`] : [];
    const isOdd = byStdin.has(event.server) && event.exitCode !== null && event.exitCode !== 0;
    return isOdd ? [`server "${event.server}" ended with ${howOf(event)} when its stdin was closed`] : [];
  });
  return [...new Set([...told, ...unansweredPings(events)])];
}

/** JSON-RPC 2.0, section 5.1. */
const methodNotFound = -32601;

/** We ask for a sign of life when a trial ends. A server that knows no ping gives one, too. */
function unansweredPings(events: readonly TraceEvent[]): string[] {
  const open = new Map<string, string>();
  const failed: string[] = [];
  for (const event of events) {
    if (event.type !== "mcp.message" || event.client !== undefined || !isJsonObject(event.message)) continue;
    const { server, direction, message } = event;
    const { id, method, error } = message;
    const key = JSON.stringify([server, id ?? null]);
    if (direction === "client-to-server") {
      if (method === "ping") open.set(key, server);
    } else if (method === undefined && open.delete(key) && isJsonObject(error)) {
      const { code, message: said } = error;
      if (code !== methodNotFound)
        failed.push(
          `server "${server}" ${oddPing} with an error: ${typeof said === "string" ? said : JSON.stringify(error)}`,
        );
    }
  }
  const gone = new Set(
    events.flatMap((event) => (event.type === "server.exited" && !event.expected ? [event.server] : [])),
  );
  const silent = [...open.values()]
    .filter((server) => !gone.has(server))
    .map((server) => `server "${server}" ${noPing}`);
  return [...failed, ...silent];
}

const oddPing = "answered the ping at the end of the trial";
const noPing = "did not answer the ping at the end of the trial: it may hang since its last answer";

function howOf({ exitCode, signal }: EventOf<"server.exited">): string {
  return signal ?? `exit code ${exitCode}`;
}

type Finished = EventOf<"step.finished">;

/**
 * Steps that failed without changing a verdict, in a cleanup or by their own wish; verify steps that were skipped, or passed in
 * doubt; and tool tests that passed late.
 */
function stepWarnings(events: readonly TraceEvent[]): string[] {
  const pathOf = stepPaths(events);
  const runs = stepRuns(events);
  const failed = runs.flatMap((run) => ignoredFailures(run));
  const told = failed.slice(0, most).map((step) => `${kindOf(step)} "${pathOf(step.step)}" ${whyOf(step)}`);
  const rest = failed.length - told.length;
  return [
    ...told,
    ...(rest > 0 ? [`${rest} more steps failed whose failure changes no verdict`] : []),
    ...skippedSteps(runs, pathOf),
    ...doubtfulSteps(runs, pathOf),
    ...lateSteps(events),
  ];
}

/** The innermost steps whose failure is ignored; what holds them failed for their sake. */
function ignoredFailures({ attempts }: StepRun): readonly Finished[] {
  const { finished, children = [] } = attempts.at(-1) ?? {};
  const inner = children.flatMap((child) => ignoredFailures(child));
  const isIgnored = finished?.ignored === true && finished.phase !== "probe";
  return inner.length === 0 && isIgnored ? [finished] : inner;
}

/** What was not looked at. A list's items and alternatives are chosen among with conditions, which is no news. */
function skippedSteps(runs: readonly StepRun[], pathOf: (step: string) => string): string[] {
  const skipped = runs.flatMap((run) => skippedIn(run));
  const told = skipped
    .slice(0, most)
    .map(({ step }) => `verify step "${pathOf(step)}" was skipped: its if does not hold`);
  const rest = skipped.length - told.length;
  return rest > 0 ? [...told, `${rest} more verify steps were skipped`] : told;
}

function skippedIn({ attempts }: StepRun): readonly Finished[] {
  const { started, finished, children = [] } = attempts.at(-1) ?? {};
  if (finished?.phase !== "verify") return [];
  if (finished.outcome === "skipped") return [finished];
  const isRow = started?.stepType === "group" || started?.stepType === "allOf";
  return isRow ? children.flatMap((child) => skippedIn(child)) : [];
}

/** Verify steps that passed, and may have found nothing only for a mistake of their author. */
function doubtfulSteps(runs: readonly StepRun[], pathOf: (step: string) => string): string[] {
  const told = new Map<string, string>();
  for (const { step, doubt } of runs.flatMap((run) => doubtsIn(run)))
    told.set(doubt, `verify step "${pathOf(step)}" passed, but ${doubt}`);
  const warnings = [...told.values()];
  const rest = warnings.length - most;
  return rest > 0 ? [...warnings.slice(0, most), `${rest} more verify steps passed in doubt`] : warnings;
}

/** Of a step that holds others, its own doubts first: those of the steps in it are more precise and come last. */
function doubtsIn({ attempts }: StepRun): readonly { readonly step: string; readonly doubt: string }[] {
  const { finished, children = [] } = attempts.at(-1) ?? {};
  if (finished?.phase !== "verify" || finished.outcome !== "passed") return [];
  const own = finished.checks.flatMap(({ passed, doubt }) =>
    passed && doubt !== undefined ? [{ step: finished.step, doubt }] : [],
  );
  return [...own, ...children.flatMap((child) => doubtsIn(child))];
}

function kindOf({ phase }: Finished): string {
  return `${phase} step`;
}

function whyOf({ outcome, checks, error, phase }: Finished): string {
  const what = outcome === "failed" ? "failed" : outcome === "timeout" ? "took too long" : "could not act";
  const failed = checks.filter((check) => !check.passed);
  const why =
    error === undefined ? failed.map((check) => `${check.name}: ${check.message}`).join("; ") : error.message;
  const note = phase === "cleanup" ? "" : ", which changes no verdict";
  return `${what}${note}${why === "" ? "" : `: ${why}`}`;
}

/** A tool test is to pass at once; steps of tasks poll, so that passing late is what they are for. */
function lateSteps(events: readonly TraceEvent[]): string[] {
  if (events.some((event) => event.type === "workspace.created")) return [];
  return events.flatMap((event) =>
    event.type === "step.finished" && event.outcome === "passed" && event.attempt > 1
      ? [`passed only at attempt ${event.attempt}; the attempts before are in the trace`]
      : [],
  );
}

/** What is odd about turns that the agent ended itself; the others are no matter of warnings, since they fail. */
export function turnWarnings(events: readonly TraceEvent[]): string[] {
  return turnEnds(events).flatMap(({ reason, oddity }) =>
    reason === "done" && oddity !== undefined ? [oddity] : [],
  );
}

/**
 * Where an agent's own log and the gateway's record differ, servers that did not start and were not needed, and faults
 * that were injected. The record is what counts; a difference means that one of the two has not seen everything.
 */
export function agentWarnings(trajectory: Pick<Trajectory, "calls" | "events">): string[] {
  return [
    ...mismatches(trajectory),
    ...unlistedTools(trajectory),
    ...missingServers(trajectory),
    ...unreachedServers(trajectory),
    ...idleRules(trajectory),
    ...injectedFaults(trajectory),
  ];
}

function mismatches(trajectory: Pick<Trajectory, "calls" | "events">): string[] {
  const { calls, unrecorded, others } = matchAgentTools(trajectory);
  const done = unrecorded.filter(({ status }) => status === "completed");
  const tells = calls.some(({ told }) => told !== undefined) || unrecorded.length + others.length > 0;
  const untold = tells ? calls.filter(({ told }) => told === undefined) : [];
  return [
    ...count(
      done.map(({ source, tool }) => `${source.slice("mcp:".length)}.${tool ?? "?"}`),
      (names) => `the agent tells of calls that never reached the gateway: ${names}; only the record counts`,
    ),
    ...count(
      untold.map(({ call }) => `${call.server ?? "?"}.${call.tool}`),
      (names) => `the agent's own log lacks calls that the gateway recorded: ${names}`,
    ),
  ];
}

/** A tool that is not listed is there for this agent only, if it is one at all. */
function unlistedTools({ calls }: Pick<Trajectory, "calls">): string[] {
  const answered = calls.filter(
    ({ step, server, declared, result }) =>
      step === undefined &&
      server !== null &&
      declared === undefined &&
      result !== undefined &&
      result["isError"] !== true,
  );
  return count(
    answered.map(({ server, tool }) => `${server ?? "?"}.${tool}`),
    (names) => `the agent called tools that their server does not list, and was answered: ${names}`,
  );
}

function missingServers({ events }: Pick<Trajectory, "events">): string[] {
  return events.flatMap((event) =>
    event.type === "server.failed"
      ? [`the trial went on without server "${event.server}", which did not start: ${event.error.message}`]
      : [],
  );
}

/** One of the same name in a program's own config may have been taken instead. That it reached none at all is an error. */
function unreachedServers({ events }: Pick<Trajectory, "events">): string[] {
  const reached = new Set(
    events.flatMap((event) => (event.type === "gateway.connected" ? [event.server] : [])),
  );
  if (reached.size === 0) return [];
  const ready = new Set(events.flatMap((event) => (event.type === "server.ready" ? [event.server] : [])));
  return [...ready]
    .filter((server) => !reached.has(server))
    .map((server) => `the agent never connected to server "${server}"`);
}

/** What is written to stand between an agent and a server, and did nothing; tools that the agent missed for its sake. */
function idleRules({ events }: Pick<Trajectory, "events">): string[] {
  const rejected = new Set(events.flatMap((event) => (event.type === "tool.rejected" ? [event.tool] : [])));
  const told = events.flatMap((event) => {
    if (event.type === "fault.unmet") {
      return [`the fault "${event.fault}" of ${event.server}.${event.tool ?? event.method} met no request`];
    }
    if (event.type !== "tools.hidden") return [];
    const { server, unmatched = [], tools } = event;
    return [
      ...unmatched.map((name) => `server "${server}": "${name}" under its \`tools\` fits none of its tools`),
      ...tools
        .filter((name) => rejected.has(name))
        .map((name) => `server "${server}" has the tool "${name}", which its \`tools\` hide from agents`),
    ];
  });
  return [...new Set(told)];
}

function injectedFaults({ events }: Pick<Trajectory, "events">): string[] {
  const faults = events.flatMap((event) =>
    event.type === "fault.injected"
      ? [`${event.fault} of ${event.server}.${event.tool ?? event.method}`]
      : [],
  );
  return count(faults, (names) => `injected on purpose: ${names}`);
}

/** A sentence about names with how often each occurs; none for no names. */
function count(names: readonly string[], say: (names: string) => string): string[] {
  if (names.length === 0) return [];
  const counts = Map.groupBy(names, (name) => name);
  const listed = [...counts].map(([name, all]) =>
    all.length === 1 ? name : `${name} (${all.length} times)`,
  );
  return [say(listed.join(", "))];
}
