/** How many values of a description are tried. */
const maxValues = 3;
/** Characters of a description that are looked at: a server may send megabytes, which the patterns would take minutes for. */
const maxDescription = 2000;

/** What stands between the words of a list, such as `short, medium or long`, `asc|desc` and `on/off`. */
const separator = String.raw`(?:\s*[|/]\s*|,?\s+or\s+|,\s*)`;
const separators = new RegExp(separator, "i");
const wordLists = new RegExp(
  String.raw`(?:\b(?:one of|either)\b:?\s*|[:(]\s*|^)([\w-]+(?:${separator}[\w-]+)+)(?=\s*(?:[);]|\.(?!\w)|$))`,
  "gi",
);
/** Words in quotation marks of one sort. An apostrophe stands inside of a word. */
const quotations = /"([^"\n]{1,40})"|“([^”\n]{1,40})”|`([^`\n]{1,40})`|(?<![\w'])'([^'\n]{1,40})'(?!\w)/g;
/** A word, which may have other signs inside, such as `src/a.ts`, or numbers with signs between them, such as `1 + 2`. */
const examples =
  /(?:\be\.g\.|\bfor example\b|\bsuch as\b)[,:]?\s+([\d.]+(?:\s*[-+*/%^]\s*[\d.]*\d)+(?![\w-])|(?:[\w.+-][\w.+:@/-]*)?[\w+-])/gi;
/** With these words a phrase begins, such as "such as the title". */
const phrases =
  /^(?:an?|the|this|that|these|those|its?|your|their|any|all|some|one|when|where|what|which|how|if|to|in|on|at|by|for|from|with)$/i;
/** Placeholders such as YYYY-MM-DD and hh:mm are left out; `s`, `m`, `h` and `mm` are units. */
const form = /^(?=.*(?:YY|MM|DD|HH|[hms]:[hms]))[YMDHTZhms:.\s/-]+$/;
/** How a phrase goes on to a value: up to a comma, a colon or a parenthesis, except that a list of quotations goes on. */
const goesOn = String.raw`[^.;,:(]|[:(]\s*(?=["'“\`])|(?<=["'”\`]),\s*(?:(?:or|and|nor)\s+)?(?=["'“\`])`;
/**
 * What stands before a value that must not be: `not 'a'`, and before others in a list of them, `never "a", "b"`. After `never` an example is
 * of what must not be (`never a reserved word, e.g. con`), after `no` and `not` one of what may be (`no spaces, e.g. my_key`).
 */
const forbids = new RegExp(
  [
    String.raw`\b(?:(?<!\bor\s)not|\w+n['’]t|nor?|cannot|without)\b(?:${goesOn})*$`,
    String.raw`\b(?:never|except|excluding|avoid|(?:other|rather) than|instead of)\b(?:${goesOn}|e\.g\.|,\s*(?:e\.g\.|for example|such as))*$`,
  ].join("|"),
  "i",
);
/** Characters before a value that are looked at for that. */
const maxBefore = 80;

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
 * Values that the name and the description of a text speak of, except those that it forbids: examples, words in quotation marks, one of a
 * list of words, a date, a number. Where the name says that it is a number, one comes before words that are no examples. They only decide
 * what is tried.
 */
export function describedValues(name: string, description: string): readonly string[] {
  // A URI is a value of its own sort, and has slashes as a list of words has.
  const said = description.slice(0, maxDescription).replaceAll(/\S*:\/\/\S*/g, " ");
  const found = (pattern: RegExp): readonly string[] =>
    Array.from(said.matchAll(pattern), (match) => {
      const [whole, ...groups] = match;
      const value = groups.find((group) => group !== undefined) ?? "";
      const start = match.index + whole.lastIndexOf(value);
      return forbids.test(said.slice(Math.max(0, start - maxBefore), start)) ? [] : value;
    }).flat();
  const ownWords = name.replaceAll(/(?<=[a-z])(?=[A-Z])|_/g, " ");
  const isNumber = isNumbered.test(ownWords);
  const ofForm = formOf(ownWords) ?? (isNumber ? "1" : formOf(said)) ?? [];
  const words = [
    ...found(quotations),
    ...found(wordLists).flatMap((words) => words.split(separators)),
  ].filter((word) => !form.test(word));
  const given = found(examples).filter((word) => !phrases.test(word) && !form.test(word));
  return [...new Set([given, isNumber ? ofForm : [], words, ofForm].flat())].slice(0, maxValues);
}

/** The URIs in a description, such as `notes://a.txt`, without signs around them. */
export function exampleUris(description: string): readonly string[] {
  return Array.from(
    description.slice(0, maxDescription).matchAll(/\b[a-z][\w+.-]*:\/\/[^\s"'`<>”)\]]*[\w/]/gi),
    ([uri]) => uri,
  );
}

function formOf(text: string): string | undefined {
  return forms.find(([said]) => said.test(text))?.[1];
}
