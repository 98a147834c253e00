import { McpvalsError } from "../base/error.ts";
import { isCodeVariable, refusedValue } from "./shell.ts";

/** How an untrusted value is written in one place of a text. */
export interface Place {
  /** Throws McpvalsError `task/unfit-value` for a value that would change what is around it, or says nothing there. */
  write(value: string): string;
  /** An example of such a value. */
  readonly sample: string;
}

/**
 * Finds out how a value can be written after a text; `expression` stands for it in messages. Throws McpvalsError
 * `task/untrusted-value` where no value can be written.
 */
export type FindPlace = (before: string, expression: string) => Place;

/** Plain text, in which no character has a special meaning. */
export const inText: FindPlace = () => ({ write: (value) => value, sample: "x" });

/** A text that another one must contain: an empty one would be contained in every text. */
export const inWantedText: FindPlace = (_, expression) => ({
  write: (value) => filled(value, expression),
  sample: "x",
});

/** A regular expression (RE2), in which the value means itself. */
export const inPattern: FindPlace = (before, expression) => {
  if (before.lastIndexOf(String.raw`\Q`) > before.lastIndexOf(String.raw`\E`))
    throw refused(
      expression,
      String.raw`after \Q in a pattern`,
      String.raw`Leave \Q and \E out: it is escaped.`,
    );
  if (endsInBackslash(before)) throw refused(expression, "after a backslash in a pattern");
  return {
    write: (value) => filled(value, expression).replaceAll(/[!-/:-@[-`{-~]/g, String.raw`\$&`),
    sample: "x",
  };
};

/** A JSON path: in quotes any text, elsewhere a name or a number. */
export const inJsonPath: FindPlace = (before, expression) => {
  if (/\b(?:match|search)\s*\(/.test(before)) throw refused(expression, "in match or search of a JSON path");
  const { quote, escapes } = quoteAfter(before, `"'`);
  if (escapes) throw refused(expression, "after a backslash in a JSON path");
  if (quote === "")
    return only(expression, /^(?:[A-Za-z_]\w*|-?\d+)$/, "a name or a number, for a JSON path");
  return {
    write: (value) =>
      quote === '"'
        ? escapedJson(value)
        : value
            .split('"')
            .map(escapedJson)
            .join('"')
            .replaceAll("'", String.raw`\'`),
    sample: "x",
  };
};

/** A JSON path to what a comparison leaves out. */
export const inIgnoredPath: FindPlace = nowhere("where it would say what a check leaves out");

/** JSON that is written as text: in quotes any text, elsewhere a number, `true`, `false` or `null`. */
const inJsonText: FindPlace = (before, expression) => {
  const { quote, escapes } = quoteAfter(before, '"');
  if (escapes) throw refused(expression, "after a backslash in JSON");
  if (quote === "")
    return only(
      expression,
      /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null)$/,
      "a number, true, false or null, for JSON outside of quotes",
    );
  return { write: escapedJson, sample: "x" };
};

/** A text that another one must equal: an agent's empty output proves nothing. */
export const inEqualText: FindPlace = (before, expression) =>
  /^\{\s*agent\b/.test(expression) ? inWantedText(before, expression) : inText(before, expression);

/** The fields of a form, or of a query. */
const inForm: FindPlace = () => ({ write: (value) => encoded(value), sample: "x" });

/** The body of a request that is written as text, by its kind. */
export function inBody(body: string, headers: Readonly<Record<string, string>>): FindPlace {
  const names = Object.keys(headers).filter((name) => name.toLowerCase() === "content-type");
  const type = names.map((name) => headers[name]).join();
  const isObject = /^\s*\{\{?\s*["}]/.test(body);
  // Around a value that is the whole body nothing can be changed.
  if (!isObject && /^\s*\{[^{}]*\}\s*$/.test(body)) return inText;
  if (isObject || /^\s*["[]/.test(body) || /[/+]json\b/i.test(type)) return inJsonText;
  return /\bx-www-form-urlencoded\b/i.test(type) ? inForm : inText;
}

/** A URL: a port, one segment of the path, or any text of the query. It never says which host is asked. */
export const inUrl: FindPlace = (before, expression) => {
  const [origin] = /^https?:[/\\]{2}[^/\\?#]+/i.exec(before) ?? [];
  if (origin === undefined || origin === before) {
    if (origin === undefined || !/[^:/\\]:$/.test(origin))
      throw refused(expression, "where it would say which host a request goes to");
    return only(expression, /^\d{1,5}$/, "a number, for a port");
  }
  if (/[?#]/.test(before)) return inForm(before, expression);
  return {
    write: (value) => {
      if (value === "" || /^\.{1,2}$/.test(value))
        throw unfit(expression, value, "the name of something, for the path of a URL");
      return encoded(value);
    },
    sample: "x",
  };
};

/** The path of a file: it does not lead above what stands before it. */
export const inFilePath: FindPlace = (_, expression) => ({
  write: (value) => {
    if (value === "" || value.split(/[/\\]/).includes("..") || value.includes("\0"))
      throw unfit(expression, value, "a path without .. in it");
    return value;
  },
  sample: "x",
});

/** The rubric of a judge, whose instructions it follows. */
export const inRubric: FindPlace = nowhere(
  "in a rubric, which the judge follows",
  "Put it into contains or exact, which the judge only compares, or into input. To insert it as it is, write {… | raw}.",
);

export const inProgramName: FindPlace = nowhere("where a program is named");

/** The text of a program in an unknown language. */
export function inProgramText(program: string): FindPlace {
  const hint =
    "Give it in the step's args or env, or read it from the JSON on stdin with protocol: json. To insert it as it is, write {… | raw}.";
  return nowhere(`in a program for ${program}`, hint);
}

export function inVariable(name: string): FindPlace {
  return isCodeVariable(name) ? nowhere(`in the variable ${name}, which decides what is run`) : inText;
}

/** Where no value from outside may stand; `where` goes on after "which cannot be used". */
export function nowhere(where: string, hint?: string): FindPlace {
  return (_, expression) => {
    throw refused(expression, where, hint);
  };
}

/** A text as it stands between the quotes of JSON. */
function escapedJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function only(expression: string, allowed: RegExp, wanted: string): Place {
  return {
    write: (value) => {
      if (allowed.test(value)) return value;
      throw unfit(expression, value, wanted);
    },
    sample: "1",
  };
}

function filled(value: string, expression: string): string {
  if (value.trim() !== "") return value;
  throw new McpvalsError(
    "task/unfit-value",
    `${expression} is empty, so the expectation would prove nothing`,
  );
}

function encoded(value: string): string {
  // Half a character cannot be encoded.
  return encodeURIComponent(value.toWellFormed());
}

function refused(
  expression: string,
  where: string,
  hint = "To insert it as it is, write {… | raw}.",
): McpvalsError {
  return refusedValue(expression, where, hint);
}

function unfit(expression: string, value: string, wanted: string): McpvalsError {
  const shown = value.length <= 80 ? JSON.stringify(value) : `a text of ${value.length} characters`;
  return new McpvalsError("task/unfit-value", `${expression} gives ${shown}, but must be ${wanted}`, {
    hint: "To insert it as it is, write {… | raw}.",
  });
}

/** The quote that is open after a text, and whether a backslash takes away the meaning of what comes next. */
function quoteAfter(text: string, quotes: string): { readonly quote: string; readonly escapes: boolean } {
  let quote = "";
  let at = 0;
  for (; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (quote !== "" && character === "\\") at += 1;
    else if (character === quote) quote = "";
    else if (quote === "" && quotes.includes(character)) quote = character;
  }
  return { quote, escapes: at > text.length };
}

function endsInBackslash(text: string): boolean {
  return (/\\*$/.exec(text)?.[0].length ?? 0) % 2 === 1;
}
