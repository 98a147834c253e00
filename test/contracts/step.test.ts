import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { McpvalsError } from "../../src/core/errors/error.ts";
import type { Step } from "../../src/core/formats/model.ts";
import type { EventBody } from "../../src/core/trace/events.ts";
import type { ServerSession } from "../../src/servers/session.ts";
import { runStep } from "../../src/steps/run-step.ts";
import { watchLeftovers } from "../support/leftovers.ts";
import { anyTool, stubSession, textResult } from "../support/sessions.ts";
import { mcpStep } from "../support/trial-events.ts";

/** How one attempt goes: what was expected, something else, too slowly, not at all. */
type Course = "good" | "bad" | "timeout" | "lost" | "hangs";

/** How to make a step of one type take a course; its attempts take the courses one after the other. */
interface StepWay<S extends Step> {
  /** A step that checks something and that allows this many retries. */
  readonly step: (retries: number) => S;
  readonly sessions: (courses: CourseList) => readonly ServerSession[];
}

interface CourseList {
  readonly lost: McpvalsError;
  /** The course of the attempt that begins now. */
  next(): Course;
}

/** Every type of step; one that is missing does not compile. */
const types: { readonly [T in Step["type"]]: StepWay<Extract<Step, { type: T }>> } = {
  mcp: {
    // A latency limit above the timeout: one below it would make a missing answer a failure.
    step: (retries) => ({ ...mcpStep({ result: 5, maxLatencyMs: 2000 }), retries }),
    sessions: (courses) => [toolServer(courses)],
  },
};

/** A server whose tool `add` is called once in every attempt. */
function toolServer(courses: CourseList): ServerSession {
  return stubSession({
    name: "calc",
    tools: [anyTool("add")],
    call(_tool, _args, { signal, timeoutMs }) {
      switch (courses.next()) {
        case "good":
          return textResult("5");
        case "bad":
          return textResult("6");
        case "timeout":
          return { kind: "timeout", message: "too slow", latencyMs: timeoutMs };
        case "lost":
          throw courses.lost;
        case "hangs":
          return new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
          });
      }
    },
  });
}

interface Played {
  readonly events: readonly EventBody[];
  /** Number, outcome and error code of every attempt that ended, in order. */
  readonly attempts: readonly (readonly [number, string, string | undefined])[];
  readonly thrown: unknown;
}

interface PlayOptions {
  readonly retries?: number;
  readonly lost?: McpvalsError;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: EventBody) => void;
}

async function play(
  way: StepWay<Step>,
  courses: readonly Course[],
  options: PlayOptions = {},
): Promise<Played> {
  const { retries = 0, lost = new McpvalsError("server/exited", "gone"), onEvent } = options;
  const events: EventBody[] = [];
  const rest = [...courses];
  const next = (): Course => {
    const course = rest.shift();
    if (course === undefined) throw new Error("tried too often");
    return course;
  };
  const thrown = await runStep(way.step(retries), "verify", {
    sessions: way.sessions({ lost, next }),
    emit(event) {
      events.push(event);
      onEvent?.(event);
      return events.length;
    },
    signal: options.signal ?? new AbortController().signal,
  }).then(
    () => undefined,
    (error: unknown) => error ?? new Error("nothing was thrown"),
  );
  const finished = events.filter((event) => event.type === "step.finished");
  const attempts = finished.map(({ attempt, outcome, error }) => [attempt, outcome, error?.code] as const);
  return { events, attempts, thrown };
}

describe.each(Object.entries(types))("a step of type %s", (type, way) => {
  it("leaves one pair of events for each attempt, the last of them the first good one", async () => {
    const { events, attempts, thrown } = await play(way, ["timeout", "bad", "good"], { retries: 4 });
    expect(thrown).toBeUndefined();
    const { id } = way.step(0);
    const place = (attempt: number): object => ({ phase: "verify", step: id, attempt });
    expect(events).toMatchObject(
      [1, 2, 3].flatMap((attempt) => [
        { type: "step.started", stepType: type, ...place(attempt) },
        { type: "step.finished", ...place(attempt) },
      ]),
    );
    expect(events).toHaveLength(6);
    expect(attempts).toEqual([
      [1, "timeout", "server/call-timeout"],
      [2, "failed", undefined],
      [3, "passed", undefined],
    ]);
  });

  it.each<Course>(["good", "bad"])("tells what it was given and how each check went (%s)", async (course) => {
    const { events } = await play(way, [course]);
    const [started, finished] = events;
    if (started?.type !== "step.started" || finished?.type !== "step.finished") throw new Error("no pair");
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

  it("that never does what was expected fails, which is a finding and not thrown", async () => {
    const { attempts, thrown } = await play(way, ["bad", "bad", "bad"], { retries: 2 });
    expect(thrown).toBeUndefined();
    expect(attempts.map(([attempt, outcome]) => [attempt, outcome])).toEqual([
      [1, "failed"],
      [2, "failed"],
      [3, "failed"],
    ]);
  });

  it("whose last attempt takes too long is a timeout, not a failure", async () => {
    const { attempts, thrown } = await play(way, ["bad", "timeout"], { retries: 1 });
    expect(attempts.map(([, outcome]) => outcome)).toEqual(["failed", "timeout"]);
    expect(thrown).toBeInstanceOf(McpvalsError);
    expect((thrown as McpvalsError).kind).toBe("timeout");
  });

  it("ends at once with the very error of a server that is lost, which its events say", async () => {
    const lost = new McpvalsError("server/exited", "gone", { hint: "why" });
    const { events, attempts, thrown } = await play(way, ["lost"], { retries: 3, lost });
    expect(thrown).toBe(lost);
    expect(attempts).toEqual([[1, "error", "server/exited"]]);
    expect(events).toHaveLength(2);
    expect(events[1]).toMatchObject({
      checks: [],
      error: { kind: "environment", message: "gone", hint: "why" },
    });
  });

  it("does nothing when the trial is over", async () => {
    const reason = new McpvalsError("trial/timeout", "over");
    const { events, thrown } = await play(way, [], { signal: AbortSignal.abort(reason) });
    expect([events, thrown]).toEqual([[], reason]);
  });

  it("ends with the signal's reason when the trial ends during an attempt, and leaves its end", async () => {
    const controller = new AbortController();
    const reason = new McpvalsError("run/interrupted", "stop");
    const playing = play(way, ["hangs"], { retries: 3, signal: controller.signal });
    controller.abort(reason);
    const { events, attempts, thrown } = await playing;
    expect(thrown).toBe(reason);
    expect(attempts).toEqual([[1, "error", "run/interrupted"]]);
    expect(events).toHaveLength(2);
  });

  it("makes no further attempt when the trial ends between two", async () => {
    const controller = new AbortController();
    const reason = new McpvalsError("trial/timeout", "over");
    const { events, thrown } = await play(way, ["bad"], {
      retries: 3,
      signal: controller.signal,
      onEvent: ({ type }) => type === "step.finished" && controller.abort(reason),
    });
    expect([events.length, thrown]).toEqual([2, reason]);
  });

  it("leaves nothing behind, however it ends", async () => {
    const nothingIsLeft = watchLeftovers();
    for (const course of ["good", "bad", "timeout", "lost"] as const) {
      const { signal } = new AbortController();
      await play(way, [course], { signal });
      expect(getEventListeners(signal, "abort"), course).toEqual([]);
    }
    await nothingIsLeft();
  });
});
