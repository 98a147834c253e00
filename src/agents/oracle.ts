import { answerText } from "../core/checks/result-text.ts";
import { McpvalsError } from "../core/errors/error.ts";
import type { JsonObject, OracleAgentSpec, SolutionAction } from "../core/formats/model.ts";
import type { McpRequest } from "../core/formats/step.ts";
import { expanderOf, expandJson, expandText, loopItems } from "../core/templates/expand.ts";
import { type Scope, withLocals } from "../core/templates/scope.ts";
import { callServer } from "./call-server.ts";
import { writtenAnswers } from "./client-side.ts";
import type { AgentContext, AgentDriver, TaskSolution } from "./driver.ts";
import { playTurns } from "./play-turns.ts";

/**
 * Makes the agent that plays each task's own solution: each user turn plays the actions up to and including the next
 * `say`, the last turn plays all that are left. Templates are replaced when an action's time has come. Outputs come from
 * calls that succeed; a call that fails, or that no server can be found for, is behaviour, and the solution goes on.
 *
 * `run` throws `task/no-solution`, `task/template`, what the sessions throw, and the signal's reason.
 */
export function createOracle(spec: OracleAgentSpec): AgentDriver {
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
        perform: (action: ScopedAction, turn: number) => perform(action, turn, { context, solution }),
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

function solutionOf({ task, solution }: AgentContext, spec: OracleAgentSpec): TaskSolution {
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

async function perform({ action, scope }: ScopedAction, turn: number, stage: Stage): Promise<void> {
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
