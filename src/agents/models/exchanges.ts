import { AsyncLocalStorage } from "node:async_hooks";
import { jsonDifference } from "../../expect/json-difference.ts";
import { McpvalsError, serializeError } from "../../base/error.ts";
import { canonicalJson, isJsonObject, type Json, mapValues } from "../../base/json.ts";
import type { Emit, EventBody } from "../../model/event.ts";
import type { ModelExchange } from "../../model/recording.ts";
import type { ReplayClock, ReplayOptions } from "../../servers/replay/replayed-servers.ts";
import type { MarkedTexts } from "../../servers/replay/marked-texts.ts";
import type { ModelAnswer, ModelCallOptions } from "./resolve-model.ts";

/** A request to a model. */
export interface ModelAsked extends Pick<ModelExchange, "purpose" | "model"> {
  readonly params: ModelCallOptions;
}

/** What stands between a trial and its models when a run is recorded or replayed. */
export interface TrialModels {
  /** Has to know what of requests differs from run to run. */
  readonly texts: MarkedTexts;
  /** Gives the answer; `ask` asks the model. Throws what it throws, and `replay/not-recorded`. */
  exchange(asked: ModelAsked, emit: Emit, ask: (emit: Emit) => Promise<ModelAnswer>): Promise<ModelAnswer>;
}

/** Of the trial in whose course a model is made ready for its agent, a step, a simulated user or a grader. */
export const trialModels: AsyncLocalStorage<TrialModels> = new AsyncLocalStorage();

/** Asks the models, and keeps what was asked and answered. */
export class RecordedModels implements TrialModels {
  readonly exchanges: ModelExchange[] = [];
  readonly texts: MarkedTexts;

  constructor(texts: MarkedTexts) {
    this.texts = texts;
  }

  async exchange(
    { purpose, model, params }: ModelAsked,
    emit: Emit,
    ask: (emit: Emit) => Promise<ModelAnswer>,
  ): Promise<ModelAnswer> {
    const events: EventBody[] = [];
    const keep = (how: Pick<ModelExchange, "answer" | "error">): void => {
      const exchange = { purpose, model, request: requestJson(params), events, ...how };
      this.exchanges.push(this.texts.toMarks(exchange));
    };
    try {
      const answer = await ask((event) => {
        events.push(event);
        return emit(event);
      });
      keep({ answer: answerJson(answer) });
      return answer;
    } catch (error) {
      // What was interrupted was not answered.
      if (params.abortSignal?.aborted !== true) keep({ error: serializeError(error) });
      throw error;
    }
  }
}

const names = { agent: "the agent's model", judge: "the judge", user: "the simulated user" };

/** Answers as the models did in a recording; no model is asked. */
export class ReplayedModels implements TrialModels {
  readonly #left: ModelExchange[];
  readonly #all: readonly ModelExchange[];
  readonly texts: MarkedTexts;
  readonly #source: string;
  readonly #clock: ReplayClock;
  readonly #broken: ReplayOptions["broken"];

  constructor(
    exchanges: readonly ModelExchange[],
    { texts, source, clock, broken }: Pick<ReplayOptions, "texts" | "source" | "clock" | "broken">,
  ) {
    this.#broken = broken;
    this.#clock = clock;
    this.#all = exchanges;
    this.#left = [...exchanges];
    this.texts = texts;
    this.#source = source;
  }

  /** Requests of the recording that nobody has made. */
  get unused(): readonly string[] {
    return this.#left.map(({ purpose, model }) => `a request to ${names[purpose]}, ${model}`);
  }

  async exchange({ purpose, model, params }: ModelAsked, emit: Emit): Promise<ModelAnswer> {
    params.abortSignal?.throwIfAborted();
    const asked = this.#clock.now();
    const request = this.texts.toMarks(requestJson(params));
    const key = canonicalJson([purpose, model, request]);
    const at = this.#left.findIndex(
      (each) => each.purpose === purpose && canonicalJson([each.purpose, each.model, each.request]) === key,
    );
    const [found] = at === -1 ? [] : this.#left.splice(at, 1);
    if (found === undefined) throw this.#broken(this.#notRecorded({ purpose, model }, request));
    // An answer never comes in the same moment as its request.
    await new Promise((resolve) => setImmediate(resolve));
    for (const event of found.events) {
      if (event.type === "model.called") this.#clock.passed(event.durationMs, asked);
      emit(this.texts.fromMarks(event));
    }
    if (found.error !== undefined) {
      const { code, message, ...details } = found.error;
      throw new McpvalsError(code, message, details);
    }
    return answerOf(this.texts.fromMarks(found.answer ?? null));
  }

  #notRecorded({ purpose, model }: Pick<ModelAsked, "purpose" | "model">, request: Json): McpvalsError {
    const where = `a request to ${names[purpose]}, ${model}, is not in ${this.#source}`;
    const hint =
      "Record the task again with --record, or change it back; --replay-servers asks the models anew.";
    const same = (each: ModelExchange): boolean => each.purpose === purpose;
    const nearest = this.#left
      .filter(same)
      .map((each) => jsonDifference([model, request], [each.model, each.request], "equal"))
      .toSorted((a, b) => (b?.depth ?? 0) - (a?.depth ?? 0))[0];
    const number = this.#all.filter(same).length;
    const recorded = number === 1 ? "the 1 recorded request was" : `all ${number} recorded requests were`;
    const why =
      nearest === undefined
        ? number === 0
          ? "none was recorded"
          : `${recorded} made already`
        : `it differs from the nearest: ${nearest.messageFor(placeOf(nearest.pointer))}`;
    return new McpvalsError("replay/not-recorded", `${where}: ${why}`, { hint });
  }
}

/** Of a pointer into model and request. */
function placeOf(pointer: string): string {
  return pointer.startsWith("/0") ? "the model" : `the request at ${pointer.slice(2) || "its root"}`;
}

/** What of a request decides the answer. */
function requestJson(params: ModelCallOptions): Json {
  return toJson({ ...params, abortSignal: undefined, headers: undefined });
}

/** What of an answer is used. */
function answerJson({
  content,
  finishReason,
  usage,
  warnings,
  providerMetadata,
  response,
}: ModelAnswer): Json {
  const { id, modelId, timestamp } = response ?? {};
  return toJson({
    content,
    finishReason,
    usage,
    warnings,
    providerMetadata,
    response: { id, modelId, timestamp },
  });
}

const bytesKey = "$bytes";

/** As JSON, in which bytes are Base64. */
function toJson(value: unknown): Json {
  return JSON.parse(
    JSON.stringify(value, (_key, member: unknown) =>
      member instanceof Uint8Array ? { [bytesKey]: Buffer.from(member).toString("base64") } : member,
    ),
  ) as Json;
}

function answerOf(json: Json): ModelAnswer {
  const answer = withBytes(json) as ModelAnswer;
  const { timestamp } = answer.response ?? {};
  return timestamp === undefined
    ? answer
    : { ...answer, response: { ...answer.response, timestamp: new Date(timestamp) } };
}

function withBytes(value: Json): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (!isJsonObject(value)) return value;
  const { [bytesKey]: bytes } = value;
  return typeof bytes === "string"
    ? new Uint8Array(Buffer.from(bytes, "base64"))
    : mapValues(value, withBytes);
}
