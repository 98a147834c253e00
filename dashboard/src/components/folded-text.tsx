import { memo, type ReactElement, type ReactNode, useState } from "react";
import { type Base64Part, base64Parts } from "../../../src/base/base64.ts";
import { visibleOnPage } from "../../../src/base/visible-text.ts";
import { formatNumber } from "../format.ts";

/** In characters: more of what is folded is shown with each click. */
const partLength = 50_000;
/** In characters: a line that was cut off behind base64 may be its last one. */
const shortLine = 24;
/** Stands for what is folded. */
const mark = "\ufffc";

interface FoldProps {
  readonly part: Base64Part;
  readonly text: string;
  /** Whether there is more text than is known. */
  readonly isCut: boolean;
}

/** A text in which long base64 is folded. */
export interface Folded {
  /** The text with one character in the place of each fold. */
  readonly text: string;
  readonly folds: readonly (FoldProps & { readonly at: number })[];
}

export interface TextProps {
  readonly text: string;
  /** Whether more text follows. */
  readonly isCut?: boolean;
}

export function foldedBase64(text: string, isCut: boolean): Folded {
  const kept: string[] = [];
  let [end, length] = [0, 0];
  const folds = base64Parts(text).map((part) => {
    kept.push(text.slice(end, part.from), mark);
    length += part.from - end + 1;
    end = part.to;
    const whole = text.slice(part.from, part.to);
    return { at: length - 1, part, text: whole, isCut: isCut && text.length - part.to < shortLine };
  });
  return { text: kept.join("") + text.slice(end), folds };
}

/** A stretch of a folded text, by its places in the text with the marks. */
export function displayPart({ text, folds }: Folded, from: number, to: number): ReactNode {
  const inside = folds.filter(({ at }) => at >= from && at < to);
  if (inside.length === 0) return visibleOnPage(text.slice(from, to));
  let end = from;
  const nodes: ReactNode[] = [];
  for (const fold of inside) {
    nodes.push(visibleOnPage(text.slice(end, fold.at)), <Fold key={fold.at} {...fold} />);
    end = fold.at + 1;
  }
  return [...nodes, visibleOnPage(text.slice(end, to))];
}

/** Text of a server, a model or a task, in which long base64 is folded. */
export const FoldedText = memo(({ text, isCut = false }: TextProps): ReactElement => {
  const folded = foldedBase64(text, isCut);
  return <bdi>{displayPart(folded, 0, folded.text.length)}</bdi>;
});
FoldedText.displayName = "FoldedText";

/** Says what is folded, and shows it on demand. */
function Fold({ part: { mimeType, bytes }, text, isCut }: FoldProps): ReactElement {
  const [shown, setShown] = useState(0);
  const rest = text.length - shown;
  return (
    <>
      <button
        type="button"
        className="bg-raised text-accent rounded px-1.5 font-sans text-xs hover:underline"
        aria-expanded={shown > 0}
        onClick={() => setShown(shown === 0 ? partLength : 0)}
      >
        {shown === 0 ? "Show" : "Hide"} {isCut && "the beginning of "}base64
        {mimeType !== undefined && ` of ${mimeType}`}
        {!isCut && `, ${formatNumber(bytes)} bytes`}
      </button>
      {shown > 0 && <bdi className="break-all">{visibleOnPage(text.slice(0, shown))}</bdi>}
      {shown > 0 && rest > 0 && (
        <button
          type="button"
          className="text-accent font-sans text-xs hover:underline"
          onClick={() => setShown(shown + partLength)}
        >
          … Show more of it ({formatNumber(rest)} characters left)
        </button>
      )}
    </>
  );
}
