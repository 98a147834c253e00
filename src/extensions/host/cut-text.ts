/**
 * The first `length` characters of a text that is longer, without the word that would be cut in two: half of a secret would
 * not be found.
 */
export function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text.slice(0, length).replace(/[^\s"'`,;:=(){}<>[\]]*$/, "")}…`;
}
