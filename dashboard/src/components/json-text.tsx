import { Fragment, memo, type ReactElement, type ReactNode } from "react";
import { shortened } from "../../../src/base/visible-text.ts";
import { type Folded, foldedBase64, displayPart, type TextProps } from "./folded-text.tsx";

/** In characters: of longer texts the rest is left out. */
const maxShownText = 200_000;
/** Longer texts are not coloured. */
const maxColoured = 20_000;

/** A key, a string, a number or a literal. */
const token = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null)\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/g;

/** JSON text in colours, in which long base64 is folded. It need not be whole. */
export const JsonText = memo(({ text, isCut = false }: TextProps): ReactElement => {
  const { text: whole, folds } = foldedBase64(text, isCut);
  const folded = { text: shortened(whole, maxShownText), folds };
  return <code className="break-words whitespace-pre-wrap">{coloured(folded)}</code>;
});
JsonText.displayName = "JsonText";

function coloured(folded: Folded): ReactNode {
  const { text } = folded;
  if (text.length > maxColoured) return displayPart(folded, 0, text.length);
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(token)) {
    const [whole, string, colon] = match;
    const colour = colon !== undefined ? "text-accent" : string !== undefined ? "text-pass" : "text-error";
    const next = match.index + (string ?? whole).length;
    parts.push(
      <Fragment key={match.index}>
        {displayPart(folded, end, match.index)}
        <span className={colour}>{displayPart(folded, match.index, next)}</span>
      </Fragment>,
    );
    end = next;
  }
  return [...parts, <Fragment key={end}>{displayPart(folded, end, text.length)}</Fragment>];
}
