import { countOf, formatInteger, formatScore } from "../base/visible-text.ts";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TrialResult } from "../model/result.ts";
import { cutToWidth, displayWidth, padToWidth, splitAtWidth, wrapText } from "../base/columns.ts";
import {
  clipLines,
  clipText,
  describeModels,
  fullTitle,
  groupName,
  taskTitle,
  variantName,
  varietyOf,
} from "./text.ts";
import { formatDuration, formatElapsed } from "../base/duration.ts";
import { formatMeasure } from "./gates.ts";
import { ratesByTask } from "./rate-text.ts";

describe("shortened text", () => {
  const limits = { lines: 2, characters: 10 } as const;

  it.each([
    ["too many lines", "a\nb\nc\nd", ["a", "b", "… 2 lines more"]],
    ["too many characters", "0123456789abc", ["0123456789", "… 3 characters more"]],
  ])("keeps the head of %s", (_, text, expected) => {
    expect(clipLines(text, limits)).toEqual(expected);
  });

  it.each([
    ["what is short", "a\nb\n", ["a", "b"]],
    ["too many lines", "a\nb\nc\nd", ["… 2 lines before", "c", "d"]],
    ["too many characters", "abc0123456789", ["… 3 characters before", "0123456789"]],
  ])("keeps the tail of %s", (_, text, expected) => {
    expect(clipLines(text, { ...limits, keep: "tail" })).toEqual(expected);
  });

  it.each([["characters", { lines: 3, characters: 4 }, ["Error: Cannot find module 'x'", "…", "c", "d"]]])(
    "leads a tail with the error that too many %s would hide",
    (_, most, expected) => {
      const text = "node:internal/loader:1\n  throw err;\nError: Cannot find module 'x'\n    at a\nb\nc\nd";
      expect(clipLines(text, { ...most, keep: "tail" })).toEqual(expected);
    },
  );

  it("leaves a tail alone that holds the error", () => {
    const lines = clipLines("a\nb\nfatal: no such branch: x\nd", { lines: 2, characters: 100, keep: "tail" });
    expect(lines).toEqual(["… 2 lines before", "fatal: no such branch: x", "d"]);
  });

  it("makes one line of text and says what is missing", () => {
    expect(clipText("a\nb", 10)).toBe("a\\nb");
    expect(clipText("0123456789ab", 10)).toBe("0123456789… (2 more characters)");
  });
});

const text = fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ unit: "grapheme-ascii" }));

describe("displayWidth", () => {
  it.each([
    ["", 0],
    ["naïve › x", 9],
    ["e\u0301", 1],
    ["🎉", 2],
    ["👩‍👩‍👧", 2],
    ["⚠️", 2],
    ["한국", 4],
    ["✓ ok", 4],
  ])("%j is %d columns", (shown, width) => {
    expect(displayWidth(shown)).toBe(width);
  });
});

describe("cutToWidth", () => {
  it.each([
    ["too long", 5, "too …"],
    ["日本語", 5, "日本…"],
    ["anything", 1, "…"],
    ["anything", -3, ""],
  ])("%j to %d is %j", (shown, width, expected) => {
    expect(cutToWidth(shown, width)).toBe(expected);
  });

  it("never gives more columns than asked for, and leaves alone what fits", () => {
    fc.assert(
      fc.property(text, fc.nat(20), (shown, width) => {
        expect(displayWidth(cutToWidth(shown, width))).toBeLessThanOrEqual(width);
        expect(cutToWidth(shown, displayWidth(shown))).toBe(shown);
      }),
    );
  });
});

it("parts text without losing any", () => {
  fc.assert(
    fc.property(text, fc.nat(20), (shown, width) => {
      const [head, tail] = splitAtWidth(shown, width);
      expect(head + tail).toBe(shown);
      expect(displayWidth(head)).toBeLessThanOrEqual(width);
    }),
  );
});

it("pads to columns, not to characters", () => {
  expect(padToWidth("日本", 6)).toBe("日本  ");
  expect(padToWidth("longer", 3)).toBe("longer");
});

describe("numbers", () => {
  it.each([
    [0.3, "<1 ms"],
    [999.4, "999 ms"],
    [999.6, "1.0 s"],
    [59_949, "59.9 s"],
    [59_960, "1 min 0 s"],
    [3_599_700, "1 h 0 min"],
    [3_720_000, "1 h 2 min"],
    [-5, "0 ms"],
    [Number.NaN, "0 ms"],
  ])("%d ms is %j", (ms, expected) => {
    expect(formatDuration(ms)).toBe(expected);
  });

  it.each([
    [0, "0 % (0 to 1)"],
    [1, "<1 % (<1 to 2)"],
    [299, ">99 % (98 to >99)"],
    [300, "100 % (99 to 100)"],
  ])("of 300 trials %d that passed are %s: only all is 100 %%, and only nothing 0 %%", (passed, expected) => {
    const trials = Array.from({ length: 300 }, (_, index) => ({
      task: "a",
      form: "workflow",
      agent: "x",
      attempt: index + 1,
      verdict: index < passed ? "pass" : "fail",
    })) as unknown as readonly TrialResult[];
    expect(ratesByTask(trials, varietyOf(trials)).map(({ cells: [rate] }) => rate)).toEqual([expected]);
  });

  it("counts a growing time in tenths of a second", () => {
    expect([0, 99, 450, 999, 1049, 61_000].map(formatElapsed)).toEqual([
      "0.0 s",
      "0.0 s",
      "0.4 s",
      "0.9 s",
      "1.0 s",
      "1 min 1 s",
    ]);
  });

  it("parts thousands", () => {
    expect([0, 999, 1000, 1_234_567].map(formatInteger)).toEqual(["0", "999", "1,000", "1,234,567"]);
  });

  it("agrees in number", () => {
    expect([countOf(1, "trial"), countOf(0, "trial"), countOf(12_000, "trial")]).toEqual([
      "1 trial",
      "0 trials",
      "12,000 trials",
    ]);
  });

  it("never shows a score as perfect that is not", () => {
    expect([0, 0.999, 1, 0.29, 2 / 3].map(formatScore)).toEqual(["0.00", "0.99", "1.00", "0.29", "0.67"]);
  });
});

describe("a measured value", () => {
  it.each([
    ["0.496", 0.495561887, { threshold: 0.9 }],
    ["0.333", 1 / 3, { threshold: 0, atMost: true as const }],
    ["0.50", 0.5, { threshold: 0.8 }],
    ["0.799", 0.79999, { threshold: 0.8 }],
    ["0.201", 0.20001, { threshold: 0.2, atMost: true as const }],
    ["0.80", 0.80001, { threshold: 0.8 }],
    ["0.334", 0.33334, { threshold: 0.3333 }],
    ["-", null, { threshold: 0.8 }],
  ])("is shown as %s: %s with %j", (shown, value, wanted) => {
    expect(formatMeasure({ name: "score", verdict: "fail", trials: 3, value, ...wanted })).toBe(shown);
  });
});

describe("wrapped text", () => {
  it.each([
    ["short", 10, ["short"]],
    ["one two three", 8, ["one two", "three"]],
    ["日本語日本語", 8, ["日本語日", "本語"]],
    ["    at Module.resolve (file)", 20, ["    at", "Module.resolve", "(file)"]],
    ["", 10, [""]],
    ["any width", Infinity, ["any width"]],
  ])("%j at %d", (line, width, expected) => {
    expect(wrapText(line, width)).toEqual(expected);
  });

  it("loses no word, and no piece is too wide", () => {
    const line = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "日", "é", "🎉"), maxLength: 12 }));
    fc.assert(
      fc.property(line, fc.integer({ min: 8, max: 30 }), (words, width) => {
        const pieces = wrapText(words.join(" "), width);
        for (const piece of pieces) expect(displayWidth(piece)).toBeLessThanOrEqual(width);
        expect(pieces.join("").replaceAll(" ", "")).toBe(words.join(""));
      }),
    );
  });
});

const test = { form: "tool-test", suite: "everything", agent: null, attempt: 1 } as const;
const flow = { form: "workflow", task: "books a flight", agent: "claude", attempt: 2 } as const;

describe("titles", () => {
  it.each([
    ["everything/echo answers", "echo answers"],
    ["everything: echo", "echo"],
    ["everything", "everything"],
    ["everything/", "everything/"],
    ["everythingelse", "everythingelse"],
  ])("%j within its suite is %j", (task, title) => {
    expect(taskTitle({ ...test, task })).toBe(title);
  });

  it("name the suite once, and the tool of a test", () => {
    const named = { ...test, task: "everything/refuses a text", tool: "add" };
    expect(fullTitle(named)).toBe("everything › add › refuses a text");
    expect(fullTitle({ ...named, task: "everything/add 2" })).toBe("everything › add 2");
    expect(fullTitle({ ...named, task: "everything/adds 0" })).toBe("everything › add › adds 0");
    expect(fullTitle({ ...test, task: "everything/echo" })).toBe("everything › echo");
    expect(fullTitle(flow)).toBe("books a flight");
  });

  it("show no control characters", () => {
    expect(fullTitle({ ...test, suite: "a\u001b", task: "b\n" })).toBe("a\\x1b › b\\n");
  });
});

it("groups tool tests by suite and workflows together", () => {
  expect([groupName(test), groupName(flow), groupName({ form: "tool-test" })]).toEqual([
    "everything",
    "workflows",
    "tool tests",
  ]);
});

describe("variants", () => {
  it("are named only where a run has several", () => {
    const other = { ...flow, agent: "scripted", attempt: 1 };
    expect(variantName(flow, varietyOf([flow, other]))).toBe("claude · attempt 2");
    expect(variantName(flow, varietyOf([flow]))).toBe("attempt 2");
    expect(variantName(other, varietyOf([other]))).toBe("");
  });

  it("do not count tasks without an agent as an agent", () => {
    expect(varietyOf([flow, test])).toEqual({ agents: false, variants: false, attempts: true });
  });
});

it("tells the tokens of the judge apart from those of agents", () => {
  const usage = { inputTokens: 1000, outputTokens: 20, requests: 1 };
  const planned = { id: "t1", task: "t", form: "task", agent: "a", attempt: 1 } as const;
  const trial: TrialResult = { ...planned, verdict: "pass", score: 1, durationMs: 1, grades: [] };
  const environment = { agents: [{ name: "a", type: "acp" }], judge: { model: "openai/m" } };
  const told = { ...trial, usage: { inputTokens: 7, outputTokens: 1 }, judgeUsage: usage };
  expect(describeModels([told, told], environment)).toEqual([
    "14 tokens in, 2 out",
    "judged by openai/m (2,000 tokens in, 40 out, 2 model requests)",
  ]);
  const judge = { model: "openai/m", prompt: "sha256:1", threshold: 0.8, votes: [1] };
  const judged = { grader: "llm-judge", verdict: "pass", score: 1, reason: "", evidence: [], judge } as const;
  expect(describeModels([{ ...trial, grades: [judged] }], environment)).toEqual(["judged by openai/m"]);
  // There is a judge, but no grader has asked it.
  expect(describeModels([trial], environment)).toEqual([]);
});
