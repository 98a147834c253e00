import { getEventListeners } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/base/error.ts";
import type {
  ActionStep,
  CommandStep,
  ExtensionStep,
  FileStep,
  HttpStep,
  LlmStep,
  McpStep,
  ScriptStep,
  Step,
} from "../../src/model/step.ts";
import type { EventBody } from "../../src/model/event.ts";
import { expanderOf } from "../../src/templates/expand.ts";
import { openTrialExtensions } from "../../src/extensions/host/trial-extensions.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepContext, StepJudge, StepReport } from "../../src/steps/step-runner.ts";
import { preparedAs, preparedExtension } from "../support/extensions.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { anyTool, stubSession, textResult } from "../support/sessions.ts";
import {
  commandStepOf,
  plainTrial,
  scopeOf,
  scriptStepOf,
  stepContext,
  temporaryTrial,
} from "../support/step-context.ts";
import { mcpStep } from "../support/trial-events.ts";
import { keepIn } from "../support/records.ts";

/** How one attempt goes: as expected, otherwise, too slowly, it cannot act, not before it is told to stop. */
type Course = "good" | "bad" | "slow" | "broken" | "hangs";

/** A step whose attempts take some courses, one after the other, and what it needs for that. */
interface Prepared<S extends Step> {
  /** It checks something; `slow` takes longer than its time limit, which is short. */
  readonly step: S;
  readonly context: Partial<StepContext>;
  close(): void | Promise<void>;
}

type Prepare<S extends Step> = (courses: readonly Course[]) => Prepared<S> | Promise<Prepared<S>>;

type Tried = ActionStep["type"];

/** Every type of step that acts itself; one that is missing does not compile. */
const types: { readonly [T in Tried]: Prepare<Extract<ActionStep, { type: T }>> } = {
  mcp: prepareMcp,
  llm: prepareLlm,
  command: prepareCommand,
  script: prepareScript,
  http: prepareHttp,
  file: prepareFile,
  extension: prepareExtension,
};

/** Only a slow attempt reaches its time limit, in milliseconds, also on a busy machine. */
function limitFor(courses: readonly Course[]): number {
  return courses.includes("slow") ? 1500 : 20_000;
}

/** Courses that a type of step cannot take. */
const impossible: { readonly [T in Tried]?: readonly Course[] } = {
  // What it does with regular files is over at once, and it waits for nothing else.
  file: ["slow", "hangs"],
};

/** A server whose tool `add` is called once in every attempt. */
function prepareMcp(courses: readonly Course[]): Prepared<McpStep> {
  const rest = [...courses];
  const session = stubSession({
    name: "calc",
    tools: [anyTool("add")],
    call(_tool, _args, { signal, timeoutMs }) {
      switch (nextOf(rest)) {
        case "good":
          return textResult("5");
        case "bad":
          return textResult("6");
        case "slow":
          return { kind: "timeout", message: "too slow", latencyMs: timeoutMs };
        case "broken":
          throw new McpvalsError("server/exited", "gone", { hint: "why" });
        case "hangs":
          return new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
          });
      }
    },
  });
  // A latency limit above the timeout: one below it would make a missing answer a failure.
  const step = mcpStep({ result: 5, maxLatencyMs: 2000 });
  // Without a scope it would be a tool test, where the server is at fault when there is no answer.
  return { step, context: { sessions: [session], scope: scopeOf({}) }, close: () => undefined };
}

/** A line that takes its course from a file; output that is too long cannot be checked. */
function prepareCommand(courses: readonly Course[]): Prepared<CommandStep> {
  const run =
    "case $course in good) echo 5;; bad) echo 6;; broken) head -c 10000001 /dev/zero;; *) exec sleep 1000;; esac";
  const step = commandStepOf(`${takeCourse}${run}`, {
    timeoutMs: limitFor(courses),
    expect: { exitCode: 0, stdout: { equals: "5" } },
  });
  return { step, ...trialWithCourses(courses) };
}

/** A script that takes its course from a file; one that writes no JSON is broken. */
function prepareScript(courses: readonly Course[]): Prepared<ScriptStep> {
  const run = `case $course in
good) echo '{"passed": true}';;
bad) echo '{"passed": false}';;
broken) echo broken;;
*) exec sleep 1000;;
esac`;
  const step = scriptStepOf(
    { inline: `${takeCourse}${run}` },
    { timeoutMs: limitFor(courses), protocol: "json" },
  );
  return { step, ...trialWithCourses(courses) };
}

/** Shell code that reads and removes the first of the files with courses. */
const takeCourse = 'set -- course.*; read course < "$1"; rm "$1"\n';

function trialWithCourses(courses: readonly Course[]): Omit<Prepared<Step>, "step"> {
  const trial = temporaryTrial();
  for (const [index, course] of courses.entries()) {
    writeFileSync(join(trial.dir, `course.${index}`), `${course}\n`);
  }
  return { context: { trial }, close: () => trial[Symbol.dispose]() };
}

/** A program that takes its course from a file; one that ends without an answer could not act. */
function prepareExtension(courses: readonly Course[]): Prepared<ExtensionStep> {
  const { context, close } = trialWithCourses(courses);
  if (context.trial === undefined) throw new Error("no trial");
  const extension = preparedExtension("faulty.mjs");
  const extensions = openTrialExtensions({
    specs: { x: extension.spec },
    prepared: preparedAs(extension),
    trial: context.trial,
    expander: expanderOf(undefined),
    env: context.trial.env,
    emit: () => 0,
  });
  return {
    step: { type: "extension", id: "ask", timeoutMs: 3000, extension: "x", operation: "course", args: {} },
    context: { trial: { ...context.trial, extensions } },
    async close() {
      await extensions[Symbol.asyncDispose]();
      await close();
    },
  };
}

/** A judge that is asked once in every attempt. */
function prepareLlm(courses: readonly Course[]): Prepared<LlmStep> {
  const rest = [...courses];
  const judge: StepJudge = (_question, signal) => {
    const course = nextOf(rest);
    if (course === "broken") return Promise.reject(new McpvalsError("judge/no-verdict", "junk"));
    if (course === "good" || course === "bad") {
      const passed = course === "good";
      const score = passed ? 1 : 0;
      const by = { model: "a/b", prompt: "sha256:0", threshold: 1, votes: [score] };
      return Promise.resolve({ passed, score, reason: "so it is", judge: by });
    }
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
  };
  const trial = { ...plainTrial("a task"), judge, agent: { output: "It is 5.", exitCode: 0 } };
  const step: LlmStep = { type: "llm", id: "ask", timeoutMs: 200, contains: "5" };
  return { step, context: { trial }, close: () => undefined };
}

/** A server that answers each request; one that hangs up gives no answer. */
async function prepareHttp(courses: readonly Course[]): Promise<Prepared<HttpStep>> {
  const rest = [...courses];
  const server = createServer((_, response) => {
    switch (nextOf(rest)) {
      case "good":
        return response.end("5");
      case "bad":
        return response.end("6");
      case "broken":
        return response.socket?.destroy();
      case "slow":
      case "hangs":
    }
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  const step: HttpStep = {
    type: "http",
    id: "ask",
    timeoutMs: limitFor(courses),
    url: `http://127.0.0.1:${port}/`,
    method: "GET",
    headers: {},
    expect: { status: ["2xx"], body: { equals: "5" } },
  };
  const close = (): Promise<void> => {
    server.closeAllConnections();
    return new Promise((done) => server.close(() => done()));
  };
  return { step, context: {}, close };
}

/** A look at a file of another name in every attempt; what is not text cannot be looked at. */
function prepareFile(courses: readonly Course[]): Prepared<FileStep> {
  const rest = [...courses];
  const trial = temporaryTrial();
  writeFileSync(join(trial.dir, "good"), "5");
  writeFileSync(join(trial.dir, "bad"), "6");
  writeFileSync(join(trial.dir, "broken"), Buffer.of(0xff));
  const step: FileStep = {
    type: "file",
    id: "look",
    timeoutMs: 700,
    path: "{course}",
    action: { kind: "check", exists: true, content: { equals: "5" } },
  };
  const scope = new Map([["course", () => nextOf(rest)]]);
  return { step, context: { trial, scope }, close: () => trial[Symbol.dispose]() };
}

function nextOf(courses: Course[]): Course {
  const course = courses.shift();
  if (course === undefined) throw new Error("tried too often");
  return course;
}

interface Played {
  readonly events: readonly EventBody[];
  /** Number and outcome of every attempt that ended, in order. */
  readonly attempts: readonly (readonly [number, string])[];
  readonly report: StepReport | undefined;
  readonly thrown: unknown;
}

interface PlayOptions {
  readonly retries?: number;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: EventBody) => void;
}

async function play(
  prepare: Prepare<Step>,
  courses: readonly Course[],
  { retries = 0, signal, onEvent }: PlayOptions = {},
): Promise<Played> {
  const prepared = await prepare(courses);
  const events: EventBody[] = [];
  const keep = keepIn(events);
  const context = stepContext({
    ...prepared.context,
    emit(event) {
      const number = keep(event);
      onEvent?.(event);
      return number;
    },
    ...(signal === undefined ? {} : { signal }),
  });
  let report: StepReport | undefined;
  let thrown: unknown;
  try {
    report = await runStep({ ...prepared.step, retries }, context);
  } catch (error) {
    thrown = error;
  } finally {
    await prepared.close();
  }
  const finished = events.filter((event) => event.type === "step.finished");
  const attempts = finished.map(({ attempt, outcome }) => [attempt, outcome] as const);
  return { events, attempts, report, thrown };
}

const all = Object.entries(types) as unknown as readonly (readonly [Step["type"], Prepare<Step>])[];

describe.each(all)("a step of type %s", (type, prepare) => {
  const lacks = (course: Course): boolean => impossible[type as Tried]?.includes(course) === true;

  it("leaves one pair of events for each attempt, the last of them the first good one", async () => {
    const { events, attempts, report } = await play(prepare, ["broken", "bad", "good"], { retries: 4 });
    expect(report).toMatchObject({ outcome: "passed", ignored: false });
    expect(attempts).toEqual([
      [1, "error"],
      [2, "failed"],
      [3, "passed"],
    ]);
    const place = (attempt: number): object => ({ phase: "verify", attempt });
    expect(events.filter((event) => event.type.startsWith("step."))).toMatchObject(
      [1, 2, 3].flatMap((attempt) => [
        { type: "step.started", stepType: type, ...place(attempt) },
        { type: "step.finished", ...place(attempt) },
      ]),
    );
  });

  it.each<Course>(["good", "bad"])("tells what it was given and how each check went (%s)", async (course) => {
    const { events } = await play(prepare, [course]);
    const started = events.find((event) => event.type === "step.started");
    const finished = events.find((event) => event.type === "step.finished");
    if (started === undefined || finished === undefined) throw new Error("no pair");
    expect(Object.keys(started.input)).not.toEqual([]);
    expect(JSON.parse(JSON.stringify(events))).toEqual(events);
    expect(finished.durationMs).toBeGreaterThanOrEqual(0);
    expect(finished.checks).not.toEqual([]);
    for (const check of finished.checks) {
      expect(check.name).toMatch(/\S/);
      expect(check.message).toMatch(/\S/);
      for (const side of [check.expected, check.actual]) expect(side).not.toBeUndefined();
    }
    expect(finished.checks.every((check) => check.passed)).toBe(course === "good");
  });

  it.skipIf(lacks("slow"))("whose last attempt takes too long is a timeout, not a failure", async () => {
    const nothingIsLeft = watchLeftovers();
    const { report } = await play(prepare, ["bad", "slow"], { retries: 1 });
    expect(report).toMatchObject({ outcome: "timeout", error: { kind: "timeout" } });
    await nothingIsLeft();
  });

  it("that cannot act is an error, with the reason in its events", async () => {
    const { events, report } = await play(prepare, ["broken"]);
    expect(report).toMatchObject({ outcome: "error", error: { kind: "environment" } });
    const finished = events.find((event) => event.type === "step.finished");
    expect(finished).toMatchObject({ outcome: "error", checks: [], error: { kind: "environment" } });
  });

  it("does nothing when the trial is over", async () => {
    const reason = new McpvalsError("trial/timeout", "over");
    const { events, thrown } = await play(prepare, [], { signal: AbortSignal.abort(reason) });
    expect([events, thrown]).toEqual([[], reason]);
  });

  it.skipIf(lacks("hangs"))(
    "ends with the signal's reason when the trial ends during an attempt, and leaves its end",
    async () => {
      const controller = new AbortController();
      const reason = new McpvalsError("run/interrupted", "stop");
      const { attempts, thrown } = await play(prepare, ["hangs"], {
        retries: 3,
        signal: controller.signal,
        onEvent: ({ type: event }) =>
          event === "step.started" && setImmediate(() => controller.abort(reason)),
      });
      expect(thrown).toBe(reason);
      expect(attempts).toEqual([[1, "error"]]);
    },
  );

  it("makes no further attempt when the trial ends between two", async () => {
    const controller = new AbortController();
    const reason = new McpvalsError("trial/timeout", "over");
    const { attempts, thrown } = await play(prepare, ["bad"], {
      retries: 3,
      signal: controller.signal,
      onEvent: ({ type: event }) => event === "step.finished" && controller.abort(reason),
    });
    expect([attempts, thrown]).toEqual([[[1, "failed"]], reason]);
  });

  it("leaves nothing behind, however it ends", async () => {
    const nothingIsLeft = watchLeftovers();
    for (const course of ["good", "bad", "broken"] as const) {
      const { signal } = new AbortController();
      await play(prepare, [course], { signal });
      expect(getEventListeners(signal, "abort"), course).toEqual([]);
    }
    await nothingIsLeft();
  });
});
