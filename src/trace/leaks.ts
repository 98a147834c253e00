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
  "in base64": (text) => text.replaceAll(/[A-Za-z0-9+/_-]{8,}={0,2}/g, (part) => ` ${fromBase64(part)} `),
  "in hexadecimal": (text) =>
    text.replaceAll(
      /(?:[0-9a-fA-F]{2}[\s:,]?){8,}/g,
      (part) => ` ${fromHex(part.replaceAll(/[\s:,]/g, ""))} `,
    ),
  "in ROT13": (text) =>
    text.replaceAll(/[a-z]/gi, (letter) => {
      const first = letter <= "Z" ? 65 : 97;
      return String.fromCodePoint(((letter.charCodeAt(0) - first + 13) % 26) + first);
    }),
};

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function fromBase64(text: string): string {
  let [bits, length] = [0, 0];
  let decoded = "";
  for (const each of text.replaceAll("-", "+").replaceAll("_", "/")) {
    const value = digits.indexOf(each);
    if (value === -1) continue;
    bits = ((bits << 6) | value) & 0xffff;
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
  const whole = [...texts, texts.join("")].map((text) => text.slice(0, longestText));
  let layer: readonly { readonly how: readonly string[]; readonly texts: readonly string[] }[] = [
    { how: [], texts: whole },
  ];
  for (let round = 0; round <= depth; round += 1) {
    const found = layer.find((each) => isCovered(secret, each.texts.map(bare)));
    if (found !== undefined) {
      const how = found.how.length === 0 ? "plain" : found.how.join(", ");
      return texts.length > 1 && !found.texts.some((text) => bare(text).includes(secret))
        ? `${how}, in parts`
        : how;
    }
    layer = layer.flatMap(({ how, texts: encoded }) =>
      Object.entries(decoders).map(([name, decode]) => ({ how: [...how, name], texts: encoded.map(decode) })),
    );
  }
  return undefined;
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

/** All texts in a value, those of keys included unless only values are wanted. */
export function textsIn(value: Json, isOnlyValues = false): readonly string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return (value as readonly Json[]).flatMap((item) => textsIn(item, isOnlyValues));
  if (isJsonObject(value))
    return Object.entries(value).flatMap(([key, member]) => [
      ...(isOnlyValues ? [] : [key]),
      ...textsIn(member, isOnlyValues),
    ]);
  return typeof value === "number" ? [String(value)] : [];
}
