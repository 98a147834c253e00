import type { ValidateSchema } from "../checks/tool-result.ts";
import type { Json } from "../formats/json.ts";
import type { CheckView } from "./check-view.ts";
import type { ClientEffects, FindingPlace, Severity } from "./finding.ts";

/** One thing that a rule found; its severity, and what to do unless it says, are those of the rule. */
export interface Found {
  /** Absent: it is about the whole server. */
  readonly place?: FindingPlace;
  /** What is wrong, in one sentence, with the value that is wrong. */
  readonly message: string;
  /** Numbers of the events that show it. */
  readonly evidence: readonly number[];
  /** What known clients do with it; absent: it concerns every client. */
  readonly clients?: ClientEffects;
  /** What to do, where the rule's general advice can be made more exact. */
  readonly fix?: string;
}

/** The outside world as rules see it. */
export interface RuleContext {
  /** Throws {@link OutOfTime} where the schemas of a server take too long, which ends the rule. */
  readonly validateSchema: ValidateSchema;
  /** Codes of the rules that were ended before. */
  readonly outOfTime?: readonly string[];
  /** Schemas that earlier rules could not validate within a limit of mcpvals, with the reason. */
  readonly notValidated?: ReadonlyMap<Json, string>;
}

/** The time for validating what a server declares is spent. */
export class OutOfTime extends Error {}

/** A kind of defect of a server: its check and its documentation (docs/reference/findings.md) in one record. */
export interface Rule {
  readonly severity: Severity;
  /** What is wrong, without the particulars: the heading of its documentation. */
  readonly title: string;
  /** Why it matters to clients and agents. */
  readonly why: string;
  /** What to do. */
  readonly fix: string;
  /** A short example with the defect, and the same without it. */
  readonly bad: string;
  readonly good: string;
  /** What the rule rests on: a section of a specification, or a public issue as OWNER/REPOSITORY#NUMBER. */
  readonly source: string;
  find(view: CheckView, context: RuleContext): Iterable<Found> | AsyncIterable<Found>;
}

/** Rules by their codes, `GROUP/NAME`. */
export type RuleTable = Readonly<Record<string, Rule>>;
