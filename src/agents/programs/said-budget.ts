import { JsonMeter, mostMemory } from "../../core/formats/json-meter.ts";
import { repeatedKey } from "../../core/formats/read-json.ts";

/** Longest message of a program, in bytes. */
export const longestMessage: number = 10 * 1024 * 1024;
const deepest = 400;
/** Most memory that all messages of a program may take in one trial, read one after the other, in bytes. */
const mostSaid = 2 * mostMemory;
/** Requests that a program may make in one trial: each waits for an answer, which the program need not read. */
const mostAsked = 20_000;

/**
 * What a program may still say in a trial. Not all of it is recorded, but whoever reads it keeps some of it: names of its uses of
 * tools, words that are not at their end.
 */
export class SaidBudget {
  #left = mostSaid;
  #asked = 0;

  /** Why a message is better not read, as what the program did; undefined when it may be. */
  problemOf(line: Uint8Array): string | undefined {
    if (line.length > longestMessage) return `wrote a message of more than ${longestMessage} bytes`;
    const { deepest: levels, weight } = new JsonMeter().push(line);
    if (levels > deepest) return `wrote a message nested more than ${deepest} levels deep`;
    if (weight > mostMemory)
      return `wrote a message of so many values that it would take more than ${inMebibytes(mostMemory)} of memory`;
    this.#left -= weight;
    return this.#left < 0 ? `wrote more than ${inMebibytes(mostSaid)} in one trial` : undefined;
  }

  /** Why a further request is better not answered; undefined when it may be. */
  problemOfRequest(): string | undefined {
    this.#asked += 1;
    return this.#asked > mostAsked
      ? `asked for something more than ${mostAsked} times in one trial`
      : undefined;
  }
}

/** Why a message that was parsed is better not used, as what the program did: readers differ on which of two equal keys counts. */
export function ambiguity(text: string): string | undefined {
  const key = repeatedKey(text);
  return key === undefined
    ? undefined
    : `wrote a message with the key ${JSON.stringify(key.slice(0, 80))} twice`;
}

function inMebibytes(bytes: number): string {
  return `${bytes / 1024 / 1024} MiB`;
}
