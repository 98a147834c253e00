import { equalJson } from "../expect/json-difference.ts";
import { statesText } from "../expect/contains-text.ts";
import { resultProblem, resultText, searchableText } from "../expect/tool-result.ts";
import { readJsonText } from "../base/read-json.ts";
import { isJsonObject, type Json, type JsonObject, withoutUndefined } from "../base/json.ts";
import type { Fault } from "../model/server.ts";
import type { Task } from "../model/task.ts";
import type { Trial } from "../model/plan.ts";
import { type EventOf, eventsOf, type Phase, type TraceEvent, type TurnEnd } from "../model/event.ts";
import type { Cost, Usage } from "../model/grade.ts";
import { stepPaths } from "./step-path.ts";

// The one reading of a trial: graders, the judge, reports and the dashboard decide nothing of this again. What the agent did is
// in agent-acts.ts.

type Message = EventOf<"mcp.message"> & { readonly message: JsonObject };
type Id = string | number;

/** A request of a client to a server, or of a server to a client, and what came of it; or a notification. */
export interface Exchange {
  readonly request: Message;
  readonly params: JsonObject;
  /** The agent sent it: in its phase, or over a connection of its own. */
  readonly byAgent: boolean;
  /** The attempt of a step that sent it, or the turn in which it was sent. */
  readonly place: { readonly attempt?: StepAttempt; readonly turn?: number };
  /** For `tools/call`, what the newest list of the server says of the tool; absent: it was never listed. */
  readonly declared?: readonly ToolDeclaration[] | undefined;
  /** The first answer, even if the client had given up. */
  readonly answer?: Message | undefined;
  /** When and why the client cancelled the request before it was answered. */
  readonly cancelled?: { readonly at: number; readonly reason: string };
  readonly heldMs: number;
  readonly fault?: Fault["kind"];
  readonly httpStatus?: number;
  /** The agent called a tool that it may not use, so the call was not passed on. */
  readonly refused?: true;
  /** Numbers of all events that belong to it. */
  readonly seqs: readonly number[];
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

/** What the agent asked for: a tool, a resource or a prompt. */
export interface AgentRequest {
  readonly type: "tool" | "resource" | "prompt";
  /** What came of it; the URI of a resource and the name of a prompt stand in `tool`. */
  readonly call: ToolCall;
  /** Numbers of all events that belong to it. */
  readonly seqs: readonly number[];
}

export interface TurnView {
  readonly turn: number;
  readonly user: string;
  /** A simulated user says it; absent: the task does. */
  readonly by?: NonNullable<EventOf<"turn.started">["by"]>;
  readonly messages: readonly EventOf<"agent.message">[];
  readonly calls: readonly ToolCall[];
  /** Number and time of the event that began it. */
  readonly seq: number;
  readonly at: number;
  /** Absent: it has not ended. */
  readonly end?: EndedTurn;
}

/** How a user turn ended, in view of what the model said last. */
export interface EndedTurn {
  /** Number and time of the event that ended it. */
  readonly seq: number;
  readonly at: number;
  readonly reason: TurnEnd;
  /** What is wrong with the end; absent: the agent had finished, with words. */
  readonly oddity?: string;
}

/** A step with its attempts, as its events tell them. */
export interface StepRun {
  /** Its name in the trace. */
  readonly step: string;
  readonly phase: Phase;
  readonly attempts: readonly StepAttempt[];
  /** The last of its attempts. */
  readonly last: StepAttempt;
}

/** One attempt of a step, with the steps that it ran. */
export interface StepAttempt {
  readonly started: EventOf<"step.started">;
  /** Absent when the trial was cut off. */
  readonly finished?: EventOf<"step.finished">;
  /** The step, or one around it, was tried again afterwards. */
  readonly superseded: boolean;
  /** Numbers of the messages that it exchanged itself. */
  readonly messages: readonly number[];
  readonly children: readonly StepRun[];
}

/** What a trial's events say. */
export interface TraceView {
  readonly events: readonly TraceEvent[];
  readonly turns: readonly TurnView[];
  /** What the agent said. */
  readonly messages: readonly EventOf<"agent.message">[];
  readonly calls: readonly ToolCall[];
  /** In the order in which they were made, except for those that were sent to no server, which come last. */
  readonly requests: readonly AgentRequest[];
  /** The phases' own steps. */
  readonly steps: readonly StepRun[];
  /** How a step is called for a reader, see `stepPaths`. */
  readonly pathOf: (step: string) => string;
  readonly tools: readonly ToolDeclaration[];
  /** Tools that a server lists and the agent does not see. */
  readonly hiddenTools: readonly Pick<ToolDeclaration, "server" | "name">[];
  /** Tools that one list has more than once. */
  readonly repeatedTools: readonly ToolDeclaration[];
  readonly usage?: Usage;
  /** What clients sent to servers. */
  readonly exchanges: readonly Exchange[];
  /** What servers sent to clients besides answers. */
  readonly serverRequests: readonly Exchange[];
  /** Answers of servers that no request was waiting for. */
  readonly unasked: readonly Message[];
  /** Number of the event with which the agent's phase began; absent when no agent took part. */
  readonly agentStarted?: number;
  /** Present: all of it is what a transcript says, so that there are no messages, and the transcript is the record of what the agent did. */
  readonly transcript?: EventOf<"transcript.read">;
}

/** A read-only view of one trial's events. */
export interface Trajectory extends TraceView {
  readonly trial: Trial;
  readonly task: Task;
}

/** Reads a trial's events into a trajectory. */
export function buildTrajectory(trial: Trial, task: Task, events: readonly TraceEvent[]): Trajectory {
  return { trial, task, ...readTrace(events) };
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type OpenExchange = Omit<Mutable<Exchange>, "seqs"> & { readonly seqs: number[] };

/** Reads a trial's events, which must not change afterwards. */
export function readTrace(events: readonly TraceEvent[]): TraceView {
  const steps = new StepReader();
  const turns = new TurnReader();
  const messages = new ExchangeReader();
  const rejected: { readonly event: EventOf<"tool.rejected">; readonly place: Exchange["place"] }[] = [];
  const said: EventOf<"agent.message">[] = [];
  const hiddenTools: TraceView["hiddenTools"][number][] = [];
  /** Tokens of an agent program, as we counted them and as it reported them; those of our own model calls. */
  const usages: { proxy?: Usage; agent?: Usage; model?: Usage } = {};
  let paths: TraceView["pathOf"] | undefined;
  let agentStarted: number | undefined;
  let transcript: TraceView["transcript"];
  let inAgentPhase = false;
  const placeOf = (client?: string): Exchange["place"] => {
    const attempt = client === undefined ? steps.current : undefined;
    if (attempt !== undefined) return { attempt };
    // A program may still call when it has ended its turn.
    const turn = turns.current ?? (client === undefined ? undefined : turns.last);
    return turn === undefined ? {} : { turn };
  };

  for (const event of events) {
    steps.read(event);
    turns.read(event);
    switch (event.type) {
      case "phase.started":
      case "phase.finished":
        if (event.phase !== "agent") break;
        inAgentPhase = event.type === "phase.started";
        if (inAgentPhase) agentStarted ??= event.seq;
        break;
      case "mcp.message": {
        const place = placeOf(event.client);
        const byAgent = place.attempt === undefined && (inAgentPhase || place.turn !== undefined);
        messages.readMessage(event, { place, byAgent });
        break;
      }
      case "http.response":
      case "request.held":
      case "tool.refused":
      case "fault.injected":
      case "attack.injected":
        messages.readNote(event);
        break;
      case "agent.message":
        said.push(event);
        break;
      case "transcript.read":
        transcript = event;
        break;
      case "tools.hidden":
        for (const name of event.tools) hiddenTools.push({ server: event.server, name });
        break;
      case "tool.rejected":
        rejected.push({ event, place: placeOf() });
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
  const { exchanges, serverRequests, unasked, lists } = messages;
  const calls: ToolCall[] = [];
  const requests: AgentRequest[] = [];
  for (const exchange of exchanges) {
    const { id, method } = exchange.request.message;
    const type = requestTypes.get(method);
    // What has no id gets no answer, but the server may do it.
    const isCall = type === "tool" && isId(id);
    if (type === undefined || !(isCall || exchange.byAgent)) continue;
    const call = callOf(type, exchange);
    if (isCall) calls.push(call);
    if (exchange.byAgent) requests.push({ type, call, seqs: exchange.seqs });
  }
  for (const { event, place } of rejected) {
    const call = rejectedCall(event, place);
    calls.push(call);
    if (place.attempt === undefined) requests.push({ type: "tool", call, seqs: [event.seq] });
  }
  calls.sort((a, b) => a.seq - b.seq);
  const reported = reportedUsage(usages);
  return withoutUndefined({
    events,
    turns: turns.turns.map((view) => ({ ...view, calls: calls.filter((call) => call.turn === view.turn) })),
    messages: said,
    calls,
    requests,
    steps: steps.steps,
    pathOf: (step: string) => (paths ??= stepPaths(events))(step),
    tools: lists.tools,
    hiddenTools,
    repeatedTools: lists.repeated(),
    usage: reported === undefined ? usages.model : addUsage(usages.model, reported),
    exchanges,
    serverRequests,
    unasked,
    agentStarted,
    transcript,
  });
}

const requestTypes: ReadonlyMap<Json | undefined, AgentRequest["type"]> = new Map([
  ["tools/call", "tool"],
  ["resources/read", "resource"],
  ["prompts/get", "prompt"],
]);

function isMessage(event: EventOf<"mcp.message">): event is Message {
  return isJsonObject(event.message);
}

function isId(id: Json | undefined): id is Id {
  return typeof id === "string" || typeof id === "number";
}

function textIn(object: JsonObject, key: string): string {
  const text = object[key];
  return typeof text === "string" ? text : "";
}

function nameIn(object: JsonObject): string {
  return textIn(object, "name");
}

interface Connection {
  readonly server: string;
  readonly client?: string;
}

/** The newest request of each id; each connection has ids of its own. */
class OpenRequests {
  readonly #byConnection = new Map<string, Map<Id, OpenExchange>>();

  get(on: Connection, id: Id): OpenExchange | undefined {
    return this.#byConnection.get(nameOf(on))?.get(id);
  }

  set(on: Connection, id: Id, exchange: OpenExchange): void {
    const known = this.#byConnection.get(nameOf(on));
    if (known === undefined) this.#byConnection.set(nameOf(on), new Map([[id, exchange]]));
    else known.set(id, exchange);
  }
}

function nameOf({ server, client }: Connection): string {
  return client === undefined ? server : `${server}\n${client}`;
}

/** Joins JSON-RPC requests with their responses, so that calls are the same whatever agent made them. */
class ExchangeReader {
  readonly exchanges: OpenExchange[] = [];
  readonly serverRequests: OpenExchange[] = [];
  readonly unasked: Message[] = [];
  readonly lists = new ToolLists();
  readonly #ofClients = new OpenRequests();
  readonly #ofServers = new OpenRequests();

  readMessage(event: EventOf<"mcp.message">, where: Pick<Exchange, "place" | "byAgent">): void {
    if (!isMessage(event)) return;
    const isOfClient = event.direction === "client-to-server";
    if (event.message["method"] === undefined)
      this.#readAnswer(event, isOfClient ? this.#ofServers : this.#ofClients);
    else if (isOfClient) this.#readRequest(event, where, this.exchanges, this.#ofClients);
    else this.#readRequest(event, where, this.serverRequests, this.#ofServers);
  }

  #readRequest(
    request: Message,
    where: Pick<Exchange, "place" | "byAgent">,
    list: OpenExchange[],
    open: OpenRequests,
  ): void {
    const { server, message, seq } = request;
    const { id, method } = message;
    const params = isJsonObject(message["params"]) ? message["params"] : {};
    const declared = method === "tools/call" ? this.lists.declared(server, nameIn(params)) : undefined;
    const exchange: OpenExchange = {
      request,
      params,
      ...where,
      declared,
      answer: undefined,
      heldMs: 0,
      seqs: [seq],
    };
    if (method === "notifications/cancelled" && isId(params["requestId"]))
      cancel(open.get(request, params["requestId"]), request, params["reason"]);
    list.push(exchange);
    if (isId(id)) open.set(request, id, exchange);
  }

  #readAnswer(event: Message, open: OpenRequests): void {
    const { id } = event.message;
    const exchange = isId(id) ? open.get(event, id) : undefined;
    if (exchange !== undefined && exchange.answer === undefined) {
      exchange.answer = event;
      exchange.seqs.push(event.seq);
      if (exchange.request.message["method"] === "tools/list") this.lists.read(exchange, event);
    } else if (id !== undefined && event.direction === "server-to-client") this.unasked.push(event);
  }

  /** Reads what is recorded about requests besides their messages. */
  readNote(
    event: EventOf<"http.response" | "request.held" | "tool.refused" | "fault.injected" | "attack.injected">,
  ): void {
    for (const id of event.type === "http.response" ? event.requestIds : [event.id]) {
      const exchange = this.#ofClients.get(event, id);
      if (exchange === undefined) continue;
      exchange.seqs.push(event.seq);
      if (event.type === "http.response") exchange.httpStatus = event.status;
      else if (event.type === "request.held") exchange.heldMs += event.heldMs;
      else if (event.type === "tool.refused") exchange.refused = true;
      else if (event.type === "attack.injected") {
        // An error that the server never sent.
        if (event.part === "text" && event.changes.some(({ at }) => at === "/result"))
          exchange.fault = "error";
      } else if (event.fault !== "delay") exchange.fault = event.fault;
      else exchange.fault ??= event.fault;
    }
  }
}

function cancel(exchange: OpenExchange | undefined, { at, seq }: Message, reason: Json | undefined): void {
  if (exchange === undefined || exchange.answer !== undefined) return;
  exchange.cancelled ??= { at, reason: typeof reason === "string" ? reason : "" };
  exchange.seqs.push(seq);
}

interface OpenAttempt extends StepAttempt {
  finished?: EventOf<"step.finished">;
  superseded: boolean;
  readonly messages: number[];
  readonly children: OpenRun[];
}

interface OpenRun extends StepRun {
  readonly attempts: OpenAttempt[];
  last: OpenAttempt;
}

/** Joins the events of steps: the phases' own steps in order, each with its attempts, and those with what they ran. */
class StepReader {
  readonly #steps: OpenRun[] = [];
  readonly #open: OpenAttempt[] = [];

  get steps(): readonly StepRun[] {
    return this.#steps;
  }

  /** The attempt that is under way. */
  get current(): StepAttempt | undefined {
    return this.#open.at(-1);
  }

  /** Reads the next event of the trial. */
  read(event: TraceEvent): void {
    if (event.type === "mcp.message") this.#open.at(-1)?.messages.push(event.seq);
    if (event.type === "step.started") {
      const attempt: OpenAttempt = { started: event, superseded: false, messages: [], children: [] };
      addAttempt(this.#open.at(-1)?.children ?? this.#steps, attempt);
      this.#open.push(attempt);
    }
    if (event.type === "step.finished") {
      const attempt = this.#open.pop();
      if (attempt !== undefined) attempt.finished = event;
    }
  }
}

function addAttempt(runs: OpenRun[], attempt: OpenAttempt): void {
  const { step, attempt: number, phase } = attempt.started;
  const run = runs.at(-1);
  if (run?.step === step && run.phase === phase && number > 1) {
    supersede(run);
    run.attempts.push(attempt);
    run.last = attempt;
  } else runs.push({ step, phase, attempts: [attempt], last: attempt });
}

function supersede({ last }: OpenRun): void {
  last.superseded = true;
  last.children.forEach(supersede);
}

/** Steps with those inside their last attempts, each before those inside it. */
export function withInner(steps: readonly StepRun[]): readonly StepRun[] {
  return steps.flatMap((run) => [run, ...withInner(run.last.children)]);
}

/** Joins the events of turns. */
class TurnReader {
  readonly turns: (Omit<Mutable<TurnView>, "calls"> & { readonly messages: EventOf<"agent.message">[] })[] =
    [];
  /** The number of the turn that is played, and of the one that began last. */
  current: number | undefined;
  last: number | undefined;
  /** What the agent's model did in the turn. */
  #calls = 0;
  #finish = "";
  #spoke = false;

  read(event: TraceEvent): void {
    switch (event.type) {
      case "turn.started": {
        const { turn, user, by, seq, at } = event;
        this.current = this.last = turn;
        this.turns.push({ turn, user, ...(by && { by }), messages: [], seq, at });
        this.#calls = 0;
        break;
      }
      case "agent.message":
        this.#of(event.turn)?.messages.push(event);
        this.#spoke = true;
        break;
      case "model.called":
        if (event.purpose !== "agent") break;
        this.#calls += 1;
        this.#finish = event.finishReason;
        this.#spoke = false;
        break;
      case "turn.finished": {
        const { turn, seq, at, reason, detail } = event;
        const oddity = oddityOf(reason, {
          detail,
          calls: this.#calls,
          finish: this.#finish,
          spoke: this.#spoke,
        });
        const ended = this.#of(turn);
        if (ended !== undefined)
          ended.end = withoutUndefined({ seq, at, reason, oddity: oddity && `turn ${turn + 1}: ${oddity}` });
        this.current = undefined;
        break;
      }
      default:
        break;
    }
  }

  #of(turn: number): (typeof this.turns)[number] | undefined {
    return this.turns.findLast((view) => view.turn === turn);
  }
}

/** Without model calls the agent is a program, which reports the reason itself. */
function oddityOf(
  reason: TurnEnd,
  {
    detail = "",
    calls,
    finish,
    spoke,
  }: {
    readonly detail: string | undefined;
    readonly calls: number;
    readonly finish: string;
    readonly spoke: boolean;
  },
): string | undefined {
  switch (reason) {
    case "max-steps":
      if (calls === 0) return "the agent had no model calls left";
      return `the model still wanted to call tools after ${calls === 1 ? "a model call" : `${calls} model calls`}, the most that maxSteps allows`;
    case "max-tokens":
      if (calls === 0) return "the agent's model reached its output limit";
      return "the model's last answer was cut off at its output limit";
    case "context-overflow":
      return "the conversation became longer than the context window of the agent's model";
    case "limit":
      return `the agent was stopped: ${detail}`;
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

/** What came of a request: its result, or why there is none. */
export interface Outcome {
  readonly result?: JsonObject | undefined;
  readonly error?: CallError | undefined;
}

/** What came of a request. An answer after its client gave up does not count. */
export function outcomeOf({ request, answer, cancelled, heldMs }: Exchange): Outcome {
  if (cancelled !== undefined) {
    const waitedMs = Math.round(cancelled.at - request.at - heldMs);
    const message =
      waitedMs > 0
        ? `not answered within ${waitedMs} ms`
        : "held back by mcpvals until its client gave up, so the server never got it";
    return { error: { kind: "no-response", message, cancelled: cancelled.reason } };
  }
  if (answer === undefined) return noResponse("never answered");
  const { result, error } = answer.message;
  if (answer.malformed !== undefined) return noResponse(`the answer is malformed: ${answer.malformed}`);
  if (isJsonObject(result)) return { result };
  if (!isJsonObject(error)) return noResponse("the response has neither a result object nor an error");
  return { error: protocolError(error) };
}

/** Reads a JSON-RPC error. */
export function protocolError(error: JsonObject): CallError {
  const { code, message } = error;
  const text = typeof message === "string" ? message || wordless : JSON.stringify(error);
  return typeof code === "number"
    ? { kind: "protocol", message: `${text} (code ${code})`, code }
    : { kind: "protocol", message: text };
}

const wordless = "it failed without a message";

function noResponse(message: string): Outcome {
  return { error: { kind: "no-response", message } };
}

function callOf(type: AgentRequest["type"], exchange: Exchange): ToolCall {
  const { request, params, place, declared, heldMs, fault, httpStatus } = exchange;
  const { result, error } = outcomeOf(exchange);
  const answer = exchange.cancelled === undefined ? exchange.answer : undefined;
  return {
    server: request.server,
    tool: type === "resource" ? textIn(params, "uri") : nameIn(params),
    args: params["arguments"] ?? {},
    declared,
    client: request.client,
    turn: place.turn,
    step: place.attempt?.started.step,
    superseded: place.attempt?.superseded ?? false,
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
  { attempt, turn }: Exchange["place"],
): ToolCall {
  const error: CallError = { kind: "rejected", message: reason };
  return {
    server: null,
    tool,
    args,
    turn,
    step: attempt?.started.step,
    superseded: attempt?.superseded ?? false,
    seq,
    at,
    error: known === true ? { ...error, known: withoutUndefined({ server }) } : error,
  };
}

/** Whether a call has no result, or one that says that it failed. */
export function hasFailed({ error, result }: Outcome): boolean {
  return error !== undefined || result?.["isError"] === true;
}

/** Whether a text is JSON with the same value. */
export function saysSame(text: string, value: Json): boolean {
  const read = readJsonText(text).value;
  return read !== undefined && equalJson(read, value);
}

/** Whether a fault was injected that takes the answer away, as all but a delay do, so that nothing is known of the call. */
export function lostToFault({ fault }: Pick<ToolCall, "fault">): boolean {
  return fault !== undefined && fault !== "delay";
}

/** Why a request gave its client nothing to use, in the server's words where there are some; undefined: it succeeded. */
export function failureOf({
  type,
  call: { error, result },
}: Pick<AgentRequest, "type" | "call">): string | undefined {
  if (error !== undefined) return error.message;
  if (result === undefined) return undefined;
  if (result["isError"] !== undefined && result["isError"] !== false) return resultText(result) || wordless;
  const problem = resultProblem(type, result);
  return problem === undefined ? undefined : `the answer is unusable: ${problem}`;
}

/** What a simulated user has to do with the agent's words. */
export interface UserWords {
  /** The first turn in which it said them. */
  readonly turn: TurnView;
  /**
   * `repeated`: the agent had not said them before, and no tool has returned them. `confirmed`: the agent had, but no tool has.
   * `echoed`: only calls whose arguments had them, made after the user had said them, have returned them.
   */
  readonly how: "repeated" | "confirmed" | "echoed";
}

/**
 * Tells of what the agent says in a turn, whether a simulated user may be its only source. `says` tells it of a text; one that has all of
 * the agent's last words, whatever their white space, says it too. Undefined: the user did not say it, or a tool's result shows it.
 */
export function userWords(
  { turns }: Pick<TraceView, "turns">,
  turn: number,
  says: (text: string) => boolean,
): UserWords | undefined {
  const heard = turns.filter((view) => view.turn <= turn);
  const answer = withoutSpace(heard.at(-1)?.messages.at(-1)?.text ?? "");
  const has = (text: string): boolean =>
    says(text) ||
    says(text.replaceAll(/\s+/g, " ")) ||
    (answer !== "" && statesText(withoutSpace(text), answer));
  const first = heard.find(({ by, user }) => by !== undefined && has(user));
  if (first === undefined) return undefined;
  const returned = heard.flatMap(({ turn: at, calls }) =>
    calls.flatMap((call) =>
      call.result !== undefined && !hasFailed(call) && has(searchableText(call.result))
        ? [{ isOwn: at < first.turn || !textsIn(call.args).some(has) }]
        : [],
    ),
  );
  if (returned.some(({ isOwn }) => isOwn)) return undefined;
  if (returned.length > 0) return { turn: first, how: "echoed" };
  const isOwn = heard.some(
    ({ turn: at, messages }) => at < first.turn && messages.some(({ text }) => has(text)),
  );
  return { turn: first, how: isOwn ? "confirmed" : "repeated" };
}

/** The turn in which a simulated user said what the agent only repeats, so that the agent's words show nothing. Undefined: they may be its own. */
export function repeatedTurn(...said: Parameters<typeof userWords>): TurnView | undefined {
  const words = userWords(...said);
  return words?.how === "repeated" ? words.turn : undefined;
}

/** Strings and numbers inside a value. */
export function textsIn(value: unknown): readonly string[] {
  if (typeof value === "string" || typeof value === "number") return [String(value)];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

function withoutSpace(text: string): string {
  return text.replaceAll(/\s+/g, "");
}

/** How long the agent acted, in milliseconds, without the time in which a simulated user found its words; undefined: it has not ended. */
export function agentDuration({ events, turns }: Pick<TraceView, "events" | "turns">): number | undefined {
  const phases = eventsOf(events, "phase.finished").filter(({ phase }) => phase === "agent");
  if (phases.length === 0) return undefined;
  return turns.some(({ by }) => by === "user-model")
    ? turns.reduce((sum, { at, end }) => sum + (end === undefined ? 0 : end.at - at), 0)
    : phases.reduce((sum, { durationMs }) => sum + durationMs, 0);
}

/**
 * The agent's answer: what it said last in its last turn, together with those of a simulated user after it, which go on with the same.
 * Undefined: it said nothing there.
 */
export function finalMessage({
  turns,
  messages,
}: Pick<TraceView, "turns" | "messages">): EventOf<"agent.message"> | undefined {
  const last = turns.findLast(({ by }) => by === undefined);
  return messages.findLast(({ seq }) => last === undefined || seq > last.seq);
}

/** The call of a turn that was answered last. Calls may overlap, so it need not be the last one asked for. */
export function lastAnswered({ calls }: TurnView): ToolCall | undefined {
  const answered = calls.filter((call) => call.result !== undefined);
  return answered.toSorted((a, b) => (a.responseSeq ?? 0) - (b.responseSeq ?? 0)).at(-1);
}

function sum(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
}

/** What an agent program used: the tokens that the proxy counted, else those that it reports, and what it reports of their cost. */
function reportedUsage({
  proxy,
  agent,
}: {
  readonly proxy?: Usage;
  readonly agent?: Usage;
}): Usage | undefined {
  if (proxy === undefined || proxy.cost !== undefined) return proxy ?? agent;
  return withoutUndefined({ ...proxy, cost: agent?.cost });
}

/** Adds amounts of money, of which one may be unknown. Those of different currencies have no sum. */
export function addCost(left: Cost | undefined, right: Cost | undefined): Cost | undefined {
  if (left === undefined || right === undefined) {
    const known = left ?? right;
    return known && { ...known, isPartial: true };
  }
  if (left.currency !== right.currency) return undefined;
  const isPartial = left.isPartial ?? right.isPartial;
  return withoutUndefined({ amount: left.amount + right.amount, currency: left.currency, isPartial });
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
    isPartial: left.isPartial ?? right.isPartial,
    cost: addCost(left.cost, right.cost),
  });
}

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
