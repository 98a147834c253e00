import type { NullAgentSpec } from "../core/formats/model.ts";
import type { AgentDriver } from "./driver.ts";

/** Makes the agent that does nothing: what passes with it checks nothing. Its `run` throws only the signal's reason. */
export function createNullAgent(spec: NullAgentSpec): AgentDriver {
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
