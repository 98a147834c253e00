/**
 * A text of at most so many characters, or so many of it and `…`. That tells a reader that something is missing, and what
 * removes secrets that one may have been cut in two.
 */
export function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most).toWellFormed()}…`;
}
