import { describe, expect, it } from "vitest";
import { interpreterOf } from "./environment.ts";

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
