import { maxExpansionLength } from "./limits.ts";

/**
 * What is left for texts while the names in them are replaced: values that use each other twice would else double with every
 * step. `tooLong` makes the error for more than {@link maxExpansionLength} characters.
 */
export class TextRoom {
  #left = maxExpansionLength;
  readonly #tooLong: () => Error;

  constructor(tooLong: () => Error) {
    this.#tooLong = tooLong;
  }

  /** Takes the room that a piece needs, before it is joined with others, and gives the piece. */
  take(piece: string): string {
    this.#left -= piece.length;
    if (this.#left < 0) throw this.#tooLong();
    return piece;
  }
}
