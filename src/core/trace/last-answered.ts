import type { ToolCall, TurnView } from "./trajectory.ts";

/** The call of a turn that was answered last. Calls may overlap, so it need not be the last one asked for. */
export function lastAnswered({ calls }: TurnView): ToolCall | undefined {
  const answered = calls.filter((call) => call.result !== undefined);
  return answered.toSorted((a, b) => (a.responseSeq ?? 0) - (b.responseSeq ?? 0)).at(-1);
}
