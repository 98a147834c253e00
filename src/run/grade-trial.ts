import { McpvalsError, serializeError, type SourceLocation } from "../base/error.ts";
import { attackResistance, settingLocation } from "../graders/declared.ts";
import type { Eval, JudgeSpec } from "../model/eval.ts";
import type { GraderSpec } from "../model/task.ts";
import type { GradeContext } from "../graders/grader.ts";
import { graderKinds, gradersOf } from "../graders/kinds.ts";
import { judgeOf } from "../graders/judge/llm-judge.ts";
import type { AskJudge } from "../graders/judge/verdict-forms.ts";
import { invalidCalls } from "../graders/measurements/measure.ts";
import type { Emit } from "../model/event.ts";
import type { SharedLimits } from "../process/adaptive-limit.ts";
import type { Trajectory } from "../trace/trajectory.ts";
import type { JudgeOptions } from "../graders/judge/judge.ts";
import { validateOfServer } from "../graders/schema-validator.ts";
import type { LoadedConfig } from "../formats/assemble-eval.ts";
import type { Grade } from "../model/grade.ts";

/**
 * Grades a trial, and records events of the grading. One that is not completed has no grades but that of an attack that succeeded: what has left
 * has left, however the agent ended.
 */
export type GradeTrial = (
  trajectory: Trajectory,
  emit: Emit,
  /** Grades on record by the names of their graders: kept if the judge would be asked the same question. */
  kept?: ReadonlyMap<string, Grade>,
) => Promise<readonly Grade[]>;

/** Thrown instead of asking a judge a question whose answer is on record. */
class AnsweredBefore extends Error {
  readonly grade: Grade;

  constructor(grade: Grade) {
    super();
    this.grade = grade;
  }
}

/** Gives a function that grades the trials of an eval. It throws only the signal's reason. */
export function createGrading(
  { eval: spec, env }: Pick<LoadedConfig, "eval" | "env">,
  {
    validateSchema,
    signal,
    accounts,
    isClosed = false,
  }: Pick<GradeContext, "validateSchema"> & {
    readonly signal: AbortSignal;
    readonly accounts: SharedLimits;
    /** No program is run, no file read and no model asked, whatever a task says: it comes from elsewhere. */
    readonly isClosed?: boolean;
  },
): GradeTrial {
  const given: Omit<GradeContext, "askJudge"> = {
    validateSchema,
    readFile: async (dir, file) => {
      if (isClosed) throw needsOutside();
      return (await import("../graders/workspace-files.ts")).readNamedFile(dir, file);
    },
    runProgram: async (program) => {
      if (isClosed) throw needsOutside();
      return (await import("../graders/run-program.ts")).runProgram(program, { env, signal });
    },
  };
  const judgeSpec = spec.judgesStepsOnly === true ? undefined : spec.judge;
  return async (trajectory, emit, kept) => {
    const judgingOf = (name: string): JudgeOptions => ({
      env,
      emit,
      signal,
      accounts,
      modelMs: spec.limits.modelMs,
      beforeAsking(question) {
        const before = kept?.get(name);
        if (before?.judge?.question === question) throw new AnsweredBefore(before);
      },
    });
    const { outcome } = trajectory.events.findLast((event) => event.type === "trial.finished") ?? {};
    const isCompleted = outcome === "completed";
    const isBroken = outcome === "error" || outcome === "timeout";
    if (!isCompleted && !isBroken) return [];
    if (isCompleted && trajectory.trial.agent !== null) {
      const calls = await invalidCalls(trajectory, given.validateSchema);
      if (calls.length > 0) emit({ type: "calls.invalid", calls });
    }
    const graders = gradersOf(trajectory.task, judgeSpec).filter(
      (grader) => (isCompleted || grader.name === attackResistance) && grader.applies(trajectory),
    );
    // The schemas of a server under check can be hostile.
    const isCheck = trajectory.task.check !== undefined;
    const validateSchema = isCheck ? validateOfServer(given.validateSchema, signal) : given.validateSchema;
    const context = { ...given, validateSchema };
    const grades = await Promise.all(
      graders.map(async (grader): Promise<Grade> => {
        const { name, weight = 1, required = true } = grader;
        const share = { ...(weight === 1 ? {} : { weight }), ...(required ? {} : { required }) };
        try {
          const askJudge: AskJudge = async (request) => {
            if (isClosed) throw needsOutside();
            return (await import("../graders/judge/judge.ts")).createJudge(
              spec.judge,
              judgingOf(name),
            )(request);
          };
          return { grader: name, ...(await grader.grade(trajectory, { ...context, askJudge })), ...share };
        } catch (cause) {
          if (cause instanceof AnsweredBefore) {
            const { weight: _, required: __, ...grade } = cause.grade;
            return { ...grade, ...share };
          }
          if (signal.aborted) throw cause;
          // A trial whose grader threw has no verdict, and the run goes on.
          const error = serializeError(cause);
          const { message: reason } = error;
          return { grader: name, verdict: "error", score: null, reason, evidence: [], error, ...share };
        }
      }),
    );
    return isCompleted ? grades : grades.filter(({ verdict }) => verdict === "fail");
  };
}

/** Said of a grader of an imported trial that needs more than the record. */
export function needsOutside(): McpvalsError {
  return new McpvalsError(
    "grader/not-imported",
    "it needs a model, a program or a file, which import does not use",
    { hint: "Grade the run with the file that declares the task: npx mcpvals grade --config FILE." },
  );
}

/** A judge that a declared grader asks. */
interface AskedJudge {
  readonly judge: JudgeSpec;
  /** Where the grader names its model; absent: the eval's judge is asked, or the place is unknown. */
  readonly location?: SourceLocation | undefined;
}

/**
 * The judges that declared graders ask. If there is none, throws `judgeError`, else `config/no-judge`, unless `mayBeNone`.
 */
export function judgesOfGraders(
  spec: Eval,
  judgeError?: McpvalsError,
  { mayBeNone = false }: { readonly mayBeNone?: boolean } = {},
): readonly AskedJudge[] {
  const asked: AskedJudge[] = [];
  for (const { name: task, graders = [] } of spec.tasks) {
    for (const grader of graders) {
      const judge = judgeOfGrader(grader, spec);
      if (judge === null && !mayBeNone) throw judgeError ?? noJudge(task, grader);
      if (judge === null || judge === undefined) continue;
      const { model, second } = graderKinds[grader.type]?.judge?.(grader.config) ?? {};
      asked.push(model === undefined ? { judge } : { judge, location: settingLocation(grader, "model") });
      if (second !== undefined)
        asked.push({
          judge: judgeOf(spec.judge, second),
          location: settingLocation(grader, "second_model"),
        });
    }
  }
  return asked;
}

/** The judge that a grader asks; undefined: it asks none. Null: it asks one, and none is configured. */
export function judgeOfGrader(
  { type, config }: GraderSpec,
  { judge: ofEval }: Pick<Eval, "judge">,
): JudgeSpec | null | undefined {
  const judge = graderKinds[type]?.judge?.(config);
  if (judge === undefined) return undefined;
  if (judge.model === undefined && ofEval === undefined) return null;
  return judgeOf(ofEval, judge.model);
}

function noJudge(task: string, { name, location }: GraderSpec): McpvalsError {
  const asks = `the grader ${JSON.stringify(name)} of the task ${JSON.stringify(task)} asks a judge`;
  return new McpvalsError("config/no-judge", `${asks}, and none is configured`, {
    ...(location === undefined ? {} : { location }),
    hint: "Set judge: {model: PROVIDER/MODEL} in a config or llmJudge in an Eval, give the grader a model, or pass --judge MODEL.",
  });
}
