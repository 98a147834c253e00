import type { Document } from "yaml";
import type { Expressions, TextPlace } from "../../core/formats/legacy-task/expressions.ts";
import type { Alias, RawStep } from "../../core/formats/legacy-task/raw-step.ts";
import { withoutExpression, withoutNeedlessEscapes } from "./migrate-text.ts";
import { type AnyMap, commentOn } from "./yaml-edit.ts";

/** A step of the file, as it will be written. */
export interface StepSite {
  readonly raw: RawStep;
  /** The item of the list, `TYPE: BODY`. */
  readonly item: AnyMap;
  readonly body: AnyMap;
}

/** What the parts of one migration share. Lives while a file is rewritten. */
export class Migration {
  readonly document: Document;
  readonly expressions: Expressions;
  readonly aliases: ReadonlyMap<string, Alias>;
  /** The text of a file beside the task; undefined when there is none. */
  readonly read: (file: string) => string | undefined;
  /** Where extensions come from, by their names in the Eval. */
  readonly packages: ReadonlyMap<string, string>;
  readonly notes: string[] = [];
  readonly sites: StepSite[] = [];
  /** Variables of the shell that scripts cannot do without. */
  readonly variables = new Set<string>();
  /** Those that they use when they are there. */
  readonly optional = new Set<string>();

  constructor(parts: Pick<Migration, "document" | "expressions" | "aliases" | "read" | "packages">) {
    this.document = parts.document;
    this.expressions = parts.expressions;
    this.aliases = parts.aliases;
    this.read = parts.read;
    this.packages = parts.packages;
  }

  /** What the agent is told, in the new writing. */
  prompt = "";

  /** Rewrites a template. Only the older forms have `{agent.prompt}`: the prompt itself takes its place. */
  translate(text: string, place: TextPlace): string {
    const translated = withoutNeedlessEscapes(this.expressions.text(text, place));
    return withoutExpression(translated, "{agent.prompt}", this.prompt);
  }

  /** Says what could not be kept of a step: as a comment before it, and as a note. */
  lose({ item, raw }: Pick<StepSite, "item" | "raw">, text: string): void {
    commentOn(item, `migrated: ${text}`);
    this.notes.push(`${placeOf(raw)}: ${text}`);
  }

  /** Tells of something odd that makes no difference. */
  note({ raw }: Pick<StepSite, "raw">, text: string): void {
    this.notes.push(`${placeOf(raw)}: ${text}`);
  }
}

function placeOf({ path }: RawStep): string {
  return path
    .map((part, index) => (typeof part === "number" ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join("");
}
