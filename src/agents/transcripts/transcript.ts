import type { Json } from "../../base/json.ts";
import { equalJson } from "../../expect/json-difference.ts";
import type { AtifRecord } from "../../model/atif.ts";
import type { ReportedVerdict } from "../../model/grade.ts";
import type { OutputEvent, ToolUse, WireObject } from "../programs/preset.ts";

/** What is known of one format of transcripts: the records that a program itself keeps of its sessions, and files of results. */
export interface TranscriptFormat {
  /** The program that writes it: its preset, if it has one; or the format, if many do. */
  readonly program: string;
  /** Where the program keeps them, for people. */
  readonly place: string;
  /** Whether an object, a line of the file or all of it, is of this format and of no other. */
  readonly recognises: (object: WireObject) => boolean;
  /** Creates the reader of one file. */
  readonly createReader: () => TranscriptReader;
  /**
   * What the name of a tool tells, where nothing else in the transcript does, given who acted; `unknown`: it may have that of a server before it. Absent,
   * undefined: a tool of the program's own.
   */
  readonly originIn?: (name: string, agent: string) => ToolUse["origin"] | "unknown";
  /** The tools that start a subagent. */
  readonly subagentTools: ReadonlySet<string>;
  /** Absolute paths of the files that have the parts of subagents of a session. Absent: its file has them, or nothing does. */
  readonly partsOf?: (file: string, session: string) => readonly TranscriptPart[];
}

/** The file of a subagent. */
export interface TranscriptPart {
  readonly file: string;
  /** The use of a tool that the subagent worked for. Absent: unknown. */
  readonly parentCallId?: string;
}

/** Reads the objects of one file in their order. */
export interface TranscriptReader {
  read(object: WireObject): readonly TranscriptEntry[];
  /** The entries that remain at the end of the file. */
  finish(): readonly TranscriptEntry[];
}

type Entry =
  | OutputEvent
  /** What the user says, which begins a turn; a `command` begins one only if the agent then does something. */
  | { readonly kind: "user"; readonly text: string; readonly isCommand?: true }
  /** Something about the transcript that whoever reads it has to know. */
  | { readonly kind: "remark"; readonly text: string }
  /** An object of a type that the reader does not know. */
  | { readonly kind: "unknown"; readonly type: string }
  /** A session begins. Absent: the file has one, of which no more is known. */
  | ({ readonly kind: "trial" } & TrialHead);

/** Who acted in a session, as far as its file says it. */
export function agentOf({
  format,
  head,
}: {
  readonly format: TranscriptFormat;
  readonly head: TrialHead;
}): string {
  return head.agent ?? format.program;
}

/** What a file says of a session besides what happened in it. */
export interface TrialHead {
  /** Who acted. Absent: the program of the format. */
  readonly agent?: string;
  /** The task, by its name. Absent: it had none. */
  readonly task?: string;
  /** What attempts of one task have in common in this file. Absent: it is the only one. */
  readonly attemptOf?: string;
  /** `unknown`: it does not say of uses of tools whether they failed. */
  readonly failures?: "unknown" | undefined;
  /** The verdict of the tool that ran it. */
  readonly reported?: ReportedVerdict;
  /** What mcpvals itself had on record, in the place of everything else. */
  readonly record?: AtifRecord;
}

/** What a transcript says, and when: milliseconds since the Unix epoch. Without a time: when the entry before it was. */
export type TranscriptEntry = Entry & {
  readonly at?: number | undefined;
  /** Of a use of a tool, if the transcript says how long it took, in milliseconds. */
  readonly durationMs?: number | undefined;
};

/** Entries with the time of what they were made of. */
export function entriesAt(at: number | undefined, entries: readonly Entry[]): readonly TranscriptEntry[] {
  return entries.map((entry) => ({ ...entry, at }));
}

/** Said where a program has replaced a part of the conversation by a summary. */
export const compacted =
  "the program compacted the conversation, so that the model did not see all of what is on record before";

/** Said where the program writes what a subagent does as a session of its own. */
export const ofSubagent = "it is the session of a subagent, whose user is another agent";

/** The agent of a session whose file does not name it. */
export const unknownAgent = "unknown";

/** Said of a session whose file does not have the words of its user. */
export const noPrompt: readonly TranscriptEntry[] = [
  { kind: "remark", text: "it does not have what the user said" },
];

/** Said where the user has gone back in the conversation. */
export const tookBack = "the user took turns back, which are on record all the same";

/** Said where a use of a tool has ended twice, in different ways: nobody knows which one is true. */
export const contradiction =
  "it contradicts itself about what a tool did: each of the two is on record as a use of its own";

/** Whether two entries say different things of one use of a tool; what only one of them says is no contradiction. */
export function contradicts(before: ToolUse, after: ToolUse): boolean {
  return (
    before.name !== after.name ||
    before.status !== after.status ||
    differs(before.args, after.args) ||
    differs(before.result, after.result)
  );
}

function differs(one: Json | undefined, other: Json | undefined): boolean {
  return one !== undefined && other !== undefined && !equalJson(one, other);
}

/** A time from a transcript: ISO 8601, or milliseconds since the Unix epoch. */
export function timeOf(value: unknown): number | undefined {
  const time = typeof value === "string" ? Date.parse(value) : value;
  return typeof time === "number" && Number.isFinite(time) && Math.abs(time) <= 8.64e15 ? time : undefined;
}

/** The text of a list of parts, as one text; other parts than texts are named in brackets. */
export function textOfParts(parts: readonly WireObject[]): string {
  return parts
    .flatMap((part) => {
      if (typeof part["text"] === "string") return [part["text"]];
      return typeof part["type"] === "string" ? [`[${part["type"]}]`] : [];
    })
    .join("\n")
    .trim();
}
