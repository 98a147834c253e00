import { describe, expect, it } from "vitest";
import { keepIn } from "../../test/support/records.ts";
import type { EventBody } from "./event.ts";
import { emittingCosts, type Prices, priceOf, pricesSchema, withCost } from "./prices.ts";

const pricesOf = (models: Readonly<Record<string, number>>, currency = "USD"): Prices => ({
  currency,
  models: Object.fromEntries(Object.entries(models).map(([name, input]) => [name, { input, output: 0 }])),
});

describe("the price of a model", () => {
  it.each<readonly [string, Readonly<Record<string, number>>, number | undefined]>([
    ["openai/gpt-5", { "openai/gpt-5": 1 }, 1],
    ["openai/gpt-5", { "gpt-5": 1 }, 1],
    ["openai/gpt-5", { "openai/*": 1, "openai/gpt-5": 2 }, 2],
    ["openai/gpt-5-mini", { "openai/gpt-5": 1 }, undefined],
    ["openai/gpt-5-mini", { "openai/gpt-5-*": 1, "openai/*": 2 }, 1],
    ["openai/gpt-5-mini", { "gpt-5*": 1 }, 1],
    ["claude-sonnet-4-5-20250929", { "anthropic/claude-sonnet-4-5*": 3 }, 3],
    ["anthropic/claude-sonnet-4-5", { "openai/*": 3 }, undefined],
    ["aba", { "a*ba*a": 1 }, undefined],
    ["constructor", { "gpt-5": 1 }, undefined],
  ])("of %s by %j is %s", (model, models, input) => {
    expect(priceOf(model, pricesOf(models))?.input).toBe(input);
  });
});

describe("the cost of a use", () => {
  const usage = { inputTokens: 1000, outputTokens: 100, cacheReadTokens: 600, cacheWriteTokens: 300 };
  const price = (more: object): Prices => ({
    currency: "USD",
    models: { m: { input: 10, output: 50, ...more } },
  });

  it("has a price for each kind of token", () => {
    const { cost } = withCost(usage, "m", price({ cachedInput: 1, cacheWrite: 12 }));
    // 100 fresh, 600 read, 300 written, 100 put out.
    expect(cost).toEqual({ amount: (1000 + 600 + 3600 + 5000) / 1e6, currency: "USD" });
  });

  it("has the price of input for cached tokens without one", () => {
    expect(withCost(usage, "m", price({})).cost?.amount).toBeCloseTo(0.015, 10);
  });

  it("is unknown for a model without a price", () => {
    expect(withCost(usage, "other", price({}))).toEqual(usage);
    expect(withCost(usage, undefined, price({}))).toEqual(usage);
  });

  it("is what a program says, where that is in the same currency", () => {
    const told = { ...usage, cost: { amount: 7, currency: "USD" } };
    expect(withCost(told, "m", price({}))).toBe(told);
    expect(withCost(told, "m", pricesOf({ m: 1 }, "EUR")).cost).toEqual({ amount: 0.001, currency: "EUR" });
    expect(withCost(told, "other", pricesOf({ m: 1 }, "EUR")).cost).toBeUndefined();
  });
});

it("the model of a program is the one that it tells, else the one that was chosen; of several it is unknown", () => {
  const events: EventBody[] = [];
  const emit = emittingCosts(keepIn(events), pricesOf({ chosen: 1, told: 2, proxied: 4 }));
  const use = (more: object = {}): void => {
    emit({ type: "agent.usage", source: "agent", usage: { inputTokens: 1e6, outputTokens: 0 }, ...more });
  };
  emit({ type: "agent.started", agent: "a", kind: "command", model: "chosen" });
  use();
  emit({ type: "agent.reported", model: "told" });
  use();
  emit({ type: "agent.reported", model: "another" });
  use();
  use({ source: "proxy", model: "proxied" });
  expect(events.flatMap((event) => (event.type === "agent.usage" ? [event.usage.cost?.amount] : []))).toEqual(
    [1, 2, undefined, 4],
  );
});

it.each([
  [{ models: {} }],
  [{ models: { m: { input: -1, output: 1 } } }],
  [{ models: { m: { input: 1 } } }],
  [{ models: { m: { input: 1, output: 1, cached: 1 } } }],
  [{ currency: "$", models: { m: { input: 1, output: 1 } } }],
])("prices refuse %j", (written) => {
  expect(pricesSchema.safeParse(written).success).toBe(false);
});
