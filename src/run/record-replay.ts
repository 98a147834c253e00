import { relative, resolve } from "node:path";
import { RecordedModels, ReplayedModels, type TrialModels, trialModels } from "../agents/models/exchanges.ts";
import { McpvalsError } from "../base/error.ts";
import { exact } from "../base/json.ts";
import { version } from "../base/version.ts";
import type { Emit, EventBody, TraceEvent } from "../model/event.ts";
import type { Plan, Trial } from "../model/plan.ts";
import type { TrialResult } from "../model/result.ts";
import {
  type FileChange,
  type RecordingHead,
  recordingVersion,
  type RecordReplayOptions,
  type ReplaySide,
} from "../model/recording.ts";
import type { ServerHost } from "../servers/connections/host.ts";
import {
  ReplayClock,
  ReplayedServers,
  type ReplayOptions,
  serverEventsOf,
} from "../servers/replay/replayed-servers.ts";
import type { TrialRun } from "./trial-state.ts";
import { WorkspaceChanges } from "../servers/replay/workspace-changes.ts";
import type { ServeRequest } from "../servers/server-pool.ts";
import { readRecordings, type StoredRecording, writeRecording } from "../store/recordings.ts";
import { MarkedTexts } from "../servers/replay/marked-texts.ts";
import type { Redact } from "../trace/redact.ts";

/** One trial of a run that is recorded or replayed. */
export interface TrialRecording {
  /** Has to be used for all that the trial records. */
  emitting(emit: Emit): Emit;
  /** The time of the trial, as `performance.now()`. */
  readonly now: () => number;
  readonly ownValue: NonNullable<TrialRun["ownValue"]>;
  /** Runs a part of the trial, in whose course models may be asked. */
  readonly within: <T>(work: () => Promise<T>) => Promise<T>;
  /** To be called with all events of the trial; one without a verdict is not recorded. Throws `store/unwritable`. */
  end(events: readonly TraceEvent[], verdict: TrialResult["verdict"]): void;
}

interface ReplayedTrial {
  readonly values: RecordingHead["values"];
  readonly servers: ReplayedServers | undefined;
  readonly models: ReplayedModels | undefined;
}

/** The workspace of a trial that is recorded, and what its servers change there. */
class TrialFolder {
  path = "";
  /** By the number of the answer before which they were made. */
  readonly changes = new Map<number, readonly FileChange[]>();
  readonly #redact: Redact;
  #watched: WorkspaceChanges | undefined;
  #problem: string | undefined;

  constructor(redact: Redact) {
    this.#redact = redact;
  }

  /** Why a recording would lack something. */
  get problem(): string | undefined {
    return this.#problem ?? this.#watched?.problem;
  }

  /** Looks for changes, at once: an answer is recorded before its client gets it. */
  look(event: EventBody, seq: number): void {
    if (this.path === "") return;
    this.#watched ??= new WorkspaceChanges(this.path);
    const isAnswer = event.type === "mcp.message" && event.direction === "server-to-client";
    // What steps and agent programs change is not the servers' work. A request of a client in this process may be recorded when the server
    // has begun already.
    const isOther =
      event.type === "step.finished" || (event.type === "mcp.message" && event.client !== undefined);
    if (!isAnswer && isOther) this.#watched.forget();
    if (!isAnswer) return;
    const files = this.#watched.take();
    if (files.length > 0) this.changes.set(seq, this.#redact.fromOutside(files));
    const secret = files.find(
      (file) =>
        "base64" in file && !this.#redact.isClean(Buffer.from(file.base64, "base64").toString("latin1")),
    );
    if (secret !== undefined)
      this.#problem ??= `a server wrote a secret into ${secret.path}, which is no text`;
  }
}

/** Records the trials of a run, or replays them. */
export class RecordReplay {
  readonly #options: RecordReplayOptions;
  readonly #redact: Redact;
  readonly #stored: readonly StoredRecording[];
  readonly #cwd: string;
  readonly #used = new Set<StoredRecording>();
  /** By the ids of trials. */
  readonly #servers = new Map<string, ReplayedServers>();
  readonly #notes: string[] = [];

  /** Reads the recordings. Throws McpvalsError `replay/unreadable`. */
  constructor(
    options: RecordReplayOptions,
    { cwd, redact }: { readonly cwd: string; readonly redact: Redact },
  ) {
    this.#options = options;
    this.#redact = redact;
    this.#cwd = cwd;
    this.#stored = options.replay === undefined ? [] : readRecordings(resolve(cwd, options.replay.folder));
  }

  /** Whether servers or models are not asked in this run. */
  replays(side: ReplaySide): boolean {
    return this.#options.replay?.sides.includes(side) === true;
  }

  /** Begins a trial. `broken`: called with what makes it an error, such as that it was not recorded. */
  begin(trial: Trial, broken: (error: McpvalsError) => void): TrialRecording {
    const texts = new MarkedTexts(this.#redact);
    const clock = new ReplayClock();
    const folder = new TrialFolder(this.#redact);
    const values: Record<string, string> = {};
    const replayed = this.#replayOf(trial, {
      texts,
      clock,
      workspace: () => folder.path,
      broken(error) {
        broken(error);
        return error;
      },
    });
    if (replayed?.servers !== undefined) this.#servers.set(trial.id, replayed.servers);
    const recorded = this.#options.record === undefined ? undefined : new RecordedModels(texts);
    const models: TrialModels | undefined = recorded ?? replayed?.models;
    return {
      emitting: (emit) => (event) => {
        const seq = emit(event);
        if (recorded !== undefined) folder.look(event, seq);
        replayed?.servers?.note(event);
        return seq;
      },
      now: clock.now,
      ownValue(name, value) {
        const isId = name.startsWith("id ");
        const own = (isId ? replayed?.values[name] : undefined) ?? value;
        if (isId) values[name] = own;
        else texts.mark(name, own);
        if (name === "workspace") folder.path = own;
        return own;
      },
      within: (work) => (models === undefined ? work() : trialModels.run(models, work)),
      end: (events, verdict) => {
        this.#servers.delete(trial.id);
        const problem = verdict === "pass" || verdict === "fail" ? folder.problem : "it has no verdict";
        if (problem !== undefined) {
          if (recorded !== undefined) this.#notes.push(`${trial.id}: not recorded, since ${problem}`);
          return;
        }
        const unused = [...(replayed?.servers?.unused ?? []), ...(replayed?.models?.unused ?? [])];
        if (unused.length > 0)
          this.#notes.push(`${trial.id}: recorded requests that were not made: ${listed(unused)}`);
        if (this.#options.record === undefined || recorded === undefined) return;
        writeRecording(resolve(this.#cwd, this.#options.record), {
          head: headOf(trial, values),
          servers: texts.fromRecord(serverEventsOf(events, folder.changes)),
          models: recorded.exchanges,
        });
      },
    };
  }

  /** The server of a trial, if servers are replayed. Mocks answer as ever. */
  host({ name, spec, trial }: ServeRequest): Promise<ServerHost> | undefined {
    if (!this.replays("servers") || spec.transport === "mock") return undefined;
    return this.#servers.get(trial.id)?.open(name) ?? Promise.reject(this.#notRecorded(trial));
  }

  /** What of the recordings did not fit, once all trials have ended. */
  notes(plan: Plan): readonly string[] {
    const { replay } = this.#options;
    if (replay === undefined) return this.#notes;
    // Of a part of the tasks nobody knows whether the others are still there.
    if (plan.filter !== undefined || plan.shard !== undefined) return this.#notes;
    const tasks = new Set(plan.tasks.map(({ name }) => name));
    const unused = this.#stored.filter((each) => !this.#used.has(each) && !tasks.has(each.head.task));
    const gone = [...new Set(unused.map(({ head }) => head.task))];
    const left = gone.length === 0 ? [] : [`${replay.folder}: recordings of other tasks: ${gone.join(", ")}`];
    return [...this.#notes, ...left];
  }

  /** Undefined when nothing is replayed. A trial without a recording is broken, and has none of a server or model either. */
  #replayOf(trial: Trial, own: Omit<ReplayOptions, "source" | "inOrder">): ReplayedTrial | undefined {
    if (this.#options.replay === undefined) return undefined;
    const found = this.#recordingOf(trial) ?? {
      file: resolve(this.#cwd, this.#options.replay.folder),
      head: headOf(trial, {}),
      servers: [],
      models: [],
    };
    if (!this.#stored.includes(found)) own.broken(this.#notRecorded(trial));
    this.#used.add(found);
    const source = relative(this.#cwd, found.file);
    const inOrder = this.replays("servers") && this.replays("models");
    return {
      values: found.head.values,
      servers: this.replays("servers")
        ? new ReplayedServers(found.servers, { ...own, source, inOrder })
        : undefined,
      models: this.replays("models") ? new ReplayedModels(found.models, { ...own, source }) : undefined,
    };
  }

  /** The recording of the trial; where only servers are replayed, that of another agent will do. */
  #recordingOf({ task, agent, variant, attempt }: Trial): StoredRecording | undefined {
    const alike = this.#stored.filter(
      ({ head }) => head.task === task && head.variant === variant && head.attempt === attempt,
    );
    const own = alike.find(({ head }) => head.agent === agent);
    return own ?? (this.replays("models") ? undefined : alike[0]);
  }

  #notRecorded({ task, agent, variant, attempt }: Trial): McpvalsError {
    const { folder = "" } = this.#options.replay ?? {};
    const who = [
      agent === null ? "" : ` with agent "${agent}"`,
      variant === undefined ? "" : ` with ${variant}`,
    ];
    const known = this.#stored
      .filter(({ head }) => head.task === task)
      .map(({ head }) => [head.agent, head.variant, `attempt ${head.attempt}`].filter(Boolean).join(", "));
    const recorded =
      known.length === 0
        ? `recorded tasks are ${[...new Set(this.#stored.map(({ head }) => `"${head.task}"`))].join(", ")}`
        : `recorded of it: ${known.join("; ")}`;
    return new McpvalsError(
      "replay/not-recorded",
      `${folder} has no recording of attempt ${attempt} of "${task}"${who.join("")}; ${recorded}`,
      { hint: "Record it with --record." },
    );
  }
}

const maxListed = 5;

function listed(texts: readonly string[]): string {
  const more = texts.length > maxListed ? [`${texts.length - maxListed} more`] : [];
  return [...texts.slice(0, maxListed), ...more].join("; ");
}

function headOf({ task, agent, variant, attempt }: Trial, values: RecordingHead["values"]): RecordingHead {
  return exact({ recording: recordingVersion, mcpvals: version, task, agent, variant, attempt, values });
}
