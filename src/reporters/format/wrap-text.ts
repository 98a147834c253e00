import { displayWidth, splitAtWidth } from "./display-width.ts";

/** Breaks a line at spaces so that no piece is wider than `width` columns; words that are longer are cut. */
export function wrapText(line: string, width: number): string[] {
  if (line.length * 2 <= width || displayWidth(line) <= width) return [line];
  const room = Math.max(width, 8);
  const pieces: string[] = [];
  let rest = line;
  while (displayWidth(rest) > room) {
    const [head, tail] = splitAtWidth(rest, room);
    const space = tail.startsWith(" ") ? head.length : head.lastIndexOf(" ");
    const indent = rest.length - rest.trimStart().length;
    const end = space > indent ? space : head.length;
    pieces.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).trimStart();
  }
  return rest === "" ? pieces : [...pieces, rest];
}
