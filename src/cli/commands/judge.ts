import { dirname, resolve } from "node:path";
import type { Command } from "commander";
import { McpvalsError } from "../../core/errors/error.ts";
import { modelId } from "../../core/formats/config/agent.ts";
import { withoutUndefined } from "../../core/formats/json.ts";
import { validate } from "../../core/formats/problem.ts";
import { type Calibration, calibrationFile } from "../../core/grade/judge/calibration.ts";
import { prompt } from "../../core/grade/prompt.ts";
import type { Proportion } from "../../core/statistics/wilson.ts";
import { visibleText } from "../../core/text/visible-text.ts";
import { environment } from "../../load/environment.ts";
import { readLabels, writeCalibration } from "../../load/labels.ts";
import { countOf } from "../../reporters/text.ts";
import { calibrateJudge } from "../../run/calibrate-judge.ts";
import { defaultRunsFolder } from "../../store/run-folder.ts";
import { type SetExitCode, subcommand, wholeNumber } from "../flags.ts";
import { abortOnInterrupt, workingFolder, writeError, writeJson, writeOut } from "../terminal.ts";

/** `mcpvals judge`: commands for language models that judge. */
export function define(command: Command, setExitCode: SetExitCode): void {
  subcommand(
    command,
    "calibrate",
    "ask a judge about cases that people labelled, and store how far it agrees",
  )
    .argument(
      "<labels>",
      "YAML, JSON or JSON Lines: cases with task, answer and calls, or run and trial; and verdict",
    )
    .option("--judge <model>", "model to ask, as PROVIDER/MODEL (default: that of the file's config)")
    .option("--rubric <text>", "rubric or its name, instead of that of the file's config")
    .option("--threshold <score>", "lowest score that passes, instead of that of the file's config", Number)
    .option("--votes <n>", "how often to ask about each case, instead of the file's config", wholeNumber(15))
    .option("-o, --out <file>", `file to store it in (default: ${calibrationFile})`)
    .option("--runs <dir>", "folder of the runs that cases name (default: .mcpvals/runs)")
    .option("--json", "print the calibration as JSON")
    .action(async (labels: string, flags: CalibrateFlags) => setExitCode(await execute(labels, flags)));
}

/** The flags of `judge calibrate` as commander gives them. */
interface CalibrateFlags {
  readonly judge?: string;
  readonly rubric?: string;
  readonly threshold?: number;
  readonly votes?: number;
  readonly out?: string;
  readonly runs?: string;
  readonly json?: boolean;
}

/** Returns the exit code: 3 when a case has no verdict of the judge. Throws McpvalsError of kind `usage`. */
async function execute(file: string, flags: CalibrateFlags): Promise<number> {
  const cwd = workingFolder();
  const path = resolve(cwd, file);
  const { config, cases } = await readLabels(path, file);
  const { rubric, threshold, votes, judge: model } = flags;
  const given = withoutUndefined({ rubric, threshold, votes, model });
  const { data: settings, issues } = validate(prompt.config, { ...config, ...given });
  if (settings === undefined)
    throw new McpvalsError(
      "usage/invalid-option",
      `the grader prompt ${issues[0]?.message ?? "is not valid"}`,
      {
        hint: "Give --rubric, or set config in the file: the settings of the grader prompt.",
      },
    );
  if (settings.model === undefined)
    throw new McpvalsError("config/no-judge", "no model is named that is to be calibrated", {
      hint: "Give --judge PROVIDER/MODEL, or set config.model in the file.",
    });
  using interruption = abortOnInterrupt();
  const { calibration, problems } = await calibrateJudge({
    settings: { ...settings, model: undefined },
    cases,
    judge: { model: modelId(settings.model) ?? settings.model, passThreshold: 1 },
    env: environment(),
    dir: dirname(path),
    runs: resolve(cwd, flags.runs ?? defaultRunsFolder),
    signal: interruption.signal,
  });
  for (const problem of problems.slice(0, 5)) writeError(visibleText(`no verdict: ${problem}`));
  if (calibration === undefined) return 3;
  const out = resolve(cwd, flags.out ?? calibrationFile);
  await writeCalibration(out, calibration);
  if (flags.json === true) writeJson(calibration, 2);
  else writeOut([...describeCalibration(calibration), "", `written to ${visibleText(out)}`].join("\n"));
  return calibration.unscored === 0 ? 0 : 3;
}

function describeCalibration(calibration: Calibration): readonly string[] {
  const { model, prompt: hash, threshold, votes, labels, unscored, confusion, flipRate } = calibration;
  const rows: readonly (readonly [string, Proportion | undefined])[] = [
    ["agreement", calibration.agreement],
    ["sensitivity", calibration.sensitivity],
    ["specificity", calibration.specificity],
    ["kappa", calibration.kappa],
  ];
  return [
    visibleText(
      `judge ${model}, ${countOf(votes, "vote")}, at least ${threshold} passes, instructions ${hash}`,
    ),
    `${countOf(labels, "label")}${unscored === 0 ? "" : `, and ${unscored} without a verdict of the judge`}`,
    "",
    cells("", "judge pass", "judge fail"),
    cells("label pass", confusion.passPass, confusion.passFail),
    cells("label fail", confusion.failPass, confusion.failFail),
    "",
    ...rows.map(([name, share]) => `${name.padEnd(12)}${describeShare(share)}`),
    `${"flip rate".padEnd(12)}${flipRate === undefined ? "unknown: one vote a case" : flipRate.toFixed(3)}`,
  ];
}

function describeShare(share: Proportion | undefined): string {
  if (share === undefined) return "unknown: too few kinds of labels";
  const [value, low, high] = [share.value, share.low, share.high].map((number) => number.toFixed(3));
  return `${value}  [${low}, ${high}]`;
}

function cells(name: string, ...numbers: readonly (number | string)[]): string {
  return `${name.padEnd(12)}${numbers.map((number) => String(number).padStart(12)).join("")}`;
}
