import type { ReactElement } from "react";
import { commonSequence } from "../../../src/expect/json-difference.ts";
import { shortened, visibleOnPage } from "../../../src/base/visible-text.ts";

/** In characters: of longer texts the rest is left out. */
const longestText = 200_000;

interface Line {
  readonly sign: " " | "-" | "+";
  readonly text: string;
}

const looks = {
  " ": { style: "", word: "" },
  "-": { style: "bg-fail-soft text-fail", word: "removed: " },
  "+": { style: "bg-pass-soft text-pass", word: "added: " },
} as const;

/** Two texts as one, with the lines that were removed and those that were added. */
export function LineDiff({
  before,
  after,
}: {
  readonly before: string;
  readonly after: string;
}): ReactElement {
  return (
    <pre className="break-words whitespace-pre-wrap">
      {linesOf(shortened(before, longestText), shortened(after, longestText)).map(({ sign, text }, index) => (
        // oxlint-disable-next-line react/no-array-index-key
        <div key={index} className={looks[sign].style}>
          <span aria-hidden="true">{sign} </span>
          <span className="sr-only">{looks[sign].word}</span>
          {visibleOnPage(text)}
        </div>
      ))}
    </pre>
  );
}

/** Comparing each line with each takes long for more pairs. */
const mostPairs = 4_000_000;

function linesOf(before: string, after: string): readonly Line[] {
  const [old, young] = [before.split("\n"), after.split("\n")];
  const common = old.length * young.length > mostPairs ? [] : commonSequence(old, young, (a, b) => a === b);
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  for (const [nextOld, nextYoung] of [...common, [old.length, young.length] as const]) {
    for (; i < nextOld; i += 1) lines.push({ sign: "-", text: old[i] ?? "" });
    for (; j < nextYoung; j += 1) lines.push({ sign: "+", text: young[j] ?? "" });
    if (i < old.length && j < young.length) lines.push({ sign: " ", text: old[i] ?? "" });
    i += 1;
    j += 1;
  }
  return lines;
}
