import type { Json, JsonObject } from "../../src/base/json.ts";
import type { Task, Turn } from "../../src/model/task.ts";
import type { McpExpectation, McpStep } from "../../src/model/step.ts";
import type { SchemaCheck } from "../../src/expect/tool-result.ts";
import type { GradeContext, GraderKind } from "../../src/graders/grader.ts";
import type { Trial } from "../../src/model/plan.ts";
import { buildTrajectory, type Trajectory } from "../../src/trace/trajectory.ts";
import { warningsOf } from "../../src/trace/warnings.ts";
import type { Check, EventBody, StepOutcome, TraceEvent, TrialOutcome } from "../../src/model/event.ts";
import type { SerializedError } from "../../src/base/serialized-error.ts";
import type { Grade } from "../../src/model/grade.ts";

/** A tool as a server of a test offers it in `tools/list`. */
export interface OfferedTool {
  readonly name: string;
  readonly description?: string;
  /** Unless given, that of any object. */
  readonly inputSchema?: Json;
  readonly outputSchema?: Json;
}

export interface CallPlace {
  /** Server that gets the call; the first one that was started unless given. */
  readonly server?: string;
}

/** A request that was sent: where its answer has to go. */
export interface SentRequest {
  readonly server: string;
  readonly id: number;
  /** Number of the request's event. */
  readonly seq: number;
}

/** Numbers of the events of one exchange. */
export interface Exchange {
  readonly request: number;
  readonly response: number;
}

/**
 * Writes the events of one trial by hand, as a real run records them: handshake, `tools/list`, calls, turns and steps,
 * one millisecond apart. Methods give the numbers of the events that they add, so that a test can say what a grade
 * has to cite.
 *
 * ```ts
 * const trial = new TrialEvents().server("calc", [{ name: "add" }]);
 * trial.turn("Add 2 and 3.", () => {
 *   trial.call("add", { a: 2, b: 3 }, textResult("5"));
 *   trial.say("The sum is 5.");
 * });
 * const trajectory = trial.trajectory(workflowTask({ turns: [{ user: "Add 2 and 3.", expectedState: "5" }] }));
 * ```
 */
export class TrialEvents {
  readonly events: TraceEvent[] = [];
  readonly id: string;
  #at = 1_795_000_000_000;
  #nextId = 0;
  #turn = 0;
  readonly #servers: string[] = [];

  constructor(id = "t1") {
    this.id = id;
  }

  /** Adds any event and gives its number. */
  emit(body: EventBody): number {
    this.#at += 1;
    const seq = this.events.length + 1;
    this.events.push({ seq, at: this.#at, trial: this.id, ...body });
    return seq;
  }

  /** Lets time pass before the next event. */
  wait(milliseconds: number): this {
    this.#at += milliseconds;
    return this;
  }

  /** The trial begins. */
  begin(task: string, agent: string | null = null): this {
    this.emit({ type: "trial.started", task, agent, attempt: 1 });
    return this;
  }

  /** The trial ends. */
  end(outcome: TrialOutcome = "completed", error?: SerializedError): number {
    const durationMs = this.#at - (this.events[0]?.at ?? this.#at);
    return this.emit({
      type: "trial.finished",
      outcome,
      durationMs,
      ...(error === undefined ? {} : { error }),
    });
  }

  /** A server starts, shakes hands and lists its tools. */
  server(name: string, tools: readonly OfferedTool[] = []): this {
    this.#servers.push(name);
    this.emit({
      type: "server.started",
      server: name,
      transport: "stdio",
      target: `node ${name}.js`,
      pid: 4711,
    });
    const protocolVersion = "2025-11-25";
    const hello = this.send("initialize", { protocolVersion, capabilities: {} }, { server: name });
    const serverInfo = { name, version: "1.0.0" };
    this.answer(hello, { protocolVersion, capabilities: { tools: {} }, serverInfo });
    const notification = { jsonrpc: "2.0", method: "notifications/initialized" };
    this.emit({ type: "mcp.message", server: name, direction: "client-to-server", message: notification });
    this.list(tools, { server: name });
    this.emit({
      type: "server.ready",
      server: name,
      ...serverInfo,
      protocolVersion,
      tools: tools.length,
      durationMs: 4,
    });
    return this;
  }

  /** A page of `tools/list`. */
  list(tools: readonly OfferedTool[], place: CallPlace = {}): Exchange {
    const request = this.send("tools/list", {}, place);
    const declared = tools.map((tool) => ({ inputSchema: { type: "object" }, ...tool }));
    return { request: request.seq, response: this.answer(request, { tools: declared }) };
  }

  /** The client sends a request. */
  send(method: string, params: JsonObject, place: CallPlace = {}): SentRequest {
    const server = place.server ?? this.#servers[0] ?? "server";
    const id = this.#nextId++;
    const message = { jsonrpc: "2.0", id, method, params };
    return {
      server,
      id,
      seq: this.emit({ type: "mcp.message", server, direction: "client-to-server", message }),
    };
  }

  /** The client asks for a tool call; the answer is still to come. */
  request(tool: string, args: JsonObject, place: CallPlace = {}): SentRequest {
    return this.send("tools/call", { name: tool, arguments: args }, place);
  }

  /** The server answers a request with a result. */
  answer(request: SentRequest, result: Json): number {
    return this.receive(request.server, { jsonrpc: "2.0", id: request.id, result });
  }

  /** The server answers a request with a JSON-RPC error. */
  refuse(request: SentRequest, code: number, message: string): number {
    return this.receive(request.server, { jsonrpc: "2.0", id: request.id, error: { code, message } });
  }

  /** The server's HTTP status for a request; comes before the answer, if there is one. */
  status({ server, id }: SentRequest, status: number): number {
    return this.emit({ type: "http.response", server, method: "POST", status, requestIds: [id] });
  }

  /** A whole tool call. */
  call(tool: string, args: JsonObject, result: Json, place: CallPlace = {}): Exchange {
    const request = this.request(tool, args, place);
    return { request: request.seq, response: this.answer(request, result) };
  }

  /** The agent asks for a tool that cannot be called. */
  reject(
    tool: string,
    reason = "no server offers it",
    args: Json = {},
    rest: { readonly server?: string; readonly known?: true } = {},
  ): number {
    return this.emit({ type: "tool.rejected", tool, args, reason, ...rest });
  }

  /** A user turn with everything that `play` adds in it. */
  turn(user: string, play: () => void = () => undefined, reason: "done" | "max-steps" = "done"): this {
    const turn = this.#turn;
    this.emit({ type: "turn.started", turn, user });
    play();
    this.emit({ type: "turn.finished", turn, reason });
    this.#turn += 1;
    return this;
  }

  /** The assistant says something in the current turn. */
  say(text: string): number {
    return this.emit({ type: "agent.message", turn: this.#turn, text });
  }

  /** One attempt of a verify step with everything that `play` adds in it; gives the number of its end. */
  step(id: string, options: StepOptions = {}, play: () => void = () => undefined): number {
    const { attempt = 1, checks = [], outcome = outcomeOf(checks) } = options;
    const place = { phase: "verify", step: id, attempt } as const;
    this.emit({ type: "step.started", stepType: "mcp", input: {}, ...place });
    play();
    return this.emit({ type: "step.finished", outcome, checks, durationMs: 3, ...place });
  }

  /** What graders see of these events. */
  trajectory(task: Task): Trajectory {
    const agent = task.turns.length === 0 ? null : "agent";
    const trial: Trial = { id: this.id, task: task.name, agent, attempt: 1 };
    return buildTrajectory(trial, task, this.events);
  }

  /** The warnings of a trial with these events. */
  warnings(task: Task = workflowTask()): string[] {
    return warningsOf(this.trajectory(task));
  }

  /** The server sends a message. */
  receive(server: string, message: Json): number {
    return this.emit({ type: "mcp.message", server, direction: "server-to-client", message });
  }
}

export interface StepOptions {
  readonly attempt?: number;
  readonly checks?: readonly Check[];
  /** What the checks say, unless given. */
  readonly outcome?: StepOutcome;
}

function outcomeOf(checks: readonly Check[]): StepOutcome {
  return checks.every((check) => check.passed) ? "passed" : "failed";
}

/** A workflow; without `turns` one that says hello and expects nothing. */
export function workflowTask(rest: Partial<Task> & { readonly turns?: readonly Turn[] } = {}): Task {
  return {
    name: "workflow",
    form: "workflow",
    servers: ["calc"],
    turns: [{ user: "Hello." }],
    expectTools: [],
    verify: [],
    parallel: false,
    ...rest,
  };
}

/** A tool test of the suite `suite` with one step, whose id is `call`. */
export function toolTestTask(expect: McpExpectation = {}, step: Partial<McpStep> = {}): Task {
  return {
    name: "suite/test",
    form: "tool-test",
    suite: "suite",
    servers: ["calc"],
    turns: [],
    expectTools: [],
    verify: [{ ...mcpStep(expect), ...step }],
    parallel: false,
  };
}

/** A step that calls `add` on the only server. */
export function mcpStep(expect: McpExpectation = {}): McpStep {
  const request = { kind: "tool", tool: "add", args: {} } as const;
  return { type: "mcp", id: "call", request, expect, timeoutMs: 1000, retries: 0 };
}

/** A tool result with one text. */
export function textResult(text: string): JsonObject {
  return { content: [{ type: "text", text }] };
}

/** A tool result that says that the tool failed. */
export function errorResult(text: string): JsonObject {
  return { ...textResult(text), isError: true };
}

/** A tool result with structured content, and the same as text, as servers give it. */
export function structuredResult(
  structuredContent: Json,
  text = JSON.stringify(structuredContent),
): JsonObject {
  return { ...textResult(text), structuredContent };
}

/** A check as a step leaves it in its events. */
export function check(
  name: string,
  passed: boolean,
  message = passed ? "as expected" : "not as expected",
): Check {
  return { name, passed, expected: null, actual: null, message };
}

/** The outside world of a grader; every value is valid unless `checkSchema` says otherwise, and no program can run. */
/** The grade of a built-in grader without settings. */
export async function gradeOf(
  kind: GraderKind,
  trajectory: Trajectory,
  context: GradeContext = gradeContext(),
): Promise<Grade> {
  return { grader: kind.type, ...(await kind.grade(undefined, trajectory, { ...context, dir: "" })) };
}

export function gradeContext(
  checkSchema: (schema: Json, value: Json) => SchemaCheck = () => ({ status: "valid" }),
): GradeContext {
  return {
    validateSchema: async (schema, value) => checkSchema(schema, value),
    readFile: async (_, file) => {
      throw new Error(`there is no file ${file}`);
    },
    runProgram: () => Promise.reject(new Error("a grader of this test runs a program")),
    askJudge: async () => Promise.reject(new Error("no judge is configured")),
  };
}
