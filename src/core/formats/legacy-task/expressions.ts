import type { KeyPath } from "../key-path.ts";
import type { LenientReader } from "../lenient-reader.ts";
import type { Alias, RawStep } from "./raw-step.ts";
import { type TranslateExpression, translateTemplate } from "./translate-template.ts";

/** Which expressions a text may have, besides `env`, `random` and `agent`. */
export interface TextRules {
  /** Whether outputs of earlier steps can be used. */
  readonly steps: boolean;
}

/** Where a text stands: its step, and its place in the file. */
export interface TextPlace extends TextRules {
  readonly step: RawStep;
  readonly path: KeyPath;
}

interface World {
  readonly reader: LenientReader;
  readonly steps: readonly RawStep[];
  readonly aliases: ReadonlyMap<string, Alias>;
}

/** Rewrites the templates of one task, and remembers what they use. Lives while the task is read. */
export class Expressions {
  /** Ids of steps whose outputs some template uses. */
  readonly used = new Set<string>();
  /** Whether a random port is used. */
  usesPort = false;
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** Rewrites a text that the older tool reads as a template. */
  text(text: string, place: TextPlace): string {
    const translated = translateTemplate(text, (expression) => this.#expression(expression, place));
    if (translated.hasText) this.#noteText(place.path);
    return translated.template;
  }

  /** Rewrites the texts of a record. */
  record(
    texts: Readonly<Record<string, string>> | undefined,
    place: TextPlace,
  ): Readonly<Record<string, string>> {
    const entries = Object.entries(texts ?? {}).map(
      ([name, value]) => [name, this.text(value, { ...place, path: [...place.path, name] })] as const,
    );
    return Object.fromEntries(entries);
  }

  /** Rewrites a prompt: it may use outputs of setup steps, and nothing else. */
  prompt(text: string, path: KeyPath): string {
    const setup = this.#world.steps.filter((step) => step.phase === "setup");
    const translate: TranslateExpression = (expression) => {
      const ours = this.#output(expression, setup);
      if (ours === undefined && expression.startsWith("steps."))
        this.#world.reader.note(`{${expression}} means no output of a setup step and is taken as text`, path);
      return ours;
    };
    return translateTemplate(text, translate).template;
  }

  #expression(expression: string, place: TextPlace): string | undefined {
    if (/^env\.\w+$/.test(expression)) return expression;
    if (expression === "random.id") return expression;
    if (expression === "random.port") {
      this.usesPort = true;
      return expression;
    }
    if (expression === "agent.output" || expression === "agent.prompt") {
      if (place.step.phase === "setup") this.#refuseAgent(expression, place.path);
      return expression;
    }
    return place.steps ? this.#output(expression, this.#before(place.step)) : undefined;
  }

  /** The steps whose outputs a step can use: earlier ones of its phase, in cleanup also those of setup. */
  #before(step: RawStep): readonly RawStep[] {
    const { steps } = this.#world;
    const own = steps.filter((each) => each.phase === step.phase);
    const earlier = own.slice(0, own.indexOf(step));
    return step.phase === "cleanup"
      ? [...steps.filter((each) => each.phase === "setup"), ...earlier]
      : earlier;
  }

  #output(expression: string, steps: readonly RawStep[]): string | undefined {
    const match = /^steps\.(.+)\.([\w-]+)$/.exec(expression);
    if (match === null) return undefined;
    const [, named, output = ""] = match;
    const step = steps.findLast((each) => named === each.id || this.#typesOf(each).includes(named ?? ""));
    if (step === undefined) return undefined;
    this.used.add(step.id);
    return `steps.${step.id}.outputs.${output}`;
  }

  /** A step's type as the eval names it, and as the task does. */
  #typesOf({ type }: RawStep): readonly string[] {
    const [alias = "", ...rest] = type.split(".");
    const named = this.#world.aliases.get(alias)?.name;
    return named === undefined ? [] : [[named, ...rest].join("."), type];
  }

  #refuseAgent(expression: string, path: KeyPath): void {
    this.#world.reader.refuse(`{${expression}} is used in setup, before the agent has run`, path, {
      hint: "Use it in verify or cleanup.",
    });
  }

  #noteText(path: KeyPath): void {
    this.#world.reader.note(
      "braces that are no expression are taken as text; mcpchecker refuses such a text",
      path,
    );
  }
}
