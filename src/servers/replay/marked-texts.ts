import { createHash } from "node:crypto";
import { type Json, mapTexts } from "../../base/json.ts";
import { secretMarks } from "../../base/secret-marks.ts";
import type { Redact } from "../../trace/redact.ts";

/**
 * Texts that differ from run to run, by the marks that stand for them in a recording: secrets, the folder of the trial, its random values.
 * What has marks is the same for the same trial on every machine, and can be committed.
 */
export class MarkedTexts {
  readonly #redact: Redact;
  readonly #values = new Map<string, string>();

  constructor(redact: Redact) {
    this.#redact = redact;
  }

  /** Gives a value of this trial alone, such as its folder, a name. */
  mark(name: string, value: string): void {
    if (value !== "") this.#values.set(value, `[mcpvals:${name}]`);
  }

  /** A value of this run with marks. */
  toMarks<T>(value: T): T {
    return this.fromRecord(this.#redact.fromOutside(value));
  }

  /** The same for what was redacted before. */
  fromRecord<T>(value: T): T {
    return mapped(value, (text) => {
      let marked = text;
      for (const [own, mark] of this.#values) marked = marked.replaceAll(own, mark);
      return marked;
    });
  }

  /**
   * A recorded value as it is in this run. A secret that this run does not have gets a value of its own, which is removed from what is
   * recorded as the secret was.
   */
  fromMarks<T>(value: T): T {
    return mapped(value, (text) => {
      let own = text.replaceAll(secretMarks, (mark) => this.#secretOf(mark));
      for (const [value, mark] of this.#values) own = own.replaceAll(mark, value);
      return own;
    });
  }

  #secretOf(mark: string): string {
    const name = /^[[‹]secret:(.*)[\]›]$/s.exec(mark)?.[1];
    // A part of a secret is not the secret, and nobody knows which part it was.
    if (name === undefined) return mark;
    const known = this.#redact.valueOf(name);
    if (known !== undefined) return known;
    const value = standInFor(name);
    this.#redact.add({ name, value });
    return value;
  }
}

/** Of plain JSON, whatever its type is. */
function mapped<T>(value: T, change: (text: string) => string): T {
  return mapTexts(value as Json, change) as T;
}

/** A value for a secret or variable that a replay lacks. No part of it is found in other texts by chance. */
export function standInFor(name: string): string {
  return createHash("sha256").update(name).digest("hex").slice(0, 32);
}
