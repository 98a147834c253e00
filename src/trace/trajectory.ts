import { resultProblem, resultText } from "../expect/tool-result.ts";
import { isJsonObject, type Json, type JsonObject, withoutUndefined } from "../base/json.ts";
import type { Fault } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import type { Trial } from "../model/plan.ts";
import type { EventOf, Phase, TraceEvent, TurnEnd } from "../model/event.ts";
import type { Usage } from "../model/grade.ts";

type Message = EventOf<"mcp.message"> & { readonly message: JsonObject };
type Id = string | number;

/** A request that a client sent to a server, and what came of it. */
export interface Exchange {
  readonly request: Message;
  readonly params: JsonObject;
  /** The agent sent it: it was sent in the agent's phase. */
  readonly byAgent: boolean;
  /** The step that sent it, with its attempt, or the turn in which it was sent. */
  readonly place: { readonly step?: string; readonly attempt?: number; readonly turn?: number };
  /** For `tools/call`, what the newest list of the server says of the tool; absent: it was never listed. */
  readonly declared?: readonly ToolDeclaration[] | undefined;
  /** The first answer, even if the client had given up. */
  readonly answer?: Message | undefined;
  /** When and why the client cancelled the request before it was answered. */
  readonly cancelled?: { readonly at: number; readonly reason: string };
  readonly heldMs: number;
  readonly fault?: Fault["kind"];
  readonly httpStatus?: number;
}

/** A tool as its server declared it in `tools/list`. */
export interface ToolDeclaration {
  readonly server: string;
  readonly name: string;
  /** All that it says of the tool: `inputSchema`, `outputSchema`, `description` and the rest, as received. */
  readonly definition: JsonObject;
  /** Number of the event with the list, and the position in its `tools`. */
  readonly seq: number;
  readonly index: number;
}

/** Why a tool call gave no result. */
export interface CallError {
  /** `protocol`: a JSON-RPC error. `rejected`: not sent, as no server has such a tool or as `known` says. `no-response`: never answered, or with neither result nor error. */
  readonly kind: "protocol" | "rejected" | "no-response";
  readonly message: string;
  /** Code of the JSON-RPC error. */
  readonly code?: number;
  /** Of a rejected call: the tool is not unknown, and the server that offers it if the arguments are the reason. */
  readonly known?: { readonly server?: string };
  /** The reason that the client gave when it cancelled the call; absent: it did not. */
  readonly cancelled?: string;
}

/** One tool call, joined from its request and its response. */
export interface ToolCall {
  /** null when no server offers the tool. */
  readonly server: string | null;
  readonly tool: string;
  readonly args: Json;
  readonly declared?: readonly ToolDeclaration[] | undefined;
  /** The agent's own connection that it came over; absent: ours. */
  readonly client?: string | undefined;
  /** Number of the turn, counting from 0, or the id of the step that made the call. */
  readonly turn?: number | undefined;
  readonly step?: string | undefined;
  /** True for a call of a step's attempt that was tried again. */
  readonly superseded: boolean;
  /** Number and time of the request's event. */
  readonly seq: number;
  readonly at: number;
  readonly fault?: Fault["kind"] | undefined;
  /** Number of the response's event. */
  readonly responseSeq?: number | undefined;
  /** Without waits for a rate limit. */
  readonly latencyMs?: number | undefined;
  /** The `CallToolResult`, as received. */
  readonly result?: JsonObject | undefined;
  readonly error?: CallError | undefined;
  readonly httpStatus?: number | undefined;
}

export interface TurnView {
  readonly turn: number;
  readonly user: string;
  readonly messages: readonly EventOf<"agent.message">[];
  readonly calls: readonly ToolCall[];
  readonly reason?: TurnEnd;
}

/** A step with its last attempt. */
export interface StepView {
  readonly step: string;
  readonly phase: Phase;
  /** The step that it belongs to; absent for a phase's own steps. */
  readonly parent?: string;
  readonly attempts: readonly EventOf<"step.finished">[];
  readonly last: EventOf<"step.finished">;
}

/** What a trial's events say. */
export interface TraceView {
  readonly turns: readonly TurnView[];
  readonly calls: readonly ToolCall[];
  readonly steps: readonly StepView[];
  readonly tools: readonly ToolDeclaration[];
  /** Tools that one list has more than once. */
  readonly repeatedTools: readonly ToolDeclaration[];
  readonly usage?: Usage;
  readonly exchanges: readonly Exchange[];
  /** Answers that no request was waiting for. */
  readonly unasked: readonly Message[];
  /** Number of the event with which the agent's phase began; absent when no agent took part. */
  readonly agentStarted?: number;
}

/** A read-only view of one trial's events. */
export interface Trajectory extends TraceView {
  readonly trial: Trial;
  readonly task: Task;
  readonly events: readonly TraceEvent[];
}

/** Reads a trial's events into a trajectory. */
export function buildTrajectory(trial: Trial, task: Task, events: readonly TraceEvent[]): Trajectory {
  return { trial, task, events, ...readTrace(events) };
}

/** The tool calls of a trial. */
export function toolCalls(events: readonly TraceEvent[]): readonly ToolCall[] {
  return readTrace(events).calls;
}

/** The JSON-RPC requests of a trial, with their answers. */
export function exchangesIn(events: readonly TraceEvent[]): readonly Exchange[] {
  return readTrace(events).exchanges;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Joins JSON-RPC requests with their responses, so that calls are the same whatever agent made them. */
function readTrace(events: readonly TraceEvent[]): TraceView {
  const reader = new ToolLists();
  const exchanges: Mutable<Exchange>[] = [];
  const sent = new SentRequests();
  const unasked: Message[] = [];
  const rejected: { readonly event: EventOf<"tool.rejected">; readonly place: Exchange["place"] }[] = [];
  const turns: (Omit<Mutable<TurnView>, "calls"> & { messages: EventOf<"agent.message">[] })[] = [];
  const attempts = new Map<string, EventOf<"step.finished">[]>();
  const openSteps: EventOf<"step.started">[] = [];
  /** Tokens of an agent program, as we counted them and as it reported them; those of our own model calls. */
  const usages: { proxy?: Usage; agent?: Usage; model?: Usage } = {};
  let agentStarted: number | undefined;
  let inAgentPhase = false;
  let turn: number | undefined;
  /** A program may still call when it has ended its turn. */
  let lastTurn: number | undefined;

  const turnOf = (number: number) => turns.findLast((candidate) => candidate.turn === number);
  const placeOf = (client?: string): Exchange["place"] => {
    const step = client === undefined ? openSteps.at(-1) : undefined;
    if (step !== undefined) return { step: step.step, attempt: step.attempt };
    const at = turn ?? (client === undefined ? undefined : lastTurn);
    return at === undefined ? {} : { turn: at };
  };
  const readRequest = (event: Message): void => {
    const { message, server, client } = event;
    const params = isJsonObject(message["params"]) ? message["params"] : {};
    if (message["method"] === "notifications/cancelled" && isId(params["requestId"])) {
      const open = sent.get(event, params["requestId"]);
      if (open === undefined || open.answer !== undefined) return;
      const { reason } = params;
      open.cancelled ??= { at: event.at, reason: typeof reason === "string" ? reason : "" };
    }
    if (message["method"] === undefined) return;
    const exchange: Mutable<Exchange> = {
      request: event,
      params,
      byAgent: inAgentPhase,
      place: placeOf(client),
      declared: message["method"] === "tools/call" ? reader.declared(server, nameIn(params)) : undefined,
      answer: undefined,
      heldMs: 0,
    };
    exchanges.push(exchange);
    if (isId(message["id"])) sent.set(event, message["id"], exchange);
  };
  const readResponse = (event: Message): void => {
    const { id } = event.message;
    const exchange = isId(id) ? sent.get(event, id) : undefined;
    if (exchange === undefined || exchange.answer !== undefined) {
      if (id !== undefined) unasked.push(event);
      return;
    }
    exchange.answer = event;
    if (exchange.request.message["method"] === "tools/list") reader.read(exchange, event);
  };

  for (const event of events) {
    switch (event.type) {
      case "phase.started":
      case "phase.finished":
        if (event.phase !== "agent") break;
        inAgentPhase = event.type === "phase.started";
        if (inAgentPhase) agentStarted ??= event.seq;
        break;
      case "mcp.message":
        if (!isMessage(event)) break;
        if (event.direction === "client-to-server") readRequest(event);
        else if (event.message["method"] === undefined) readResponse(event);
        break;
      case "http.response":
        for (const id of event.requestIds) {
          const exchange = sent.get(event, id);
          if (exchange !== undefined) exchange.httpStatus = event.status;
        }
        break;
      case "request.held":
      case "fault.injected": {
        const exchange = sent.get(event, event.id);
        if (exchange === undefined) break;
        if (event.type === "request.held") exchange.heldMs += event.heldMs;
        else if (event.fault !== "delay") exchange.fault = event.fault;
        else exchange.fault ??= event.fault;
        break;
      }
      case "turn.started":
        turn = lastTurn = event.turn;
        turns.push({ turn, user: event.user, messages: [] });
        break;
      case "agent.message":
        turnOf(event.turn)?.messages.push(event);
        break;
      case "turn.finished": {
        const finished = turnOf(event.turn);
        if (finished !== undefined) finished.reason = event.reason;
        turn = undefined;
        break;
      }
      case "tool.rejected":
        rejected.push({ event, place: placeOf() });
        break;
      case "step.started":
        openSteps.push(event);
        break;
      case "step.finished":
        // Steps of a probe, before and after the trial, belong to other phases.
        if (event.phase !== "probe") attempts.set(event.step, [...(attempts.get(event.step) ?? []), event]);
        openSteps.pop();
        break;
      case "agent.usage":
        usages[event.source] = addUsage(usages[event.source], event.usage);
        break;
      case "model.called":
        if (event.purpose === "agent") usages.model = addUsage(usages.model, event.usage);
        break;
      default:
        break;
    }
  }
  const lastAttempt = ({ step }: Exchange["place"]): number =>
    step === undefined ? 0 : (attempts.get(step)?.at(-1)?.attempt ?? 0);
  const calls: ToolCall[] = [];
  for (const exchange of exchanges) {
    const { message } = exchange.request;
    if (message["method"] !== "tools/call" || !isId(message["id"])) continue;
    calls.push(callOf(exchange, lastAttempt(exchange.place)));
  }
  for (const { event, place } of rejected) calls.push(rejectedCall(event, place, lastAttempt(place)));
  calls.sort((a, b) => a.seq - b.seq);
  const reported = usages.proxy ?? usages.agent;
  return withoutUndefined({
    turns: turns.map((view) => ({ ...view, calls: calls.filter((call) => call.turn === view.turn) })),
    calls,
    steps: [...attempts.values()].flatMap((all) => stepView(all)),
    tools: reader.tools,
    repeatedTools: reader.repeated(),
    usage: reported === undefined ? usages.model : addUsage(usages.model, reported),
    exchanges,
    unasked,
    agentStarted,
  });
}

function isMessage(event: EventOf<"mcp.message">): event is Message {
  return isJsonObject(event.message);
}

function isId(id: Json | undefined): id is Id {
  return typeof id === "string" || typeof id === "number";
}

function nameIn(object: JsonObject): string {
  return typeof object["name"] === "string" ? object["name"] : "";
}

interface Connection {
  readonly server: string;
  readonly client?: string;
}

/** The newest request of each id; each connection has ids of its own. */
class SentRequests {
  readonly #byConnection = new Map<string, Map<Id, Mutable<Exchange>>>();

  get(on: Connection, id: Id): Mutable<Exchange> | undefined {
    return this.#byConnection.get(nameOf(on))?.get(id);
  }

  set(on: Connection, id: Id, exchange: Mutable<Exchange>): void {
    const known = this.#byConnection.get(nameOf(on));
    if (known === undefined) this.#byConnection.set(nameOf(on), new Map([[id, exchange]]));
    else known.set(id, exchange);
  }
}

function nameOf({ server, client }: Connection): string {
  return client === undefined ? server : `${server}\n${client}`;
}

function stepView(attempts: readonly EventOf<"step.finished">[]): StepView[] {
  const last = attempts.at(-1);
  if (last === undefined) return [];
  const { step, phase, parent } = last;
  return [withoutUndefined({ step, phase, parent, attempts, last })];
}

/** The tools that servers list. */
class ToolLists {
  readonly tools: ToolDeclaration[] = [];
  /** Names in the newest list of each connection. */
  readonly #names = new Map<string, Set<string>>();
  /** By server and name, as they were listed last. */
  readonly #declared = new Map<string, ToolDeclaration[]>();

  declared(server: string, tool: string): readonly ToolDeclaration[] | undefined {
    return this.#declared.get(`${server}\n${tool}`);
  }

  repeated(): ToolDeclaration[] {
    return [...this.#declared.values()].flatMap((all) => (all.length > 1 ? all.slice(0, 1) : []));
  }

  /** Reads a page; one that was asked for with a cursor continues the list. */
  read({ params }: Exchange, answer: Message): void {
    const {
      seq,
      server,
      message: { result },
    } = answer;
    const connection = nameOf(answer);
    const names = (params["cursor"] === undefined ? undefined : this.#names.get(connection)) ?? new Set();
    this.#names.set(connection, names);
    const page = isJsonObject(result) && Array.isArray(result["tools"]) ? (result["tools"] as Json[]) : [];
    for (const [index, tool] of page.entries()) {
      if (!isJsonObject(tool)) continue;
      const name = nameIn(tool);
      const declaration = { server, name, definition: tool, seq, index };
      this.tools.push(declaration);
      const key = `${server}\n${name}`;
      if (names.has(name)) this.#declared.get(key)?.push(declaration);
      else this.#declared.set(key, [declaration]);
      names.add(name);
    }
  }
}

/** `lastAttempt` is the number of the last attempt of its step that ended. */
function callOf(exchange: Exchange, lastAttempt: number): ToolCall {
  const { request, params, declared, cancelled, heldMs, fault, httpStatus } = exchange;
  const { attempt = lastAttempt, turn, step } = exchange.place;
  const answer = cancelled === undefined ? exchange.answer : undefined;
  const waited = Math.round((cancelled?.at ?? 0) - request.at - heldMs);
  const unanswered = cancelled === undefined ? "never answered" : `not answered within ${waited} ms`;
  const { result, error }: Outcome =
    answer === undefined
      ? {
          error: withoutUndefined({ kind: "no-response", message: unanswered, cancelled: cancelled?.reason }),
        }
      : outcomeOf(answer);
  return {
    server: request.server,
    tool: nameIn(params),
    args: params["arguments"] ?? {},
    declared,
    client: request.client,
    turn,
    step,
    superseded: attempt < lastAttempt,
    seq: request.seq,
    at: request.at,
    fault,
    responseSeq: answer?.seq,
    latencyMs: answer === undefined ? undefined : Math.max(0, answer.at - request.at - heldMs),
    httpStatus,
    result,
    error,
  };
}

/** A call that was not sent to a server. */
function rejectedCall(
  { tool, args, seq, at, reason, server, known }: EventOf<"tool.rejected">,
  { attempt = 0, turn, step }: Exchange["place"],
  lastAttempt: number,
): ToolCall {
  const error: CallError = {
    kind: "rejected",
    message: reason,
    ...(known === true ? { known: withoutUndefined({ server }) } : {}),
  };
  return { server: null, tool, args, turn, step, superseded: attempt < lastAttempt, seq, at, error };
}

interface Outcome {
  readonly result?: JsonObject;
  readonly error?: CallError;
}

function noResponse(message: string): Outcome {
  return { error: { kind: "no-response", message } };
}

/** The result of an answer, or why it has none. */
function outcomeOf({ malformed, message: { result, error } }: Message): Outcome {
  if (malformed !== undefined) return noResponse(`the answer is malformed: ${malformed}`);
  if (isJsonObject(result)) return { result };
  if (!isJsonObject(error)) return noResponse("the response has neither a result object nor an error");
  const { code, message } = error;
  const text = typeof message === "string" ? message : JSON.stringify(error);
  return typeof code === "number"
    ? { error: { kind: "protocol", message: `${text} (code ${code})`, code } }
    : { error: { kind: "protocol", message: text } };
}

function sum(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
}

/** Adds two counts; the optional ones stay absent while neither side has them. */
export function addUsage(left: Usage | undefined, right: Usage): Usage {
  if (left === undefined) return right;
  const isKnown = left.requests !== undefined && right.requests !== undefined;
  return withoutUndefined({
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    requests: isKnown ? sum(left.requests, right.requests) : undefined,
    cacheReadTokens: sum(left.cacheReadTokens, right.cacheReadTokens),
    cacheWriteTokens: sum(left.cacheWriteTokens, right.cacheWriteTokens),
  });
}

/** Something that the agent asked a server for. */
export interface AgentCall {
  readonly type: "tool" | "resource" | "prompt";
  readonly server: string;
  /** Name of the tool or prompt, or URI of the resource. */
  readonly name: string;
  /** Arguments; an empty object when there are none. */
  readonly args: Json;
  /** Of a tool, what the newest list of the server says of it; absent: it was never listed. */
  readonly declared?: ToolDeclaration | undefined;
  /** Number and time of the request's event. */
  readonly seq: number;
  readonly at: number;
  /** What came back before the agent gave up; absent: nothing. */
  readonly answer?: Message | undefined;
  /** The text of the failure, or that there is no answer; absent: it succeeded. */
  readonly failure?: string | undefined;
  /** A fault was injected that takes the answer away. */
  readonly faulted?: true | undefined;
}

const callTypes: ReadonlyMap<Json | undefined, AgentCall["type"]> = new Map([
  ["tools/call", "tool"],
  ["resources/read", "resource"],
  ["prompts/get", "prompt"],
]);

/** A function that computes its value once for each object; the object must not change afterwards. */
export function perObject<K extends object, V>(compute: (of: K) => V): (of: K) => V {
  const known = new WeakMap<K, { readonly value: V }>();
  return (of) => {
    let entry = known.get(of);
    if (entry === undefined) {
      entry = { value: compute(of) };
      known.set(of, entry);
    }
    return entry.value;
  };
}

/** What the agent asked of servers, in the order of the requests; calls of steps are left out. */
export function agentCalls({ exchanges }: Pick<TraceView, "exchanges">): readonly AgentCall[] {
  return callsOf(exchanges);
}

const callsOf = perObject((exchanges: readonly Exchange[]): readonly AgentCall[] => {
  const calls: AgentCall[] = [];
  for (const { request, params, byAgent, declared, answer, cancelled, fault } of exchanges) {
    const type = callTypes.get(request.message["method"]);
    if (!byAgent || type === undefined) continue;
    const { server, seq, at } = request;
    const name = params[type === "resource" ? "uri" : "name"];
    const given = cancelled === undefined ? answer : undefined;
    calls.push({
      type,
      server,
      name: typeof name === "string" ? name : "",
      args: params["arguments"] ?? {},
      declared: declared?.[0],
      seq,
      at,
      answer: given,
      failure: given === undefined ? "there was no answer" : failureOf(type, given),
      faulted: fault !== undefined && fault !== "delay" ? true : undefined,
    });
  }
  return calls;
});

function failureOf(type: AgentCall["type"], answer: Message): string | undefined {
  const { result, error } = outcomeOf(answer);
  const wordless = "it failed without a message";
  if (result === undefined) {
    if (answer.malformed !== undefined) return error?.message;
    const told = isJsonObject(answer.message["error"]) ? answer.message["error"]["message"] : "";
    return typeof told === "string" && told !== "" ? told : wordless;
  }
  if (result["isError"] !== undefined && result["isError"] !== false) return resultText(result) || wordless;
  const problem = resultProblem(type, result);
  return problem === undefined ? undefined : `the answer is unusable: ${problem}`;
}

/** `result` is `{error: message}` when there was none; `timestamp` is ISO 8601. */
type PastCall = { readonly serverName: string; readonly result: Json; readonly timestamp: string };

/** What the agent asked of servers, in the order of the requests. */
export interface CallHistory {
  readonly toolCalls: readonly (PastCall & { readonly toolName: string; readonly arguments: Json })[];
  readonly resourceReads: readonly (PastCall & { readonly uri: string })[];
  readonly promptGets: readonly (PastCall & { readonly promptName: string; readonly arguments: Json })[];
}

/** Reads from a trial's events what its agent called. */
export function callHistory(events: readonly TraceEvent[]): CallHistory {
  const calls = agentCalls(readTrace(events)).map(({ type, server, name, args, answer, at }) => {
    const { result, error } = answer === undefined ? {} : outcomeOf(answer);
    const timestamp = new Date(at).toISOString();
    const past = {
      serverName: server,
      result: result ?? { error: error?.message ?? "never answered" },
      timestamp,
    };
    return { type, name, args, past };
  });
  const ofType = (type: AgentCall["type"]) => calls.filter((call) => call.type === type);
  return {
    toolCalls: ofType("tool").map(({ name, args, past }) => ({ ...past, toolName: name, arguments: args })),
    resourceReads: ofType("resource").map(({ name, past }) => ({ ...past, uri: name })),
    promptGets: ofType("prompt").map(({ name, args, past }) => ({
      ...past,
      promptName: name,
      arguments: args,
    })),
  };
}

/** The call of a turn that was answered last. Calls may overlap, so it need not be the last one asked for. */
export function lastAnswered({ calls }: TurnView): ToolCall | undefined {
  const answered = calls.filter((call) => call.result !== undefined);
  return answered.toSorted((a, b) => (a.responseSeq ?? 0) - (b.responseSeq ?? 0)).at(-1);
}

/** How a user turn ended, in view of what the model said last. */
export interface EndedTurn {
  /** Number of the event that ended it. */
  readonly seq: number;
  readonly reason: TurnEnd;
  /** What is wrong with the end; absent: the agent had finished, with words. */
  readonly oddity?: string;
}

/** The ends of all turns that have one. */
export function turnEnds(events: readonly TraceEvent[]): readonly EndedTurn[] {
  const ends: EndedTurn[] = [];
  let calls = 0;
  let finish = "";
  let spoke = false;
  for (const event of events) {
    if (event.type === "turn.started") calls = 0;
    if (event.type === "agent.message") spoke = true;
    if (event.type === "model.called" && event.purpose === "agent") {
      calls += 1;
      finish = event.finishReason;
      spoke = false;
    }
    if (event.type !== "turn.finished") continue;
    const { turn, seq, reason } = event;
    const oddity = oddityOf(reason, { calls, finish, spoke });
    ends.push({ seq, reason, ...(oddity === undefined ? {} : { oddity: `turn ${turn + 1}: ${oddity}` }) });
  }
  return ends;
}

/** Without model calls the agent is a program, which reports the reason itself. */
function oddityOf(
  reason: TurnEnd,
  { calls, finish, spoke }: { readonly calls: number; readonly finish: string; readonly spoke: boolean },
): string | undefined {
  switch (reason) {
    case "max-steps":
      if (calls === 0) return "the agent had no model calls left";
      return `the model still wanted to call tools after ${calls === 1 ? "a model call" : `${calls} model calls`}, the most that maxSteps allows`;
    case "max-tokens":
      if (calls === 0) return "the agent's model reached its output limit";
      return "the model's last answer was cut off at its output limit";
    case "refused":
      return calls === 0 ? "the agent refused to go on" : "the model or its provider refused to answer";
    case "cancelled":
      return "the turn was cancelled";
    case "done":
      if (calls === 0) return undefined;
      if (!spoke) return "the model's last answer was empty";
      return finish === "stop" || finish === "tool-calls"
        ? undefined
        : `the model's last answer ended for an unknown reason: ${JSON.stringify(finish)}`;
  }
}
