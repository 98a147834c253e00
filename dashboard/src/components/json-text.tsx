import { memo, type ReactElement, type ReactNode } from "react";
import { shortened, visibleOnPage } from "../../../src/core/text/visible-text.ts";

/** In characters: of longer texts the rest is left out. */
const longestText = 200_000;
/** Longer texts are not coloured. */
const mostColoured = 20_000;

/** A key, a string, a number or a literal. */
const token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/g;

/** JSON text in colours. It need not be whole. */
export const JsonText = memo(({ text }: { readonly text: string }): ReactElement => {
  return (
    <code className="break-words whitespace-pre-wrap">
      {coloured(visibleOnPage(shortened(text, longestText)))}
    </code>
  );
});
JsonText.displayName = "JsonText";

function coloured(text: string): ReactNode {
  if (text.length > mostColoured) return text;
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(token)) {
    const [whole, string, colon] = match;
    const colour = colon !== undefined ? "text-accent" : string !== undefined ? "text-pass" : "text-error";
    const shown = string ?? whole;
    parts.push(text.slice(end, match.index));
    parts.push(
      <span key={match.index} className={colour}>
        {shown}
      </span>,
    );
    end = match.index + shown.length;
  }
  parts.push(text.slice(end));
  return parts;
}
