import * as z from "zod";
import { closedObject, nameKey, optional } from "./fields.ts";
import type { Emit, EventBody } from "./event.ts";
import type { Usage } from "./grade.ts";

const perMillion = z.number().min(0).max(1e9);

const modelPriceSchema = closedObject({
  input: perMillion.describe("Of a million input tokens."),
  cachedInput: optional(perMillion, "Of those that were read from a cache.", "`input`"),
  cacheWrite: optional(perMillion, "Of those that were written to a cache.", "`input`"),
  output: perMillion.describe("Of a million output tokens, reasoning included."),
}).meta({ id: "ModelPrice", title: "Model price", description: "What a million tokens cost." });

/** A file of prices. */
export const pricesSchema = closedObject({
  $schema: optional(z.string(), "Address of the JSON Schema, for editors."),
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, { error: "must be the code of a currency, such as USD" })
    .default("USD")
    .describe("Currency of all prices."),
  models: z
    .record(nameKey, modelPriceSchema)
    .refine((models) => Object.keys(models).length > 0, { error: "must have at least one model" })
    .meta({
      description:
        "By `PROVIDER/MODEL`, or by the model alone, whoever offers it; `*` stands for any text. A whole name wins, else the first that fits.",
      minProperties: 1,
    }),
})
  .meta({ title: "mcpvals prices", description: "What models cost." })
  .transform(({ currency, models }) => ({ currency, models }));

export type Prices = z.output<typeof pricesSchema>;

/** The price of a model; undefined when the table has none. */
export function priceOf(model: string, { models }: Prices): Prices["models"][string] | undefined {
  const bare = model.slice(model.indexOf("/") + 1);
  for (const name of [model, bare]) if (Object.hasOwn(models, name)) return models[name];
  const fits = (pattern: string): boolean =>
    isLike(pattern, model) ||
    isLike(pattern, bare) ||
    // A program may tell a model without its provider.
    (bare === model && isLike(pattern.slice(pattern.indexOf("/") + 1), bare));
  return Object.entries(models).find(([pattern]) => fits(pattern))?.[1];
}

/** Whether a text is like a pattern, in which `*` is any text. */
function isLike(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  if (rest.length === 0) return pattern === text;
  const last = rest.pop() ?? "";
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}

/**
 * The usage with what it costs by the prices, if they have the model. What a program says itself of its cost stays, where it is in their
 * currency.
 */
export function withCost(usage: Usage, model: string | undefined, prices: Prices): Usage {
  const { cost, ...tokens } = usage;
  const { currency } = prices;
  if (cost?.currency === currency) return usage;
  const price = model === undefined ? undefined : priceOf(model, prices);
  if (price === undefined || tokens.isPartial === true) return tokens;
  const { inputTokens, outputTokens, cacheReadTokens: read = 0, cacheWriteTokens: written = 0 } = tokens;
  const { input, cachedInput = input, cacheWrite = input, output } = price;
  const fresh = Math.max(0, inputTokens - read - written);
  const sum = fresh * input + read * cachedInput + written * cacheWrite + outputTokens * output;
  return { ...tokens, cost: { amount: sum / 1e6, currency } };
}

/** Adds what it costs to each use of a model that is emitted. */
export function emittingCosts(emit: Emit, prices: Prices): Emit {
  let chosen: string | undefined;
  const told = new Set<string>();
  // Which of several models had which tokens is unknown.
  const only = (): string | undefined => (told.size > 1 ? undefined : ([...told][0] ?? chosen));
  const priced = (event: EventBody): EventBody => {
    if (event.type === "model.called") return { ...event, usage: withCost(event.usage, event.model, prices) };
    if (event.type !== "agent.usage") return event;
    return { ...event, usage: withCost(event.usage, event.model ?? only(), prices) };
  };
  return (event) => {
    if (event.type === "agent.started") chosen = event.model;
    if (event.type === "agent.reported" && event.model !== undefined) told.add(event.model);
    return emit(priced(event));
  };
}
