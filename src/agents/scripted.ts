import { McpvalsError } from "../core/errors/error.ts";
import type { JsonObject, ScriptedAction, ScriptedAgentSpec } from "../core/formats/model.ts";
import { expanderOf } from "../core/templates/expand.ts";
import { callServer } from "./call-server.ts";
import { writtenAnswers } from "./client-side.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";
import { playTurns } from "./play-turns.ts";

/**
 * Makes an agent that plays a written plan: each user turn plays the actions up to and including the next `say`, the
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
