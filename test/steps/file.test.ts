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
import type { FileExpectation, FileStep } from "../../src/core/formats/step.ts";
import { runStep } from "../../src/steps/run-step.ts";
import type { StepReport, TrialContext } from "../../src/steps/step-runner.ts";
import { runShell } from "../support/shell.ts";
import { scopeOf, stepContext, temporaryTrial, type TestContext } from "../support/step-context.ts";

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

/** Name, whether it holds and message of every check on what is at a path. */
async function told(path: string, expectation: FileExpectation): Promise<readonly unknown[]> {
  const { checks, error } = await run(stepOn(path, { kind: "check", ...expectation }));
  if (error !== undefined) throw error as Error;
  return checks.map(({ name, passed, message }) => [name, passed, message]);
}

function at(path: string): string {
  return join(trial.dir, path);
}

describe("making a file", () => {
  it("writes it with its folders and is one check", async () => {
    const report = await create("a/b/c.txt", "hällo {env.A}\n", 0o600);
    expect(report).toEqual({
      outcome: "passed",
      ignored: false,
      checks: [
        {
          name: "written",
          passed: true,
          expected: "0600",
          actual: "0600",
          message: "9 bytes written to a/b/c.txt",
          acted: true,
        },
      ],
    });
    expect(readFileSync(at("a/b/c.txt"), "utf8")).toBe("hällo x\n");
  });

  it("replaces templates in the path too, and gives the content", async () => {
    const step = stepOn(
      "{workspace}/{env.A}.txt",
      { kind: "create", content: "<{env.A}>", mode: 0o644 },
      { outputs: { again: "{content}!" } },
    );
    const made = context();
    expect(await runStep(step, made)).toMatchObject({ outcome: "passed", outputs: { again: "<x>!" } });
    expect(readFileSync(join(trial.workspace, "x.txt"), "utf8")).toBe("<x>");
    expect(made.events[0]).toMatchObject({
      input: { path: join(trial.workspace, "x.txt"), action: "create", mode: "0644", content: "<x>" },
    });
  });

  it.skipIf(process.platform === "win32")(
    "gives it its mode, whatever the umask and the old file's",
    async () => {
      const before = process.umask(0o077);
      try {
        await create("run.sh", "", 0o755);
        expect(statSync(at("run.sh")).mode & 0o7777).toBe(0o755);
        await create("run.sh", "", 0o444);
        await create("run.sh", "again", 0o640);
        expect(statSync(at("run.sh")).mode & 0o7777).toBe(0o640);
      } finally {
        process.umask(before);
      }
    },
  );

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

  it("replaces a link and leaves what it leads to", async () => {
    writeFileSync(at("target"), "old");
    symlinkSync("target", at("link"));
    await create("link", "new");
    expect([readFileSync(at("target"), "utf8"), lstatSync(at("link")).isSymbolicLink()]).toEqual([
      "old",
      false,
    ]);
  });

  it("cannot act where a folder is, or below a file", async () => {
    mkdirSync(at("folder"));
    writeFileSync(at("file"), "");
    for (const path of ["folder", "file/x"]) {
      const { outcome, error } = await create(path, "x");
      expect([outcome, error]).toMatchObject(["error", { code: "step/cannot-run" }]);
      expect((error as Error).message).toMatch(new RegExp(`^cannot write ${path}: E`));
    }
    expect(readdirSync(trial.dir).toSorted()).toEqual(["file", "folder"]);
  });
});

describe("removing a file", () => {
  const remove = (path: string): Promise<StepReport> => run(stepOn(path, { kind: "remove" }));

  it("is one check, also when it was gone already", async () => {
    writeFileSync(at("a"), "");
    const check = { name: "removed", passed: true, expected: "nothing", actual: "nothing", acted: true };
    expect(await remove("a")).toEqual({
      outcome: "passed",
      ignored: false,
      checks: [{ ...check, message: "a is removed" }],
    });
    expect(existsSync(at("a"))).toBe(false);
    expect((await remove("a")).checks).toEqual([{ ...check, message: "a did not exist" }]);
    writeFileSync(at("a"), "");
    expect((await remove("a/b")).checks).toEqual([{ ...check, message: "a/b did not exist" }]);
  });

  it("takes a folder of the workspace with all that is in it, and of a link the link", async () => {
    const folder = join(trial.workspace, "folder");
    mkdirSync(join(folder, "sub"), { recursive: true });
    writeFileSync(join(folder, "sub/file"), "");
    mkdirSync(at("kept"));
    writeFileSync(at("kept/file"), "");
    symlinkSync("kept", at("link"));
    expect((await remove(folder)).outcome).toBe("passed");
    expect((await remove("link")).outcome).toBe("passed");
    expect([readdirSync(trial.workspace), readdirSync(trial.dir)]).toEqual([[], ["kept"]]);
    expect(readdirSync(at("kept"))).toEqual(["file"]);
  });

  it("outside the workspace takes a folder only when it is empty", async () => {
    mkdirSync(at("fixtures/data"), { recursive: true });
    writeFileSync(at("fixtures/data/rows.csv"), "1");
    mkdirSync(at("empty"));
    symlinkSync(trial.dir, join(trial.workspace, "home"));
    for (const path of ["fixtures", join(trial.workspace, "home/fixtures")]) {
      expect(await remove(path)).toMatchObject({
        outcome: "error",
        error: {
          code: "step/cannot-run",
          message: `cannot remove ${path}: it is a folder with something in it, outside the workspace`,
        },
      });
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

describe("looking at a file", () => {
  beforeEach(() => {
    writeFileSync(at("file"), '{"a": 1}\n');
    mkdirSync(at("folder"));
  });

  it("tells whether it exists", async () => {
    expect(await told("file", { exists: true })).toEqual([["exists", true, "there is a file"]]);
    expect(await told("none", { exists: true })).toEqual([["exists", false, "the file does not exist"]]);
    expect(await told("file/below", { exists: false })).toEqual([["exists", true, "there is nothing"]]);
    expect(await told("file", { exists: false })).toEqual([
      ["exists", false, "expected nothing, found a file"],
    ]);
  });

  it("takes a folder for none, whatever is expected", async () => {
    expect(await told("folder", { exists: true, content: { equals: "" } })).toEqual([
      ["exists", false, "expected a file, found a folder"],
    ]);
    expect(await told("folder", { exists: false })).toEqual([
      ["exists", false, "expected nothing, found a folder"],
    ]);
  });

  it.skipIf(process.platform === "win32")("does not wait for a pipe", async () => {
    expect(await runShell("mkfifo pipe", { cwd: trial.dir })).toMatchObject({ code: 0 });
    expect(await told("pipe", { exists: true, content: { equals: "" } })).toEqual([
      ["exists", false, "expected a file, found a pipe"],
    ]);
  });

  it.skipIf(process.platform === "win32")("tells its mode", async () => {
    chmodSync(at("file"), 0o640);
    expect(await told("file", { exists: true, mode: 0o640 })).toEqual([
      ["exists", true, "there is a file"],
      ["mode", true, "the mode is 0640"],
    ]);
    expect((await told("file", { exists: true, mode: 0o644 }))[1]).toEqual([
      "mode",
      false,
      "the mode is 0640, expected 0644",
    ]);
  });

  it("looks at its content, with templates in what is expected", async () => {
    writeFileSync(at("x"), "x\n");
    expect(await told("x", { exists: true, content: { equals: "{env.A}" } })).toEqual([
      ["exists", true, "there is a file"],
      ["content equals", true, "it is as expected"],
    ]);
    const content = { contains: ["b"], matches: ["a"], json: [{ path: "a", equals: 2 }] };
    expect(await told("file", { exists: true, content })).toEqual([
      ["exists", true, "there is a file"],
      ["content contains", false, 'it does not contain "b"'],
      ["content matches", true, 'it matches "a"'],
      ["content json $.a equals", false, "$.a is 1, expected 2"],
    ]);
  });

  it("expects nothing else of what must not exist", async () => {
    const content = { equals: "" };
    const message = "nothing exists that could have a content or a mode";
    expect((await told("none", { exists: false, content }))[1]).toEqual(["file", false, message]);
    expect((await told("none", { exists: false, mode: 0o644 }))[1]).toEqual(["file", false, message]);
  });

  it("gives the content to outputs", async () => {
    const action = { kind: "check", exists: true } as const;
    const step = stepOn("file", action, { outputs: { a: "{content | json $.a}", other: "-" } });
    expect(await run(step)).toMatchObject({ outcome: "passed", outputs: { a: "1", other: "-" } });
  });

  it("reads no content that nobody looks at, however large or strange it is", async () => {
    writeFileSync(at("bytes"), Buffer.from([0xff, 0xfe, 0x00]));
    writeFileSync(at("large"), "");
    truncateSync(at("large"), 10_000_001);
    for (const path of ["bytes", "large"]) {
      expect(await run(stepOn(path, { kind: "check", exists: true }))).toMatchObject({ outcome: "passed" });
    }
  });

  it.each([
    ["bytes", "is not text: it is not valid UTF-8"],
    ["large", "is larger than 10000000 bytes"],
  ])("cannot look at the content of %s", async (path, reason) => {
    writeFileSync(at("bytes"), Buffer.from([0xff, 0xfe, 0x00]));
    writeFileSync(at("large"), "");
    truncateSync(at("large"), 10_000_001);
    const looks = [
      stepOn(path, { kind: "check", exists: true, content: { contains: ["a"] } }),
      stepOn(path, { kind: "check", exists: true }, { outputs: { it: "{content}" } }),
    ];
    for (const step of looks) {
      const { outcome, error } = await run(step);
      expect([outcome, error]).toMatchObject(["error", { code: "step/cannot-run" }]);
      expect((error as Error).message).toContain(reason);
    }
  });

  it("looks at 10 MB", async () => {
    writeFileSync(at("large"), "x".repeat(10_000_000));
    expect((await told("large", { exists: true, content: { matches: ["^x+$"] } }))[1]).toEqual([
      "content matches",
      true,
      'it matches "^x+$"',
    ]);
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
    expect(await run(stepOn(path, action))).toMatchObject({
      outcome: "error",
      error: { code: "task/outside" },
    });
  }
  expect(readFileSync(outside, "utf8")).toBe("kept");
  trial = { ...trial, allowOutside: true };
  expect(await run(stepOn("../outside", action))).toMatchObject({ outcome: "passed" });
});
