import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import picomatch from "picomatch";
import { displayWidth, padToWidth, createStyle, type Tone } from "../../base/columns.ts";
import { McpvalsError } from "../../base/error.ts";
import { countOf, formatInteger, visibleText } from "../../base/visible-text.ts";
import { type RunVerdict, runVerdicts } from "../../model/grade.ts";
import type { RunRow } from "../../report/documents/documents.ts";
import { runRow } from "../../report/documents/run-record.ts";
import { isPinned, pinRun, runFolders } from "../../store/run-files.ts";
import { defaultRunsFolder, findRun, refusePlanted } from "../../store/run-folder.ts";
import { age, type SetExitCode, wholeNumber } from "../flags.ts";
import { stdoutOutput, workingFolder, writeJson, writeOut } from "../terminal.ts";
import { formatDuration } from "../../base/duration.ts";

interface FolderFlags {
  readonly output?: string;
  readonly json?: boolean;
}

interface ListFlags extends FolderFlags {
  readonly source?: string;
  readonly verdict?: RunVerdict | "running" | "cut-off";
  readonly limit: number;
}

interface PruneFlags extends FolderFlags {
  readonly olderThan?: number;
  readonly keep?: number;
  readonly dryRun?: boolean;
}

/** `mcpvals runs`: lists recorded runs, pins and deletes them. */
export function define(command: Command, setExitCode: SetExitCode): void {
  const add = (name: string, description: string): Command =>
    command
      .command(name, { isDefault: name === "list" })
      .description(description)
      .option("-o, --output <dir>", "folder of the runs (default: .mcpvals/runs)");
  const act =
    <Args extends readonly unknown[]>(work: (...args: Args) => Promise<void>) =>
    async (...args: Args): Promise<void> => {
      await work(...args);
      setExitCode(0);
    };
  add("list", "list runs, newest first")
    .option("--source <glob>", "only runs of this file, as it is listed")
    .addOption(
      new Option("--verdict <verdict>", "only runs with this verdict").choices([
        ...runVerdicts,
        "running",
        "cut-off",
      ]),
    )
    .option("--limit <n>", "at most so many", wholeNumber(1_000_000), 20)
    .option("--json", "print the output as JSON")
    .action(act(list));
  add("prune", "delete runs that are not pinned, damaged or going on")
    .option("--older-than <age>", "only runs that began longer ago than this, such as 30d", age)
    .option("--keep <n>", "not the newest so many", wholeNumber(1_000_000, 0))
    .option("--dry-run", "only list what would be deleted")
    .option("--json", "print the output as JSON")
    .action(act(prune));
  add("pin", "keep a run: prune does not delete it")
    .argument("<run>", "id, start of an id, folder, or latest")
    .action(act((name: string, flags: FolderFlags) => setPinned(name, flags, true)));
  add("unpin", "let prune delete a run again")
    .argument("<run>", "id, start of an id, folder, or latest")
    .action(act((name: string, flags: FolderFlags) => setPinned(name, flags, false)));
}

interface ListedRun extends RunRow {
  readonly pinned?: true;
}

/** The runs of a folder, newest first. */
async function readRuns({ output }: FolderFlags): Promise<readonly ListedRun[]> {
  const runs = resolve(output ?? defaultRunsFolder);
  const rows = (await runFolders(runs)).map((id): ListedRun => {
    const row = runRow(runs, id, workingFolder());
    return isPinned(join(runs, id)) ? { ...row, pinned: true } : row;
  });
  // Ids begin with the time.
  return rows.toSorted((a, b) => (a.id < b.id ? 1 : -1));
}

async function list(flags: ListFlags): Promise<void> {
  const isWanted = picomatch(flags.source ?? "**", { dot: true });
  const found = (await readRuns(flags)).filter(
    ({ source = "", state, verdict }) =>
      (flags.source === undefined || source === flags.source || isWanted(source)) &&
      (flags.verdict === undefined || flags.verdict === (state === "ended" ? verdict : state)),
  );
  const shown = found.slice(0, flags.limit);
  if (flags.json === true) return writeJson(shown, 2);
  if (found.length === 0) return writeOut("There are no such runs.");
  const more = found.length - shown.length;
  writeOut(
    [
      ...tableOf(shown),
      ...(more === 0 ? [] : ["", `and ${formatInteger(more)} older; --limit shows more`]),
    ].join("\n"),
  );
}

const tones: Readonly<Record<string, Tone>> = {
  pass: "good",
  fail: "bad",
  incomplete: "warn",
  interrupted: "warn",
  "cut-off": "warn",
  damaged: "bad",
};

function tableOf(rows: readonly ListedRun[]): readonly string[] {
  const style = createStyle(stdoutOutput().colors);
  const cells = rows.map((row) => {
    const { id, state, verdict, summary, durationMs, source, name, pinned, filter } = row;
    const word = state === "ended" ? (verdict ?? "") : state;
    const judged = summary === undefined ? "" : `${summary.pass}/${summary.total} passed`;
    const time = durationMs === undefined ? "" : formatDuration(durationMs);
    const what = [source ?? name, filter ?? "", pinned === true ? "(pinned)" : ""].filter(Boolean).join(" ");
    return { word, texts: [id, word, judged, time, what].map(visibleText) };
  });
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...cells.map(({ texts }) => displayWidth(texts[column] ?? ""))),
  );
  return cells.map(({ word, texts }) =>
    texts
      .map((text, column) => {
        const padded = padToWidth(text, widths[column] ?? 0);
        return column === 1 ? style[tones[word] ?? "plain"](padded) : padded;
      })
      .join("  ")
      .trimEnd(),
  );
}

async function prune({ olderThan, keep, dryRun, ...flags }: PruneFlags): Promise<void> {
  if (olderThan === undefined && keep === undefined)
    throw new McpvalsError("usage/invalid-option", "say which runs are to be deleted", {
      hint: "Give --older-than AGE, --keep N, or both.",
    });
  if (flags.output === undefined) refusePlanted(workingFolder());
  const runs = resolve(flags.output ?? defaultRunsFolder);
  const all = await readRuns(flags);
  const old = all.slice(keep ?? 0).filter(
    ({ startedAt, state, pinned }) =>
      pinned !== true &&
      state !== "running" &&
      // When it began is not known.
      state !== "damaged" &&
      (olderThan === undefined || Date.now() - Date.parse(startedAt) > olderThan),
  );
  if (dryRun !== true) for (const { id } of old) await rm(join(runs, id), { recursive: true, force: true });
  if (flags.json === true) return writeJson({ deleted: old.map(({ id }) => id), dryRun: dryRun ?? false }, 2);
  const kept = all.length - old.length;
  writeOut(
    [
      ...old.map(({ id }) => `${dryRun === true ? "would delete" : "deleted"}  ${visibleText(id)}`),
      `${countOf(old.length, "run")} ${dryRun === true ? "would be deleted" : "deleted"}, ${formatInteger(kept)} kept`,
    ].join("\n"),
  );
}

async function setPinned(name: string, { output }: FolderFlags, pinned: boolean): Promise<void> {
  const folder = await findRun(resolve(output ?? defaultRunsFolder), name);
  await pinRun(folder, pinned);
}
