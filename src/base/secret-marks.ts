/** What stands in the place of a secret in a record, such as `[secret:NAME]`; a name is never longer. */
const secretMarks = /[[‹](?:\*\*\*|(?:part of )?secret:[^\]]{1,200})[\]›]/g;
const beginning = /[[‹](?:\*\*\*|(?:part of )?secret:)/;

/** Whether a text may have the mark of a secret. */
export function mayHaveSecretMark(text: string): boolean {
  return beginning.test(text);
}

/** The text with round brackets around each mark of a secret, so that it is not taken for one of mcpvals' own. */
export function withoutSecretMarks(text: string): string {
  return text.replaceAll(secretMarks, (mark) => `(${mark.slice(1, -1)})`);
}
