import { jsonForms, urlForms } from "./written-forms.ts";

/** A secret in another encoding than text, and the name of that encoding. */
export interface EncodedForm {
  readonly text: string;
  readonly encoding: string;
}

/** Shorter ones are found by chance in what servers send. */
const shortestEncoded = 8;

/**
 * What common encodings make of a secret: Base64 (RFC 4648, both alphabets, with and without padding, wherever in the
 * encoded bytes it stands, as in `Basic`), hexadecimals of its UTF-8, percent signs for every byte, HTML, and the other case.
 */
export function encodedForms(value: string): readonly EncodedForm[] {
  const bytes = utf8(value);
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const percent = hex.replaceAll(/../g, "%$&");
  const forms: Readonly<Record<string, readonly string[]>> = {
    base64: base64Forms(bytes).flatMap((text) => [text, ...jsonForms(text), ...urlForms(text)]),
    hex: [hex, hex.toUpperCase()],
    percent: [percent, percent.replaceAll(/[a-f]/g, (digit) => digit.toUpperCase())],
    html: ["&#39;", "&#x27;", "&apos;"].map((apostrophe) => html(value, apostrophe)),
    "upper case": [value.toUpperCase()],
    "lower case": [value.toLowerCase()],
  };
  return Object.entries(forms).flatMap(([encoding, texts]) =>
    [...new Set(texts)]
      .filter((text) => text.length >= shortestEncoded && text !== value)
      .map((text) => ({ text, encoding })),
  );
}

function utf8(text: string): number[] {
  return [...encodeURIComponent(text.toWellFormed()).matchAll(/%(..)|[^%]/gs)].map(([unit, hex]) =>
    hex === undefined ? unit.charCodeAt(0) : Number.parseInt(hex, 16),
  );
}

/** The whole encoding, and for each place in a group of three bytes the characters that say nothing of other bytes. */
function base64Forms(bytes: readonly number[]): string[] {
  const inside = [0, 1, 2].map((before) => {
    const encoded = base64([...Array.from({ length: before }, () => 0), ...bytes]);
    return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6));
  });
  const whole = base64(bytes);
  const padded = whole.padEnd(Math.ceil(whole.length / 4) * 4, "=");
  const standard = [padded, whole, ...inside];
  return [...standard, ...standard.map((text) => text.replaceAll("+", "-").replaceAll("/", "_"))];
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Without padding. */
function base64(bytes: readonly number[]): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const [a = 0, b = 0, c = 0] = bytes.slice(at, at + 3);
    const group = (a << 16) | (b << 8) | c;
    const length = Math.min(bytes.length - at, 3) + 1;
    for (let digit = 0; digit < length; digit += 1) text += digits[(group >> (18 - digit * 6)) & 63];
  }
  return text;
}

function html(text: string, apostrophe: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", apostrophe);
}
