import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { type Command, Option } from "commander";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { loadPackage } from "../../base/load-package.ts";
import { countOf } from "../../base/visible-text.ts";
import { version } from "../../base/version.ts";
import { taskOf, type Trial } from "../../model/plan.ts";
import type { TrialResult } from "../../model/result.ts";
import { RunReplay } from "../../report/replay.ts";
import { runKey, runSpan, type Span, trialSpans } from "../../report/spans.ts";
import { readTrials } from "../../store/journal.ts";
import { defaultRunsFolder, type OpenedRun, openRun } from "../../store/run-folder.ts";
import { buildTrajectory, type Trajectory } from "../../trace/trajectory.ts";
import type { SetExitCode } from "../flags.ts";
import { localRun } from "../remote.ts";
import { writeOut } from "../terminal.ts";

interface ExportFlags {
  readonly format: "otlp" | "atif";
  readonly output?: string;
  readonly url?: string;
  readonly content?: boolean;
  readonly to?: string;
}

/** `mcpvals export`: gives a recorded run to another tool. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("[run]", "id, start of an id, folder, or latest", "latest")
    .addOption(
      new Option(
        "-f, --format <format>",
        "otlp: spans for a collector of OpenTelemetry, over HTTP; atif: a trajectory file for each trial",
      )
        .choices(["otlp", "atif"])
        .default("otlp"),
    )
    .option(
      "--url <url>",
      "address of the collector (default: OTEL_EXPORTER_OTLP_ENDPOINT, or port 4318 of localhost)",
    )
    .option("--content", "spans with the arguments and results of tools, which may be sensitive")
    .option("--to <dir>", "folder for the trajectories (default: atif-RUN)")
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .action(async (name: string, flags: ExportFlags) => {
      refuseMixed(flags);
      const run = await openRun(
        resolve(flags.output ?? defaultRunsFolder),
        await localRun(name, flags.output),
      );
      writeOut(
        flags.format === "atif" ? await exportTrajectories(run, flags.to) : await exportSpans(run, flags),
      );
      setExitCode(0);
    });
}

function refuseMixed({ format, url, content, to }: ExportFlags): void {
  const other = format === "atif" ? [url && "--url", content && "--content"] : [to && "--to"];
  const [wrong] = other.filter(Boolean);
  if (wrong !== undefined)
    throw new McpvalsError("usage/invalid-option", `--format ${format} does not go with ${wrong}`, {
      hint:
        format === "atif"
          ? "Trajectories are files, and have the contents."
          : "Only --format atif writes files.",
    });
}

interface Replayed {
  readonly trial: Trial;
  readonly row: TrialResult;
  readonly trajectory: Trajectory;
}

/** The trials on record, one after the other. */
async function* replay(run: OpenedRun, results: RunReplay): AsyncGenerator<Replayed> {
  const trials = new Map(run.plan.trials.map((trial) => [trial.id, trial]));
  for await (const { id, events: stored } of readTrials(run.folder)) {
    const trial = trials.get(id);
    if (trial === undefined) continue;
    const events = stored.map(({ event }) => event);
    const row = results.add(trial, events);
    yield { trial, row, trajectory: buildTrajectory(trial, taskOf(trial, run.plan), events) };
  }
}

/** Writes a trajectory for each trial of an agent. Throws `store/unwritable`. */
async function exportTrajectories(run: OpenedRun, to: string | undefined): Promise<string> {
  const { atifOf } = await import("../../report/atif.ts");
  const folder = resolve(to ?? `atif-${run.id}`);
  const agents = new Map(run.plan.agents.map((agent) => [agent.name, agent]));
  const width = run.plan.trials.reduce((most, { id }) => Math.max(most, id.length), 0);
  let written = 0;
  try {
    // A recording can contain private data.
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for await (const { trial, row, trajectory } of replay(run, new RunReplay(run))) {
      const agent = agents.get(trial.agent ?? "");
      if (agent === undefined) continue;
      const document = atifOf(trajectory, { run: run.id, agent, result: row });
      // In the order of the trials, also by name.
      const name = trial.id.replace(/\d+$/, (digits) =>
        digits.padStart(width - (trial.id.length - digits.length), "0"),
      );
      const file = join(folder, `${name}.trajectory.json`);
      writeFileSync(file, `${JSON.stringify(document, undefined, 2)}\n`, { mode: 0o600 });
      written += 1;
    }
  } catch (cause) {
    if (cause instanceof McpvalsError) throw cause;
    throw new McpvalsError("store/unwritable", `${folder} cannot be written: ${messageOf(cause)}`, {
      hint: "Choose another folder with --to DIR.",
      cause,
    });
  }
  const others = run.plan.trials.length - written;
  const left =
    others === 0
      ? ""
      : `; ${countOf(others, "other trial")} had no agent, or ${others === 1 ? "was" : "were"} not run`;
  return `${countOf(written, "file")} of ${run.id} written to ${relative(".", folder) || "."}${left}`;
}

/** Spans of one message to the collector. */
const batchSize = 512;

/** Sends the spans of a run, trial by trial, and then the one around them. Ids are made of the run's id, so that a second export replaces the first. */
async function exportSpans(run: OpenedRun, { url, content = false }: ExportFlags): Promise<string> {
  await using sender = await createSender(run.id, url);
  const results = new RunReplay(run);
  const rows = new Map<string, TrialResult>();
  const started = Date.parse(run.startedAt);
  const around = { start: started, end: started };
  for await (const { trial, row, trajectory } of replay(run, results)) {
    const { events } = trajectory;
    around.start = Math.min(around.start, events[0]?.at ?? started);
    around.end = Math.max(around.end, events.at(-1)?.at ?? started);
    rows.set(trial.id, row);
    for (const span of trialSpans(trajectory, row, { content })) await sender.send(span);
  }
  const all = run.plan.trials.map((trial) => rows.get(trial.id) ?? results.add(trial, []));
  await sender.send(runSpan(results.result(all, around.end), around));
  await sender.flush();
  return `${countOf(sender.sent, "span")} of ${run.id} sent, as the trace ${sender.trace}`;
}

interface Sender extends AsyncDisposable {
  readonly trace: string;
  /** Number of spans so far. */
  readonly sent: number;
  send(span: Span): Promise<void>;
  /** Throws `export/refused`. */
  flush(): Promise<void>;
}

/** Creates what sends spans with OpenTelemetry's own exporter, which also reads its usual variables. Throws `export/no-package`. */
async function createSender(run: string, url: string | undefined): Promise<Sender> {
  const name = "@opentelemetry/exporter-trace-otlp-proto";
  const { OTLPTraceExporter } = await loadPackage(
    { name, user: "export", code: "export/no-package", beside: ["@opentelemetry/api"] },
    () => import("@opentelemetry/exporter-trace-otlp-proto"),
  );
  type Exporter = InstanceType<typeof OTLPTraceExporter>;
  type Batch = Parameters<Exporter["export"]>[0];
  const exporter = new OTLPTraceExporter(url === undefined ? {} : { url: tracesUrl(url) });
  const trace = idOf(`trace ${run}`, 32);
  const spanId = (key: string): string => idOf(`${run} ${key}`, 16);
  const attributes = { "service.name": "mcpvals", "service.version": version };
  const resource: Batch[number]["resource"] = {
    attributes,
    merge: (other) => other ?? resource,
    getRawAttributes: () => Object.entries(attributes),
  };
  const context = (key: string) => ({ traceId: trace, spanId: spanId(key), traceFlags: 1 });
  const batch: Batch = [];
  let sent = 0;
  const flush = async (): Promise<void> => {
    const spans = batch.splice(0);
    if (spans.length === 0) return;
    const { code, error } = await new Promise<{ code: number; error?: Error }>((done) => {
      exporter.export(spans, done);
    });
    if (code !== 0)
      throw new McpvalsError("export/refused", `the collector did not take the spans: ${messageOf(error)}`, {
        cause: error,
      });
    sent += spans.length;
  };
  return {
    trace,
    get sent() {
      return sent;
    },
    flush,
    async send({ key, parent, name: title, kind, start, end, attributes: own, error, events = [] }) {
      batch.push({
        name: title,
        // OpenTelemetry's numbers of kinds and of the status of an error.
        kind: kind === "client" ? 2 : 0,
        status: error === undefined ? { code: 0 } : { code: 2, message: error },
        spanContext: () => context(key),
        ...(key === runKey ? {} : { parentSpanContext: context(parent ?? runKey) }),
        startTime: timeOf(start),
        endTime: timeOf(end),
        duration: timeOf(end - start),
        attributes: mutable(own),
        events: events.map((event) => ({
          name: event.name,
          time: timeOf(event.at),
          attributes: mutable(event.attributes),
        })),
        links: [],
        ended: true,
        resource,
        instrumentationScope: { name: "mcpvals", version },
        droppedAttributesCount: 0,
        droppedEventsCount: 0,
        droppedLinksCount: 0,
      });
      if (batch.length >= batchSize) await flush();
    },
    [Symbol.asyncDispose]: () => exporter.shutdown(),
  };
}

function mutable(attributes: Span["attributes"]): Record<string, string | number | boolean | string[]> {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, typeof value === "object" ? [...value] : value]),
  );
}

/** The address that takes spans: a collector's base address has them at `/v1/traces`. */
function tracesUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new McpvalsError("usage/invalid-option", `--url ${text} is no address`, {
      hint: "Write one such as http://localhost:4318.",
    });
  if (url.pathname === "/") url.pathname = "/v1/traces";
  return url.href;
}

/** Hexadecimal digits that are the same for the same text. */
function idOf(text: string, digits: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, digits);
}

/** Seconds and nanoseconds. */
function timeOf(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.floor((ms - seconds * 1000) * 1e6)];
}
