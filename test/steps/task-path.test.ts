import { mkdirSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TrialContext } from "../../src/steps/step-runner.ts";
import { resolveTaskPath } from "../../src/steps/task-path.ts";
import { temporaryTrial } from "../support/step-context.ts";

let trial: TrialContext & Disposable;
/** A folder beside those of the task. */
let other: string;

beforeEach(() => {
  trial = temporaryTrial();
  other = join(dirname(trial.dir), "other");
  mkdirSync(other);
  writeFileSync(join(other, "secret"), "s");
  mkdirSync(join(trial.dir, "sub"));
});

afterEach(() => trial[Symbol.dispose]());

const reading = { forWriting: false };
const writing = { forWriting: true };

/** What both uses say of a path: where it leads, or the code of the refusal. */
async function both(path: string): Promise<readonly string[]> {
  const tried = [reading, writing].map((options) =>
    resolveTaskPath(path, trial, options).catch((error: { code: string }) => error.code),
  );
  return Promise.all(tried);
}

describe("a path is taken", () => {
  it("from the task's folder when it is relative, whether something is there or not", async () => {
    const expected = join(trial.dir, "sub", "new", "file.txt");
    expect(await both("sub/new/file.txt")).toEqual([expected, expected]);
    expect(await both(`sub${sep}..${sep}sub/./new/file.txt`)).toEqual([expected, expected]);
  });

  it("as it is when it lies in the task's folder or the workspace", async () => {
    for (const folder of [trial.dir, trial.workspace]) {
      const path = join(folder, "a", "b");
      expect(await both(path)).toEqual([path, path]);
    }
    const across = relative(trial.dir, join(trial.workspace, "x"));
    expect(await both(across)).toEqual([join(trial.workspace, "x"), join(trial.workspace, "x")]);
  });

  it("with names that only look like a way out", async () => {
    expect(await both("..name/..x")).toEqual(Array(2).fill(join(trial.dir, "..name", "..x")));
  });

  it("through links that stay inside", async () => {
    symlinkSync(trial.workspace, join(trial.dir, "ws"));
    expect(await both("ws/file")).toEqual(Array(2).fill(join(trial.dir, "ws", "file")));
  });

  it("when the folders themselves are reached through a link", async () => {
    const link = join(dirname(trial.dir), "link");
    symlinkSync(trial.dir, link);
    const linked = { ...trial, dir: link };
    expect(await resolveTaskPath("new/file", linked, writing)).toBe(join(link, "new", "file"));
    expect(await resolveTaskPath(join(trial.dir, "x"), linked, reading)).toBe(join(trial.dir, "x"));
  });

  it("below what is not a folder, where nothing can be", async () => {
    writeFileSync(join(trial.dir, "file"), "");
    expect(await both("file/below")).toEqual(Array(2).fill(join(trial.dir, "file", "below")));
  });
});

describe("a path is refused", () => {
  it.each(["..", "../other/secret", "../../x", "sub/../../other", "../task", "/", "/etc/hosts"])(
    "that leads out: %s",
    async (path) => {
      expect(await both(path)).toEqual(["task/outside", "task/outside"]);
    },
  );

  it("beside the folder with a name that begins like it", async () => {
    expect(await both(`${trial.dir}-more/x`)).toEqual(["task/outside", "task/outside"]);
  });

  it("that leads out through a link, also one to nothing yet and one behind another", async () => {
    symlinkSync(other, join(trial.workspace, "out"));
    symlinkSync(join(other, "none"), join(trial.workspace, "dangling"));
    symlinkSync("dangling", join(trial.workspace, "twice"));
    const inside = (name: string): string => join(trial.workspace, name);
    expect(await both(inside("out/secret"))).toEqual(["task/outside", "task/outside"]);
    expect(await both(inside("out/new/file"))).toEqual(["task/outside", "task/outside"]);
    // The link itself may be removed or replaced, but not looked through.
    for (const name of ["out", "dangling", "twice"]) {
      expect(await both(inside(name))).toEqual(["task/outside", inside(name)]);
    }
    expect((await both(inside("twice/x")))[0]).toBe("task/outside");
  });

  it("when links go in a circle, or it is not a path", async () => {
    symlinkSync("b", join(trial.dir, "a"));
    symlinkSync("a", join(trial.dir, "b"));
    expect((await both("a"))[0]).toBe("step/cannot-run");
    expect(await both("a/x")).toEqual(["step/cannot-run", "step/cannot-run"]);
    expect(await both("a\0b/c")).toEqual(["step/cannot-run", "step/cannot-run"]);
    expect(await both("x".repeat(5000))).toEqual(["step/cannot-run", join(trial.dir, "x".repeat(5000))]);
  });

  it("when it is one of the folders or around them, and is to be written", async () => {
    const paths = [".", "", trial.workspace, dirname(trial.dir)];
    for (const path of paths) {
      await expect(resolveTaskPath(path, trial, writing)).rejects.toMatchObject({ code: "task/outside" });
      const anywhere = { ...trial, allowOutside: true };
      await expect(resolveTaskPath(path, anywhere, writing)).rejects.toMatchObject({ code: "task/outside" });
    }
    expect(await resolveTaskPath(".", trial, reading)).toBe(trial.dir);
  });

  it("with the place that it leads to and what can be done", async () => {
    symlinkSync(other, join(trial.dir, "out"));
    await expect(resolveTaskPath("out/secret", trial, reading)).rejects.toMatchObject({
      message: `the path "out/secret" leads to ${realpathSync(other)}${sep}secret, outside the task's folder ${trial.dir} and the workspace ${trial.workspace}`,
      details: { hint: expect.stringContaining("--allow-outside") },
    });
  });

  it("whatever it is where a task has no folders", async () => {
    const none = { dir: "", workspace: "", allowOutside: false };
    await expect(resolveTaskPath("x", none, reading)).rejects.toMatchObject({ code: "task/outside" });
  });
});

it("may lead anywhere when that is allowed", async () => {
  trial = { ...trial, allowOutside: true };
  expect(await both("../other/secret")).toEqual(Array(2).fill(join(other, "secret")));
  rmSync(other, { recursive: true });
  expect(await both("../other/secret")).toEqual(Array(2).fill(join(other, "secret")));
});
