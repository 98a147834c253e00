import { expect, it } from "vitest";
import type { Diagnostic } from "../../base/error.ts";
import { FileProblems, SourceText } from "./document.ts";

it("what is wrong with one place is reported once, what has no place as often as it is found", () => {
  const problems = new FileProblems();
  const placed: Diagnostic = {
    code: "config/syntax",
    message: "x",
    location: { file: "f", line: 2, column: 1 },
  };
  const { location: _, ...unplaced } = placed;
  problems.add([placed, unplaced], new SourceText("f", "one\ntwo\n"));
  problems.add([{ ...placed }, { ...unplaced }]);
  const { message, details } = problems.asError([]) ?? {};
  expect(message).toBe("f:2:1: x (and 2 more)");
  const frames = details?.diagnostics?.map(({ frame }) => frame?.includes("> 2 | two"));
  expect(frames).toEqual([true, undefined, undefined]);
});
