import { isJsonObject, type Json } from "../base/json.ts";

/** Shortest part of a secret that counts where it is split; by chance, no text has all parts of a secret. */
const shortestPart = 6;
/** How much of a text is decoded, in characters. */
const longestText = 1_000_000;
/** How many encodings may be around each other. */
const depth = 2;

/** Encodings in which each character stands for one, from the outside in: the secret is encoded in them, and texts stay as they are. */
const mirrors: readonly { readonly how: readonly string[]; readonly of: (text: string) => string }[] = [
  { how: [], of: (text) => text },
  { how: ["reversed"], of: reversed },
  { how: ["in ROT13"], of: rot13 },
  { how: ["reversed", "in ROT13"], of: (text) => reversed(rot13(text)) },
];

// Texts may be long, so that loops run over numbers, without a function or a text for each character.

function reversed(text: string): string {
  return textOf(codesOf(text).toReversed());
}

function rot13(text: string): string {
  const codes = codesOf(text);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    const first = code < 97 ? 65 : 97;
    if (code >= first && code < first + 26) codes[at] = ((code - first + 13) % 26) + first;
  }
  return textOf(codes);
}

/** Other encodings, and what a text says if it is in that. */
const decoders: Readonly<Record<string, (text: string) => string>> = {
  "URL-encoded": (text) =>
    text.replaceAll(/(?:%[0-9a-fA-F]{2})+/g, (part) => textOf(bytesOf(part.replaceAll("%", ""), 0, 4))),
  "in base64": (text) =>
    text
      .replaceAll(/\s+/g, "")
      .replaceAll(/[A-Za-z0-9+/_-]{8,}/g, (run) => fromEachStart(run, { places: 4, bits: 6 })),
  "in hexadecimal": (text) =>
    text.replaceAll(/(?:(?:0x|\\x|\\u00|&#x)?[0-9a-f]{2}[\s:,;-]{0,2}){8,}[0-9a-f]?/gi, (run) =>
      fromEachStart(run.replaceAll(/0x|\\x|\\u00|&#x|[^0-9a-f]+/gi, ""), { places: 2, bits: 4 }),
    ),
};

/** What a run of digits says from each place on at which a group of them may begin: what stands before may be of the same characters. */
function fromEachStart(
  run: string,
  { places, bits }: { readonly places: number; readonly bits: 4 | 6 },
): string {
  const starts = Array.from({ length: places }, (_, start) => readableIn(bytesOf(run, start, bits)));
  return ` ${starts.flat().join(" ")} `;
}

/** The parts of ASCII text: a part of a secret is that, and so is what it is encoded in again. From a wrong place on, there is little of it. */
function readableIn(bytes: Uint8Array): readonly string[] {
  const parts: string[] = [];
  let start = 0;
  for (let at = 0; at <= bytes.length; at += 1) {
    const code = bytes[at] ?? 0;
    if (code >= 32 && code < 127) continue;
    if (at - start >= shortestPart) parts.push(textOf(bytes.subarray(start, at)));
    start = at + 1;
  }
  return parts;
}

/** The values of the digits of base64, also of that for addresses, and of hexadecimal, by their codes. */
const digitValues = {
  4: valuesOf("0123456789abcdef", "0123456789ABCDEF"),
  6: valuesOf(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
  ),
};

function valuesOf(...alphabets: readonly string[]): Uint8Array {
  const values = new Uint8Array(128);
  for (const digits of alphabets)
    for (let value = 0; value < digits.length; value += 1) values[digits.charCodeAt(value)] = value;
  return values;
}

/** The bytes that the digits of so many bits from a place on stand for; what is left of them is dropped. */
function bytesOf(digits: string, start: number, bits: 4 | 6): Uint8Array {
  const values = digitValues[bits];
  const bytes = new Uint8Array(Math.floor((Math.max(0, digits.length - start) * bits) / 8));
  let [held, length, next] = [0, 0, start];
  for (let at = 0; at < bytes.length; at += 1) {
    for (; length < 8; length += bits) {
      held = ((held << bits) | (values[digits.charCodeAt(next)] ?? 0)) & 0xffff;
      next += 1;
    }
    length -= 8;
    bytes[at] = (held >> length) & 0xff;
  }
  return bytes;
}

function codesOf(text: string): Uint16Array {
  const codes = new Uint16Array(text.length);
  for (let at = 0; at < text.length; at += 1) codes[at] = text.charCodeAt(at);
  return codes;
}

/** A text by the codes of its characters. */
function textOf(codes: Uint8Array | Uint16Array): string {
  const parts: string[] = [];
  // Spread arguments take ten times as long.
  for (let at = 0; at < codes.length; at += 1024)
    parts.push(Reflect.apply(String.fromCharCode, undefined, codes.subarray(at, at + 1024)));
  return parts.join("");
}

/**
 * Looks for a secret of lower-case letters and digits in texts that were sent one after the other, and says how it stands there: `plain`, or its
 * encodings from the outside in. It may be split over the texts, in any order. Undefined: it is not found. What was decoded is kept, since the same
 * texts often stand in several lists.
 */
export function leakSearch(secret: string): (texts: readonly string[]) => string | undefined {
  const find = finder(secret);
  return remembered(
    (texts) => {
      // What is encoded as a whole and then split is decoded as a whole.
      const found = find([...texts, texts.join("")]);
      if (found !== undefined)
        return texts.length === 1 || found.isWhole ? found.how : `${found.how}, in parts`;
      const listed = find([lastWords(texts).join("")]);
      return listed && `${listed.how}, in parts`;
    },
    (texts) => texts.join("\0"),
  );
}

/** Says how texts cover the secret, and whether one of them has all of it; undefined: no way is found. */
function finder(
  secret: string,
): (texts: readonly string[]) => { readonly how: string; readonly isWhole: boolean } | undefined {
  const bareOf = remembered(bare);
  const ways = mirrors.map(({ how, of }) => ({ how, needle: of(secret), of: remembered(of) }));
  const decodings = Object.entries(decoders).map(([name, decode]) => [name, remembered(decode)] as const);
  return (texts) => {
    const forms: { readonly how: readonly string[]; readonly texts: readonly string[] }[] = [
      { how: [], texts: [...new Set(texts)] },
    ];
    // It grows: what was decoded is looked at in its turn.
    for (const form of forms) {
      const bared = form.texts.map(bareOf);
      for (const { needle, of, ...way } of ways) {
        const how = [...form.how, ...way.how];
        if (how.length > depth) continue;
        if (isCovered(needle, bared))
          return {
            how: how.join(", ") || "plain",
            isWhole: bared.some((text) => text.includes(needle)),
          };
        if (how.length === depth) continue;
        const encoded = form.texts.map((text) => of(text.slice(0, longestText)));
        for (const [name, decode] of decodings) {
          const decoded = encoded.map(decode);
          if (decoded.some((text, index) => text !== encoded[index]))
            forms.push({ how: [...how, name], texts: decoded });
        }
      }
    }
    return undefined;
  };
}

/** A function that works out nothing twice. */
function remembered<Input, Output>(
  work: (input: Input) => Output,
  keyOf: (input: Input) => unknown = (input) => input,
): (input: Input) => Output {
  const known = new Map<unknown, Output>();
  return (input) => {
    const key = keyOf(input);
    if (!known.has(key)) known.set(key, work(input));
    return known.get(key) as Output;
  };
}

/** The last word of each line: what lists are of, such as `2. b` and `part 2: b`. */
function lastWords(texts: readonly string[]): readonly string[] {
  const lines = texts.flatMap((text) => text.slice(0, longestText).split("\n"));
  return lines.flatMap((line) => line.split(/[\s:=|)]/).findLast((word) => /[\p{L}\p{N}]/u.test(word)) ?? []);
}

/** Without what may be put between the characters, and without other forms of them, such as wide ones. */
function bare(text: string): string {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "");
}

/** Whether every part of the secret is in some text. */
function isCovered(secret: string, texts: readonly string[]): boolean {
  const isIn = (part: string): boolean => texts.some((text) => text.includes(part));
  // The end of the longest part from each place on decides: a longer part never covers less.
  let covered = 0;
  for (let start = 0; start <= covered && start + shortestPart <= secret.length; start += 1) {
    let end = start + shortestPart;
    if (!isIn(secret.slice(start, end))) continue;
    while (end < secret.length && isIn(secret.slice(start, end + 1))) end += 1;
    covered = Math.max(covered, end);
  }
  return covered === secret.length;
}

/** All texts in a value, those of its keys included. */
export function textsIn(value: Json): readonly string[] {
  if (Array.isArray(value)) return (value as readonly Json[]).flatMap((item) => textsIn(item));
  if (isJsonObject(value)) return Object.entries(value).flatMap(([key, member]) => [key, ...textsIn(member)]);
  return fieldsIn(value).map(({ text }) => text);
}

/** The texts in a value without keys, each with the keys that lead to it; items of a list have those of the list. */
export function fieldsIn(
  value: Json,
  path = "",
): readonly { readonly path: string; readonly text: string }[] {
  if (Array.isArray(value)) return (value as readonly Json[]).flatMap((item) => fieldsIn(item, path));
  if (isJsonObject(value))
    return Object.entries(value).flatMap(([key, member]) => fieldsIn(member, `${path} ${key}`));
  return typeof value === "string" || typeof value === "number" ? [{ path, text: String(value) }] : [];
}
