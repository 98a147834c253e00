/** What the redactor leaves in the place of a secret (see `core/trace/redact.ts`). */
const marks = /\[secret:[^\]]*\]|\[\*\*\*\]|‹\*\*\*›/g;
/** Unicode's private use: a mark written in these characters is found by itself and by nothing else. */
const firstPrivate = 0xf_0000;

/**
 * Whether a text contains another, ignoring case. The mark of a secret is found by the same mark only, never by the
 * words that it is made of: what stood there was a secret, not the word "secret".
 */
export function containsText(text: string, wanted: string): boolean {
  return comparable(text).includes(comparable(wanted));
}

function comparable(text: string): string {
  return text.replaceAll(marks, seal).toLowerCase();
}

function seal(mark: string): string {
  const sealed = Array.from(mark, (character) =>
    String.fromCodePoint(firstPrivate + (character.codePointAt(0) ?? 0)),
  );
  return sealed.join("");
}
