import type { Locate } from "../../core/formats/problem.ts";
import type { SourceText } from "./source-text.ts";

/** A config as it was read, before anything is known of what it should hold. */
export interface ConfigDocument {
  /** JSON when it came from JSON or YAML; anything at all when a program made it. */
  readonly value: unknown;
  readonly locate: Locate;
  /** Absent when a program made the value, so that no text stands for its parts. */
  readonly source?: SourceText;
  /** What a lenient reading changed: one sentence each, with the place. */
  readonly notes?: readonly string[];
}
