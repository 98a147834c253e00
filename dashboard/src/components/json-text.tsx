import { memo, type ReactElement, type ReactNode } from "react";
import { visibleOnPage } from "../../../src/core/text/visible-text.ts";

/** Longer texts are not coloured. */
const mostColoured = 20_000;

/** A key, a string, a number or a literal. */
const token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/g;

/** JSON text as it is, in colours. It need not be whole. */
export const JsonText = memo(({ text }: { readonly text: string }): ReactElement => {
  return <code className="break-words whitespace-pre-wrap">{coloured(visibleOnPage(text))}</code>;
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
