import { expect, it } from "vitest";
import type { JsonObject } from "../formats/model.ts";
import { describeInput } from "./render-trace.ts";

it.each<[string, JsonObject, string]>([
  ["command", { run: "make\n  test\n", env: { A: "1" } }, "$ make ⏎ test ⏎"],
  ["http", { method: "POST", url: "http://127.0.0.1/a", headers: {} }, "POST http://127.0.0.1/a"],
  ["http", { url: "http://127.0.0.1/a" }, "GET http://127.0.0.1/a"],
  ["file", { path: "a.txt" }, "a.txt"],
  ["file", { path: "a.txt", action: { kind: "create", content: "x" } }, "create a.txt"],
  ["script", { file: "check.sh", args: ["--all", "x"] }, "check.sh --all x"],
  ["script", { source: { inline: "#!/bin/sh\nexit 1" } }, "#!/bin/sh ⏎ exit 1"],
  ["mcp", { tool: "add", args: { a: 1 } }, 'add {"a":1}'],
  ["mcp", { server: "calc", tool: "add", args: {} }, "calc: add {}"],
  ["mcp", { uri: "file:///a" }, "read file:///a"],
  ["mcp", { prompt: "greet", args: {} }, "prompt greet {}"],
  ["extension", { extension: "k8s", operation: "apply", args: { n: 1 } }, 'k8s.apply {"n":1}'],
  ["foreach", { var: "host", in: ["a", "b"] }, 'host in ["a","b"]'],
  ["anyOf", { steps: 2 }, ""],
  ["llm", { contains: "ready" }, 'contains "ready"'],
  ["command", { if: "{env.CI}" }, "if {env.CI}"],
  ["command", {}, ""],
])("shows what a step of type %s works with: %j", (stepType, input, line) => {
  expect(describeInput(stepType, input)).toBe(line);
});
