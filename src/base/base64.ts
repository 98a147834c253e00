/** A stretch of base64 in a text, by its places in the text. */
export interface Base64Part {
  readonly from: number;
  readonly to: number;
  /** MIME type of the decoded data, if its first bytes or a `data:` URL say it. */
  readonly mimeType?: string;
  readonly bytes: number;
}

/** In characters: what is shorter can be read past. */
const shortest = 200;

/**
 * Base64 in one line, of either alphabet; not the `n` of an escaped line break before it. A longer line is several, since regular
 * expressions have a limited stack.
 */
const line = /(?<!\\)[A-Za-z0-9+/_-]{20,4096}={0,2}/g;
/** What stands between two lines. In JSON it is written as `\n`. */
const betweenLines = /^(?:(?:\\r)?\\n|\r?\n)?$/;
/** The rest of a long line, or a last line that is short, which has padding. */
const end = /[A-Za-z0-9+/_-]{1,19}={0,2}|(?:(?:\\r)?\\n|\r?\n)[A-Za-z0-9+/_-]{0,19}={1,2}/y;
/** Shortest line of wrapped base64 before its last line, in characters. */
const minLineLength = 40;
const lineEnd = /\\[rn]|\s/g;
const dataUrl = /data:([\w.+-]{1,60}\/[\w.+-]{1,60})[^,"\s]{0,60};base64,$/;

/** How files of some types begin when they are encoded. */
const beginnings: readonly (readonly [RegExp, string])[] = [
  [/^iVBORw0KGgo/, "image/png"],
  [/^\/9j\//, "image/jpeg"],
  [/^R0lGOD/, "image/gif"],
  [/^UklGR.{7}RUJQ/, "image/webp"],
  [/^UklGR.{7}QVZF/, "audio/wav"],
  [/^PHN2Zy/, "image/svg+xml"],
  [/^SUQz/, "audio/mpeg"],
  [/^T2dnUw/, "audio/ogg"],
  [/^JVBERi0/, "application/pdf"],
  [/^UEsDB/, "application/zip"],
  [/^H4sI/, "application/gzip"],
];

/** Long base64 in a text. A word that is only long, such as a name or a number, is none. */
export function base64Parts(text: string): readonly Base64Part[] {
  const stretches: { from: number; to: number; last: number }[] = [];
  for (const { 0: whole, index } of text.matchAll(line)) {
    const before = stretches.at(-1);
    const to = index + whole.length;
    if (before !== undefined && before.last >= minLineLength && isBetween(text, before.to, index))
      [before.to, before.last] = [to, whole.length];
    else stretches.push({ from: index, to, last: whole.length });
  }
  return stretches.flatMap(({ from, to, last }) => {
    end.lastIndex = to;
    return partOf(text, from, last >= minLineLength && end.test(text) ? end.lastIndex : to) ?? [];
  });
}

function isBetween(text: string, from: number, to: number): boolean {
  return to - from <= 4 && betweenLines.test(text.slice(from, to));
}

function partOf(text: string, from: number, to: number): Base64Part | undefined {
  if (to - from < shortest) return undefined;
  const start = text.slice(from, from + shortest);
  const named = dataUrl.exec(text.slice(Math.max(0, from - shortest), from))?.[1];
  const mimeType = named ?? beginnings.find(([beginning]) => beginning.test(start))?.[1];
  const isMixed = /[A-Z]/.test(start) && /[a-z]/.test(start) && /\d/.test(start);
  if (mimeType === undefined && !isMixed) return undefined;
  const characters = text.slice(from, to).replaceAll(lineEnd, "").replace(/=+$/, "").length;
  return {
    from,
    to,
    bytes: Math.floor((characters * 3) / 4),
    ...(mimeType === undefined ? {} : { mimeType }),
  };
}
