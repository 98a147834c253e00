/** How many values of a description are tried. */
const maxValues = 3;
/** Characters of a description that are looked at: a server may send megabytes, which the patterns would take minutes for. */
const maxDescription = 2000;

/** A list of words, such as `short, medium or long`, `asc|desc` and `on/off`. */
const list = String.raw`[\w-]+(?:(?:\s*[|/]\s*|,?\s+or\s+|,\s*)[\w-]+)+`;
const wordLists = new RegExp(
  String.raw`(?:\b(?:one of|either)\b:?\s*|[:(]\s*|^)(${list})(?=\s*(?:[).;]|$))`,
  "gi",
);
/** Words in quotation marks of one sort. An apostrophe stands inside of a word. */
const quotations = /"([^"\n]{1,40})"|“([^”\n]{1,40})”|`([^`\n]{1,40})`|(?<![\w'])'([^'\n]{1,40})'(?!\w)/g;
const examples = /(?:\be\.g\.|\bfor example\b|\bsuch as\b)[,:]?\s+([\w.+-]*[\w+-])/gi;
/** Placeholders such as YYYY-MM-DD are left out. */
const form = /^[YMDHTZhms:.\s/-]+$/;

/** What a name or a description says of a text, and a text of that form. */
const forms: readonly (readonly [said: RegExp, value: string])[] = [
  [/\bYYYY-MM-DDTHH|\bdate-?time\b|\btimestamp\b/i, "2026-01-15T10:30:00Z"],
  [/\bYYYY-MM-DD\b|\bdates?\b|\bISO 8601\b/i, "2026-01-15"],
  [/\bYYYY-MM\b/, "2026-01"],
  [/\bHH:MM\b/i, "10:30"],
  [/\bYYYY\b|\byear\b/i, "2026"],
  [/\be-?mail\b/i, "user@example.com"],
  [/\btrue\b|\bboolean\b/i, "true"],
  [/\bnumbers?\b|\binteger\b|\bcount\b|\bhow many\b/i, "1"],
];
/** Names of texts that are often numbers. */
const isNumbered = /\bids?\b|\bindex\b|\bpage$/i;

/**
 * Values that the name and the description of a text speak of: words in quotation marks, examples, one of a list of words, a date, a number.
 * They only decide what is tried.
 */
export function describedValues(name: string, description: string): readonly string[] {
  // A URI is a value of its own sort, and has slashes as a list of words has.
  const said = description.slice(0, maxDescription).replaceAll(/\S*:\/\/\S*/g, " ");
  const words = [
    ...Array.from(
      said.matchAll(quotations),
      ([, ...texts]) => texts.find((text) => text !== undefined) ?? "",
    ),
    ...Array.from(said.matchAll(wordLists), ([, words = ""]) =>
      words.split(/\s*[|/]\s*|,?\s+or\s+|,\s*/),
    ).flat(),
    ...Array.from(said.matchAll(examples), ([, text = ""]) => text),
  ].filter((word) => !form.test(word));
  const ownWords = name.replaceAll(/(?<=[a-z])(?=[A-Z])|_/g, " ");
  const [, ofForm] =
    forms.find(([each]) => each.test(ownWords)) ??
    (isNumbered.test(ownWords) ? [isNumbered, "1"] : forms.find(([each]) => each.test(said))) ??
    [];
  return [...new Set([...words, ...(ofForm === undefined ? [] : [ofForm])])].slice(0, maxValues);
}
