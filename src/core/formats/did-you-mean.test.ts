import { expect, it } from "vitest";
import { didYouMean, listNames, suggestion } from "./did-you-mean.ts";

it.each([
  ["expectTool", ["user", "expectTools", "expectedState"], "expectTools"],
  ["expect_tools", ["user", "expectTools"], "expectTools"],
  ["ExpectedState", ["expectedState"], "expectedState"],
  ["comand", ["command", "cwd"], "command"],
  ["tiemout", ["timeout"], "timeout"],
  ["serve", ["servers", "server"], "server"],
  ["agentz", ["agent", "agents"], "agents"],
  ["promt", ["premt", "prompt", "from"], "prompt"],
  ["cat", ["bat", "cap"], "cap"],
  ["llm", ["llmJudge"], undefined],
  ["foo", ["bar", "baz"], undefined],
  ["a", ["b"], "b"],
  ["", ["server"], undefined],
  ["x".repeat(1000), ["x".repeat(999)], undefined],
])("of %j in %j means %j", (name, candidates, expected) => {
  expect(didYouMean(name, candidates)).toBe(expected);
});

it("names the likely one and all there are", () => {
  expect(suggestion("fst", ["fast", "slow"], "agents")).toBe(
    'Did you mean "fast"? Known agents: fast, slow.',
  );
  expect(suggestion("other", ["fast", "fast"], "agents")).toBe("Known agents: fast.");
  expect(suggestion("other", [], "agents")).toBe("There are no agents.");
});

it("cuts long lists", () => {
  const names = Array.from({ length: 23 }, (_, index) => `n${index}`);
  expect(listNames(names)).toMatch(/^n0, n1, .* n19 and 3 more$/);
});
