import type { ReactElement } from "react";
import type { ComparisonDocument, Statement, ComparedDocument } from "../../../src/model/comparison.ts";
import { counted } from "../format.ts";
import { PlainText } from "./plain-text.tsx";
import { tones } from "./verdict-badge.tsx";
import { taskId } from "../../../src/report/rates.ts";
import { headline, nothingCommon, toolLines } from "../../../src/report/documents/statements.ts";

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

/** How many tasks these are, of which some stand there with several agents or variants. */
function numberOf(parts: ComparedDocument["tasks"]): number {
  return new Set(parts.map(taskId)).size;
}

/** What is said of one side and the first, as `mcpvals compare` does. */
export function Said({
  comparison,
  compared,
}: {
  readonly comparison: ComparisonDocument;
  readonly compared: ComparedDocument;
}): ReactElement {
  const { statements, notes, tasks } = compared;
  const [toolsTitle, ...tools] = toolLines(compared);
  const single = numberOf(tasks.filter(({ first, second }) => first === undefined || second === undefined));
  const changed = numberOf(tasks.filter((task) => task.changed === true));
  const more = [
    ...notes,
    ...(single === 0 ? [] : [`${counted(single, "task is", "tasks are")} on one side only.`]),
    ...(changed === 0
      ? []
      : [`${counted(changed, "task is", "tasks are")} not the same on both sides, and not compared.`]),
  ];
  return (
    <div className="space-y-2 px-3 py-2.5">
      <h3 className="font-medium break-words">
        <PlainText text={headline(comparison, compared)} />
      </h3>
      {more.map((note) => (
        <p key={note} className="text-muted">
          <PlainText text={note} />
        </p>
      ))}
      {statements.length === 0 ? (
        <p>{nothingCommon}</p>
      ) : (
        <Statements
          statements={statements.map(({ verdict, text, changes = "" }) => ({
            verdict,
            text: `${text} ${changes}`.trimEnd(),
          }))}
        />
      )}
      {toolsTitle !== undefined && (
        <div>
          <p>{toolsTitle}</p>
          <ul className="list-disc pl-5">
            {tools.map((line) => (
              <li key={line}>
                <PlainText text={line} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
