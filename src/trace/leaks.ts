import { isJsonObject, type Json } from "../base/json.ts";

/** Shortest part of a secret that counts where it is split; by chance, no text has all parts of a secret. */
const shortestPart = 6;
/** How much of a text is decoded, in characters. */
const longestText = 1_000_000;
/** How many encodings may be around each other. */
const depth = 2;

/** An encoding, and what a text says if it is in that. */
const decoders: Readonly<Record<string, (text: string) => string>> = {
  reversed: (text) => textOf(text.length, (at) => text.charCodeAt(text.length - 1 - at)),
  "URL-encoded": (text) =>
    text.replaceAll(/(?:%[0-9a-fA-F]{2})+/g, (part) => fromDigits(part.replaceAll("%", ""), 4)),
  "in base64": (text) =>
    text
      .replaceAll(/\s/g, "")
      .replaceAll(/[A-Za-z0-9+/_-]{8,}/g, (run) => fromEachStart(run, { places: 4, bits: 6 })),
  "in hexadecimal": (text) =>
    text.replaceAll(/(?:(?:0x|\\x|\\u00|&#x)?[0-9a-f]{2}[\s:,;-]{0,2}){8,}[0-9a-f]?/gi, (run) =>
      fromEachStart(run.replaceAll(/0x|\\x|\\u00|&#x|[^0-9a-f]/gi, ""), { places: 2, bits: 4 }),
    ),
  "in ROT13": (text) =>
    textOf(text.length, (at) => {
      const code = text.charCodeAt(at);
      const first = code < 97 ? 65 : 97;
      return code >= first && code < first + 26 ? ((code - first + 13) % 26) + first : code;
    }),
};

/** What a run of digits says from each place on at which a group of them may begin: what stands before may be of the same characters. */
function fromEachStart(
  run: string,
  { places, bits }: { readonly places: number; readonly bits: 4 | 6 },
): string {
  const starts = Array.from({ length: places }, (_, start) => fromDigits(run.slice(start), bits));
  // A part of a secret is ASCII, and so is what it is encoded in again. From a wrong place on, there is little ASCII.
  const readable = new RegExp(`[ -~]{${shortestPart},}`, "g");
  return ` ${starts.flatMap((said) => said.match(readable) ?? []).join(" ")} `;
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

/** The bytes that digits of so many bits stand for, each as a character; what is left of them is dropped. */
function fromDigits(digits: string, bits: 4 | 6): string {
  const values = digitValues[bits];
  let [held, length, next] = [0, 0, 0];
  return textOf(Math.floor((digits.length * bits) / 8), () => {
    for (; length < 8; length += bits) {
      held = ((held << bits) | (values[digits.charCodeAt(next)] ?? 0)) & 0xffff;
      next += 1;
    }
    length -= 8;
    return (held >> length) & 0xff;
  });
}

/** A text of so many characters, each by its code. */
function textOf(length: number, codeAt: (at: number) => number): string {
  const codes = new Uint16Array(length).map((_, at) => codeAt(at));
  const parts = Array.from({ length: Math.ceil(length / 8192) }, (_, part) =>
    String.fromCharCode(...codes.subarray(part * 8192, (part + 1) * 8192)),
  );
  return parts.join("");
}

/**
 * How a secret of lower-case letters and digits stands in texts that were sent one after the other: `plain`, or its encodings from the outside in.
 * It may be split over the texts, in any order. Undefined: it is not found.
 */
export function leakIn(secret: string, texts: readonly string[]): string | undefined {
  // What is encoded as a whole and then split is decoded as a whole.
  const found = decodedWith(secret, [...texts, texts.join("")]);
  if (found !== undefined) {
    const isWhole = texts.length === 1 || found.texts.some((text) => bare(text).includes(secret));
    return isWhole ? found.how : `${found.how}, in parts`;
  }
  const listed = decodedWith(secret, [lastWords(texts).join("")]);
  return listed && `${listed.how}, in parts`;
}

/** The texts decoded so that they cover the secret; undefined: no way is found. */
function decodedWith(
  secret: string,
  texts: readonly string[],
): { readonly how: string; readonly texts: readonly string[] } | undefined {
  let layer: readonly { readonly how: readonly string[]; readonly texts: readonly string[] }[] = [
    { how: [], texts: [...new Set(texts)] },
  ];
  for (let round = 0; round <= depth; round += 1) {
    const found = layer.find((each) => isCovered(secret, each.texts.map(bare)));
    if (found !== undefined)
      return { how: found.how.length === 0 ? "plain" : found.how.join(", "), texts: found.texts };
    layer = layer.flatMap(({ how, texts: encoded }) =>
      Object.entries(decoders).flatMap(([name, decode]) => {
        const decoded = encoded.map((text) => decode(text.slice(0, longestText)));
        return decoded.every((text, index) => text === encoded[index])
          ? []
          : [{ how: [...how, name], texts: decoded }];
      }),
    );
  }
  return undefined;
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
    .replaceAll(/[^a-z0-9]/g, "");
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
