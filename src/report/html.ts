import { createHash } from "node:crypto";
import { basename, dirname, extname, resolve } from "node:path";
import { readFile } from "node:fs/promises";
import type { Json } from "../base/json.ts";
import type { TraceEvent } from "../model/event.ts";
import {
  type PackedRun,
  type ReportDocument,
  type ReportTrial,
  type ServersDocument,
  type TrialRow,
  packTrial,
} from "./documents/documents.ts";
import { unpackRows } from "./documents/packed-rows.ts";
import { SchemaValidator } from "../graders/schema-validator.ts";
import { RunRecord, validationTimeoutMs } from "./documents/run-record.ts";

/** The built app: beside this file in the package, and in the output of the build where this is the source. */
const folder = new URL(
  extname(import.meta.url) === ".ts" ? "../../dist/dashboard/" : "./dashboard/",
  import.meta.url,
);

/** The text of a file of the app. Rejects where there is none, as in a clone that was not built. */
export async function appFile(name: "index.html" | "app.js" | "app.css"): Promise<string> {
  try {
    return await readFile(new URL(name, folder), "utf8");
  } catch (cause) {
    throw new Error("the app of the dashboard is not built; run: npm run build", { cause });
  }
}

/** In characters of JSON: what all trials of a report may have together, besides the run itself. */
const maxTrials = 20_000_000;
/** In characters of JSON: what a report has of one trial's events as they were recorded. */
const maxEvents = 2_000_000;

/**
 * Makes a page of one run that needs no server: the app with its data, in pieces. Trials that did not pass come first; what does not
 * fit is left out, and the page says so. Throws `store/corrupt`.
 */
export async function* reportPage(folder: string): AsyncGenerator<string> {
  await using validator = new SchemaValidator(validationTimeoutMs);
  const cwd = resolve(folder, "../../..");
  const record = new RunRecord(dirname(folder), basename(folder), { cwd, validator });
  const run = await record.run();
  const { id, name, startedAt } = run;
  const servers: ServersDocument = {
    run: { id, name, startedAt },
    servers: (await record.servers()).totals.rows(run, new Map()),
  };
  yield* pageStart();
  yield* dataPieces(record, run, servers);
  yield `</script>\n<script type="module">${await appScript()}</script>\n</body>\n</html>\n`;
}

/** The {@link ReportDocument}. A browser reads no markup inside of it. */
async function* dataPieces(
  record: RunRecord,
  run: PackedRun,
  servers: ServersDocument,
): AsyncGenerator<string> {
  const head: Omit<ReportDocument, "trials"> = { run, servers };
  yield `${inPage(head).slice(0, -1)},"trials":{`;
  let left = maxTrials;
  let before = "";
  for (const { id } of unpackRows(run.trials).toSorted(unpassedFirst)) {
    const document = packTrial(await record.trial(id));
    const trial: ReportTrial = {
      document,
      events: someEvents(record.events(id), Math.min(left, maxEvents)),
    };
    const text = inPage(trial);
    if (text.length > left) break;
    left -= text.length;
    yield `${before}${inPage([id]).slice(1, -1)}:${text}`;
    before = ",";
  }
  yield "}}";
}

/** JSON in which a browser finds no markup. */
function inPage(value: object): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

function unpassedFirst(a: TrialRow, b: TrialRow): number {
  return Number(a.verdict === "pass") - Number(b.verdict === "pass");
}

/** The events as they were recorded, by their numbers, until there is no more room. */
function someEvents(events: readonly TraceEvent[], room: number): ReportTrial["events"] {
  const some: Record<string, Json> = {};
  let left = room;
  for (const event of events) {
    left -= JSON.stringify(event).length;
    if (left < 0) break;
    some[event.seq] = event;
  }
  return some;
}

async function* pageStart(): AsyncGenerator<string> {
  const [script, style] = await Promise.all([appScript(), appFile("app.css")]);
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(script)}'`,
    `style-src '${hashOf(style)}'`,
    "img-src data: blob:",
    "media-src data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  yield `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>mcpvals</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<div id="root"></div>
<noscript>This report needs JavaScript.</noscript>
<script type="application/json" id="report">`;
}

/** The app's script without what would end a script in a page. Both only occur in strings. */
async function appScript(): Promise<string> {
  return (await appFile("app.js")).replaceAll("</script", "<\\/script").replaceAll("<!--", "\\x3c!--");
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}
