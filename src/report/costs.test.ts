import { expect, it } from "vitest";
import type { Cost } from "../model/grade.ts";
import { costOf } from "./rates.ts";
import { costText, moneyText } from "./text.ts";

const usage = (cost?: Cost): object => ({ inputTokens: 1, outputTokens: 1, ...(cost && { cost }) });
const dollars = (amount: number): Cost => ({ amount, currency: "USD" });

it.each<readonly [string, Parameters<typeof costOf>[0], string | undefined]>([
  ["no use of a model", [{}], undefined],
  ["known uses", [{ usage: usage(dollars(1)), judgeUsage: usage(dollars(0.5)) }] as never, "$1.50"],
  ["a model that costs nothing", [{ usage: usage(dollars(0)) }] as never, "$0"],
  ["a use of unknown cost", [{ usage: usage() }] as never, "unknown"],
  [
    "a part that is unknown",
    [{ usage: usage(dollars(1)) }, { judgeUsage: usage() }] as never,
    "at least $1.00",
  ],
  ["a program that reports nothing", [{ ran: { programs: null, models: null } }], "unknown"],
  [
    "such a program beside a model",
    [{ ran: { programs: null, models: null } }, { usage: usage(dollars(2)) }] as never,
    "at least $2.00",
  ],
  [
    "two currencies",
    [{ usage: usage(dollars(1)) }, { usage: usage({ amount: 1, currency: "EUR" }) }] as never,
    "unknown",
  ],
])("the cost of %s", (_what, trials, text) => {
  const cost = costOf(trials);
  expect(cost && costText(cost)).toBe(text);
});

it.each<readonly [number, string]>([
  [0, "$0"],
  [0.0000123, "$0.000012"],
  [0.004, "$0.0040"],
  [0.1234, "$0.12"],
  [0.994, "$0.99"],
  [0.999, "$1.00"],
  [12.3, "$12.30"],
  [1234567.8, "$1,234,567.80"],
])("%d dollars are written %s", (amount, text) => {
  expect(moneyText(amount, "USD")).toBe(text);
});

it("other currencies have their code", () => {
  expect(moneyText(2, "EUR")).toBe("2.00 EUR");
});
