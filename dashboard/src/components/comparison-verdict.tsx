import type { ReactElement } from "react";
import type { Statement } from "../../../src/model/comparison.ts";
import { PlainText } from "./plain-text.tsx";
import { tones } from "./verdict-badge.tsx";

/** What is said of a comparison or a decision: its verdict, in a column of its own, and the sentences with the numbers. */
export function Statements({
  statements,
}: {
  readonly statements: readonly { readonly verdict: StatementVerdict; readonly text: string }[];
}): ReactElement {
  return (
    <ul className="space-y-1.5">
      {statements.map(({ verdict, text }) => (
        <li key={text} className="grid gap-x-3 sm:grid-cols-[6rem_1fr]">
          <span className="py-0.5">
            <span
              className={`inline-block rounded-md px-1.5 py-0.5 text-xs font-medium ${tones[toneOfVerdict[verdict]].soft}`}
            >
              {verdict}
            </span>
          </span>
          <PlainText text={text} className="max-w-prose min-w-0 break-words sm:max-w-[90ch]" />
        </li>
      ))}
    </ul>
  );
}

type StatementVerdict = Statement["verdict"] | "met" | "missed";

/** Only what is shown to be better is good; what is undecided never is. */
const toneOfVerdict: Readonly<Record<StatementVerdict, keyof typeof tones>> = {
  better: "pass",
  met: "pass",
  worse: "fail",
  missed: "fail",
  equivalent: "active",
  undecided: "error",
};
