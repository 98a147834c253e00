import { isJsonObject, type Json } from "../base/json.ts";

/** Shortest part of a secret that counts where it is split; by chance, no text has all parts of a secret. */
const shortestPart = 6;
/** Longest text that is decoded, in characters. */
const longestText = 1_000_000;
/** How many encodings may be around each other. */
const depth = 2;

/** An encoding, and what a text says if it is in that. */
const decoders: Readonly<Record<string, (text: string) => string>> = {
  reversed: (text) => Array.from(text).toReversed().join(""),
  "URL-encoded": (text) =>
    text.replaceAll(/(?:%[0-9a-fA-F]{2})+/g, (part) => fromHex(part.replaceAll("%", ""))),
  "in base64": (text) =>
    text.replaceAll(/\s/g, "").replaceAll(/[A-Za-z0-9+/_-]{8,}/g, (run) => fromEachStart(run, 4, fromBase64)),
  "in hexadecimal": (text) =>
    text.replaceAll(/(?:(?:0x|\\x|\\u00|&#x)?[0-9a-f]{2}[\s:,;-]{0,2}){8,}[0-9a-f]?/gi, (run) =>
      fromEachStart(run.replaceAll(/0x|\\x|\\u00|&#x|[^0-9a-f]/gi, ""), 2, fromHex),
    ),
  "in ROT13": (text) =>
    text.replaceAll(/[a-z]/gi, (letter) => {
      const first = letter <= "Z" ? 65 : 97;
      return String.fromCodePoint(((letter.charCodeAt(0) - first + 13) % 26) + first);
    }),
};

/** What a run of characters says from each place on at which a group of them may begin: what stands before may be of the same characters. */
function fromEachStart(run: string, group: number, decode: (text: string) => string): string {
  const starts = Array.from({ length: group }, (_, start) => decode(run.slice(start)));
  // A secret is ASCII, and so is what it is encoded in again.
  return ` ${starts.join(" ").replaceAll(/[^ -~]+/g, "")} `;
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const valueOf = new Map([
  ...Array.from(digits, (digit, value) => [digit, value] as const),
  ["-", 62],
  ["_", 63],
]);

function fromBase64(text: string): string {
  let [bits, length] = [0, 0];
  let decoded = "";
  for (const each of text) {
    bits = ((bits << 6) | (valueOf.get(each) ?? 0)) & 0xffff;
    length += 6;
    if (length < 8) continue;
    length -= 8;
    decoded += String.fromCharCode((bits >> length) & 0xff);
  }
  return decoded;
}

function fromHex(text: string): string {
  return text.replaceAll(/../g, (byte) => String.fromCharCode(Number.parseInt(byte, 16)));
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
    { how: [], texts: [...new Set(texts.map((text) => text.slice(0, longestText)))] },
  ];
  for (let round = 0; round <= depth; round += 1) {
    const found = layer.find((each) => isCovered(secret, each.texts.map(bare)));
    if (found !== undefined)
      return { how: found.how.length === 0 ? "plain" : found.how.join(", "), texts: found.texts };
    layer = layer.flatMap(({ how, texts: encoded }) =>
      Object.entries(decoders).flatMap(([name, decode]) => {
        const decoded = encoded.map(decode);
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
