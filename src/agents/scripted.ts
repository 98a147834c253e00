import { pathToFileURL } from "node:url";
import { answerText } from "../core/checks/result-text.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type {
  BuiltinAgentSpec,
  ElicitationAnswer,
  Json,
  JsonObject,
  ScriptedAction,
  ScriptedAgentSpec,
  SolutionAction,
} from "../core/formats/model.ts";
import type { McpRequest } from "../core/formats/step.ts";
import { expanderOf, expandJson, expandText, loopItems } from "../core/templates/expand.ts";
import { type Scope, withLocals } from "../core/templates/scope.ts";
import {
  type CallOutcome,
  type ClientSide,
  sendRequest,
  type ServerSession,
} from "../servers/client/session.ts";
import type { AgentContext, AgentDriver, ClientSideContext, TaskSolution } from "./driver.ts";

/**
 * Creates an agent that plays a written plan: each user turn plays the actions up to and including the next `say`, the
 * last turn plays all that are left. A call goes to the server that it names, or to the only one that offers the tool;
 * when there is none or more than one, the call is recorded as rejected and the plan goes on, as it does after a tool
 * that fails. For tasks from files its texts may have templates, as a solution's have.
 *
 * `run` throws `agent/no-plan` when the task has no plan, `task/template`, what the sessions throw, and the signal's reason.
 */
export function createScriptedAgent(spec: ScriptedAgentSpec): AgentDriver {
  return {
    reach: "sessions",
    clientSide: writtenAnswers,
    prepare: () => Promise.resolve(),
    run: async (context) => {
      context.signal.throwIfAborted();
      const play = {
        agent: spec.name,
        kind: "scripted",
        actions: planOf(spec, context.task),
        isSay: (action: ScriptedAction) => "say" in action,
        perform: (action: ScriptedAction, turn: number) => perform(action, turn, context),
      };
      await playTurns(play, context);
    },
  };
}

function planOf(spec: ScriptedAgentSpec, task: string): readonly ScriptedAction[] {
  const plan = Object.hasOwn(spec.plan, task) ? spec.plan[task] : undefined;
  if (plan !== undefined) return plan;
  const names = Object.keys(spec.plan).map((name) => JSON.stringify(name));
  const known = names.length === 0 ? "it has none at all" : `it has plans for ${names.join(", ")}`;
  throw new McpvalsError(
    "agent/no-plan",
    `agent ${spec.name} has no plan for ${JSON.stringify(task)}; ${known}`,
  );
}

async function perform(action: ScriptedAction, turn: number, context: AgentContext): Promise<void> {
  const { text, json } = expanderOf(context.scope);
  if ("say" in action) {
    context.emit({ type: "agent.message", turn, text: text(action.say) });
    return;
  }
  const { call: tool, server, args } = action;
  const request = { kind: "tool", tool, args: json(args) as JsonObject } as const;
  await callServer(request, server, context);
}

/**
 * Creates the agent that plays each task's own solution: each user turn plays the actions up to and including the next
 * `say`, the last turn plays all that are left. Templates are replaced when an action's time has come. Outputs come from
 * calls that succeed; a call that fails, or that no server can be found for, is behaviour, and the solution goes on.
 *
 * `run` throws `task/no-solution`, `task/template`, what the sessions throw, and the signal's reason.
 */
export function createOracle(spec: BuiltinAgentSpec): AgentDriver {
  return {
    reach: "sessions",
    clientSide: writtenAnswers,
    prepare: () => Promise.resolve(),
    run: async (context) => {
      context.signal.throwIfAborted();
      const solution = solutionOf(context, spec);
      const play = {
        agent: spec.name,
        kind: "oracle",
        actions: actionsOf(solution.actions, solution.scope),
        isSay: ({ action }: ScopedAction) => action.kind === "say",
        perform: (action: ScopedAction, turn: number) => performAction(action, turn, { context, solution }),
      };
      await playTurns(play, context);
    },
  };
}

type PlainAction = Exclude<SolutionAction, { kind: "foreach" }>;
type CallAction = Exclude<PlainAction, { kind: "say" }>;

/** An action and what its templates refer to. */
interface ScopedAction {
  readonly action: PlainAction;
  readonly scope: Scope;
}

function solutionOf({ task, solution }: AgentContext, spec: BuiltinAgentSpec): TaskSolution {
  if (solution !== undefined) return solution;
  throw new McpvalsError(
    "task/no-solution",
    `agent ${spec.name} plays solutions, and ${JSON.stringify(task)} has none`,
    { hint: "Give the task a spec.solution, or choose another agent." },
  );
}

/** All actions, those of `foreach` for every item; its items are read when it is reached. */
function* actionsOf(actions: readonly SolutionAction[], scope: Scope): Generator<ScopedAction> {
  for (const action of actions) {
    if (action.kind !== "foreach") {
      yield { action, scope };
      continue;
    }
    const list = typeof action.in === "string" ? expandJson(action.in, scope) : action.in;
    for (const item of loopItems(list, action.in)) {
      const value = typeof action.in === "string" ? item : expandJson(item, scope);
      yield* actionsOf(action.actions, withLocals(scope, { [action.variable]: value }));
    }
  }
}

interface Stage {
  readonly context: AgentContext;
  readonly solution: TaskSolution;
}

async function performAction({ action, scope }: ScopedAction, turn: number, stage: Stage): Promise<void> {
  const { context, solution } = stage;
  if (action.kind === "say") {
    context.emit({ type: "agent.message", turn, text: expandText(action.text, scope) });
    return;
  }
  const server = action.server === undefined ? undefined : expandText(action.server, scope);
  const outcome = await callServer(requestOf(action, scope), server, context);
  if (outcome?.kind !== "result" || outcome.result["isError"] === true) return;
  if (action.id !== undefined) solution.outputs.set(action.id, outputsOf(action, outcome.result, scope));
}

function requestOf(action: CallAction, scope: Scope): McpRequest {
  switch (action.kind) {
    case "tool":
      return { kind: "tool", tool: expandText(action.tool, scope), args: expandArgs(action.args, scope) };
    case "resource":
      return { kind: "resource", uri: expandText(action.uri, scope) };
    case "prompt":
      return {
        kind: "prompt",
        prompt: expandText(action.prompt, scope),
        args: expandArgs(action.args, scope),
      };
  }
}

function expandArgs(args: JsonObject, scope: Scope): JsonObject {
  const { json } = expanderOf(scope);
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [name, json(value)]));
}

function outputsOf({ kind, outputs = {} }: CallAction, result: JsonObject, scope: Scope): JsonObject {
  const { text } = expanderOf(withLocals(scope, { result, text: answerText(kind, result) }));
  return Object.fromEntries(Object.entries(outputs).map(([name, template]) => [name, text(template)]));
}

/** Creates the agent that does nothing: a task that passes with it checks nothing. Its `run` throws only the signal's reason. */
export function createNullAgent(spec: BuiltinAgentSpec): AgentDriver {
  return {
    reach: "sessions",
    prepare: () => Promise.resolve(),
    run: async ({ turns, emit, signal }) => {
      signal.throwIfAborted();
      emit({ type: "agent.started", agent: spec.name, kind: "null" });
      for (const [turn, { user }] of turns.entries()) {
        emit({ type: "turn.started", turn, user });
        emit({ type: "turn.finished", turn, reason: "done" });
      }
    },
  };
}

/** How an agent plays what is written down. */
export interface Play<A> {
  readonly agent: string;
  readonly kind: string;
  /** All of it, in order; each action is asked for only when the one before it is done. */
  readonly actions: Iterable<A>;
  readonly isSay: (action: A) => boolean;
  readonly perform: (action: A, turn: number) => Promise<void>;
}

/**
 * Plays actions in the user's turns: each turn up to and including the next `say`, the last turn all that are left.
 * Throws what the actions throw, and the signal's reason.
 */
async function playTurns<A>(play: Play<A>, { turns, emit, signal }: AgentContext): Promise<void> {
  emit({ type: "agent.started", agent: play.agent, kind: play.kind });
  const actions = play.actions[Symbol.iterator]();
  const playTurn = async (turn: number): Promise<void> => {
    const isLast = turn === turns.length - 1;
    for (;;) {
      signal.throwIfAborted();
      const next = actions.next();
      if (next.done === true) return;
      await play.perform(next.value, turn);
      if (!isLast && play.isSay(next.value)) return;
    }
  };
  for (const [turn, { user }] of turns.entries()) {
    emit({ type: "turn.started", turn, user });
    await playTurn(turn);
    emit({ type: "turn.finished", turn, reason: "done" });
  }
}

/**
 * Makes a call of a plan, on the server that it names, or on the only one that offers the tool or that there
 * is. When there is none or more than one, the call is recorded as rejected and the result is undefined. Throws what the session
 * throws.
 */
async function callServer(
  request: McpRequest,
  server: string | undefined,
  { sessions, emit, callTimeoutMs: timeoutMs, signal }: AgentContext,
): Promise<CallOutcome | undefined> {
  const candidates = candidatesFor(request, server, sessions);
  const [session] = candidates;
  if (session === undefined || candidates.length > 1) {
    const reason = rejection(request, server, { candidates, sessions });
    emit({ type: "tool.rejected", tool: nameOf(request), args: argsOf(request), reason });
    return undefined;
  }
  return sendRequest(session, request, { timeoutMs, signal });
}

function candidatesFor(
  request: McpRequest,
  server: string | undefined,
  sessions: readonly ServerSession[],
): readonly ServerSession[] {
  if (server !== undefined) return sessions.filter((session) => session.name === server);
  if (request.kind !== "tool") return sessions;
  return sessions.filter((session) => session.tools.some((offered) => offered.name === request.tool));
}

function rejection(
  request: McpRequest,
  server: string | undefined,
  found: { readonly candidates: readonly ServerSession[]; readonly sessions: readonly ServerSession[] },
): string {
  const name = JSON.stringify(nameOf(request));
  if (server !== undefined) {
    const names = found.sessions.map((session) => session.name).join(", ");
    return `no server is called ${JSON.stringify(server)}; there are: ${names || "none"}`;
  }
  if (found.candidates.length === 0)
    return request.kind === "tool"
      ? `no server offers a tool called ${name}`
      : `there is no server to ask for ${name}`;
  const names = found.candidates.map((session) => session.name).join(" and ");
  return request.kind === "tool"
    ? `${names} both offer ${name}; the action must name its server`
    : `${names} could be asked for ${name}; the action must name its server`;
}

function nameOf(request: McpRequest): string {
  switch (request.kind) {
    case "tool":
      return request.tool;
    case "resource":
      return request.uri;
    case "prompt":
      return request.prompt;
  }
}

function argsOf(request: McpRequest): Json {
  return request.kind === "resource" ? {} : request.args;
}

/**
 * What every agent in this process answers: the task's own answers to what servers ask the user, if it has any, and the
 * workspace as the only root, if there is one. What is not there is not declared, so that servers behave as they do with
 * a client that cannot be asked.
 */
export function writtenAnswers({ elicitation, workspace }: ClientSideContext): ClientSide {
  return {
    ...(elicitation.length === 0 ? {} : { elicitation: answersOf(elicitation) }),
    ...(workspace === "" ? {} : { roots: [{ uri: pathToFileURL(workspace).href, name: "workspace" }] }),
  };
}

/** Answers a question with the first of the answers that fits it; one that none fits is declined. */
export function answersOf(answers: readonly ElicitationAnswer[]): NonNullable<ClientSide["elicitation"]> {
  return (params, { server }) => {
    const answer = answers.find((each) => fits(each, textOf(params), server));
    if (answer === undefined) return { action: "decline" };
    const { action, content = {} } = answer;
    return action === "accept" ? { action, content } : { action };
  };
}

function fits(answer: ElicitationAnswer, question: string, server: string): boolean {
  if (answer.server !== undefined && answer.server !== server) return false;
  return answer.message === undefined || question.includes(answer.message.toLowerCase());
}

function textOf({ message }: JsonObject): string {
  return typeof message === "string" ? message.toLowerCase() : "";
}
