import type { RunResult } from "./result.ts";

/** Writes the result document as JSON in pieces, one trial a line, since a large run would not fit one string. */
export function* resultChunks(result: RunResult): Generator<string> {
  const { trials, environment, ...head } = result;
  yield `${JSON.stringify(head, undefined, 2).slice(0, -2)},\n  "trials": [`;
  for (const [index, trial] of trials.entries()) {
    yield `${index === 0 ? "" : ","}\n    ${JSON.stringify(trial)}`;
  }
  const tail = JSON.stringify({ environment }, undefined, 2).slice(2);
  yield `${trials.length === 0 ? "" : "\n  "}],\n${tail}\n`;
}
