import type { Json, JsonObject, Task } from "../formats/model.ts";
import { isJsonObject } from "../formats/json.ts";
import type { Trial } from "../plan/plan.ts";
import type { EventOf, TraceEvent, Usage } from "./events.ts";
import { agentWarnings, assertionWarnings, echoWarnings, warningsOf } from "./warnings.ts";
import { answeredError, callKey } from "./agent-calls.ts";
import type { StepView, ToolCall, ToolDeclaration, Trajectory, TurnView } from "./trajectory.ts";

/**
 * Reads a trial's events into a trajectory. Tool calls are joined from the raw JSON-RPC requests and responses, so
 * they are the same whatever agent made them.
 */
export function buildTrajectory(trial: Trial, task: Task, events: readonly TraceEvent[]): Trajectory {
  const reader = new TrajectoryReader();
  for (const event of events) reader.read(event);
  const view = reader.finish();
  const warnings = [
    ...warningsOf(events),
    ...reader.repeatedTools().map(repetition),
    ...emptyAnswers(view),
    ...agentWarnings({ calls: view.calls, events }),
    ...assertionWarnings({ task, events, tools: view.tools }),
    ...echoWarnings({ task, events, ...view }),
  ];
  return { trial, task, events, ...view, warnings };
}

function repetition({ server, name }: ToolDeclaration): string {
  return `server "${server}" lists the tool "${name}" more than once, so that nobody can tell which of them is called`;
}

/** A call that checks something needs no expectation, but a result without anything in it shows little. */
function emptyAnswers({ calls, steps }: Pick<Trajectory, "calls" | "steps">): string[] {
  const verified = new Set(steps.flatMap(({ step, phase }) => (phase === "verify" ? [step] : [])));
  return calls
    .filter(({ step = "", superseded }) => verified.has(step) && !superseded)
    .filter(({ result }) => result !== undefined && isEmpty(result))
    .map(({ tool }) => `${tool} answered with nothing in its result`);
}

function isEmpty({ content, structuredContent }: JsonObject): boolean {
  if (structuredContent !== undefined && structuredContent !== null) return false;
  return Array.isArray(content) && content.every((block) => isJsonObject(block) && block["text"] === "");
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type OpenCall = Mutable<ToolCall> & {
  attempt?: number;
  sentAt: number;
  /** Time of waiting before the request went to the server, in milliseconds. */
  heldMs?: number;
  givenUpAt?: number;
};
type OpenTurn = Mutable<TurnView> & { readonly messages: EventOf<"agent.message">[] };

/** Accumulates one pass over the events; lives only while a trajectory is built. */
class TrajectoryReader {
  readonly #calls: OpenCall[] = [];
  /** The newest call of each request id. */
  readonly #byId = new Map<string, OpenCall>();
  /** Requests of `tools/list` that are not answered; whether they go on with a list. */
  readonly #listings = new Map<string, boolean>();
  /** Names in the newest list of each connection. */
  readonly #listed = new Map<string, Set<string>>();
  readonly #tools: ToolDeclaration[] = [];
  /** By server and name, as they were listed last. */
  readonly #declared = new Map<string, ToolDeclaration[]>();
  readonly #turns: OpenTurn[] = [];
  readonly #attempts = new Map<string, EventOf<"step.finished">[]>();
  #turn: number | undefined;
  /** The turn that began last; a program may still call when it has said its last word. */
  #lastTurn: number | undefined;
  /** Tokens of a program's model, as we counted them and as it told. */
  readonly #told: { proxy?: Usage; agent?: Usage } = {};
  /** The steps that have begun and not ended, the innermost last. */
  readonly #open: { readonly id: string; readonly attempt: number }[] = [];
  #usage: Usage | undefined;

  read(event: TraceEvent): void {
    switch (event.type) {
      case "mcp.message":
        this.#readMessage(event);
        break;
      case "http.response":
        for (const id of event.requestIds) this.#noteStatus(callKey(event, id), event.status);
        break;
      case "request.held":
      case "fault.injected":
        this.#noteFilter(event);
        break;
      case "turn.started":
        this.#startTurn(event);
        break;
      case "agent.message":
        this.#turnOf(event)?.messages.push(event);
        break;
      case "turn.finished":
        this.#finishTurn(event);
        break;
      case "tool.rejected":
        this.#add({
          server: null,
          tool: event.tool,
          args: event.args,
          seq: event.seq,
          sentAt: event.at,
          superseded: false,
          error: { kind: "rejected", message: event.reason },
        });
        break;
      case "step.started":
        this.#open.push({ id: event.step, attempt: event.attempt });
        break;
      case "step.finished":
        this.#noteAttempt(event);
        this.#open.pop();
        break;
      case "agent.usage":
        this.#told[event.source] = addUsage(this.#told[event.source], event.usage);
        break;
      case "model.called":
        if (event.purpose === "agent") this.#usage = addUsage(this.#usage, event.usage);
        break;
      default:
        break;
    }
  }

  finish(): Pick<Trajectory, "turns" | "calls" | "steps" | "tools" | "usage"> {
    const calls = this.#calls.map((call) => this.#closed(call));
    const told = this.#told.proxy ?? this.#told.agent;
    const usage = told === undefined ? this.#usage : addUsage(this.#usage, told);
    return {
      turns: this.#turns.map((turn) => ({ ...turn, calls: calls.filter((call) => call.turn === turn.turn) })),
      calls,
      steps: [...this.#attempts].map(([step, attempts]) => stepView(step, attempts)),
      tools: this.#tools,
      ...(usage === undefined ? {} : { usage }),
    };
  }

  #readMessage(event: EventOf<"mcp.message">): void {
    const message = event.message;
    if (!isJsonObject(message)) return;
    if (event.direction === "client-to-server") this.#readRequest(event, message);
    else if (message["method"] === undefined) this.#readResponse(event, message);
  }

  #readRequest(event: EventOf<"mcp.message">, message: JsonObject): void {
    const { id, method } = message;
    if (method === "notifications/cancelled") this.#readCancellation(event, message["params"]);
    if (typeof id !== "string" && typeof id !== "number") return;
    const key = callKey(event, id);
    if (method !== undefined) {
      // A later request with the same id is another one.
      this.#byId.delete(key);
      this.#listings.delete(key);
    }
    const params = isJsonObject(message["params"]) ? message["params"] : {};
    if (method === "tools/list") this.#listings.set(key, params["cursor"] !== undefined);
    if (method !== "tools/call") return;
    const tool = typeof params["name"] === "string" ? params["name"] : "";
    const declared = this.#declared.get(toolKey(event.server, tool));
    const call = this.#add({
      server: event.server,
      tool,
      args: params["arguments"] ?? {},
      seq: event.seq,
      sentAt: event.at,
      superseded: false,
      ...(declared === undefined ? {} : { declared }),
      ...(event.client === undefined ? {} : { client: event.client }),
    });
    this.#byId.set(key, call);
  }

  #readCancellation(event: EventOf<"mcp.message">, params: Json | undefined): void {
    const id = isJsonObject(params) ? params["requestId"] : undefined;
    if (typeof id !== "string" && typeof id !== "number") return;
    const call = this.#byId.get(callKey(event, id));
    if (call !== undefined && call.responseSeq === undefined) call.givenUpAt = event.at;
  }

  #readResponse(event: EventOf<"mcp.message">, message: JsonObject): void {
    const { id } = message;
    if (typeof id !== "string" && typeof id !== "number") return;
    const key = callKey(event, id);
    const continues = this.#listings.get(key);
    if (continues !== undefined) {
      this.#listings.delete(key);
      this.#readTools(event, declaredTools(event.server, message["result"]), continues);
    }
    const call = this.#byId.get(key);
    // Who gave up on a call does not get an answer that comes later.
    if (call === undefined || call.responseSeq !== undefined || call.givenUpAt !== undefined) return;
    call.responseSeq = event.seq;
    call.latencyMs = Math.max(0, event.at - call.sentAt - (call.heldMs ?? 0));
    if (event.malformed !== undefined)
      call.error = { kind: "no-response", message: `the answer is malformed: ${event.malformed}` };
    else if (isJsonObject(message["result"])) call.result = message["result"];
    else call.error = answeredError(message["error"]);
  }

  #readTools(
    { server, client = "" }: EventOf<"mcp.message">,
    tools: readonly ToolDeclaration[],
    continues: boolean,
  ): void {
    const connection = `${server}\n${client}`;
    const listed = (continues ? this.#listed.get(connection) : undefined) ?? new Set<string>();
    this.#listed.set(connection, listed);
    for (const tool of tools) {
      this.#tools.push(tool);
      const key = toolKey(server, tool.name);
      if (listed.has(tool.name)) this.#declared.get(key)?.push(tool);
      else this.#declared.set(key, [tool]);
      listed.add(tool.name);
    }
  }

  /** Tools that a list has more than once, each once. */
  repeatedTools(): readonly ToolDeclaration[] {
    return [...this.#declared.values()].flatMap(([first, ...others]) =>
      first === undefined || others.length === 0 ? [] : [first],
    );
  }

  /** A look at the state, before and after, runs steps that belong to other phases. */
  #noteAttempt(event: EventOf<"step.finished">): void {
    if (event.phase === "probe") return;
    this.#attempts.set(event.step, [...(this.#attempts.get(event.step) ?? []), event]);
  }

  #noteStatus(key: string, status: number): void {
    const call = this.#byId.get(key);
    if (call !== undefined) call.httpStatus = status;
  }

  #noteFilter(event: EventOf<"request.held"> | EventOf<"fault.injected">): void {
    const call = this.#byId.get(callKey(event, event.id));
    if (call === undefined) return;
    if (event.type === "request.held") call.heldMs = (call.heldMs ?? 0) + event.heldMs;
    else call.fault = event.fault;
  }

  #add(call: OpenCall): OpenCall {
    const step = call.client === undefined ? this.#open.at(-1) : undefined;
    const turn = this.#turn ?? (call.client === undefined ? undefined : this.#lastTurn);
    if (step !== undefined) Object.assign(call, { step: step.id, attempt: step.attempt });
    else if (turn !== undefined) call.turn = turn;
    this.#calls.push(call);
    return call;
  }

  #startTurn({ turn, user }: EventOf<"turn.started">): void {
    this.#turn = turn;
    this.#lastTurn = turn;
    this.#turns.push({ turn, user, messages: [], calls: [] });
  }

  #finishTurn(event: EventOf<"turn.finished">): void {
    const turn = this.#turnOf(event);
    if (turn !== undefined) turn.reason = event.reason;
    this.#turn = undefined;
  }

  #turnOf({ turn }: { readonly turn: number }): OpenTurn | undefined {
    return this.#turns.findLast((candidate) => candidate.turn === turn);
  }

  #closed({ attempt, sentAt, heldMs, givenUpAt, ...call }: OpenCall): ToolCall {
    const last = call.step === undefined ? undefined : this.#attempts.get(call.step)?.at(-1)?.attempt;
    const superseded = attempt !== undefined && last !== undefined && attempt < last;
    if (call.result !== undefined || call.error !== undefined) return { ...call, superseded };
    const waited = givenUpAt === undefined ? undefined : Math.round(givenUpAt - sentAt - (heldMs ?? 0));
    const message = waited === undefined ? "never answered" : `not answered within ${waited} ms`;
    return { ...call, superseded, error: { kind: "no-response", message } };
  }
}

function toolKey(server: string, tool: string): string {
  return `${server}\n${tool}`;
}

function declaredTools(server: string, result: Json | undefined): ToolDeclaration[] {
  if (!isJsonObject(result) || !Array.isArray(result["tools"])) return [];
  return result["tools"].filter(isJsonObject).map((tool) => ({
    server,
    name: typeof tool["name"] === "string" ? tool["name"] : "",
    ...(tool["outputSchema"] === undefined ? {} : { outputSchema: tool["outputSchema"] }),
  }));
}

function stepView(step: string, attempts: readonly EventOf<"step.finished">[]): StepView {
  const last = attempts.at(-1);
  const { phase = "verify", parent } = last ?? {};
  return {
    step,
    phase,
    ...(parent === undefined ? {} : { parent }),
    attempts,
    ...(last === undefined ? {} : { last }),
  };
}

/** Adds two counts; the optional ones stay absent while neither side has them. */
export function addUsage(left: Usage | undefined, right: Usage): Usage {
  if (left === undefined) return right;
  const cacheReadTokens = sumOptional(left.cacheReadTokens, right.cacheReadTokens);
  const cacheWriteTokens = sumOptional(left.cacheWriteTokens, right.cacheWriteTokens);
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    // Of a sum with an unknown part nothing is known.
    ...(left.requests === undefined || right.requests === undefined
      ? {}
      : { requests: left.requests + right.requests }),
    ...(cacheReadTokens === undefined ? {} : { cacheReadTokens }),
    ...(cacheWriteTokens === undefined ? {} : { cacheWriteTokens }),
  };
}

function sumOptional(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined && right === undefined ? undefined : (left ?? 0) + (right ?? 0);
}
