import type { wrapLanguageModel } from "ai";

/** A model as the AI SDK's providers make it (its `LanguageModelV4`). */
export type LanguageModelV4 = ReturnType<typeof wrapLanguageModel>;

/** What a model is asked, as the AI SDK hands it to a provider. */
export type ModelCallOptions = Parameters<LanguageModelV4["doGenerate"]>[0];

/** What a model answered. */
export type ModelAnswer = Awaited<ReturnType<LanguageModelV4["doGenerate"]>>;

/** Environment variables, as handed in by whoever read them. */
export type Environment = Readonly<Record<string, string | undefined>>;
