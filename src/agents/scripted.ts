import { McpvalsError } from "../core/errors/error.ts";
import type { ScriptedAction, ScriptedAgentSpec } from "../core/formats/model.ts";
import type { ServerSession } from "../servers/session.ts";
import type { AgentContext, AgentDriver } from "./driver.ts";

/**
 * Makes an agent that plays a written plan: each user turn plays the actions up to and including the next `say`, the
 * last turn plays all that are left. A call goes to the server that it names, or to the only one that offers the tool;
 * when there is none or more than one, the call is recorded as rejected and the plan goes on, as it does after a tool
 * that fails.
 *
 * `run` throws `agent/no-plan` when the task has no plan, what the sessions throw, and the signal's reason.
 */
export function createScriptedAgent(spec: ScriptedAgentSpec): AgentDriver {
  return {
    prepare: () => Promise.resolve(),
    run: async (context) => {
      context.signal.throwIfAborted();
      const turns = splitPlan(planOf(spec, context.task), context.turns.length);
      context.emit({ type: "agent.started", agent: spec.name, kind: "scripted" });
      for (const [turn, { user }] of context.turns.entries()) {
        context.emit({ type: "turn.started", turn, user });
        for (const action of turns[turn] ?? []) await play(action, turn, context);
        context.emit({ type: "turn.finished", turn, reason: "done" });
      }
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

function splitPlan(plan: readonly ScriptedAction[], turns: number): readonly (readonly ScriptedAction[])[] {
  const parts: ScriptedAction[][] = [[]];
  for (const action of plan) {
    parts.at(-1)?.push(action);
    if ("say" in action && parts.length < turns) parts.push([]);
  }
  return parts;
}

async function play(action: ScriptedAction, turn: number, context: AgentContext): Promise<void> {
  context.signal.throwIfAborted();
  if ("say" in action) {
    context.emit({ type: "agent.message", turn, text: action.say });
    return;
  }
  const offering = sessionsOffering(action.call, action.server, context.sessions);
  const [session] = offering;
  if (session === undefined || offering.length > 1) {
    const reason = rejection(action.call, action.server, { offering, sessions: context.sessions });
    context.emit({ type: "tool.rejected", tool: action.call, args: action.args, reason });
    return;
  }
  const { callTimeoutMs: timeoutMs, signal } = context;
  await session.callTool(action.call, action.args, { timeoutMs, signal });
}

function sessionsOffering(
  tool: string,
  server: string | undefined,
  sessions: readonly ServerSession[],
): readonly ServerSession[] {
  if (server !== undefined) return sessions.filter((session) => session.name === server);
  return sessions.filter((session) => session.tools.some((offered) => offered.name === tool));
}

function rejection(
  tool: string,
  server: string | undefined,
  found: { readonly offering: readonly ServerSession[]; readonly sessions: readonly ServerSession[] },
): string {
  if (server !== undefined) {
    const names = found.sessions.map((session) => session.name).join(", ");
    return `no server is called ${JSON.stringify(server)}; there are: ${names || "none"}`;
  }
  if (found.offering.length === 0) return `no server offers a tool called ${JSON.stringify(tool)}`;
  const names = found.offering.map((session) => session.name).join(" and ");
  return `${names} both offer ${JSON.stringify(tool)}; the action must name its server`;
}
