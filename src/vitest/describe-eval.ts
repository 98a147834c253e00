import { afterAll, describe, test, type TestContext } from "vitest";
import type { Config } from "../formats/config/config-schema.ts";
import { createPlan, type Trial } from "../model/plan.ts";
import { testedTool } from "../model/task.ts";
import type { Reporter } from "../report/reporter.ts";
import type { TrialResult } from "../model/result.ts";
import { collectEvidence } from "../report/evidence.ts";
import { checkedNothing, wasNotRun } from "../report/rates.ts";
import { readTrace } from "../trace/trajectory.ts";
import { visibleText } from "../base/visible-text.ts";
import type { TraceEvent } from "../model/event.ts";
import {
  type EvaluateOptions,
  evaluationOf,
  type PreparedEvaluation,
  prepareEvaluation,
} from "../evaluate.ts";
import { explainTrial } from "../report/explain.ts";
import { fullTitle, variantName, varietyOf } from "../report/text.ts";
import { run, type RunOutcome } from "../run/run.ts";
import { testError } from "./server.ts";
import { createStyle } from "../base/columns.ts";

/**
 * Makes one test of each trial of an eval. They are trials of one run, which starts with the first test: servers and concurrency are those of the eval,
 * and filters of Vitest leave out the tasks of tests that they skip. A test fails with the evidence of its trial; a trial that its task leaves out is
 * skipped; one that could not be judged, or checked nothing, fails.
 *
 * @param sources As in `evaluate`: the path of a config, an Eval or tasks, or a config itself.
 */
export function describeEval(
  sources: string | readonly string[] | Config,
  options: EvaluateOptions = {},
): void {
  const title = typeof sources === "string" ? sources : Array.isArray(sources) ? sources.join(", ") : "eval";
  const site = new Error("site");
  Error.captureStackTrace(site, describeEval);
  describe(title, async () => {
    const prepared = await prepareEvaluation(sources, options).catch((error: unknown) => {
      throw at(site, testError(error));
    });
    const { eval: spec } = prepared.loaded;
    const { trials } = createPlan(spec);
    const tasks = new Map(spec.tasks.map((task) => [task.name, task]));
    const variety = varietyOf(trials);
    const shared = new SharedRun(prepared);
    for (const trial of trials) {
      const { form = "task", suite, verify = [] } = tasks.get(trial.task) ?? {};
      const tool = testedTool({ form, verify });
      const named = { ...trial, form, tool, suite };
      const name = [fullTitle(named), variantName(trial, variety)].filter((part) => part !== "").join(" · ");
      // A trial has its own limits.
      test(name, { timeout: 0 }, async (context) => {
        // Vitest before 3.2 has no signal; it aborts on Ctrl-C.
        if ("signal" in context) context.signal.addEventListener("abort", () => shared.cancel());
        const ended = await shared.trialEnded(trial, () => selectedTasks(trials, context));
        await showVerdict(ended, context, site);
      });
    }
    afterAll(() => shared.end(), 0);
  });
}

/** The tasks that have a test that Vitest does not skip. The tests of a `describe` are in the order of the trials. */
function selectedTasks(trials: readonly Trial[], { task }: TestContext): ReadonlySet<string> {
  const tests = task.suite?.tasks ?? [];
  return new Set(
    trials.flatMap((trial, index) => {
      const mode = tests[index]?.mode;
      return mode === "skip" || mode === "todo" ? [] : [trial.task];
    }),
  );
}

/** A trial that has ended, and why it did not pass. */
interface EndedTrial {
  readonly result: TrialResult;
  readonly reasons: readonly string[];
}

/** Passes, skips or fails a test as its trial ended. */
async function showVerdict(
  { result, reasons }: EndedTrial,
  context: TestContext,
  site: Error,
): Promise<void> {
  const { verdict, warnings = [], error: cause } = result;
  // Vitest before 3.2 has no annotations.
  if ("annotate" in context)
    for (const text of warnings) await context.annotate(visibleText(text), "warning");
  if (verdict === "pass") return;
  if (verdict === "skip" && !wasNotRun(result) && !checkedNothing(result))
    context.skip(visibleText(cause?.message ?? ""));
  const error = new Error([headlineOf(result), ...reasons].join("\n"));
  error.name = "Trial";
  throw at(site, error);
}

function headlineOf(result: TrialResult): string {
  if (result.verdict === "fail") return "failed";
  if (result.verdict === "skip") return wasNotRun(result) ? "not run" : "checked nothing";
  return `not judged (${result.verdict})`;
}

/** An error that shows the line of the test file as its place. */
function at(site: Error, error: Error): Error {
  const [, ...lines] = (site.stack ?? "").split("\n");
  error.stack = [`${error.name}: ${error.message}`, ...lines].join("\n");
  return error;
}

const page = { style: createStyle(false), width: Infinity };

/** The run that the tests of an eval share. */
class SharedRun {
  readonly #prepared: PreparedEvaluation;
  readonly #controller = new AbortController();
  readonly #ended = new Map<string, EndedTrial>();
  readonly #waiting = new Map<string, (ended: EndedTrial) => void>();
  #running: Promise<RunOutcome> | undefined;
  #folder: string | undefined;
  #planned = Infinity;

  constructor(prepared: PreparedEvaluation) {
    this.#prepared = prepared;
  }

  /** Waits until a trial has ended. The first call starts the run of the selected tasks. Rejects when the run cannot start. */
  async trialEnded(trial: Trial, selected: () => ReadonlySet<string>): Promise<EndedTrial> {
    this.#running ??= this.#start(selected());
    const key = keyOf(trial);
    const ended = new Promise<EndedTrial>((resolve) => {
      this.#waiting.set(key, resolve);
    });
    const over = this.#running.then(({ result }) => {
      const row = result.trials.find((each) => keyOf(each) === key);
      if (row === undefined) throw new Error(`the run lacks the trial of ${trial.task}`);
      return { result: row, reasons: [] };
    });
    try {
      return this.#ended.get(key) ?? (await Promise.race([ended, over]));
    } catch (error) {
      throw testError(error);
    } finally {
      this.#waiting.delete(key);
    }
  }

  /** Stops the run, which cleans up. */
  cancel(): void {
    this.#controller.abort();
  }

  /** Ends the run, early if there are tests that wait for it no more. Throws when the run showed nothing. */
  async end(): Promise<void> {
    if (this.#running === undefined) return;
    if (this.#ended.size < this.#planned) this.cancel();
    const [settled] = await Promise.allSettled([this.#running]);
    // A test has thrown the error.
    if (settled.status === "rejected") return;
    const { summary } = evaluationOf(settled.value);
    if (summary.skip === summary.total)
      throw new Error("every trial was skipped, so that the run shows nothing");
  }

  #start(names: ReadonlySet<string>): Promise<RunOutcome> {
    const { loaded, runOptions } = this.#prepared;
    const { eval: spec } = loaded;
    const tasks = spec.tasks.filter(({ name }) => names.has(name));
    const { signal } = this.#controller;
    return run(
      { ...loaded, eval: { ...spec, tasks } },
      {
        ...runOptions,
        signal: runOptions.signal === undefined ? signal : AbortSignal.any([signal, runOptions.signal]),
        reporters: [{ name: "vitest", reporter: this.#reporter() }],
      },
    );
  }

  #reporter(): Reporter {
    const recorded = new Map<string, TraceEvent[]>();
    return {
      onRunStart: ({ folder, plan }) => {
        this.#folder = folder;
        this.#planned = plan.trials.length;
      },
      onEvent: (event) => {
        const events = recorded.get(event.trial);
        if (events === undefined) recorded.set(event.trial, [event]);
        else events.push(event);
      },
      onTrialEnd: (result) => {
        const events = recorded.get(result.id) ?? [];
        recorded.delete(result.id);
        const ended = { result, reasons: this.#reasons(result, events) };
        this.#ended.set(keyOf(result), ended);
        this.#waiting.get(keyOf(result))?.(ended);
      },
    };
  }

  #reasons(result: TrialResult, events: readonly TraceEvent[]): readonly string[] {
    if (result.verdict === "pass") return [];
    const why = explainTrial(result, collectEvidence(readTrace(events), result.grades), { indent: 0, page });
    const trace =
      this.#folder === undefined
        ? []
        : ["", `trace: npx mcpvals show ${visibleText(this.#folder)} --trial ${result.id}`];
    return [...why, ...trace];
  }
}

function keyOf({ task, agent, variant, attempt }: Trial | TrialResult): string {
  return JSON.stringify([task, agent, variant ?? null, attempt]);
}
