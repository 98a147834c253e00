import { expect, it } from "vitest";
import { describedValues } from "./described-values.ts";

it.each([
  ["day", "The date (YYYY-MM-DD)", ["2026-01-15"]],
  ["startDate", "", ["2026-01-15"]],
  ["when", 'A day as "YYYY-MM-DD"', ["2026-01-15"]],
  ["style", "Style: formal or casual", ["formal", "casual"]],
  ["style", 'Either "short" or "long".', ["short", "long"]],
  ["level", "Detail level (brief, normal, full or all)", ["brief", "normal", "full"]],
  ["order", "asc|desc", ["asc", "desc"]],
  ["mode", "Use 'fast' or 'slow'", ["fast", "slow"]],
  ["language", "A code, e.g. en-US.", ["en-US"]],
  ["sum", "An expression such as 1 + 2.", ["1 + 2"]],
  ["field", "A field such as the title", []],
  ["unit", "Seconds, minutes or hours (s, m or h)", ["s", "m", "h"]],
  ["state", "on OR off", ["on", "off"]],
  ["userId", "Of the user", ["1"]],
  ["userId", 'The "owner" or the "author"', ["1", "owner", "author"]],
  ["userId", "Of the user, e.g. u-7", ["u-7", "1"]],
  ["name", "Not 'foo'", []],
  ["name", 'Must not be "a", "b" or "c".', []],
  ["name", "Never a reserved word, e.g. con", []],
  ["name", "Don't use (foo, bar or baz)", []],
  ["name", "Use 'new', not 'old'", ["new"]],
  ["name", "If it is not given, 'main' is used", ["main"]],
  ["most", "How many are given", ["1"]],
  ["name", "The user's name, which isn't long", []],
  ["updatedBy", "Who wrote a candidate", []],
  ["path", "In notes://{a}/{b}", []],
  ["text", "Text to summarize (required), with a title or a text", []],
])("%s: %s", (name, description, values) => {
  expect(describedValues(name, description)).toEqual(values);
});
