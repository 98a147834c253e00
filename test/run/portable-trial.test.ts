import * as fc from "fast-check";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import type { AgentContext } from "../../src/agents/driver.ts";
import { McpvalsError } from "../../src/base/error.ts";
import type { ServerSpec } from "../../src/model/server.ts";
import type { Task } from "../../src/model/task.ts";
import { expanderOf } from "../../src/templates/expand.ts";
import type { TraceEvent } from "../../src/model/event.ts";
import { toldIn } from "../support/agent-context.ts";
import { leaf, type LeafEnd } from "../support/sessions.ts";
import { playTrial, portableTask, taskFolder } from "../support/portable.ts";

function phasesOf(events: readonly TraceEvent[]): readonly string[] {
  return events.flatMap((event) => (event.type === "phase.started" ? event.phase : []));
}

function workspaceOf(events: readonly TraceEvent[]): string {
  const created = events.find((event) => event.type === "workspace.created");
  if (created?.type !== "workspace.created") throw new Error("no workspace was made");
  return created.path;
}

const says =
  (text: string) =>
  async ({ emit, turns }: AgentContext): Promise<void> => {
    for (const [turn, user] of (await toldIn({ turns })).entries()) {
      emit({ type: "turn.started", turn, user });
      emit({ type: "agent.message", turn, text });
      emit({ type: "turn.finished", turn, reason: "done" });
    }
  };

describe("the phases of a trial", () => {
  it("follow each other; what runs in them is in order, cleanup in reverse", async () => {
    const task = portableTask(
      { setup: [leaf("s1", "pass"), leaf("s2", "pass")], cleanup: [leaf("c1", "pass"), leaf("c2", "pass")] },
      { verify: [leaf("v", "pass")], turns: [{ user: "do it" }] },
    );
    const { events, calls, finished } = await playTrial(task, { agent: says("done") });
    expect(phasesOf(events)).toEqual(["workspace", "servers", "setup", "agent", "verify", "cleanup", "stop"]);
    expect(calls).toEqual(["s1", "s2", "v", "c2", "c1"]);
    expect(finished.outcome).toBe("completed");
    expect(existsSync(workspaceOf(events))).toBe(false);
  });

  it.each<[LeafEnd, object]>([
    ["fail", { code: "task/setup-failed" }],
    ["error", { code: "server/unreachable" }],
  ])("a setup step that ends as %s makes the trial an error, which still cleans up", async (end, error) => {
    const task = portableTask(
      { setup: [leaf("s1", end), leaf("s2", "pass")], cleanup: [leaf("c", "pass")] },
      { verify: [leaf("v", "pass")], turns: [{ user: "do it" }] },
    );
    const { calls, finished } = await playTrial(task, { agent: says("done") });
    expect(calls).toEqual(["s1", "c"]);
    expect(finished).toMatchObject({ outcome: "error", error });
  });

  it("the older forms: a soft failure in setup goes on, a hard one in verify ends the phase", async () => {
    const task = portableTask(
      { setup: [leaf("s1", "fail", { failure: "soft" }), leaf("s2", "pass")] },
      {
        verify: [
          leaf("v1", "fail", { failure: "soft" }),
          leaf("v2", "fail", { failure: "hard" }),
          leaf("v3", "pass"),
        ],
      },
    );
    const { calls, finished } = await playTrial(task);
    expect(calls).toEqual(["s1", "s2", "v1", "v2"]);
    expect(finished.outcome).toBe("completed");
    const broken = await playTrial(portableTask({ setup: [leaf("s1", "error", { failure: "soft" })] }));
    expect(broken.finished.outcome).toBe("error");
  });

  it("an unmet check in verify is not an error, and the next step still runs; a step that cannot act is one", async () => {
    const failed = await playTrial(portableTask({}, { verify: [leaf("a", "fail"), leaf("b", "pass")] }));
    expect([failed.calls, failed.finished.outcome]).toEqual([["a", "b"], "completed"]);
    const broken = await playTrial(portableTask({}, { verify: [leaf("a", "error"), leaf("b", "pass")] }));
    expect(broken.finished).toMatchObject({ outcome: "error", error: { code: "server/unreachable" } });
  });

  it("a server that does not start makes an error, which still cleans up", async () => {
    const task = portableTask({ cleanup: [leaf("c", "pass")] }, { verify: [leaf("v", "pass")] });
    const startServer = (): Promise<never> =>
      Promise.reject(new McpvalsError("server/spawn-failed", "no such program"));
    const { outcomes, finished } = await playTrial(task, { services: { startServer } });
    expect(finished).toMatchObject({ outcome: "error", error: { code: "server/spawn-failed" } });
    expect(Object.keys(outcomes)).toEqual(["c"]);
  });
});

describe("time", () => {
  it("metadata.timeout holds setup, agent and verify together, over the eval's limit", async () => {
    const task = portableTask(
      { setup: [leaf("s", "hang")], timeoutMs: 50, cleanup: [leaf("c", "pass")] },
      { verify: [leaf("v", "pass")] },
    );
    const { calls, finished } = await playTrial(task);
    expect([calls, finished.outcome, finished.error?.code]).toEqual([["s", "c"], "timeout", "trial/timeout"]);
  });

  it("without it the eval's limit holds", async () => {
    const limits = { trialMs: 50, callMs: 60_000, modelMs: 60_000 };
    const { finished } = await playTrial(portableTask({}, { verify: [leaf("v", "hang")] }), {
      services: { limits },
    });
    expect([finished.outcome, finished.error?.message]).toEqual([
      "timeout",
      "the trial took longer than 0.05 s",
    ]);
  });
});

/** A random list of leaves with unique names. */
function leaves(prefix: string): fc.Arbitrary<ReturnType<typeof leaf>[]> {
  const ends = fc.array(fc.constantFrom<LeafEnd>("pass", "fail", "error", "hang"), { maxLength: 4 });
  return ends.map((list) => list.map((end, index) => leaf(`${prefix}${index}`, end)));
}

it("cleanup runs each step exactly once, in reverse, wherever failures, timeouts and interrupts fall", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({ setup: leaves("s"), verify: leaves("v"), cleanup: leaves("c") }),
      fc.option(fc.nat({ max: 11 }), { nil: undefined }),
      async ({ setup, verify, cleanup }, interruptAt) => {
        const controller = new AbortController();
        const task = portableTask({ setup, cleanup, timeoutMs: 20, cleanupTimeoutMs: 20 }, { verify });
        let count = 0;
        const { calls, events } = await playTrial(task, {
          signal: controller.signal,
          onCall() {
            if (count++ === interruptAt) controller.abort(new McpvalsError("run/interrupted", "stop"));
          },
        });
        const cleaned = calls.filter((id) => id.startsWith("c"));
        expect(cleaned).toEqual(cleanup.map((step) => step.id).toReversed());
        expect(existsSync(workspaceOf(events))).toBe(false);
        const pairs = events.filter((event) => event.type === "step.started").length;
        expect(events.filter((event) => event.type === "step.finished")).toHaveLength(pairs);
      },
    ),
    { numRuns: 150 },
  );
});

describe("what a task needs", () => {
  const missing = (): readonly string[] => ["the command kubectl", "the variable KUBECONFIG"];

  it("and lacks leaves it out, before anything starts, with all of it told", async () => {
    const { events, finished } = await playTrial(portableTask(), { services: { missing } });
    expect(phasesOf(events)).toEqual(["stop"]);
    expect(finished).toMatchObject({
      outcome: "skipped",
      error: {
        code: "task/missing-requirement",
        message: expect.stringContaining("kubectl; the variable KUBECONFIG") as string,
      },
    });
  });

  it("is an error when the run is strict", async () => {
    const { finished } = await playTrial(portableTask(), { services: { missing, strict: true } });
    expect(finished).toMatchObject({ outcome: "error", error: { code: "task/missing-requirement" } });
  });

  it("a judge for an llm step, wherever it stands, else it is an error before anything starts", async () => {
    const llm = { type: "llm", id: "ask", contains: "x", timeoutMs: 1000 } as const;
    const nested = { type: "allOf", id: "all", steps: [llm], timeoutMs: 1000 } as const;
    for (const step of [llm, nested]) {
      const { events, finished } = await playTrial(portableTask({}, { verify: [step] }));
      expect([phasesOf(events), finished.outcome, finished.error?.code]).toEqual([
        ["stop"],
        "error",
        "task/no-judge",
      ]);
    }
  });
});

describe("what templates refer to", () => {
  const prompt = async (
    text: string,
    task: Task,
    options: Parameters<typeof playTrial>[1] = {},
  ): Promise<string> => {
    let told = "";
    const agent = async (context: AgentContext): Promise<void> => {
      told = (await toldIn(context)).join("|");
    };
    const { finished } = await playTrial(
      { ...task, turns: [{ user: text }, { user: text }] },
      { agent, ...options },
    );
    if (finished.error !== undefined) throw new Error(finished.error.message);
    return told;
  };

  it("random.id is one value a trial, eight letters and digits; a name makes a further one", async () => {
    const told = await prompt("{random.id} {random.id:b}", portableTask());
    const [first, second] = told.split("|");
    expect(first).toMatch(/^[a-z][a-z0-9]{7} [a-z][a-z0-9]{7}$/);
    expect(second).toBe(first);
    const [plain, named] = (first ?? "").split(" ");
    expect(plain).not.toBe(named);
    expect(await prompt("{random.id}", portableTask())).not.toContain(plain);
  });

  it("random.port is free, one value a trial, and held until a process is started with it", async () => {
    let taken: unknown;
    const agent = async ({ solution }: AgentContext): Promise<void> => {
      const port = expanderOf(solution?.scope ?? new Map()).text("{random.port}");
      const server = createServer().listen(Number(port), "127.0.0.1");
      taken = await once(server, "error").then(([error]) => (error as NodeJS.ErrnoException).code);
    };
    const task = portableTask({ randomPorts: [""], solution: [] }, { turns: [{ user: "Go." }] });
    await playTrial(task, { agent });
    expect(taken).toBe("EADDRINUSE");
    const two = await prompt("{random.port} {random.port:b}", portableTask({ randomPorts: ["", "b"] }));
    expect(new Set(two.split("|")[0]?.split(" ")).size).toBe(2);
  });

  it("random.port is the agent's as soon as it is told of it", async () => {
    const agent = async (context: AgentContext): Promise<void> => {
      const [told] = await toldIn(context);
      const server = createServer().listen(Number(told?.split(" ").at(-1)), "127.0.0.1");
      await once(server, "listening");
      server.close();
    };
    const turns = [{ user: "Start it on port {random.port}" }];
    const { finished } = await playTrial(portableTask({ randomPorts: [""] }, { turns }), { agent });
    expect(finished.outcome).toBe("completed");
  });

  it("servers.NAME.url, itself a template", async () => {
    const task = portableTask({ env: { PORT: "8080" } });
    const url = "http://127.0.0.1:{env.PORT}/mcp";
    const specOf = (): ServerSpec => ({
      transport: "shttp",
      url,
      headers: {},
      startupTimeoutMs: 60_000,
      maxMessageBytes: 1024,
    });
    expect(await prompt("{servers.leaves.url}", task, { services: { specOf } })).toContain(
      "http://127.0.0.1:8080/mcp|",
    );
  });

  it("fixtures are in the workspace, under their last names, before setup", async () => {
    using folder = taskFolder();
    writeFileSync(join(folder.path, "notes.txt"), "hello");
    let content = "";
    const agent = async (context: AgentContext): Promise<void> => {
      const [folder = ""] = await toldIn(context);
      content = readFileSync(join(folder, "notes.txt"), "utf8");
    };
    const task = portableTask(
      { dir: folder.path, fixtures: ["notes.txt"] },
      { turns: [{ user: "{workspace}" }] },
    );
    const { events } = await playTrial(task, { agent });
    expect(content).toBe("hello");
    expect(events.find((event) => event.type === "workspace.created")).toMatchObject({
      fixtures: ["notes.txt"],
    });
    const broken = await playTrial(portableTask({ dir: folder.path, fixtures: ["other.txt"] }));
    expect(broken.finished).toMatchObject({ outcome: "error", error: { code: "task/workspace" } });
  });

  it("links in fixtures stay inside them, and no other is copied", async () => {
    using folder = taskFolder();
    mkdirSync(join(folder.path, "data"));
    writeFileSync(join(folder.path, "data/notes.txt"), "hello");
    symlinkSync("notes.txt", join(folder.path, "data/inside"));
    symlinkSync("data", join(folder.path, "link"));
    const agent = async (context: AgentContext): Promise<void> => {
      const [workspace = ""] = await toldIn(context);
      writeFileSync(join(workspace, "link/inside"), "changed");
    };
    const task = portableTask({ dir: folder.path, fixtures: ["link"] }, { turns: [{ user: "{workspace}" }] });
    expect((await playTrial(task, { agent })).finished.outcome).toBe("completed");
    expect(readFileSync(join(folder.path, "data/notes.txt"), "utf8")).toBe("hello");
    for (const target of ["../../secret", "..", join(folder.path, "data/notes.txt")]) {
      rmSync(join(folder.path, "data/inside"));
      symlinkSync(target, join(folder.path, "data/inside"));
      const { finished } = await playTrial(task, { agent });
      expect(finished).toMatchObject({ outcome: "error", error: { code: "task/outside" } });
      const allowed = await playTrial(portableTask({ dir: folder.path, fixtures: ["data"] }), {
        services: { allowOutside: true },
      });
      expect(allowed.finished.outcome).toBe("completed");
    }
  });
});

describe("the state before setup and after cleanup", () => {
  /** Plays a trial whose state is compared, with an agent that does something in the workspace. */
  async function compare(task: Task, act: (workspace: string) => void = () => undefined) {
    const agent = ({ workspace }: AgentContext): Promise<void> => Promise.resolve(act(workspace));
    const services = { compareState: { changes: new Map(), known: new Map() } };
    const played = await playTrial({ ...task, turns: [{ user: "Go." }] }, { agent, services });
    const event = played.events.find((each) => each.type === "state.compared");
    return { ...played, differences: event?.type === "state.compared" ? event.differences : undefined };
  }

  it("is compared only when the run asks for it", async () => {
    using folder = taskFolder();
    const task = portableTask({ dir: folder.path });
    expect((await playTrial(task)).events.some(({ type }) => type === "state.compared")).toBe(false);
    expect((await compare(task)).differences).toEqual([]);
  });

  it.skipIf(process.platform === "win32")(
    "tells what came, went and changed in the folder of the task",
    async () => {
      using folder = taskFolder();
      const { path } = folder;
      mkdirSync(join(path, "deep"));
      writeFileSync(join(path, "notes.txt"), "hello");
      writeFileSync(join(path, "run.sh"), "true", { mode: 0o644 });
      symlinkSync("one", join(path, "link"));
      const task = portableTask({ dir: path, fixtures: ["notes.txt"] });
      const { differences = [] } = await compare(task, (workspace) => {
        writeFileSync(join(workspace, "notes.txt"), "changed");
        writeFileSync(join(workspace, "new.txt"), "new");
        chmodSync(join(path, "run.sh"), 0o755);
        rmSync(join(path, "link"));
        symlinkSync("two", join(path, "link"));
        mkdirSync(join(path, "empty"));
        writeFileSync(join(path, "deep/file"), "new");
      });
      expect(differences.toSorted()).toEqual([
        expect.stringMatching(/^task folder\/deep\/file was not there before: a file, /),
        "task folder/empty was not there before: a folder",
        "task folder/link was a link to one and is a link to two",
        expect.stringMatching(/^task folder\/run\.sh was a file, mode 644, .* and is a file, mode 755, /),
      ]);
    },
  );

  it("looks at steps of cleanup too, and needs no output of one that has failed", async () => {
    using folder = taskFolder();
    const play = (end: LeafEnd): ReturnType<typeof compare> => {
      const probe = leaf("probe", end, end === "fail" ? {} : { outputs: { b: "b" } });
      return compare(portableTask({ dir: folder.path, stateProbe: ["probe.b"], cleanup: [probe] }));
    };
    expect((await play("pass")).calls).toEqual(["probe", "probe", "probe"]);
    expect((await play("fail")).differences).toEqual([]);
    const { finished, differences } = await play("error");
    expect(finished).toMatchObject({ outcome: "error", error: { code: "server/unreachable" } });
    expect(differences).toBeUndefined();
  });

  it("includes the outputs that stateProbe names, and no others", async () => {
    using folder = taskFolder();
    const probe = leaf("probe", "pass", { outputs: { a: "{env.A}", b: "b" } });
    const spec = { dir: folder.path, env: { A: "{random.id}" }, stateProbe: ["probe.b", "other"] };
    const { events, calls, differences } = await compare(portableTask(spec, { verify: [probe] }));
    expect([differences, calls]).toEqual([[], ["probe", "probe", "probe"]]);
    expect(phasesOf(events).filter((phase) => phase === "probe")).toHaveLength(2);
  });

  it("includes whether a step holds that has no outputs, and misses none that is named", async () => {
    using folder = taskFolder();
    const play = (name: string, probe: Task["verify"][number]): ReturnType<typeof compare> =>
      compare(portableTask({ dir: folder.path, stateProbe: [name] }, { verify: [probe] }), (workspace) =>
        writeFileSync(join(workspace, "new.txt"), "new"),
      );
    const action = { kind: "check", exists: true } as const;
    const path = "{workspace}/new.txt";
    const { differences } = await play("probe", {
      type: "file",
      id: "probe",
      path,
      action,
      timeoutMs: 60_000,
    });
    expect(differences).toContain("step probe was failed and is passed");
    const { finished } = await play("probe.b", leaf("probe", "pass"));
    expect(finished).toMatchObject({ outcome: "error", error: { code: "task/template" } });
  });
});
