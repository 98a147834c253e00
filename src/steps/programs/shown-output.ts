import type { KeptText } from "../../process/program-output.ts";

/** Shown of the end of a text, in characters. */
const tailCharacters = 2000;

/** The end of a text, without the line ends after it. */
export function tailOf(text: string, characters: number = tailCharacters): string {
  const trimmed = text.trimEnd();
  return trimmed.length <= characters ? trimmed : `…${trimmed.slice(-characters)}`;
}

/** The ends of what a program wrote, for the detail of an error; empty when it wrote nothing. */
export function shownOutput(output: { readonly stdout: KeptText; readonly stderr: KeptText }): string {
  return (["stdout", "stderr"] as const)
    .map((stream) => [stream, tailOf(output[stream].text)] as const)
    .filter(([, tail]) => tail !== "")
    .map(([stream, tail]) => `${stream}:\n${tail}`)
    .join("\n");
}

/** A text without the line ends after its last line. */
export function withoutLineEnd(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end -= text[end - 2] === "\r" ? 2 : 1;
  return text.slice(0, end);
}
