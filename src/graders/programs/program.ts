import * as z from "zod";
import { anyObject, closedObject, filledText, argumentText } from "../../model/fields.ts";
import { McpvalsError } from "../../base/error.ts";
import type { Trajectory } from "../../trace/trajectory.ts";
import { nothingToJudge, recordedFiles, textOf, workspacePath } from "../workspace.ts";
import { type GraderResult, declaredKind, type PrepareContext, type ProgramEnd, skip } from "../grader.ts";
import {
  answerFields,
  answerIn,
  findingOf,
  type JavaScriptWork,
  readAnswer,
  runCode,
  defaultTimeoutMs,
} from "./answer.ts";
import { recordOf } from "./trajectory-record.ts";

const programConfig = z.lazy(() =>
  closedObject({
    command: filledText.describe(
      "The program, without arguments: a name, or a path from the folder of the file.",
    ),
    args: z.array(argumentText).default([]).describe("Arguments of the program."),
    input: z
      .enum(["trajectory", "output"])
      .default("trajectory")
      .describe(
        "What it gets on stdin. `trajectory`: the trial as JSON (schemas/trajectory.schema.json). `output`: the agent's last message.",
      ),
    workspace: z
      .array(workspacePath)
      .default([])
      .describe(
        "Paths and globs of the agent's workspace. Their files are in `files` of the trajectory, and copies of them in the folder that the variable `WAZA_WORKSPACE_DIR` names.",
      ),
    ...answerFields,
  }),
);

/** What does a program of the user's own say of the trial? */
export const program = declaredKind({
  type: "program",
  description:
    "Runs a program on the trial. It passes when the program exits with 0 and does not say otherwise on stdout: what it writes there is the reason, or one JSON object {score, passed, reason, evidence}, after which nothing may follow. A score of null means that there was nothing to judge. The program is killed when its time is up; that is an error of this grader alone.",
  config: programConfig,
  example: { command: "python3", args: ["grade.py"], timeout: "10s" },
  files: ({ command }) => (/^\.{1,2}[/\\]/.test(command) ? [{ path: ["command"], file: command }] : []),
  workspaceFiles: ({ workspace }) => workspace,
  prepare: (settings, context) => ({ command: requireProgram(settings, context) }),
  async grade(settings, trajectory, { dir, runProgram }) {
    const nothing = nothingToJudge(trajectory);
    if (nothing !== undefined) return skip(nothing);
    const { command, args, input, workspace, timeout = defaultTimeoutMs, inheritEnv, threshold } = settings;
    const record = recordOf(trajectory);
    const stdin = input === "output" ? record.output : JSON.stringify(record);
    const end = await runProgram({
      command,
      args,
      stdin,
      cwd: dir,
      inheritEnv,
      timeoutMs: timeout,
      workspace: workspace.length === 0 ? undefined : copiesOf(workspace, trajectory),
    });
    return programFinding(end, (answer) => findingOf(answer, { threshold, record, trajectory }));
  },
});

async function requireProgram(
  { command, inheritEnv }: z.output<typeof programConfig>,
  { dir: cwd, findProgram }: PrepareContext,
): Promise<void> {
  if ((await findProgram({ command, cwd, inheritEnv })) !== undefined) return;
  const isPath = /[/\\]/.test(command);
  const problem = isPath ? "is not a program that can be run" : "is not on PATH";
  throw new McpvalsError("grader/broken", `${JSON.stringify(command)} ${problem}`, {
    hint: isPath
      ? "Correct the path, or make the file executable."
      : "Install it, or give its path, such as ./grade.sh.",
  });
}

/** Texts of recorded files by their paths. Throws `grader/cannot-run` unless all of them are known. */
function copiesOf(names: readonly string[], trajectory: Trajectory): ReadonlyMap<string, string> {
  const recorded = names.map((name) => recordedFiles(trajectory, name));
  const incomplete = recorded.find((found) => found.incomplete !== undefined);
  if (incomplete !== undefined) throw unknownWorkspace(`${incomplete.name}: ${incomplete.incomplete ?? ""}`);
  const files = recorded.flatMap(({ files: found }) => found).filter(({ kind }) => kind === "file");
  return new Map(
    files.map((file) => {
      const content = textOf(file);
      if ("why" in content) throw unknownWorkspace(content.why);
      return [file.path, content.text];
    }),
  );
}

function unknownWorkspace(why: string): McpvalsError {
  return new McpvalsError("grader/cannot-run", `the workspace cannot be given to the program: ${why}`, {
    hint: "Name only the files that the program reads, in workspace.",
  });
}

/** Exit code 0 passes, unless the answer says otherwise; any other fails, whatever it says. */
function programFinding(
  end: ProgramEnd,
  finding: (answer: Parameters<typeof findingOf>[0]) => GraderResult,
): GraderResult {
  const { exitCode, stdout, stderr } = end;
  const ended = `it exited with ${exitCode}`;
  const answer = answerIn(end);
  if (exitCode === 0) return finding(answer ?? { passed: true, reason: stdout.trim() || ended });
  const text = answer?.reason?.trim() || (answer === undefined ? stdout.trim() : "") || stderr.trim();
  const reason = text === "" ? ended : `${text} (${ended})`;
  return finding({ ...answer, passed: false, score: answer?.score ?? 0, reason });
}

const scriptConfig = z.lazy(() =>
  closedObject({
    file: filledText
      .regex(/\.(?:ts|mts|js|mjs)$/, { error: "must be a file that ends in .ts, .mts, .js or .mjs" })
      .describe(
        "The file, relative to the one that declares the grader. Its default export is what `defineGrader` gives.",
      ),
    settings: anyObject.default({}).describe("Settings for it."),
    ...answerFields,
  }),
);

/** What does a function of the user's own say of the trial? */
export const script = declaredKind({
  type: "script",
  description:
    "Calls a function of a TypeScript or JavaScript file with the trial. It answers with {score, passed, reason, evidence}; a score of null means that there was nothing to judge. It runs in a process of its own: an exception, an endless loop or a crash is an error of this grader alone.",
  config: scriptConfig,
  example: { file: "./one-call.ts", settings: { tool: "add" }, timeout: "10s" },
  files: ({ file }) => [{ path: ["file"], file }],
  prepare: ({ file, settings, timeout: timeoutMs = defaultTimeoutMs, inheritEnv }, { dir, runProgram }) => ({
    file: runCode(file, { kind: "script", file, settings }, { dir, runProgram, inheritEnv, timeoutMs }),
  }),
  async grade(wanted, trajectory, { dir, runProgram }) {
    const nothing = nothingToJudge(trajectory);
    if (nothing !== undefined) return skip(nothing);
    const { file, settings, timeout: timeoutMs = defaultTimeoutMs, inheritEnv, threshold } = wanted;
    const record = recordOf(trajectory);
    const work: JavaScriptWork = { kind: "script", file, settings, trajectory: record };
    const answer = await runCode(file, work, { dir, runProgram, inheritEnv, timeoutMs });
    return findingOf(readAnswer(answer), { threshold, record, trajectory });
  },
});
