import { describe, expect, it } from "vitest";
import type { Task } from "../model/task.ts";
import { type Filters, taskFilter, taskSelector } from "./prepare.ts";
import { portableTask } from "../../test/support/portable.ts";

const task: Omit<Task, "name"> = {
  form: "workflow",
  servers: [],
  turns: [],
  expectTools: [],
  verify: [],
  parallel: false,
};

const tasks: readonly Task[] = [
  { ...task, name: "summarize" },
  { ...task, name: "read/write" },
  { ...task, name: "add (two numbers)" },
  { ...task, name: "sums/add", form: "tool-test", suite: "sums" },
  { ...task, name: "sums/10/2 = 5", form: "tool-test", suite: "sums" },
  { ...task, name: "words/add", form: "tool-test", suite: "words" },
  { ...task, name: "words/.hidden", form: "tool-test", suite: "words" },
];

function select(...patterns: string[]): string[] {
  return tasks.filter(taskSelector(patterns, tasks)).map(({ name }) => name);
}

const all = tasks.map(({ name }) => name);

describe("taskSelector", () => {
  it.each<[string, string[]]>([
    ["summarize", ["summarize"]],
    ["add (two numbers)", ["add (two numbers)"]],
    ["sums/add", ["sums/add"]],
    ["10/2 = 5", ["sums/10/2 = 5"]],
    ["sums", ["sums/add", "sums/10/2 = 5"]],
    ["add", ["sums/add", "words/add"]],
    ["*/add", ["sums/add", "words/add"]],
    ["{summarize,words}", ["summarize", "words/add", "words/.hidden"]],
    ["read*", ["read/write"]],
    ["add*", ["add (two numbers)", "sums/add", "words/add"]],
    ["*", all],
  ])("%s selects %j", (pattern, names) => {
    expect(select(pattern)).toEqual(names);
  });

  it("keeps what any pattern selects, in the order of the file", () => {
    expect(select("words/add", "sum*ize", "sums/add")).toEqual(["summarize", "sums/add", "words/add"]);
  });

  it.each(["sumarize", "SUMMARIZE", "sums\\add", "!summarize", "", "["])(
    "%j selects nothing, and says so",
    (pattern) => {
      expect(() => select("summarize", pattern)).toThrow(
        expect.objectContaining({ code: "usage/no-match", message: `no task matches "${pattern}"` }) as Error,
      );
    },
  );

  it("says what was probably meant", () => {
    expect(() => select("sumarize")).toThrow(
      expect.objectContaining({
        details: { hint: expect.stringContaining('Did you mean "summarize"?') as string },
      }) as Error,
    );
  });
});

describe("taskFilter", () => {
  const portable = [
    portableTask({ tags: ["x", "y"], labels: { a: "1", b: "1" }, difficulty: "easy" }, { name: "one" }),
    portableTask({ tags: ["y"], labels: { a: "2", b: "1" }, difficulty: "hard" }, { name: "two" }),
    portableTask({ labels: { a: "3" } }, { name: "three" }),
    { ...task, name: "flow" },
  ];
  const filtered = (filters: Filters): string[] => {
    const matches = taskFilter(filters, portable);
    return portable.filter((each) => matches === undefined || matches(each)).map(({ name }) => name);
  };

  it.each<[Filters, string[]]>([
    [{ tags: [], labels: [] }, ["one", "two", "three", "flow"]],
    [{ tags: ["y"] }, ["one", "two"]],
    [{ labels: ["a=1", "a=2", "b=1"] }, ["one", "two"]],
    [{ labels: ["a=1", "b=1"] }, ["one"]],
    [{ difficulties: ["easy", "hard"] }, ["one", "two"]],
    [{ tags: ["y"], labels: ["a=2"], difficulties: ["hard"], tasks: ["t*"] }, ["two"]],
  ])("%j leaves %j", (filters, names) => {
    expect(filtered(filters)).toEqual(names);
  });

  it.each<[Filters, string]>([
    [{ tags: ["y", "z"] }, 'no task has the tag "z"'],
    [{ labels: ["a=4"] }, 'no task has the label "a=4"'],
    [{ difficulties: ["medium"] }, 'no task has the difficulty "medium"'],
    [{ tasks: ["flow"], tags: ["y"] }, "no task matches all filters"],
  ])("%j leaves nothing, and says so", (filters, message) => {
    expect(() => filtered(filters)).toThrow(
      expect.objectContaining({ code: "usage/no-match", message }) as Error,
    );
  });
});
