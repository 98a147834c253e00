import { filledText } from "../formats/config/config-fields.ts";
import { type EventOf, eventsOf, type WorkspaceFile } from "../trace/events.ts";
import type { Trajectory } from "../trace/trajectory.ts";

/** A path in the workspace; by its shape it stays inside. */
export const workspacePath = filledText.refine(
  (path) => !/^[/\\]|^[A-Za-z]:|\0/.test(path) && !path.split(/[/\\]/).includes(".."),
  { error: "must be a path inside the workspace, relative to it" },
);

type Recorded = EventOf<"workspace.files">;

/** What was recorded of a name. Throws for one that the trial did not look at. */
export function recordedFiles({ events }: Trajectory, name: string): Recorded {
  const found = eventsOf(events, "workspace.files").findLast((event) => event.name === name);
  if (found !== undefined) return found;
  throw new Error(
    events.some(({ type }) => type === "workspace.created")
      ? `the record does not say what ${JSON.stringify(name)} was`
      : "the trial had no workspace: only those of tasks and of agent programs have one",
  );
}

/** Why a name stands for no file, or for nothing that counts as there; undefined: it does. */
export function whyAbsent({ name, files, incomplete }: Recorded): string | undefined {
  if (files.some(isThere)) return undefined;
  const [found] = files;
  if (found?.kind === "link") return `${found.path} is a link that leads to nothing in the workspace`;
  if (found !== undefined) return `${found.path} is neither a readable file nor a folder`;
  return `${name} is not there${incomplete === undefined ? "" : `, as far as it is known: ${incomplete}`}`;
}

export function isThere({ kind }: WorkspaceFile): boolean {
  return kind === "file" || kind === "folder";
}

/** The text of a file, or why it is not known. */
export function textOf({ path, kind, size = 0, text }: WorkspaceFile): { text: string } | { why: string } {
  if (text !== undefined) return { text };
  if (kind !== "file") return { why: `${path} is no readable file` };
  return { why: `${path} (${size} bytes) is too large to look into, or no UTF-8 text` };
}
