const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;

/**
 * Measures JSON before it is parsed, since a value can take twenty times the memory of its text, and parsing one that is
 * nested millions of levels deep takes seconds. What is not JSON is measured somehow.
 */
export class JsonMeter {
  #depth = 0;
  #deepest = 0;
  #containers = 0;
  #separators = 0;
  #bytes = 0;
  #isInText = false;
  #isEscaped = false;

  /** Levels of lists and objects. */
  get deepest(): number {
    return this.#deepest;
  }

  /** Lists, objects, and whatever stands behind a comma. */
  get values(): number {
    return this.#containers + this.#separators;
  }

  /** About how many bytes of memory the value takes: that of its text, and that of what is in it. */
  get weight(): number {
    return this.#bytes + this.#containers * containerWeight + this.#separators * valueWeight;
  }

  /** Takes the next piece of the text, in UTF-8. */
  push(bytes: Uint8Array): this {
    this.#bytes += bytes.length;
    for (let index = 0; index < bytes.length; index += 1) {
      if (this.#isInText) {
        index = this.#textEnd(bytes, index);
        continue;
      }
      switch (bytes[index]) {
        case quote:
          this.#isInText = true;
          break;
        case comma:
          this.#separators += 1;
          break;
        case 0x5b: // [
        case 0x7b: // {
          this.#containers += 1;
          this.#depth += 1;
          if (this.#depth > this.#deepest) this.#deepest = this.#depth;
          break;
        case 0x5d: // ]
        case 0x7d: // }
          this.#depth -= 1;
          break;
        default:
          break;
      }
    }
    return this;
  }

  /** Where the text in quotes ends that began before `from`, or the last byte. */
  #textEnd(bytes: Uint8Array, from: number): number {
    let index = from;
    for (; index < bytes.length; index += 1) {
      const byte = bytes[index];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === backslash) this.#isEscaped = true;
      else if (byte === quote) {
        this.#isInText = false;
        return index;
      }
    }
    return index;
  }
}

/** What a list or an object takes in memory, and any other value, in bytes. */
export const containerWeight = 64;
export const valueWeight = 16;

/** Most memory that one value, or all that a trial records, may take, in bytes. */
export const mostMemory: number = 128 * 1024 * 1024;

/** A shorter text is not worth the look: it takes a few megabytes at most. */
const shortest = 64 * 1024;

/** Why a text is better not parsed as JSON; undefined when it may be. */
export function jsonExcess(
  text: Uint8Array,
  { levels }: { readonly levels: number },
): JsonExcess | undefined {
  if (text.length < shortest) return undefined;
  const { deepest, weight } = new JsonMeter().push(text);
  if (deepest > levels) return "deep";
  return weight > mostMemory ? "heavy" : undefined;
}

/** It is nested too deeply, or takes more than {@link mostMemory}. */
export type JsonExcess = "deep" | "heavy";
