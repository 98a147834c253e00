import type { ReactElement } from "react";
import type { GraderRow, RunDocument } from "../../../../src/core/view/documents.ts";
import { type Column, DataTable } from "../../components/data-table.tsx";
import { Count, Nothing } from "../../components/numbers.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { formatPercent } from "../../format.ts";
import { useShownRun } from "./layout.tsx";

/** What graders said of all trials, and how far judges can be trusted. */
export function GradersView(): ReactElement {
  const { graders, judges = [] } = useShownRun();
  if (graders.length === 0)
    return <EmptyState title="No grader gave a grade">Grades appear when trials have ended.</EmptyState>;
  return (
    <>
      <Section title="Graders">
        <DataTable label="Graders" rows={graders} columns={graderColumns} rowKey={({ grader }) => grader} />
      </Section>
      {judges.length > 0 && (
        <Section title="Judges">
          <DataTable
            label="Judges"
            rows={judges}
            columns={judgeColumns}
            rowKey={(judge) => JSON.stringify([judge.grader, judge.model, judge.prompt, judge.votes])}
          />
        </Section>
      )}
    </>
  );
}

const verdictNames = { pass: "Pass", fail: "Fail", error: "Error", skip: "Skipped" } as const;

const graderColumns: readonly Column<GraderRow>[] = [
  {
    id: "grader",
    title: "Grader",
    cell: ({ grader }) => <PlainText text={grader} hasTitle className="font-medium" />,
  },
  ...(["pass", "fail", "error", "skip"] as const).map((verdict): Column<GraderRow> => ({
    id: verdict,
    title: verdictNames[verdict],
    cell: (row) => <Count value={row[verdict]} />,
    align: "right",
    className: verdict === "pass" || verdict === "fail" ? "w-18 max-sm:w-12" : "w-18 max-sm:hidden",
  })),
  {
    id: "score",
    title: "Score",
    cell: ({ score }) => (score === undefined ? <Nothing /> : formatPercent(score)),
    align: "right",
    className: "w-24",
  },
];

type Judge = NonNullable<RunDocument["judges"]>[number];

const judgeColumns: readonly Column<Judge>[] = [
  {
    id: "grader",
    title: "Grader",
    cell: ({ grader }) => <PlainText text={grader} hasTitle className="font-medium" />,
  },
  { id: "model", title: "Model", cell: ({ model }) => <PlainText text={model} hasTitle /> },
  {
    id: "graded",
    title: "Passed",
    cell: ({ passed, graded }) => `${passed} of ${graded}`,
    align: "right",
    className: "w-24",
  },
  {
    id: "votes",
    title: "Votes",
    cell: ({ votes }) => <Count value={votes} />,
    align: "right",
    className: "w-16 max-sm:hidden",
  },
  {
    id: "agreement",
    title: "Agreement with people",
    cell: ({ calibration }) =>
      calibration === null
        ? "uncalibrated"
        : calibration.agreement === undefined
          ? "unknown"
          : formatPercent(calibration.agreement.value),
    align: "right",
    className: "w-44",
  },
  {
    id: "corrected",
    title: "Corrected rate",
    cell: ({ correctedRate }) =>
      correctedRate === undefined ? <Nothing /> : formatPercent(correctedRate.value),
    align: "right",
    className: "w-28 max-md:hidden",
  },
];
