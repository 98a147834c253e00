import picocolors from "picocolors";

/** What a piece of text means; the style says how that looks. */
export type Tone = "plain" | "dim" | "strong" | "good" | "bad" | "warn";

/** Paints text; without colours every tone leaves the text as it is. */
export type Style = Readonly<Record<Tone, (text: string) => string>> & {
  /** A space, the text and a space on the tone's colour, for the one word that matters most. */
  readonly badge: (tone: Tone, text: string) => string;
};

/** The style for a place that shows colours or not. */
export function createStyle(colors: boolean): Style {
  const paint = picocolors.createColors(colors);
  const tones: Record<Tone, (text: string) => string> = {
    plain: (text) => text,
    dim: paint.dim,
    strong: paint.bold,
    good: paint.green,
    bad: paint.red,
    warn: paint.yellow,
  };
  return {
    ...tones,
    badge: (tone, text) => paint.bold(paint.inverse(tones[tone](` ${text} `))),
  };
}
