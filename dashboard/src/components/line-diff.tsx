import { diffArrays } from "diff";
import type { ReactElement } from "react";
import { shortened, visibleOnPage } from "../../../src/base/visible-text.ts";

/** In characters: of longer texts the rest is left out. */
const maxShownText = 200_000;

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
      {linesOf(shortened(before, maxShownText), shortened(after, maxShownText)).map(
        ({ sign, text }, index) => (
          // oxlint-disable-next-line react/no-array-index-key
          <div key={index} className={looks[sign].style}>
            <span aria-hidden="true">{sign} </span>
            <span className="sr-only">{looks[sign].word}</span>
            {visibleOnPage(text)}
          </div>
        ),
      )}
    </pre>
  );
}

/** With more changed lines than this, all lines are shown as changed: to match them takes quadratic time. */
const maxChangedLines = 2000;

function linesOf(before: string, after: string): readonly Line[] {
  const [old, young] = [before.split("\n"), after.split("\n")];
  const changes = diffArrays(old, young, { maxEditLength: maxChangedLines }) ?? [
    { value: old, added: false, removed: true },
    { value: young, added: true, removed: false },
  ];
  return changes.flatMap(({ value, added, removed }) =>
    value.map((text): Line => ({ sign: added ? "+" : removed ? "-" : " ", text })),
  );
}
