import { pathToFileURL } from "node:url";
import { answerText } from "../expect/tool-result.ts";
import { McpvalsError } from "../base/error.ts";
import type { BuiltinAgentSpec, ScriptedAction, ScriptedAgentSpec } from "../model/agent.ts";
import type { ElicitationAnswer, SolutionAction } from "../model/task.ts";
import { type JsonObject, mapValues } from "../base/json.ts";
import type { McpRequest } from "../model/step.ts";
import { expanderOf, loopItems } from "../templates/expand.ts";
import { type Scope, withLocals } from "../templates/template.ts";
import { type CallOutcome, type ClientSide, sendRequest } from "../servers/client/session.ts";
import type { AgentContext, AgentDriver, ClientSideContext } from "./driver.ts";

/** What is played next; the outcome of a request is passed back. */
type Actions = Generator<
  { readonly say: string } | { readonly request: McpRequest; readonly server: string | undefined },
  void,
  CallOutcome | undefined
>;

/**
 * Creates an agent that plays what is written down: `scripted` the plan for the task, `oracle` the task's own solution, `null`
 * nothing, so that a task that passes with it checks nothing. Each user turn plays the actions up to and including the next
 * `say`, the last turn of a list all that are left. A call goes to the server that it names, or to the only one that offers the tool;
 * if there is no such server, or more than one, the call is recorded as rejected and the next action is played, as it
 * is after a call that fails. Templates are replaced when an action's turn comes.
 *
 * `run` throws `agent/no-plan`, `task/no-solution`, `task/template`, what the sessions throw, and the signal's reason.
 */
export function createWrittenAgent(spec: ScriptedAgentSpec | BuiltinAgentSpec): AgentDriver {
  return {
    reach: "sessions",
    ...(spec.type === "null" ? {} : { clientSide: writtenAnswers }),
    prepare: () => Promise.resolve(),
    run: async (context) => {
      const { turns, emit, signal } = context;
      signal.throwIfAborted();
      const actions = actionsOf(spec, context);
      emit({ type: "agent.started", agent: spec.name, kind: spec.type });
      // A simulated user may go on after any turn.
      const last = "length" in turns ? turns.length - 1 : Infinity;
      let turn = 0;
      for await (const { user } of turns) {
        emit({ type: "turn.started", turn, user });
        let outcome: CallOutcome | undefined;
        for (let isOver = false; !isOver;) {
          signal.throwIfAborted();
          const { value: action } = actions.next(outcome);
          outcome = undefined;
          if (action === undefined) isOver = true;
          else if ("say" in action) {
            emit({ type: "agent.message", turn, text: action.say });
            isOver = turn < last;
          } else outcome = await send(action.request, action.server, context);
        }
        emit({ type: "turn.finished", turn, reason: "done" });
        turn += 1;
      }
    },
  };
}

function actionsOf(
  spec: ScriptedAgentSpec | BuiltinAgentSpec,
  { task, scope, solution }: AgentContext,
): Actions {
  const name = JSON.stringify(task);
  if (spec.type === "scripted") {
    const plan = Object.hasOwn(spec.plan, task) ? spec.plan[task] : undefined;
    if (plan !== undefined) return playPlan(plan, scope);
    const names = Object.keys(spec.plan).map((each) => JSON.stringify(each));
    const known = names.length === 0 ? "it has none at all" : `it has plans for ${names.join(", ")}`;
    throw new McpvalsError("agent/no-plan", `agent ${spec.name} has no plan for ${name}; ${known}`);
  }
  if (spec.type === "null") return playPlan([], undefined);
  if (solution !== undefined) return playSolution(solution.actions, solution.scope, solution.outputs);
  const message = `agent ${spec.name} plays solutions, and ${name} has none`;
  const hint = "Give the task a spec.solution, or choose another agent.";
  throw new McpvalsError("task/no-solution", message, { hint });
}

function* playPlan(plan: readonly ScriptedAction[], scope: Scope | undefined): Actions {
  for (const action of plan) {
    const { text, json } = expanderOf(scope);
    if ("say" in action) yield { say: text(action.say) };
    else {
      const { call: tool, server, args } = action;
      yield { request: { kind: "tool", tool, args: json(args) as JsonObject }, server };
    }
  }
}

/** Plays the actions of `foreach` for every item. Outputs come from calls that succeed. */
function* playSolution(
  actions: readonly SolutionAction[],
  scope: Scope,
  allOutputs: Map<string, JsonObject>,
): Actions {
  for (const action of actions) {
    const { text, json } = expanderOf(scope);
    if (action.kind === "say") yield { say: text(action.text) };
    else if (action.kind === "foreach") {
      const isTemplate = typeof action.in === "string";
      for (const item of loopItems(isTemplate ? json(action.in) : action.in, action.in)) {
        const value = isTemplate ? item : expanderOf(scope).json(item);
        yield* playSolution(action.actions, withLocals(scope, { [action.variable]: value }), allOutputs);
      }
    } else {
      const { kind, id, outputs = {} } = action;
      const server = action.server === undefined ? undefined : text(action.server);
      const request: McpRequest =
        kind === "resource"
          ? { kind, uri: text(action.uri) }
          : kind === "tool"
            ? { kind, tool: text(action.tool), args: json(action.args) as JsonObject }
            : { kind, prompt: text(action.prompt), args: json(action.args) as JsonObject };
      const outcome = yield { request, server };
      if (outcome?.kind !== "result" || outcome.result["isError"] === true || id === undefined) continue;
      const { result } = outcome;
      const inner = expanderOf(withLocals(scope, { result, text: answerText(kind, result) }));
      allOutputs.set(id, mapValues(outputs, inner.text));
    }
  }
}

/** Sends a request. If it is not clear to which server, it is recorded as rejected, and the outcome is undefined. */
async function send(
  request: McpRequest,
  server: string | undefined,
  { sessions, emit, callTimeoutMs: timeoutMs, signal }: AgentContext,
): Promise<CallOutcome | undefined> {
  const candidates = sessions.filter(({ name, tools }) => {
    if (server !== undefined) return name === server;
    return request.kind !== "tool" || tools.some((offered) => offered.name === request.tool);
  });
  const [session] = candidates;
  if (session !== undefined && candidates.length === 1)
    return sendRequest(session, request, { timeoutMs, signal });
  const isTool = request.kind === "tool";
  const tool = isTool ? request.tool : request.kind === "resource" ? request.uri : request.prompt;
  const quoted = JSON.stringify(tool);
  const names = candidates.map(({ name }) => name).join(" and ");
  const known = sessions.map(({ name }) => name).join(", ") || "none";
  let reason = `${names} ${isTool ? "both offer" : "could be asked for"} ${quoted}; the action must name its server`;
  if (server !== undefined) reason = `no server is called ${JSON.stringify(server)}; there are: ${known}`;
  else if (session === undefined)
    reason = isTool ? `no server offers a tool called ${quoted}` : `there is no server to ask for ${quoted}`;
  emit({
    type: "tool.rejected",
    tool,
    args: request.kind === "resource" ? {} : request.args,
    reason,
    ...(isTool && candidates.length < 2 ? {} : { known: true }),
  });
  return undefined;
}

/**
 * The answers of every agent in this process to servers: the task's answers to what servers ask the user, and the workspace as
 * the only root. What is missing is not declared as a capability.
 */
export function writtenAnswers({ elicitation, workspace }: ClientSideContext): ClientSide {
  return {
    ...(elicitation.length === 0 ? {} : { elicitation: answersOf(elicitation) }),
    ...(workspace === "" ? {} : { roots: [{ uri: pathToFileURL(workspace).href, name: "workspace" }] }),
  };
}

/** Answers a question with the first answer that fits it; without one, the question is declined. */
export function answersOf(answers: readonly ElicitationAnswer[]): NonNullable<ClientSide["elicitation"]> {
  return ({ message }, { server }) => {
    const question = typeof message === "string" ? message.toLowerCase() : "";
    const answer = answers.find(
      (each) =>
        (each.server === undefined || each.server === server) &&
        (each.message === undefined || question.includes(each.message.toLowerCase())),
    );
    if (answer === undefined) return { action: "decline" };
    const { action, content = {} } = answer;
    return action === "accept" ? { action, content } : { action };
  };
}
