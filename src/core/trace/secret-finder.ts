/** Length of the pieces that are looked for; also the shortest part of a text that is found without the rest. */
const pieceLength = 8;
/** Characters that decide how far the search may jump. */
const blockLength = 3;

/** Where in a text one of the texts that are looked for stands. */
export interface Finding {
  readonly start: number;
  readonly end: number;
  /** All of it, even if only a part was found. */
  readonly form: string;
  /** Not for a part that is cut off where the text begins or ends, a line does, or `…` stands. */
  readonly whole: boolean;
}

interface Piece {
  readonly text: string;
  readonly form: string;
  /** Where in the form it stands; undefined for what stands only in JSON. */
  readonly at?: number;
}

/**
 * Looks for many texts at once, in a time that hardly depends on how many they are (Wu and Manber, "A fast algorithm for
 * multi-pattern searching", 1994): it looks for pieces of them. No text may be shorter than four characters.
 */
export class SecretFinder {
  readonly #length: number;
  readonly #jumps = new Uint8Array(0x1_0000);
  readonly #pieces = new Map<number, Piece[]>();

  constructor(forms: Iterable<string>) {
    const pieces = Array.from(forms, piecesOf).flat();
    this.#length = pieces.reduce((least, { text }) => Math.min(least, text.length), pieceLength);
    this.#jumps.fill(this.#length - blockLength + 1);
    for (const piece of pieces) this.#add(piece);
  }

  /** Whether a JSON text may hold one of the texts or a part of one; only a text that surely holds none gives false. */
  mayBeIn(json: string): boolean {
    let isIn = false;
    this.#search(json, () => {
      isIn = true;
      return json.length;
    });
    return isIn;
  }

  /** Everything that is found, in no order; findings can overlap. */
  findIn(text: string): Finding[] {
    const findings: Finding[] = [];
    this.#search(text, ({ text: piece, form, at }, start) => {
      const place = { start, end: start + piece.length };
      const finding = at === undefined ? undefined : findAround(text, form, place, start - at);
      if (finding === undefined) return 0;
      const last = findings.at(-1);
      if (last === undefined || finding.start < last.start || finding.end > last.end) findings.push(finding);
      // Whatever overlaps its end and goes beyond has a piece that begins no earlier.
      return finding.whole ? finding.end - pieceLength + 1 : 0;
    });
    return findings;
  }

  #add(piece: Piece): void {
    const { text } = piece;
    for (let end = blockLength; end <= this.#length; end += 1) {
      const block = blockBefore(text, end);
      this.#jumps[block] = Math.min(this.#jumps[block] ?? 0, this.#length - end);
    }
    const last = blockBefore(text, this.#length);
    const others = this.#pieces.get(last);
    if (others === undefined) this.#pieces.set(last, [piece]);
    else others.push(piece);
  }

  /** Hands over every piece with its place; `take` says from where on the search is worth it. */
  #search(text: string, take: (piece: Piece, start: number) => number): void {
    if (this.#pieces.size === 0) return;
    for (let end = this.#length; end <= text.length;) {
      const block = blockBefore(text, end);
      const jump = this.#jumps[block] ?? 0;
      if (jump > 0) {
        end += jump;
        continue;
      }
      const start = end - this.#length;
      let next = start + 1;
      for (const piece of this.#pieces.get(block) ?? [])
        if (text.startsWith(piece.text, start)) next = Math.max(next, take(piece, start));
      end = next + this.#length;
    }
  }
}

/** A number for the characters before a place. */
function blockBefore(text: string, end: number): number {
  const [a, b, c] = [text.charCodeAt(end - 3), text.charCodeAt(end - 2), text.charCodeAt(end - 1)];
  return (a * 961 + b * 31 + c) & 0xffff;
}

/** Pieces of which at least one stands wherever the form does, or enough of its beginning or its end. */
function piecesOf(form: string): Piece[] {
  const length = Math.min(pieceLength, form.length);
  const places = new Set([shortestBeginning(form) - length, form.length - length]);
  return Array.from(places).flatMap((at) => {
    const text = form.slice(at, at + length);
    const json = JSON.stringify(text).slice(1, -1).slice(0, pieceLength);
    return [{ text, form, at }, ...(json === text ? [] : [{ text: json, form }])];
  });
}

/** Scheme and host of an address are no secret, so that what is cut off soon after them is none either. */
function shortestBeginning(form: string): number {
  const origin = /^[a-z][\w+.-]*:\/\/[^/?#@]*\/?/i.exec(form)?.[0].length ?? 0;
  return Math.min(origin + pieceLength, form.length);
}

/** The form in a text, or what there is of it, given a piece of it there and the place where all of it would begin. */
function findAround(
  text: string,
  form: string,
  piece: { readonly start: number; readonly end: number },
  begin: number,
): Finding | undefined {
  let { start, end } = piece;
  while (start > Math.max(begin, 0) && text[start - 1] === form[start - 1 - begin]) start -= 1;
  while (end < begin + form.length && end < text.length && text[end] === form[end - begin]) end += 1;
  const [beginsHere, endsHere] = [start === begin, end === begin + form.length];
  const isCut = (beginsHere || breaksAt(text, start - 1)) && (endsHere || breaksAt(text, end));
  return isCut ? { start, end, form, whole: beginsHere && endsHere } : undefined;
}

/** Whether a text ends at a character, a line does, or something was left out. */
function breaksAt(text: string, index: number): boolean {
  const character = text[index];
  return character === undefined || character === "\n" || character === "\r" || character === "…";
}
