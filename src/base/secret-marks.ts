/**
 * What stands in the place of a secret in a record, such as `[secret:NAME]`. Servers choose the text: no character is looked at more
 * than a few times, so that the time is linear.
 */
export const secretMarks: RegExp = /[[‹](?:\*\*\*|(?:part of )?secret:[^[\]‹›]*)[\]›]/g;

/** The name in a mark of what only looks like a key: whose it is, nobody knows. Further ones have a number behind it. */
export const unknownKey = "key";

/** How the mark of a secret begins. */
export const secretMark: RegExp = /[[‹](?:\*\*\*|(?:part of )?secret:)/;

/** The text with round brackets around each mark of a secret, so that it is not taken for one of mcpvals' own. */
export function withoutSecretMarks(text: string): string {
  return text.replaceAll(secretMarks, (mark) => `(${mark.slice(1, -1)})`);
}
