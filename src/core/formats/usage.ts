/** Tokens, as the provider reports them. */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
  /** Requests to the model that were answered; absent: not known. */
  readonly requests?: number;
}

/** How a user turn ended: only `done` is the agent's own decision to be finished. */
export type TurnEnd = "done" | "max-steps" | "max-tokens" | "refused" | "cancelled";
