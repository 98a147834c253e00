import * as z from "zod";
import type { Json } from "../base/json.ts";
import { errorSchema, type SerializedError } from "../base/serialized-error.ts";
import type { EventBody, EventOf } from "./event.ts";
import { anyJson, text } from "./fields.ts";

/** Which side of a run is replayed. */
export type ReplaySide = "servers" | "models";

/** Recordings that a run writes, or takes the place of servers and models from. */
export interface RecordReplayOptions {
  /** Folder that gets a recording of each trial. */
  readonly record?: string;
  /** Folder of recordings, and what is replayed from it. */
  readonly replay?: { readonly folder: string; readonly sides: readonly ReplaySide[] };
}

/** The version of the format of recordings. */
export const recordingVersion = 1;

/** Which trial a recording is of; the first line of its file. */
export interface RecordingHead {
  readonly recording: typeof recordingVersion;
  /** Version of mcpvals. */
  readonly mcpvals: string;
  readonly task: string;
  /** Null for a tool test. */
  readonly agent: string | null;
  readonly variant?: string;
  readonly attempt: number;
  /** Random values of its templates, by name. */
  readonly values: Readonly<Record<string, string>>;
}

/** What became of a file or folder of the workspace; `path` is relative, with slashes. */
export type FileChange =
  | { readonly path: string; readonly gone: true }
  | { readonly path: string; readonly folder: true }
  | { readonly path: string; readonly mode: number; readonly text: string }
  | { readonly path: string; readonly mode: number; readonly base64: string };

/** What a server did or was sent, as the event of it. */
export interface ServerEvent {
  /** Number of events before it in the trial that no server caused. */
  readonly after: number;
  /** Milliseconds since the first event of the trial. */
  readonly at: number;
  readonly event: Extract<EventBody, { readonly server: string }>;
  /** Of an answer: what was changed in the workspace before it came. */
  readonly files?: readonly FileChange[];
}

/** A request to a model, and what became of it: an answer, or the error that ended all attempts. */
export interface ModelExchange {
  readonly purpose: EventOf<"model.called">["purpose"];
  readonly model: string;
  readonly request: Json;
  /** What was recorded meanwhile, such as refusals and tokens. */
  readonly events: readonly EventBody[];
  readonly answer?: Json;
  readonly error?: SerializedError;
}

/** One of the other lines of a file. */
export type RecordingLine = { readonly server: ServerEvent } | { readonly model: ModelExchange };

/** All that came from servers and models in one trial. */
export interface Recording {
  readonly head: RecordingHead;
  readonly servers: readonly ServerEvent[];
  readonly models: readonly ModelExchange[];
}

export const recordingHead: z.ZodType<RecordingHead> = z.strictObject({
  recording: z.literal(recordingVersion),
  mcpvals: text,
  task: text,
  agent: text.nullable(),
  variant: text.exactOptional(),
  attempt: z.int().min(1),
  values: z.record(text, text),
});

// The events themselves are not validated: a damaged one has no place in a replay, and is reported as what was not recorded.
const isEvent = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
const eventBody = z.custom<EventBody>(isEvent, { error: "is no event" });
const serverEvent = z.custom<ServerEvent["event"]>(
  (value) => isEvent(value) && typeof (value as { server?: unknown }).server === "string",
  { error: "is no event of a server" },
);

const mode = z.int().min(0).max(0o777);
const fileChange = z.union([
  z.strictObject({ path: text, gone: z.literal(true) }),
  z.strictObject({ path: text, folder: z.literal(true) }),
  z.strictObject({ path: text, mode, text }),
  z.strictObject({ path: text, mode, base64: text }),
]);

export const recordingLine: z.ZodType<RecordingLine> = z.union([
  z.strictObject({
    server: z.strictObject({
      after: z.int().min(0),
      at: z.number().min(0),
      event: serverEvent,
      files: z.array(fileChange).exactOptional(),
    }),
  }),
  z.strictObject({
    model: z.strictObject({
      purpose: z.enum(["agent", "judge", "user"]),
      model: text,
      request: anyJson,
      events: z.array(eventBody),
      answer: anyJson.exactOptional(),
      error: errorSchema.exactOptional(),
    }),
  }),
]);
