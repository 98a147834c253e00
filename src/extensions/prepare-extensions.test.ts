import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { defaultSandbox, type SandboxSpec } from "../model/sandbox.ts";
import type { Task } from "../model/task.ts";
import { openHomeNotes, settingsExpander } from "./prepare-extensions.ts";

it("replaces variables that are set, and nothing else", () => {
  const expander = settingsExpander({ config: { url: "{env.HOST}:1" }, env: { X: "a {b}" } }, { HOST: "h" });
  expect(expander?.text("{env.HOST}:1 a {b}")).toBe("h:1 a {b}");
});

it.each([["{workspace}/db"], ["{env.UNSET}"], ["{random.port}"]])("leaves %s to the trial", (text) => {
  expect(settingsExpander({ config: { list: [{ text }] }, env: {} }, { HOST: "h" })).toBeUndefined();
  expect(settingsExpander({ config: {}, env: { text } }, { HOST: "h" })).toBeUndefined();
});

const home = resolve("home", "me");

function task(dir: string, kind: SandboxSpec["kind"]): Task {
  const extension = {
    alias: "a",
    package: "./a",
    dir,
    config: {},
    env: {},
    sandbox: { ...defaultSandbox, kind },
  };
  return { name: "t", portable: { dir, extensions: { a: extension } } } as unknown as Task;
}

it("warns of a task whose folder is the home folder, or holds it", () => {
  const note =
    'the folder of the task "t" contains your home folder, which its confined extensions can read: move the task into a folder of its own';
  expect(openHomeNotes([task(home, "process")], home)).toEqual([note]);
  expect(openHomeNotes([task(resolve("home"), "docker")], home)).toEqual([note]);
});

it("says nothing of other folders, and where nothing is confined", () => {
  const tasks = [
    task(join(home, "tasks"), "process"),
    task(resolve("home", "..me"), "process"),
    task(home, "none"),
  ];
  expect(openHomeNotes(tasks, home)).toEqual([]);
});
