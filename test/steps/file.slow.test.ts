import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FileStep } from "../../src/model/step.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepReport, TrialContext } from "../../src/steps/step-runner.ts";
import { runShell } from "../support/cli.ts";
import { scopeOf, stepContext, temporaryTrial, type TestContext } from "../support/step-context.ts";

const isWindows = process.platform === "win32";
let trial: TrialContext & Disposable;
beforeEach(() => {
  trial = temporaryTrial();
});
afterEach(() => trial[Symbol.dispose]());

function stepOn(path: string, action: FileStep["action"], parts: Partial<FileStep> = {}): FileStep {
  return { type: "file", id: "file", timeoutMs: 20_000, path, action, ...parts };
}

function context(): TestContext {
  return stepContext({ trial, scope: scopeOf({ env: { A: "x" }, workspace: trial.workspace }) });
}

function run(step: FileStep): Promise<StepReport> {
  return runStep(step, context());
}

function create(path: string, content: string, mode = 0o644): Promise<StepReport> {
  return run(stepOn(path, { kind: "create", content, mode }));
}

/** Absolute path of a file of the task. */
function at(path: string): string {
  return join(trial.dir, path);
}

describe("creating a file", () => {
  it("writes it with its folders and is one check", async () => {
    const report = await create("a/b/c.txt", "hällo {env.A}\n", 0o600);
    const check = { name: "written", passed: true, expected: "0600", actual: "0600", evidence: "sideEffect" };
    const message = "9 bytes written to a/b/c.txt";
    expect(report).toEqual({ outcome: "passed", ignored: false, checks: [{ ...check, message }] });
    expect(readFileSync(at("a/b/c.txt"), "utf8")).toBe("hällo x\n");
  });

  it("replaces templates in the path too, and gives the content to outputs", async () => {
    const action = { kind: "create", content: "<{env.A}>", mode: 0o644 } as const;
    const step = stepOn("{workspace}/{env.A}.txt", action, { outputs: { again: "{content}!" } });
    const made = context();
    expect(await runStep(step, made)).toMatchObject({ outcome: "passed", outputs: { again: "<x>!" } });
    const path = join(trial.workspace, "x.txt");
    expect(readFileSync(path, "utf8")).toBe("<x>");
    const input = { path, action: "create", mode: "0644", content: "<x>" };
    expect(made.events[0]).toMatchObject({ input });
  });

  it.skipIf(isWindows)("gives it its mode, whatever the umask and the old file's", async () => {
    const before = process.umask(0o077);
    try {
      for (const mode of [0o755, 0o444, 0o640]) {
        await create("run.sh", "", mode);
        expect(statSync(at("run.sh")).mode & 0o7777).toBe(mode);
      }
    } finally {
      process.umask(before);
    }
  });

  it("never shows a part of it, and leaves nothing else", async () => {
    const sizes = [1_000_000, 2_000_000];
    await create("big", "x".repeat(1_000_000));
    const over = new AbortController();
    const seen = new Set<number>();
    const look = async (): Promise<void> => {
      while (!over.signal.aborted) {
        seen.add(statSync(at("big")).size);
        await new Promise((next) => setImmediate(next));
      }
    };
    const looking = look();
    for (let index = 0; index < 10; index += 1) await create("big", "x".repeat(sizes[(index + 1) % 2] ?? 0));
    over.abort();
    await looking;
    expect([...seen].filter((size) => !sizes.includes(size))).toEqual([]);
    expect(readdirSync(trial.dir)).toEqual(["big"]);
  });

  it("replaces a link and leaves its target", async () => {
    writeFileSync(at("target"), "old");
    symlinkSync("target", at("link"));
    await create("link", "new");
    const left = [readFileSync(at("target"), "utf8"), lstatSync(at("link")).isSymbolicLink()];
    expect(left).toEqual(["old", false]);
  });

  it.each(["folder", "file/x"])("cannot act where a folder is, or below a file: %s", async (path) => {
    mkdirSync(at("folder"));
    writeFileSync(at("file"), "");
    const message = expect.stringMatching(new RegExp(`^cannot write ${path}: E`)) as string;
    const error = { code: "step/cannot-run", message };
    expect(await create(path, "x")).toMatchObject({ outcome: "error", error });
    expect(readdirSync(trial.dir).toSorted()).toEqual(["file", "folder"]);
  });
});

describe("removing a file", () => {
  const remove = (path: string): Promise<StepReport> => run(stepOn(path, { kind: "remove" }));

  it("is one check, also when it does not exist", async () => {
    writeFileSync(at("a"), "");
    const check = {
      name: "removed",
      passed: true,
      expected: "nothing",
      actual: "nothing",
      evidence: "sideEffect",
    };
    const removed = { outcome: "passed", checks: [{ ...check, message: "a is removed" }] };
    expect(await remove("a")).toMatchObject(removed);
    expect(existsSync(at("a"))).toBe(false);
    expect((await remove("a")).checks).toEqual([{ ...check, message: "a did not exist" }]);
    writeFileSync(at("a"), "");
    expect((await remove("a/b")).checks).toEqual([{ ...check, message: "a/b did not exist" }]);
  });

  it("removes a folder of the workspace with everything in it, and of a link the link", async () => {
    const folder = join(trial.workspace, "folder");
    mkdirSync(join(folder, "sub"), { recursive: true });
    writeFileSync(join(folder, "sub/file"), "");
    mkdirSync(at("kept"));
    writeFileSync(at("kept/file"), "");
    symlinkSync("kept", at("link"));
    for (const path of [folder, "link"]) expect((await remove(path)).outcome).toBe("passed");
    expect([readdirSync(trial.workspace), readdirSync(trial.dir)]).toEqual([[], ["kept"]]);
    expect(readdirSync(at("kept"))).toEqual(["file"]);
  });

  it("outside the workspace removes a folder only when it is empty", async () => {
    mkdirSync(at("fixtures/data"), { recursive: true });
    writeFileSync(at("fixtures/data/rows.csv"), "1");
    mkdirSync(at("empty"));
    symlinkSync(trial.dir, join(trial.workspace, "home"));
    for (const path of ["fixtures", join(trial.workspace, "home/fixtures")]) {
      const message = `cannot remove ${path}: it is a folder with something in it, outside the workspace`;
      const error = { code: "step/cannot-run", message };
      expect(await remove(path)).toMatchObject({ outcome: "error", error });
    }
    expect((await remove("empty")).outcome).toBe("passed");
    expect(readdirSync(trial.dir)).toEqual(["fixtures"]);
    expect(readFileSync(at("fixtures/data/rows.csv"), "utf8")).toBe("1");
  });

  it.each([".", "{workspace}", ".."])("refuses the folders of the task: %s", async (path) => {
    expect(await remove(path)).toMatchObject({ outcome: "error", error: { code: "task/outside" } });
    expect([existsSync(trial.dir), existsSync(trial.workspace)]).toEqual([true, true]);
  });
});

describe("checking a file", () => {
  type Expectation = Omit<Extract<FileStep["action"], { kind: "check" }>, "kind">;
  beforeEach(async () => {
    writeFileSync(at("file"), '{"a": 1}\n');
    chmodSync(at("file"), 0o640);
    writeFileSync(at("x"), "x\n");
    mkdirSync(at("folder"));
    writeFileSync(at("bytes"), Buffer.from([0xff, 0xfe, 0x00]));
    writeFileSync(at("large"), "x".repeat(10_000_000));
    writeFileSync(at("too-large"), "");
    truncateSync(at("too-large"), 10_000_001);
    if (!isWindows) await runShell("mkfifo pipe", { cwd: trial.dir });
  });

  const found = "+ exists: there is a file";
  const impossible = "- file: there is no file whose content or mode could be checked";
  const parts = { contains: ["b"], matches: ["a"], json: [{ path: "a", equals: 2 }] };
  it.each<[string, Expectation, string[]]>([
    ["file", { exists: true }, [found]],
    ["none", { exists: true }, ["- exists: the file does not exist"]],
    ["file/below", { exists: false }, ["+ exists: there is nothing"]],
    ["file", { exists: false }, ["- exists: expected nothing, found a file"]],
    ["folder", { exists: true, content: { equals: "" } }, ["- exists: expected a file, found a folder"]],
    ["folder", { exists: false }, ["- exists: expected nothing, found a folder"]],
    ["pipe", { exists: true, content: { equals: "" } }, ["- exists: expected a file, found a pipe"]],
    ["file", { exists: true, mode: 0o640 }, [found, "+ mode: the mode is 0640"]],
    ["file", { exists: true, mode: 0o644 }, [found, "- mode: the mode is 0640, expected 0644"]],
    ["x", { exists: true, content: { equals: "{env.A}" } }, [found, "+ content equals: it is as expected"]],
    [
      "file",
      { exists: true, content: parts },
      [
        found,
        '- content contains: it does not contain "b"',
        '+ content matches: it matches "a"',
        "- content json $.a equals: $.a is 1, expected 2",
      ],
    ],
    ["none", { exists: false, content: { equals: "" } }, ["+ exists: there is nothing", impossible]],
    ["none", { exists: false, mode: 0o644 }, ["+ exists: there is nothing", impossible]],
    // Content that nobody reads may be large or strange.
    ["bytes", { exists: true }, [found]],
    ["too-large", { exists: true }, [found]],
    [
      "large",
      { exists: true, content: { matches: ["^x+$"] } },
      [found, '+ content matches: it matches "^x+$"'],
    ],
  ])("%s with %j", async (path, expectation, expected) => {
    if (isWindows && (path === "pipe" || expectation.mode !== undefined)) return;
    const { checks } = await run(stepOn(path, { kind: "check", ...expectation }));
    const lines = checks.map(({ name, passed, message }) => `${passed ? "+" : "-"} ${name}: ${message}`);
    expect(lines).toEqual(expected);
  });

  it("gives the content to outputs", async () => {
    const step = stepOn(
      "file",
      { kind: "check", exists: true },
      { outputs: { a: "{content | json $.a}", other: "-" } },
    );
    expect(await run(step)).toMatchObject({ outcome: "passed", outputs: { a: "1", other: "-" } });
  });

  it.each([
    ["bytes", "is not text: it is not valid UTF-8"],
    ["too-large", "is larger than 10000000 bytes"],
  ])("cannot read the content of %s", async (path, reason) => {
    const steps = [
      stepOn(path, { kind: "check", exists: true, content: { contains: ["a"] } }),
      stepOn(path, { kind: "check", exists: true }, { outputs: { it: "{content}" } }),
    ];
    const error = { code: "step/cannot-run", message: expect.stringContaining(reason) as string };
    for (const step of steps) expect(await run(step)).toMatchObject({ outcome: "error", error });
  });
});

it.each<FileStep["action"]>([
  { kind: "create", content: "x", mode: 0o644 },
  { kind: "remove" },
  { kind: "check", exists: true },
])("stays in the task's folders: %j", async (action) => {
  const outside = join(dirname(trial.dir), "outside");
  writeFileSync(outside, "kept");
  for (const path of ["../outside", outside]) {
    const refused = { outcome: "error", error: { code: "task/outside" } };
    expect(await run(stepOn(path, action))).toMatchObject(refused);
  }
  expect(readFileSync(outside, "utf8")).toBe("kept");
  trial = { ...trial, allowOutside: true };
  expect(await run(stepOn("../outside", action))).toMatchObject({ outcome: "passed" });
});
