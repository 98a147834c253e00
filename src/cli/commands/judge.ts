import { dirname, resolve } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import { McpvalsError } from "../../base/error.ts";
import { suggestion } from "../../base/did-you-mean.ts";
import { readSettings } from "../../graders/declared.ts";
import { type JsonObject, withoutUndefined } from "../../base/json.ts";
import { problemAt, type Problem } from "../../base/problem.ts";
import { judgeName } from "../../graders/judge/llm-judge.ts";
import { calibrationFile } from "../../graders/judge/calibration.ts";
import { graderKinds } from "../../graders/kinds.ts";
import { prompt, type PromptSettings } from "../../graders/prompt.ts";
import type { Confusion } from "../../statistics/agreement.ts";
import type { Proportion } from "../../statistics/rates.ts";
import { countOf, visibleText } from "../../base/visible-text.ts";
import type { LoadedConfig } from "../../formats/assemble-eval.ts";
import { environment } from "../../formats/environment.ts";
import {
  calibrateJudge,
  judgeOfUse,
  type JudgeUse,
  type Labels,
  readLabels,
  refuseLabels,
  writeCalibration,
} from "../../run/calibrate-judge.ts";
import { load } from "../../formats/load.ts";
import { graderTypesAt } from "../../formats/read/read-files.ts";
import { defaultRunsFolder } from "../../store/run-folder.ts";
import { type SetExitCode, wholeNumber } from "../flags.ts";
import {
  abortOnInterrupt,
  workingFolder,
  writeError,
  writeJson,
  writeOut,
  hideSecrets,
} from "../terminal.ts";
import type { Calibration } from "../../model/calibration.ts";
import { defaultThreshold } from "../../model/agent.ts";

/** `mcpvals judge`: commands for language models that judge. */
export function define(command: Command, setExitCode: SetExitCode): void {
  command
    .command("calibrate")
    .description("ask a judge about cases that people labelled, and store how far it agrees")
    .argument(
      "<labels>",
      "YAML, JSON or JSON Lines: cases with task, answer and calls, or run and trial; and verdict",
    )
    .option("-c, --config <file>", "config or Eval whose judge is asked, with its settings")
    .option(
      "--grader <name>",
      "what asks the judge: a grader of the config, llm-judge, or a criterion of llm steps: contains, exact, rubric (default: a grader prompt)",
    )
    .option("--judge <model>", "model to ask, as PROVIDER/MODEL, instead of that of the files")
    .option("--rubric <text>", "rubric or its name, instead of that of the files")
    .option("--threshold <score>", "lowest score that passes, instead of that of the files", score)
    .option("--votes <n>", "how often to ask about each case, instead of the files", wholeNumber(15))
    .option(
      "-o, --out <file>",
      `file to store it in (default: ${calibrationFile} beside the config, or here)`,
    )
    .option("--runs <dir>", "folder of the runs that cases name (default: .mcpvals/runs)")
    .option("--json", "print the calibration as JSON")
    .action(async (labels: string, flags: CalibrateFlags) => setExitCode(await execute(labels, flags)));
}

interface CalibrateFlags {
  readonly config?: string;
  readonly grader?: string;
  readonly judge?: string;
  readonly rubric?: string;
  readonly threshold?: number;
  readonly votes?: number;
  readonly out?: string;
  readonly runs?: string;
  readonly json?: boolean;
}

function score(value: string): number {
  const number = value.trim() === "" ? NaN : Number(value);
  if (number >= 0 && number <= 1) return number;
  throw new InvalidArgumentError("Must be a number from 0 to 1.");
}

/** Returns the exit code: 3 when a case has no verdict of the judge. Throws McpvalsError of kind `usage`. */
async function execute(file: string, flags: CalibrateFlags): Promise<number> {
  const cwd = workingFolder();
  using interruption = abortOnInterrupt();
  const { signal } = interruption;
  const { config, grader, judge: judgeModel } = flags;
  const path = resolve(cwd, file);
  const labels = await readLabels(path, file);
  const loaded =
    config === undefined
      ? undefined
      : await load({
          sources: [config],
          cwd,
          signal,
          lookOnly: true,
          ...withoutUndefined({ judgeModel, judge: grader === judgeName ? true : undefined }),
        });
  hideSecrets(loaded?.secrets ?? []);
  const use = judgeUse({ ...labels, dir: dirname(path) }, loaded, flags);
  refuseUnusedSettings(labels, grader);
  const judge = judgeOfUse(use, loaded, judgeModel);
  const { calibration, problems } = await calibrateJudge({
    use,
    labels,
    judge: {
      ...judge,
      passThreshold: flags.threshold ?? loaded?.eval.judge?.passThreshold ?? defaultThreshold,
    },
    env: loaded?.env ?? environment(),
    runs: resolve(cwd, flags.runs ?? defaultRunsFolder),
    signal,
  });
  for (const problem of problems.slice(0, 5)) writeError(visibleText(`no verdict: ${problem}`));
  if (calibration === undefined) return 3;
  const out =
    flags.out === undefined ? resolve(loaded?.dir ?? cwd, calibrationFile) : resolve(cwd, flags.out);
  await writeCalibration(out, calibration);
  if (flags.json === true) writeJson(calibration, 2);
  else writeOut([...describeCalibration(calibration), "", `written to ${visibleText(out)}`].join("\n"));
  return calibration.unscored === 0 ? 0 : 3;
}

/** Refuses settings in the file of labels that the judge would be asked without. */
function refuseUnusedSettings(labels: Labels, grader: string | undefined): void {
  if (grader === undefined) return;
  const unused = Object.keys(labels.config).filter((key) => grader !== "rubric" || key !== "rubric");
  refuseLabels(
    unused.map((key) =>
      problemAt(["config", key], `has no effect with --grader ${grader}`, {
        at: "key",
        hint: "Remove it, or leave out --grader: the file's config is for the grader prompt.",
      }),
    ),
    labels,
  );
}

const stepCriteria = ["contains", "exact", "rubric"] as const;

/** What asks the judge. Throws `usage/invalid-option` for settings that do not fit it. */
function judgeUse(
  labels: Labels & { readonly dir: string },
  loaded: LoadedConfig | undefined,
  { grader, rubric, threshold, votes }: CalibrateFlags,
): JudgeUse {
  const { config, cases, dir } = labels;
  const criterion = stepCriteria.find((one) => one === grader);
  if (grader !== judgeName && criterion === undefined) {
    const declared = grader === undefined ? { config, dir } : declaredGrader(grader, loaded);
    const given = withoutUndefined({ rubric, threshold, votes });
    return { kind: "prompt", settings: promptSettings(declared, given), dir: declared.dir };
  }
  if (votes !== undefined) throw unusable("--votes", `${grader} asks once`);
  if (criterion === "rubric") {
    const text = rubric ?? config["rubric"];
    if (typeof text === "string") return { kind: criterion, rubric: text };
    throw new McpvalsError("usage/invalid-option", "the criterion rubric needs a rubric", {
      hint: "Give --rubric, or set config.rubric in the file.",
    });
  }
  if (rubric !== undefined) throw unusable("--rubric", `${grader} has none`);
  if (criterion === undefined) return { kind: judgeName };
  if (threshold !== undefined) throw unusable("--threshold", `the answer to ${grader} is yes or no`);
  const without = cases.flatMap(({ reference }, index) =>
    reference === undefined
      ? [
          problemAt(["cases", index], `has no reference, which the criterion ${criterion} needs`, {
            hint: "Set reference: the text that the step compares the answer with.",
          }),
        ]
      : [],
  );
  refuseLabels(without, labels);
  return { kind: criterion };
}

function unusable(flag: string, why: string): McpvalsError {
  return new McpvalsError("usage/invalid-option", `${flag} has no effect: ${why}`);
}

/** The settings of a grader, and the folder that their files are in. */
interface DeclaredGrader {
  readonly config: JsonObject;
  readonly dir: string;
}

function promptSettings({ config, dir }: DeclaredGrader, given: JsonObject): PromptSettings {
  const problems: Problem[] = [];
  const read = readSettings(prompt, { ...config, ...given }, ["config"], graderTypesAt(dir), (each) =>
    problems.push(each),
  );
  if (read !== undefined && problems.length === 0) return prompt.config.parse(read.config);
  throw new McpvalsError(
    "usage/invalid-option",
    `the grader prompt: ${problems[0]?.message ?? "its settings are wrong"}`,
    { hint: "Give --rubric or --grader, or set config in the file: the settings of the grader prompt." },
  );
}

/** A grader that the tasks of a config declare. Throws `usage/invalid-option` when there is none, or no judge in it. */
function declaredGrader(name: string, loaded: LoadedConfig | undefined): DeclaredGrader {
  const all = (loaded?.eval.tasks ?? []).flatMap(({ graders = [] }) => graders);
  const asking = all.filter(({ type, config }) => graderKinds[type]?.judge?.(config) !== undefined);
  const found = asking.filter((grader) => grader.name === name);
  const [first] = found;
  const hint =
    loaded === undefined
      ? "Give --config FILE, which declares it."
      : suggestion(
          name,
          [...new Set(asking.map((each) => each.name)), judgeName, ...stepCriteria],
          "values of --grader",
        );
  if (first === undefined)
    throw new McpvalsError("usage/invalid-option", `no grader named ${JSON.stringify(name)} asks a judge`, {
      hint,
    });
  const distinct = new Set(found.map(({ config, dir }) => JSON.stringify([config, dir])));
  if (distinct.size > 1)
    throw new McpvalsError(
      "usage/invalid-option",
      `several tasks have a grader named ${JSON.stringify(name)}, with different settings`,
      { hint: "Give them different names." },
    );
  const { type, config, dir } = first;
  // Another type has only a rubric of the judge, and asks once, with the threshold of the rubric.
  return { config: type === prompt.type ? config : { rubric: config["rubric"] ?? null }, dir };
}

function describeCalibration(calibration: Calibration): readonly string[] {
  const { model, prompt: hash, threshold, votes, labels, unscored, confusion, flipRate } = calibration;
  const { tasks = labels } = calibration;
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
    `${countOf(labels, "label")}${tasks === labels ? "" : ` of ${countOf(tasks, "task")}`}${unscored === 0 ? "" : `, and ${unscored} without a verdict of the judge`}`,
    "",
    cells("", "judge pass", "judge fail"),
    cells("label pass", confusion.passPass, confusion.passFail),
    cells("label fail", confusion.failPass, confusion.failFail),
    "",
    ...rows.map(([name, share]) => `${name.padEnd(12)}${describeShare(share, confusion)}`),
    `${"flip rate".padEnd(12)}${flipRate === undefined ? "unknown: one vote a case" : flipRate.toFixed(3)}`,
  ];
}

function describeShare(share: Proportion | undefined, confusion: Confusion): string {
  if (share === undefined) return "unknown: too few kinds of labels";
  const [value, low, high] = [share.value, share.low, share.high].map((number) => number.toFixed(3));
  if (share.low === share.high) return `${value}  interval unknown: ${whyNoInterval(confusion)}`;
  return `${value}  [${low}, ${high}]`;
}

/** Why kappa has no variance, and so no interval. */
function whyNoInterval({ passPass, passFail, failPass, failFail }: Confusion): string {
  if (passFail + failFail === 0) return "the judge passes every case";
  if (passPass + failPass === 0) return "the judge fails every case";
  if (passPass + passFail === 0 || failPass + failFail === 0) return "all labels have the same verdict";
  return `the judge ${passFail + failPass === 0 ? "agrees" : "disagrees"} with every label`;
}

function cells(name: string, ...numbers: readonly (number | string)[]): string {
  return `${name.padEnd(12)}${numbers.map((number) => String(number).padStart(12)).join("")}`;
}
