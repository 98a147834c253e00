import type { ReactElement, ReactNode } from "react";
import { visibleOnPage } from "../../../src/base/visible-text.ts";
import { counted, formatNumber } from "../format.ts";
import { EmptyState } from "./states.tsx";

/** Filters of a list, and how many entries they leave. */
export function FilterBar({
  noun,
  shown,
  all,
  children,
}: {
  /** What an entry is. */
  readonly noun: string;
  readonly shown: number;
  readonly all: number;
  readonly children: ReactNode;
}): ReactElement {
  return (
    <search aria-label={`Filter ${noun}s`} className="mb-3 flex flex-wrap items-center gap-2">
      {children}
      <output className="text-muted">
        {shown === all ? counted(all, noun) : `${formatNumber(shown)} of ${counted(all, noun)}`}
      </output>
    </search>
  );
}

/** Says that the filters leave nothing, and takes them away. */
export function NoMatch({
  noun,
  onReset,
}: {
  readonly noun: string;
  readonly onReset: () => void;
}): ReactElement {
  return (
    <EmptyState title={`No ${noun} matches the filters`}>
      <button type="button" className="control" onClick={onReset}>
        Show all {noun}s
      </button>
    </EmptyState>
  );
}

export function TextFilter({
  label,
  value,
  onChange,
}: {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}): ReactElement {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      className="control w-64 max-w-full grow sm:grow-0"
      value={value ?? ""}
      onChange={({ target }) => onChange(target.value === "" ? undefined : target.value)}
    />
  );
}

export interface Choice {
  readonly value: string;
  readonly title?: string;
}

/** One of some values, or all. */
export function ChoiceFilter({
  label,
  all,
  choices,
  value,
  onChange,
}: {
  readonly label: string;
  /** What the choice of all is called. */
  readonly all: string;
  readonly choices: readonly Choice[];
  readonly value: string | undefined;
  readonly onChange: (value: string | undefined) => void;
}): ReactElement {
  return (
    <select
      aria-label={label}
      className="control max-w-64"
      value={value ?? ""}
      onChange={({ target }) => onChange(target.value === "" ? undefined : target.value)}
    >
      <option value="">{all}</option>
      {choices.map((choice) => (
        <option key={choice.value} value={choice.value}>
          {visibleOnPage(choice.title ?? choice.value)}
        </option>
      ))}
    </select>
  );
}
