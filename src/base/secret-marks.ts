/** What stands in the place of a secret in a record, such as `[secret:NAME]`; a name is never longer. */
export const secretMarks: RegExp = /[[‹](?:\*\*\*|(?:part of )?secret:[^\]]{1,200})[\]›]/g;

/** How the mark of a secret begins. */
export const secretMark: RegExp = /[[‹](?:\*\*\*|(?:part of )?secret:)/;

/** The text with round brackets around each mark of a secret, so that it is not taken for one of mcpvals' own. */
export function withoutSecretMarks(text: string): string {
  return text.replaceAll(secretMarks, (mark) => `(${mark.slice(1, -1)})`);
}
