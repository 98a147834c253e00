import { posix, win32 } from "node:path";
import { describe, expect, it } from "vitest";
import {
  baseEnvironment,
  defaultShell,
  interpreterOf,
  localBinPath,
  mergeEnvironments,
} from "./environment.ts";
import { descendantsOf } from "./process-tree.ts";

describe("baseEnvironment", () => {
  it("picks the variables that programs need, on POSIX by exact name", () => {
    const env = {
      PATH: "/bin",
      Path: "/other",
      HOME: "/home/a",
      LC_ALL: "C",
      LC_TIME: undefined,
      OPENAI_API_KEY: "secret",
      APPDATA: "x",
    };
    expect(baseEnvironment(env, "linux")).toEqual({ PATH: "/bin", HOME: "/home/a", LC_ALL: "C" });
  });

  it("ignores case on Windows and gives upper-case names", () => {
    const env = { Path: "C:\\bin", SystemRoot: "C:\\Windows", HOME: "x", LC_ALL: "C", Token: "secret" };
    expect(baseEnvironment(env, "win32")).toEqual({ PATH: "C:\\bin", SYSTEMROOT: "C:\\Windows" });
  });
});

describe("mergeEnvironments", () => {
  const environments = [
    { PATH: "a", HOME: "h" },
    { Path: "b", HOME: undefined },
  ];

  it("lets later ones win, on Windows ignoring case", () => {
    expect(mergeEnvironments(environments, "linux")).toEqual({ PATH: "a", Path: "b", HOME: "h" });
    expect(mergeEnvironments(environments, "win32")).toEqual({ Path: "b", HOME: "h" });
  });
});

describe("localBinPath", () => {
  it("puts every node_modules/.bin upwards first, nearest first", () => {
    expect(localBinPath("/home/me/app", "/usr/bin:/bin", posix)).toBe(
      "/home/me/app/node_modules/.bin:/home/me/node_modules/.bin:/home/node_modules/.bin:/node_modules/.bin:/usr/bin:/bin",
    );
    expect(localBinPath("C:\\app", "C:\\bin", win32)).toBe(
      "C:\\app\\node_modules\\.bin;C:\\node_modules\\.bin;C:\\bin",
    );
  });

  it("adds no empty folder when there is no PATH", () => {
    expect(localBinPath("/", undefined, posix)).toBe("/node_modules/.bin");
    expect(localBinPath("/", "", posix)).toBe("/node_modules/.bin");
  });
});

describe("interpreterOf", () => {
  it.each([
    ["#!/bin/sh\necho", "/bin/sh", []],
    ["#! /bin/bash -eu\r\necho", "/bin/bash", ["-eu"]],
    ["#!/usr/bin/env python3", "/usr/bin/env", ["python3"]],
    ["#!/usr/bin/env -S node --flag  x\n", "/usr/bin/env", ["-S node --flag  x"]],
  ])("reads %j as Linux does", (text, command, args) => {
    expect(interpreterOf(text, "linux")).toEqual({ command, args });
  });

  it.each(["", "echo", " #!/bin/sh", "\n#!/bin/sh", "#!", "#!\n/bin/sh", "# !/bin/sh"])(
    "finds none in %j",
    (text) => {
      expect(interpreterOf(text, "linux")).toBeUndefined();
    },
  );

  it.each([
    ["#!/bin/sh\necho", "sh", []],
    ["#!/bin/bash -e -u\r\necho", "bash", ["-e", "-u"]],
    ["#!/usr/bin/env python3", "python3", []],
    ["#!/usr/bin/env -S node --flag x", "node", ["--flag", "x"]],
    ["#!C:\\Tools\\perl.exe", "perl.exe", []],
    ["#!/usr/bin/env", "env", []],
  ])("reads %j on Windows as a name for PATH", (text, command, args) => {
    expect(interpreterOf(text, "win32")).toEqual({ command, args });
  });
});

describe("defaultShell", () => {
  it.each<[Record<string, string>, NodeJS.Platform, string]>([
    [{ SHELL: "/bin/zsh" }, "linux", "/bin/zsh"],
    [{ SHELL: "" }, "linux", "/bin/sh"],
    [{}, "darwin", "/bin/sh"],
    [{ SHELL: "/usr/sbin/nologin" }, "linux", "/bin/sh"],
    [{ SHELL: "/bin/false" }, "linux", "/bin/sh"],
    [{ SHELL: "/bin/true" }, "linux", "/bin/sh"],
    [{ SHELL: "/bin/untrue" }, "linux", "/bin/untrue"],
    [{ SHELL: "bash" }, "win32", "bash"],
    [{}, "win32", "sh"],
  ])("of %j on %s is %s", (env, platform, shell) => {
    expect(defaultShell(env, platform)).toBe(shell);
  });
});

describe("descendantsOf", () => {
  const info = (pid: number, parent: number) => ({ pid, parent, group: pid, started: 1 });

  it("finds all descendants in any order, and no other process", () => {
    const all = [info(5, 4), info(4, 2), info(2, 1), info(3, 1), info(6, 2), info(7, 3)];
    expect(descendantsOf(2, all).map(({ pid }) => pid)).toEqual([4, 6, 5]);
    expect(descendantsOf(9, [info(2, 1)])).toEqual([]);
  });
});
