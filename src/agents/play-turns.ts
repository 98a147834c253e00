import type { AgentContext } from "./driver.ts";

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
export async function playTurns<A>(play: Play<A>, { turns, emit, signal }: AgentContext): Promise<void> {
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
