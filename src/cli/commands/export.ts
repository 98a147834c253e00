import { createHash } from "node:crypto";
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { McpvalsError, messageOf } from "../../base/error.ts";
import { loadPackage } from "../../base/load-package.ts";
import { countOf } from "../../base/visible-text.ts";
import { version } from "../../base/version.ts";
import { taskOf } from "../../model/plan.ts";
import type { TrialResult } from "../../model/result.ts";
import { RunReplay } from "../../report/replay.ts";
import { runKey, runSpan, type Span, trialSpans } from "../../report/spans.ts";
import { readTrials } from "../../store/journal.ts";
import { defaultRunsFolder, type OpenedRun, openRun } from "../../store/run-folder.ts";
import { buildTrajectory } from "../../trace/trajectory.ts";
import type { SetExitCode } from "../flags.ts";
import { writeOut } from "../terminal.ts";

interface ExportFlags {
  readonly output?: string;
  readonly url?: string;
  readonly content?: boolean;
}

/** `mcpvals export`: sends a recorded run to another tool. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .argument("[run]", "id, start of an id, folder, or latest", "latest")
    .addOption(
      new Option("-f, --format <format>", "otlp: spans for a collector of OpenTelemetry, over HTTP")
        .choices(["otlp"])
        .default("otlp"),
    )
    .option(
      "--url <url>",
      "address of the collector (default: OTEL_EXPORTER_OTLP_ENDPOINT, or port 4318 of localhost)",
    )
    .option("--content", "with the arguments and results of tools, which may be sensitive")
    .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)")
    .action(async (name: string, flags: ExportFlags) => {
      const run = await openRun(resolve(flags.output ?? defaultRunsFolder), name);
      const { spans, trace } = await exportSpans(run, flags);
      writeOut(`${countOf(spans, "span")} of ${run.id} sent, as the trace ${trace}`);
      setExitCode(0);
    });
}

/** Spans of one message to the collector. */
const batchSize = 512;

/** Sends the spans of a run, trial by trial, and then the one around them. Ids are made of the run's id, so that a second export replaces the first. */
async function exportSpans(
  run: OpenedRun,
  { url, content = false }: ExportFlags,
): Promise<{ readonly spans: number; readonly trace: string }> {
  await using sender = await createSender(run.id, url);
  const replay = new RunReplay(run);
  const trials = new Map(run.plan.trials.map((trial) => [trial.id, trial]));
  const rows = new Map<string, TrialResult>();
  const started = Date.parse(run.startedAt);
  const around = { start: started, end: started };
  for await (const { id, events: stored } of readTrials(run.folder)) {
    const trial = trials.get(id);
    if (trial === undefined) continue;
    const events = stored.map(({ event }) => event);
    around.start = Math.min(around.start, events[0]?.at ?? started);
    around.end = Math.max(around.end, events.at(-1)?.at ?? started);
    const row = replay.add(trial, events);
    rows.set(id, row);
    const trajectory = buildTrajectory(trial, taskOf(trial, run.plan), events);
    for (const span of trialSpans(trajectory, row, { content })) await sender.send(span);
  }
  const all = run.plan.trials.map((trial) => rows.get(trial.id) ?? replay.add(trial, []));
  await sender.send(runSpan(replay.result(all, around.end), around));
  await sender.flush();
  return { spans: sender.sent, trace: sender.trace };
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
