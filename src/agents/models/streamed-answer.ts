import { isJsonObject, type Json, withoutUndefined } from "../../base/json.ts";
import { maxKeptBytes } from "../../base/limits.ts";
import type { LanguageModelV4 } from "./model-access.ts";
import { type ModelAnswer, type ModelCallOptions, UnusableAnswer } from "./resolve-model.ts";

type Content = ModelAnswer["content"][number];
type Part =
  Awaited<ReturnType<LanguageModelV4["doStream"]>>["stream"] extends ReadableStream<infer P> ? P : never;
/** A text, or words of reasoning, that is not complete yet. */
type Unfinished = Extract<Content, { readonly type: "text" | "reasoning" }>;

/** What a provider reported as an error after its answer had begun. */
export class StreamedError extends Error {
  /** The HTTP status that the error stands for, if it has one. */
  readonly status: number | undefined;
  /** Whether it may pass; undefined: unknown. */
  readonly retryable: boolean | undefined;
  /** What was sent, as JSON. */
  readonly body: string;

  constructor(error: Json) {
    const { message, statusCode, isRetryable } = isJsonObject(error) ? error : {};
    super(typeof message === "string" && message !== "" ? message : JSON.stringify(error));
    this.status = typeof statusCode === "number" ? statusCode : undefined;
    this.retryable = typeof isRetryable === "boolean" ? isRetryable : undefined;
    this.body = JSON.stringify(error);
  }
}

/** The package of the provider could not read the stream, and says so by an error without a type. */
export class UnreadableStream extends Error {}

function refuseUnreadable(error: unknown): never {
  if (!(error instanceof Error) || error.name !== "Error" || error.cause !== undefined || "code" in error)
    throw error;
  throw new UnreadableStream(`its stream cannot be read: ${error.message}`, { cause: error });
}

/** The stream ended before the answer did. */
export class CutOffAnswer extends Error {}

/** The answer, and the time until its first words, reasoning or tool call arrived, in milliseconds; undefined: there was none. */
export interface StreamedAnswer {
  readonly answer: ModelAnswer;
  readonly firstTokenMs: number | undefined;
}

/**
 * Asks a model for a stream and puts its parts together to the answer that it gives without one. Throws what the provider throws,
 * {@link StreamedError}, {@link CutOffAnswer}, and {@link UnusableAnswer} for an answer of more than {@link maxKeptBytes} characters.
 */
export async function streamedAnswer(
  model: LanguageModelV4,
  params: ModelCallOptions,
): Promise<StreamedAnswer> {
  const started = performance.now();
  const {
    stream,
    request,
    response: http,
  } = await Promise.resolve(model.doStream(params)).catch(refuseUnreadable);
  const content: Content[] = [];
  const unfinished = new Map<string, Unfinished>();
  let firstTokenMs: number | undefined;
  let characters = 0;
  let end: Extract<Part, { readonly type: "finish" }> | undefined;
  let metadata: NonNullable<ModelAnswer["response"]> = {};
  let warnings: ModelAnswer["warnings"] = [];

  for await (const part of stream) {
    switch (part.type) {
      case "stream-start":
        ({ warnings } = part);
        break;
      case "response-metadata": {
        const { type: _type, ...rest } = part;
        metadata = { ...metadata, ...rest };
        break;
      }
      case "text-start":
      case "reasoning-start": {
        const type = part.type === "text-start" ? "text" : "reasoning";
        const block: Unfinished = withoutUndefined({
          type,
          text: "",
          providerMetadata: part.providerMetadata,
        });
        unfinished.set(`${type} ${part.id}`, block);
        content.push(block);
        break;
      }
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end": {
        const block = unfinished.get(`${part.type.slice(0, part.type.indexOf("-"))} ${part.id}`);
        if (block === undefined) throw new UnusableAnswer("it has words of a part that never began");
        // The signature of words of reasoning comes after them.
        if (part.providerMetadata !== undefined) block.providerMetadata = part.providerMetadata;
        if (!("delta" in part)) break;
        block.text += part.delta;
        characters += part.delta.length;
        if (part.delta !== "") firstTokenMs ??= performance.now() - started;
        break;
      }
      case "tool-input-delta":
        characters += part.delta.length;
        firstTokenMs ??= performance.now() - started;
        break;
      case "finish":
        end = part;
        break;
      case "error":
        // One of the packages reports it so that the stream ended before the answer.
        if (part.error instanceof Error)
          throw part.error.message.includes("ended without a finish reason")
            ? endedEarly(http?.headers, part.error)
            : part.error;
        throw new StreamedError(part.error as Json);
      case "tool-input-start":
      case "tool-input-end":
      case "ping":
      case "raw":
        break;
      case "custom":
        // What a package says of the protocol, such as that a message begins.
        break;
      default:
        // A call, source or file, which is complete.
        content.push(part);
        firstTokenMs ??= performance.now() - started;
    }
    if (characters > maxKeptBytes) throw new UnusableAnswer(`it has more than ${maxKeptBytes} characters`);
  }
  // How the packages mark an answer without its end depends on their version.
  const { unified, raw } = end?.finishReason ?? {};
  const isCutOff = unified === "interrupted" || (unified === "other" && raw === undefined);
  if (end === undefined || isCutOff) throw endedEarly(http?.headers);
  const { finishReason, usage, providerMetadata } = end;
  const said = content.filter((part) => part.type !== "text" || part.text !== "");
  const response = { ...metadata, ...http };
  const answer = { content: said, finishReason, usage, warnings, response };
  return { answer: withoutUndefined({ ...answer, providerMetadata, request }), firstTokenMs };
}

function endedEarly(headers: Readonly<Record<string, string>> = {}, cause?: Error): Error {
  return headers["content-type"]?.includes("json") === true
    ? new UnusableAnswer("it is JSON and no stream of events; stream: false asks for no stream", { cause })
    : new CutOffAnswer("the answer stopped half way", { cause });
}
