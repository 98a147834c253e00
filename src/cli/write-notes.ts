import type { LoadedConfig } from "../config/load-config.ts";
import { visibleText } from "../core/text/visible-text.ts";
import { createRedactor } from "../core/trace/redact.ts";
import { writeError } from "./terminal.ts";

/** Tells on stderr what is valid in a config but does not do what its author may think. */
export function writeNotes({ notes, secrets }: Pick<LoadedConfig, "notes" | "secrets">): void {
  const redact = createRedactor(secrets);
  for (const note of notes) writeError(visibleText(`note: ${redact(note)}`));
}
