import { expect, test } from "vitest";
import { alignCalls } from "./align-calls.ts";
import type { TraceItem } from "./documents.ts";

/** Calls of an agent, each `TOOL`, `TOOL ARGUMENTS` or `TOOL ARGUMENTS RESULT`. */
function calls(...texts: readonly string[]): readonly TraceItem[] {
  return texts.map((text, index): TraceItem => {
    const [tool = "", args = "{}", result = "done"] = text.split(" ");
    const seq = index + 1;
    const excerpt = (of: string) =>
      ({ text: of, length: of.length, type: "text", seq, pointer: "" }) as const;
    return {
      kind: "call",
      seq,
      at: seq,
      source: "server",
      server: "s",
      tool,
      byAgent: true,
      status: "ok",
      args: excerpt(args),
      result: excerpt(result),
    };
  });
}

/** `add=`, `add~arguments`, `-add` (only the first has it) and `+add`. */
function aligned(first: readonly TraceItem[], second: readonly TraceItem[]): string {
  const signs = { equal: "=", changed: "~", "only-first": "-", "only-second": "+" } as const;
  return alignCalls(first, second)
    .map(({ first: a, second: b, relation, differs }) => {
      const tool = (a ?? b)?.tool ?? "";
      return relation.startsWith("only") ? signs[relation] + tool : tool + signs[relation] + differs.join();
    })
    .join(" ");
}

test.each([
  ["equal calls", ["a", "b"], ["a", "b"], "a= b="],
  ["other arguments", ["a 1", "b"], ["a 2", "b"], "a~arguments b="],
  ["another result", ["a 1 x"], ["a 1 y"], "a~result"],
  ["a call more at the end", ["a"], ["a", "b"], "a= +b"],
  ["a call less in the middle", ["a", "b", "c"], ["a", "c"], "a= -b c="],
  ["another tool", ["a", "x", "c"], ["a", "y", "c"], "a= -x +y c="],
  ["nothing in common", ["a"], ["b"], "-a +b"],
  ["no calls", [], [], ""],
])("%s", (_, first, second, expected) => {
  expect(aligned(calls(...first), calls(...second))).toBe(expected);
});

test("calls of steps are compared where no agent made a call", () => {
  const ofStep = calls("a").map((call) => ({ ...call, byAgent: false })) as readonly TraceItem[];
  expect(aligned([...ofStep, ...calls("b")], [])).toBe("-b");
  expect(aligned(ofStep, ofStep)).toBe("a=");
});

test("more calls than are aligned are all there", () => {
  const many = Array.from({ length: 2500 }, (_, index) => `t${index}`);
  expect(alignCalls(calls("x", ...many, "x"), calls("y", ...many, "y"))).toHaveLength(3005);
  expect(alignCalls(calls("x", ...many), calls("y", ...many))).toHaveLength(2502);
});
