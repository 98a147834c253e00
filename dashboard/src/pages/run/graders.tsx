import type { ReactElement } from "react";
import type { GraderRow, RunDocument } from "../../../../src/report/documents/documents.ts";
import { type Column, DataTable, numberColumn } from "../../components/data-table.tsx";
import { Count, Percent } from "../../components/numbers.tsx";
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
  ...(["pass", "fail", "error", "skip"] as const).map((verdict) =>
    numberColumn<GraderRow>({
      id: verdict,
      title: verdictNames[verdict],
      value: (row) => row[verdict],
      as: Count,
      width: 4.5,
    }),
  ),
  {
    id: "required",
    title: "Required",
    cell: ({ notRequired, pass, fail, error, skip }) => {
      const all = pass + fail + error + skip;
      return notRequired === 0 ? "yes" : notRequired === all ? "no" : `${all - notRequired} of ${all}`;
    },
    width: 5,
  },
  {
    id: "weight",
    title: "Weight",
    cell: ({ weights }) => weights.join(", "),
    align: "right",
    width: 4.5,
  },
  numberColumn({ id: "score", title: "Mean score", value: ({ score }) => score, as: Percent, width: 6 }),
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
    width: 6,
  },
  numberColumn({ id: "votes", title: "Votes", value: ({ votes }) => votes, as: Count, width: 4 }),
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
    width: 11,
  },
  numberColumn({
    id: "corrected",
    title: "Corrected rate",
    value: ({ correctedRate }) => correctedRate?.value,
    as: Percent,
    width: 7,
  }),
];
