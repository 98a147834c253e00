import { readdir, realpath, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { readTranscript, type Transcript } from "./read-transcript.ts";
import { transcriptFormats } from "./transcripts.ts";

export interface FindOptions {
  /** Absolute path of the folder that paths are relative to. */
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** Called with a sentence about a file of a folder that is left out. */
  readonly onLeftOut: (message: string) => void;
}

/**
 * Reads transcripts: the files that are named, and those in the folders that are named and below. Each file is read once. What cannot be read in a
 * folder is left out, and so are sessions in which nothing happened, which Gemini CLI leaves behind when it resumes another one. Throws McpvalsError
 * `transcript/unknown-format` for a file that is none and a folder without any, `transcript/unreadable`, and the signal's reason.
 */
export async function* readTranscripts(
  paths: readonly string[],
  { cwd, signal, onLeftOut }: FindOptions,
): AsyncGenerator<Transcript> {
  const seen = new Set<string>();
  const isNew = (file: string): boolean => !seen.has(file) && seen.add(file) !== undefined;
  for (const path of paths) {
    const { place, isFolder } = await look(resolve(cwd, path));
    if (!isFolder) {
      if (!isNew(place)) continue;
      const { sessions, problem } = await readTranscript(place, signal);
      if (sessions.length === 0)
        throw unknownFormat(
          `${path} is no transcript that mcpvals knows${problem === undefined ? "" : `: ${problem}`}`,
        );
      yield* sessions;
      continue;
    }
    let found = 0;
    for await (const file of filesIn(place)) {
      signal.throwIfAborted();
      if (!isNew(file)) {
        found += 1;
        continue;
      }
      const read = await readTranscript(file, signal).catch((error: unknown) => {
        if (!(error instanceof McpvalsError) || signal.aborted) throw error;
        onLeftOut(error.message);
      });
      for (const session of read?.sessions ?? []) {
        if (!hasContent(session)) {
          onLeftOut(`a session in ${file} is left out: nobody said or did anything in it`);
          continue;
        }
        found += 1;
        yield session;
      }
    }
    if (found === 0)
      throw unknownFormat(
        `the folder ${path} has no transcript that mcpvals knows in which anything happened`,
      );
  }
}

/** What a program writes of a session in which nothing happens. */
const idle: readonly string[] = ["session", "remark", "ran", "usage", "note", "end", "complete"];

/** Whether anybody said or did something in a session, or a part of it could not be read. */
function hasContent({ entries, damage }: Transcript): boolean {
  return damage !== undefined || entries.some(({ kind }) => !idle.includes(kind));
}

async function look(path: string): Promise<{ readonly place: string; readonly isFolder: boolean }> {
  try {
    const place = await realpath(path);
    return { place, isFolder: (await stat(place)).isDirectory() };
  } catch (cause) {
    throw new McpvalsError(
      "transcript/unreadable",
      `the transcript ${path} cannot be read: ${messageOf(cause)}`,
      { cause },
    );
  }
}

/** The files below a folder that may be transcripts, in the order of their names. Links are not followed, and files of subagents are left to their sessions. */
async function* filesIn(folder: string): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((cause: unknown) => {
    throw new McpvalsError(
      "transcript/unreadable",
      `the folder ${folder} cannot be read: ${messageOf(cause)}`,
      { cause },
    );
  });
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && entry.name !== "subagents") yield* filesIn(path);
    if (entry.isFile() && /\.jsonl?$/.test(entry.name) && !/^agent-.*\.jsonl$/.test(entry.name)) yield path;
  }
}

function unknownFormat(message: string): McpvalsError {
  const places = transcriptFormats.map(({ program, place }) => `${program}: ${place}`).join("; ");
  return new McpvalsError("transcript/unknown-format", message, { hint: `Transcripts are, of ${places}.` });
}
